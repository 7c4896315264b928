"""What is wrong with a file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Remark:
    """One fault: its line where one is known, the rule's code (empty: the file itself is damaged), and what it is."""

    line: int | None
    code: str
    text: str
