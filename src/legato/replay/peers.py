"""How others cut, from what they publish, in our own code: the figures are theirs, the mechanism is as they tell it.

Sizes that they state in tokens are meant for windows of about 200,000; in a smaller one they are the same share of it.
Where a peer would next ask a model for a summary, or do nothing more, the oldest messages are dropped as the sliding
window does, so that no request fails for want of that. What they leave broken (results without their calls, roles that
repeat) is mended by legato's rules afterwards: judged is where they cut, not how well they repair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from legato.messages import Json, Message, Text, ToolResult, changed
from legato.wire import Codec

LARGE = 200_000
"""The window that peers' absolute sizes are meant for."""
PLACEHOLDER = "[cleared]"


@dataclass(frozen=True, slots=True)
class Limits:
    """Tokens: the whole window, what a request may cost, and what its head does."""

    window: int
    budget: int
    head: int

    def scaled(self, tokens: float) -> int:
        """A size that is meant for a large window, as the same share of a smaller one."""
        return int(min(tokens, tokens * self.window / LARGE))


@dataclass(frozen=True, slots=True)
class Piece:
    """What a peer has to know of a message. `results` are the tokens of what its tool results say."""

    message: Message
    tokens: int
    results: bool
    asks: bool

    @classmethod
    def of(cls, message: Message, tokens: int) -> Piece:
        return cls(message, tokens, bool(message.results), message.asks)


class Peer:
    """A cut that steps along one session. What is cleared or dropped once stays so."""

    why = "an old tool result"
    why_dropped = "the oldest messages go when the window is full"

    def __init__(
        self,
        limits: Limits,
        read: Mapping[int, Piece],
        codec: Codec,
        cost: Callable[[Message], int],
    ) -> None:
        self.limits, self._read, self._codec, self._cost = limits, read, codec, cost
        self.pieces: list[Piece] = []
        self.costs: list[int] = []
        """What each message costs now: whole, cleared or nothing."""
        self.total = limits.head
        self.cleared: dict[int, int] = {}
        """The messages whose results are cleared, with what that saved (below zero)."""
        self.dropped: dict[int, int] = {}
        self._start = 0
        self._rendered: dict[int, tuple[Json, ...]] = {}

    def send(self, items: list[Json]) -> list[Json]:
        """What would be sent of this history, which only grows."""
        for item in items[len(self.pieces) :]:
            piece = self._read[id(item)]
            self.pieces.append(piece)
            self.costs.append(piece.tokens)
            self.total += piece.tokens
        self.cut()
        self.slide(self.limits.budget)
        return [shown for at, item in enumerate(items) for shown in self._shown(at, item)]

    def cut(self) -> None:
        """What this peer does before each request."""

    def slide(self, budget: int) -> None:
        """Drop the oldest messages that are no system message until the budget holds, but never the newest."""
        while self.total > budget and self._start < len(self.pieces) - 1:
            at = self._start
            if not self.pieces[at].message.is_system:
                self.dropped[at] = -self.costs[at]
                self.total -= self.costs[at]
                self.costs[at] = 0
            self._start += 1

    def clear(self, at: int) -> int:
        """Clear the results of a message; the tokens saved. Nothing is done where it would save none."""
        if at in self.cleared or at in self.dropped:
            return 0
        message = self.pieces[at].message
        parts = [
            changed(part, parts=(Text(PLACEHOLDER, flat=True),)) if isinstance(part, ToolResult) else part
            for part in message.parts
        ]
        short = changed(message, parts=tuple(parts))
        saved = self.costs[at] - self._cost(short)
        if saved <= 0:
            return 0
        self._rendered[at] = self._codec.encode(short)
        self.cleared[at] = -saved
        self.costs[at] -= saved
        self.total -= saved
        return saved

    def results(self) -> list[int]:
        """The messages that bring results and are still there, the oldest first."""
        return [at for at in range(self._start, len(self.pieces)) if self.pieces[at].results]

    def _shown(self, at: int, item: Json) -> tuple[Json, ...]:
        if at in self.dropped:
            return ()
        return self._rendered.get(at, (item,))


class SlidingWindow(Peer):
    """The newest messages that fit."""


class Newest(Peer):
    """So many of the newest messages."""

    def __init__(self, *arguments: object, keep: int) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.keep = keep

    def cut(self) -> None:
        while self._start < len(self.pieces) - self.keep:
            at = self._start
            if not self.pieces[at].message.is_system:
                self.dropped[at] = -self.costs[at]
                self.total -= self.costs[at]
                self.costs[at] = 0
            self._start += 1


