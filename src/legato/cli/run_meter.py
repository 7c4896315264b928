"""What a run has come to so far: how full the window is, what was cut, what the cache keeps, what it has cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from legato import fit
from legato.agent.events import AfterRequest, BeforeRequest, Event
from legato.agent.tracing import OUTPUT
from legato.calibration import input_tokens
from legato.messages import Json
from legato.replay import prices
from legato.report import CODES

CACHED = (
    "prompt_tokens_details.cached_tokens",
    "input_tokens_details.cached_tokens",
    "cache_read_input_tokens",
    "prompt_cache_hit_tokens",
    "cachedContentTokenCount",
    "cached_content_token_count",
)
"""The fields of a provider's usage that hold what its cache gave."""
WRITTEN = ("cache_creation_input_tokens",)
"""Those that hold what was put into the cache."""
CUTTING = frozenset(rule.code for rule in fit.TABLE)
"""The codes of what saves tokens; all others only mend."""
CELLS = 12
"""Of the bar."""


class Meter:
    """A hook that adds up. `model` is whose price counts; None, or a model without a known price: only tokens do.

    Of a request whose answer brings no usage the tokens are legato's own count, and `estimated` says so.
    """

    def __init__(self, model: str | None) -> None:
        self.price = prices.price(model)
        self.request = 0
        self.tokens = 0
        self.budget: int | None = None
        self.left_out = 0
        self.kept: float | None = None
        self.fresh: Counter[str] = Counter()
        """What was changed for the first time at this request: how often which code."""
        self.sent = self.cached = self.answered = 0
        self.estimated = False
        self.dollars = 0.0
        self._known: set[tuple[str, int | None]] = set()

    def __call__(self, event: Event) -> None:
        if isinstance(event, BeforeRequest):
            self._before(event)
        elif isinstance(event, AfterRequest):
            self._after(event)

    @property
    def share(self) -> float | None:
        """How full the budget is, 1.0 at most; None without a window."""
        return self.tokens / self.budget if self.budget else None

    @property
    def bar(self) -> str:
        """The share as so many cells, as full as they can be told."""
        full = min(CELLS, round((self.share or 0.0) * CELLS))
        return "█" * full + "░" * (CELLS - full)

    def parts(self) -> list[str]:
        """The request in words: its size, what was left out, what the cache keeps, the cost so far, its place."""
        parts = [f"{short(self.tokens)} tokens"]
        if self.share is not None and self.budget:
            parts = [f"{self.share:.0%} of {short(self.budget)}"]
        if self.left_out:
            parts.append(f"{short(self.left_out)} left out")
        if self.kept is not None:
            parts.append(f"cache keeps {self.kept:.0%}")
        if self.sent:
            parts.append(self.cost())
        return [*parts, f"request {self.request}"]

    def cost(self) -> str:
        """In dollars where the price and the usage are known, else in tokens."""
        if self.price is not None and not self.estimated:
            return f"${self.dollars:.2f}" if self.dollars >= 1 else f"${self.dollars:.4f}"
        about = "~" if self.estimated else ""
        said = f", {short(self.answered)} answered" if self.answered else ""
        return f"{about}{short(self.sent)} sent{said}"

    @property
    def cuts(self) -> bool:
        """Whether something was cut at this request that was not before, so that the request is shorter."""
        return not CUTTING.isdisjoint(self.fresh)

    def changes(self) -> str | None:
        """What was changed for the first time at this request; None: nothing."""
        if not self.fresh:
            return None
        made = ", ".join(f"{code} {CODES[code].name} x{times}" for code, times in self.fresh.items())
        left = f"; {self.left_out:,} tokens are left out now" if self.cuts else ""
        return f"request {self.request}: {made}{left}"

    def _before(self, event: BeforeRequest) -> None:
        report = event.iteration.report
        self.request = event.iteration.number
        self.tokens, self.budget = report.tokens_out, report.budget
        self.left_out = max(0, report.tokens_in - report.tokens_out)
        self.kept = event.iteration.prefix_share
        places = [(change.code, change.at) for change in report.changes]
        self.fresh = Counter(code for code, at in places if (code, at) not in self._known)
        self._known.update(places)

    def _after(self, event: AfterRequest) -> None:
        usage = event.reply.usage
        whole = input_tokens(usage)
        if whole is None:
            self.estimated = True
            self.sent += self.tokens
            return
        cached, written, answer = (_first(usage, fields) for fields in (CACHED, WRITTEN, OUTPUT))
        self.sent += whole
        self.cached += cached
        self.answered += answer
        if self.price is not None:
            self.dollars += self.price.cost(whole, min(cached, whole), min(written, whole)) + self.price.answer(answer)


def short(number: int) -> str:
    """A number in three or four digits: 512, 26.9k, 1.04M."""
    if number < 1_000:
        return str(number)
    size, unit = (number / 1_000, "k") if number < 999_500 else (number / 1_000_000, "M")
    return f"{size:.{2 if size < 10 else 1 if size < 100 else 0}f}{unit}"


def _first(usage: Json, fields: tuple[str, ...]) -> int:
    """The first of these fields that holds a number."""
    for path in fields:
        value = usage
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return 0
