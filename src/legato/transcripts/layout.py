"""Where the rows of a mended conversation go in its file: what stays in place, what is moved, what is new."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from legato.transcripts.mend import Row


@dataclass(slots=True)
class Layout:
    """`gone` are pieces that no longer stand where they stood, `changed` the ones with another message. `added` are the
    rows that come after a piece which stays in place (-1: before all), a moved piece among them."""

    gone: set[int] = field(default_factory=set)
    changed: dict[int, Row] = field(default_factory=dict)
    added: dict[int, list[Row]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.gone or self.changed or self.added)


def lay_out(rows: Sequence[Row], count: int) -> Layout:
    """The layout of the rows of a conversation that had so many pieces, with as few moves as can be."""
    old = [row.old for row in rows if row.old is not None]
    staying = set(_rising(old))
    layout = Layout(gone=set(range(count)) - staying)
    anchor = -1
    for row in rows:
        if row.old in staying and row.old is not None:
            anchor = row.old
            if row.new is not None:
                layout.changed[anchor] = row
        else:
            layout.added.setdefault(anchor, []).append(row)
    return layout


def _rising(numbers: Sequence[int]) -> list[int]:
    """The longest part of the numbers that rises."""
    ends: list[int] = []
    at_end: list[int] = []
    before: list[int | None] = []
    for at, number in enumerate(numbers):
        place = bisect_left(ends, number)
        before.append(at_end[place - 1] if place else None)
        ends[place : place + 1] = [number]
        at_end[place : place + 1] = [at]
    found = []
    at_last = at_end[-1] if at_end else None
    while at_last is not None:
        found.append(numbers[at_last])
        at_last = before[at_last]
    return found[::-1]
