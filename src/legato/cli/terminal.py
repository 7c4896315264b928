"""What a person sees: columns, colour where there is a terminal, nothing that steers it, and how far along it is."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import TextIO

STYLES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "cyan": 36}
WIDEST = 72
"""A column is no wider than this: one long cell must not push all others off the screen."""
LONGEST = 300
"""So many characters of one text are shown."""
NARROW, HANG = 30, 4
"""A last column narrower than this on a terminal stands below the others, so far to the right."""

PATIENCE, PACE = 0.7, 0.1
"""Seconds until progress is shown at all, and between two times it is."""


def moves(stream: TextIO) -> bool:
    """Whether it is a terminal on which a line can be written over."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


class Paint:
    """Puts text in colour if the stream is a terminal and neither NO_COLOR nor TERM=dumb says otherwise.

    `width` are the columns of the terminal, None where it is none.
    """

    def __init__(self, stream: TextIO) -> None:
        self.width = shutil.get_terminal_size().columns if stream.isatty() else None
        self.on = moves(stream) and not os.environ.get("NO_COLOR")

    def __call__(self, style: str, text: str) -> str:
        return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if self.on and style and text.strip() else text


def plain(text: str, longest: int = LONGEST) -> str:
    """The text on one line, its control characters as escapes, its middle left out if it is long."""
    if len(text) > longest:
        text = f"{text[: longest * 2 // 3]} … {text[-longest // 4 :]} ({len(text):,} characters)"
    return text if text.isprintable() else "".join([each if each.isprintable() else repr(each)[1:-1] for each in text])


def columns(rows: Sequence[Sequence[str]], paint: Paint, styles: Sequence[str], prose: bool = True) -> list[str]:
    """The rows as aligned columns; `styles` is one a column. The last column is as long as it is.

    `prose`: on a terminal what would not fit is broken between words, and a row may be several lines.
    """
    wide = [min(WIDEST, max(map(len, column))) for column in list(zip(*rows, strict=True))[:-1]]
    start = sum(wide) + 2 * len(wide)
    room = paint.width - start if prose and paint.width is not None else None
    lines = []
    for row in rows:
        cells = [cell.ljust(width) + "  " for cell, width in zip(row[:-1], wide, strict=True)]
        said, hang = [row[-1]], start
        if room is not None and len(row[-1]) > room:
            said = _broken(row[-1], room)
            if room < NARROW:
                cells[-1] = cells[-1].rstrip()
                said, hang = ["", *_broken(row[-1], start + room - HANG)], HANG
        head = "".join([paint(style, cell) for cell, style in zip(cells, styles[:-1], strict=True)])
        lines.append((head + f"\n{' ' * hang}".join([paint(styles[-1], part) for part in said])).rstrip())
    return lines


def folded(line: str, paint: Paint) -> str:
    """A line that would not fit on the terminal, broken between words."""
    if paint.width is None or len(line) <= paint.width:
        return line
    first, *rest = _broken(line, paint.width - HANG)
    return f"\n{' ' * HANG}".join((first, *rest))


def _broken(text: str, width: int) -> list[str]:
    return wrap(text, max(NARROW, width), break_on_hyphens=False) or [text]


def count(number: int, name: str) -> str:
    """`1 error`, `2,000 errors`."""
    return f"{number:,} {name}{'' if number == 1 else 's'}"


class Progress:
    """A line on a terminal that says how much of the files was read. Nothing where it is quick, or no terminal."""

    def __init__(self, files: Iterable[str], stream: TextIO) -> None:
        self._stream = stream
        self._on = moves(stream)
        self._total = sum(os.path.getsize(file) for file in files if os.path.isfile(file)) if self._on else 0
        self._read = 0
        self._next = time.monotonic() + PATIENCE
        self._shown = False

    def add(self, size: int, where: str) -> None:
        """So many bytes more were read, up to there."""
        self._read += size
        if not self._on or time.monotonic() < self._next:
            return
        part = f"{min(99, 100 * self._read // self._total)} %" if self._total else f"{self._read:,} bytes"
        self._stream.write(f"\r\x1b[K{part}  {plain(where, 60)}")
        self._stream.flush()
        self._shown = True
        self._next = time.monotonic() + PACE

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = False
