"""One session played before one's eyes: request by request, the window filling and folding, policy beside policy.

`frames` only makes text; who shows it decides how fast. A frame is the lines of one request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from legato.replay.play import requests
from legato.replay.played import Row
from legato.replay.policies import Choice
from legato.replay.stage import Stage
from legato.replay.watch import Watch

WIDEST = 48
"""The cells of the gauge at most. It is the whole window."""
FIGURES = 49
"""The columns that the figures beside a gauge take, with the space around them."""
NARROWEST = 72
"""In fewer columns a line would be broken in two."""
BLOCKS, SIGNS = ("█", "▒", "·", "|"), ("#", "+", ".", "|")
"""The cells that come from the cache, that are sent anew, that are empty, and where the budget ends."""

Paint = Callable[[str, str], str]


@dataclass(frozen=True, slots=True)
class Frame:
    """What is shown of one request. `event`: something that was sent before was changed, or nothing could be sent."""

    lines: tuple[str, ...]
    event: bool
    last: bool


@dataclass(slots=True)
class Gauge:
    """The sums of one policy so far."""

    watch: Watch
    name: str
    cost: float = 0.0
    used: int = 0
    kept: int = 0
    breaks: int = 0
    story: str = ""
    costs: list[float] = field(default_factory=list)

    def add(self, row: Row) -> bool:
        """Take a row in; whether something happened."""
        self.cost += row.cost
        self.kept += row.kept
        self.used += row.kept + len(row.lost)
        self.breaks += row.broke
        happened = row.broke or row.refused
        if happened:
            self.story = _story(row)
        return happened


def frames(
    stage: Stage, choices: Sequence[Choice], paint: Paint, columns: int = 120, cells: Sequence[str] = BLOCKS
) -> Iterator[Frame]:
    """A frame for each request of the recording, no line of it longer than so many columns."""
    asked = tuple(requests(stage.script))
    gauges = [Gauge(Watch(stage, choice), choice.name) for choice in choices]
    wide = min(20, max(len(gauge.name) for gauge in gauges))
    width = max(4, min(WIDEST, columns - wide - FIGURES))
    number = len(stage.script.turns)
    for request in asked:
        title = (
            f"request {request.turn + 1:>{len(str(number))}} of {number}   the whole history: {request.tokens:,} tokens"
        )
        lines = [f"{title}   window {stage.setting.window:,}"[:columns]]
        event = False
        for gauge in gauges:
            row = gauge.watch.request(request)
            event |= gauge.add(row)
            kept = gauge.kept / gauge.used if gauge.used else 1.0
            lines.append(
                f"{gauge.name[:wide]:<{wide}}  {bar(row, stage, paint, width, cells)} {row.tokens:>9,}  "
                f"${gauge.cost:<8.4f} evidence {kept:>4.0%}  {gauge.breaks:>3} breaks"
            )
            lines.append(f"{'':<{wide}}  {paint('dim', gauge.story[: columns - wide - 2])}")
        yield Frame(tuple(lines), event, request is asked[-1])


def bar(row: Row, stage: Stage, paint: Paint, width: int, cells: Sequence[str]) -> str:
    """The window: what comes from the cache, what is sent anew, what is empty, and where the budget ends."""
    window = stage.setting.window
    old, fresh, none, end = cells
    cached = min(width, row.cached * width // window)
    filled = min(width, -(-row.tokens * width // window))
    limit = min(width - 1, stage.setting.budget * width // window)
    empty = [end if at == limit else none for at in range(filled, width)]
    style = "red" if row.refused else "yellow" if row.broke else "cyan"
    return paint("green", old * cached) + paint(style, fresh * (filled - cached)) + paint("dim", "".join(empty))


def _story(row: Row) -> str:
    """What happened last, in a line."""
    if row.failure is not None:
        why = "".join(each if each.isprintable() else " " for each in row.failure)
        return f"request {row.turn + 1}: {why}"
    if row.over:
        return f"request {row.turn + 1}: {row.tokens:,} tokens do not fit: the provider refuses it"
    codes = {edit.code for edit in row.edits}
    new = f"{len(row.edits)} changes ({', '.join(sorted(codes))})" if codes else "another cut"
    return f"request {row.turn + 1}: {new}; {row.tokens - row.cached:,} tokens had to be read anew"
