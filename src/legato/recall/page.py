"""The part of a text that was asked for, never more than a model can read at once, and how to read on."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from legato.recall.pattern import Pattern, QueryError

__all__ = ["MAX_CHARS", "WIDTH", "QueryError", "Recalled", "page"]

MAX_CHARS = 16_000
WIDTH = 2_000
"""A longer line is counted as several of this many characters, so that any text can be read bit by bit."""

LINE = re.compile(r"[^\r\n]*+(\r\n|[\r\n])|[^\r\n]++")


class Recalled(msgspec.Struct, frozen=True):
    """A part of a text. `str()` is what a model should see: the text, and a note that says how to read on."""

    text: str
    """The lines as they were kept; of a search, `NUMBER: LINE` for each line that matches."""
    first: int
    """The number of the first line, from 1. 0: there is none."""
    last: int
    lines: int
    """Lines of the whole text."""
    chars: int
    """Characters of the whole text."""
    truncated: bool
    """Whether `max_chars` cut off some of what was asked for."""
    next: int | None
    """The `start` to read on with: the line that follows, or the next that matches. None: that was the last."""
    note: str
    """What this is and how to read on, in one line."""

    def __str__(self) -> str:
        gap = "\n" if self.text and not self.text.endswith(("\n", "\r")) else ""
        return f"{self.text}{gap}[{self.note}]"


def page(
    text: str, start: int = 1, lines: int | None = None, pattern: str | None = None, max_chars: int | None = MAX_CHARS
) -> Recalled:
    """At most `lines` lines from line `start` on; with a pattern (see `Pattern`), of those that match it.

    A line ends with LF, CR LF or CR, or after 2,000 characters. No more than `max_chars` characters come back (None:
    any number), but always one line. Raises `QueryError`.
    """
    for name, value in (("start", start), ("lines", lines), ("max_chars", max_chars)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise QueryError(f"{name} must be a number from 1 on, not {value!r}")
    search = None if pattern is None else Pattern(pattern)
    picked: list[str] = []
    first = last = size = 0
    following, truncated = None, False
    for number, line in _lines(text, start, search):
        shown = line if search is None else f"{number}: " + line.rstrip("\r\n") + "\n"
        size += len(shown)
        enough = len(picked) == lines
        truncated = bool(picked) and not enough and max_chars is not None and size > max_chars
        if enough or truncated:
            following = number
            break
        first, last = first or number, number
        picked.append(shown)
    counts = [_count(line) for line in LINE.finditer(text)]
    total = sum(counts)
    if search is not None:
        note = f"{len(picked) or 'no'} matching {'line' if len(picked) == 1 else 'lines'} from line {start} on"
    else:
        note = f"lines {first}-{last}" if picked else f"no line {start}"
    note += f"; {total:,} {'line' if total == 1 else 'lines'}, {len(text):,} characters in all"
    if total > len(counts):
        note += f", lines counted in pieces of {WIDTH:,} characters"
    if following is not None:
        note += f"; read on with start={following}"
    return Recalled("".join(picked), first, last, total, len(text), truncated, following, note)


def _count(line: re.Match[str]) -> int:
    """As how many lines it counts."""
    length = line.end() - line.start() - len(line[1] or "")
    return -(-length // WIDTH) or 1


def _lines(text: str, start: int, search: Pattern | None) -> Iterator[tuple[int, str]]:
    """The lines from `start` on, with their numbers; of a search, those in which a match ends."""
    number = 1
    for line in LINE.finditer(text):
        count = _count(line)
        if number + count > start:
            content, ending = line[0].rstrip("\r\n"), line[1] or ""
            for at in range(count) if search is None else search.pieces(content, WIDTH):
                if number + at >= start:
                    yield number + at, content[at * WIDTH : (at + 1) * WIDTH] + (ending if at == count - 1 else "")
        number += count
