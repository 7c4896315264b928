"""Tables for a terminal, and the last word of an oracle."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

MOST = 5
"""Failures that are shown; the rest are counted."""


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Lines of text: the first column to the left, the others to the right."""
    cells = [list(map(str, row)) for row in (headings, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headings))]
    return "\n".join(
        "  ".join(cell.rjust(width) if column else cell.ljust(width) for column, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(row, widths, strict=True)) for row in cells)
    )


def say(text: str = "") -> None:
    """A line on standard output, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def conclude(failures: Sequence[str]) -> int:
    """Shows what an oracle refused of legato's; the exit status."""
    for failure in failures[:MOST]:
        say(f"FAILED  {failure}")
    if len(failures) > MOST:
        say(f"FAILED  and {len(failures) - MOST} more")
    say()
    return 1 if failures else 0