class ClearToolUses(Peer):
    """Over the trigger all results but the newest are cleared, in batches of at least so many tokens."""

    why = "over the trigger all but the newest results are cleared"

    def __init__(self, *arguments: object, trigger: float, keep: int, at_least: float) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.trigger, self.keep = self.limits.scaled(trigger), keep
        self.at_least = self.limits.scaled(at_least)
        self._whole = self.limits.head
        self._next = 0
        self._seen = 0

    def cut(self) -> None:
        self._whole += sum(piece.tokens for piece in self.pieces[self._seen :])
        self._seen = len(self.pieces)
        size = self._whole if not self.at_least else self.total
        if size <= self.trigger:
            return
        results = [at for at in range(self._next, len(self.pieces)) if self.pieces[at].results]
        due = results[: max(0, len(results) - self.keep)]
        if not due or sum(self.costs[at] for at in due) < self.at_least:
            return
        for at in due:
            self.clear(at)
        self._next = due[-1] + 1


class Sticky(Peer):
    """Over `high` the oldest results are cleared until it is down to `low`, the newest last; what is cleared stays so.

    `of_window`: the two are shares of the window, else of what a request may cost.
    """

    why = "over the high mark the oldest results are cleared, down to the low one"

    def __init__(
        self, *arguments: object, high: float, low: float, keep: int, of_window: bool, min_tokens: int = 0
    ) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        whole = self.limits.window if of_window else self.limits.budget
        self.high, self.low = high * whole, low * whole
        self.keep, self.min_tokens = keep, min_tokens

    def cut(self) -> None:
        if self.total <= self.high:
            return
        results = self.results()
        for at in results[: max(0, len(results) - self.keep)]:
            if self.total <= self.low:
                return
            if self.costs[at] >= self.min_tokens:
                self.clear(at)


class ProtectNewest(Peer):
    """Results before the newest so many tokens of them are cleared, if that frees enough; the newest turns stay."""

    why = "results before the newest protected tokens are cleared when that frees enough"

    def __init__(self, *arguments: object, protect: float, at_least: float, turns: int) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.protect, self.at_least = self.limits.scaled(protect), self.limits.scaled(at_least)
        self.turns = turns

    def cut(self) -> None:
        turns = kept = freed = 0
        due = []
        for at in range(len(self.pieces) - 1, self._start - 1, -1):
            turns += self.pieces[at].asks
            if turns < self.turns or not self.pieces[at].results:
                continue
            if at in self.cleared:
                break
            kept += self.costs[at]
            if kept > self.protect:
                freed += self.costs[at]
                due.append(at)
        if freed > self.at_least:
            for at in due:
                self.clear(at)


TABLE: tuple[tuple[str, type[Peer], str, str, Mapping[str, float]], ...] = (
    (
        "sliding-window",
        SlidingWindow,
        "the newest messages that fit",
        'LangChain core 1.8.4 trim_messages(strategy="last", include_system=True)',
        {},
    ),
    (
        "newest-40",
        Newest,
        "the newest 40 messages",
        "Strands 1.62 SlidingWindowConversationManager(window_size=40), PydanticAI harness 0.62 SlidingWindow",
        {"keep": 40},
    ),
    (
        "clear-tool-uses",
        ClearToolUses,
        "over 100,000 tokens all results but the newest 3 are cleared, at every request anew",
        "LangChain 1.5.2 ClearToolUsesEdit(trigger=100_000, keep=3, clear_at_least=0)",
        {"trigger": 100_000, "keep": 3, "at_least": 0},
    ),
    (
        "clear-at-least",
        ClearToolUses,
        "the same in batches of at least 20,000 tokens",
        "Anthropic clear_tool_uses_20250919, clear_at_least as its documentation advises for caching",
        {"trigger": 100_000, "keep": 3, "at_least": 20_000},
    ),
    (
        "sticky-85",
        Sticky,
        "over the budget the oldest results are cleared down to 85 % of it, and stay so",
        "nanobot 0.3.0 ContextGovernor (its set is kept for the session here, not for one run)",
        {"high": 1.0, "low": 0.85, "keep": 0, "of_window": False},
    ),
    (
        "protect-newest-40k",
        ProtectNewest,
        "results before the newest 40,000 tokens of them are cleared when that frees 20,000",
        "opencode 2026-08 prune: PRUNE_PROTECT 40,000, PRUNE_MINIMUM 20,000, two user turns spared",
        {"protect": 40_000, "at_least": 20_000, "turns": 2},
    ),
    (
        "watermarks-70-40",
        Sticky,
        "over 70 % of the window the oldest results are cleared down to 40 %, and stay so",
        "Haystack 3.4.1 CompactionHook(compact_at=0.7, compact_to=0.4), ToolResultPruningCompactor(min_tokens=200)",
        {"high": 0.7, "low": 0.4, "keep": 1, "of_window": True, "min_tokens": 200},
    ),
)
"""Name, class, what it does, whose behaviour it is, and the published figures."""
