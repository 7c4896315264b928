"""The lines that a search finds, and how they are shown: the same whichever program found them."""

from __future__ import annotations

import os
from typing import Literal

import msgspec

from legato.agent.tools.listing import readable

Show = Literal["lines", "files", "count"]

WIDTH = 500
"""Characters of a line that are shown."""


class Hit(msgspec.Struct, frozen=True):
    """A line of a file; not `matched`: one near a line that is."""

    path: str
    line: int
    text: str
    matched: bool


class Tally:
    """Takes hits in order, and keeps those that are to be shown: after the first `skip`, no more than `most`."""

    def __init__(self, shown: str, show: Show, skip: int, most: int) -> None:
        self.shown = shown
        self.show = show
        self.skip = skip
        self.most = most
        self.stopped = ""
        """Why the search ended early, if it did."""
        self._hits: list[Hit] = []
        self._files: dict[str, int] = {}
        self._matches = 0
        self._more = False

    def add(self, hit: Hit) -> bool:
        """Take one more. True: there is enough, and more was found."""
        if hit.matched:
            new = self.show == "lines" or hit.path not in self._files
            if new and self._count() == self.skip + self.most:
                self._more = True
                return True
            self._matches += 1
            self._files[hit.path] = self._files.get(hit.path, 0) + 1
        if self.show == "lines" and (self._matches > self.skip or (not hit.matched and self._matches == self.skip)):
            self._hits.append(hit)
        return False

    def __str__(self) -> str:
        if self.show == "lines":
            lines = list(self._lines())
        else:
            files = list(self._files.items())[self.skip :]
            lines = [self._name(path) + (f":{count}" if self.show == "count" else "") for path, count in files]
        return "\n".join([*lines, f"[{self._note()}]"])

    def _count(self) -> int:
        """Of what `skip` and `most` count."""
        return self._matches if self.show == "lines" else len(self._files)

    def _lines(self) -> list[str]:
        lines: list[str] = []
        last = None
        has_context = any(not hit.matched for hit in self._hits)
        for hit in self._hits:
            if has_context and last is not None and (last.path, last.line + 1) != (hit.path, hit.line):
                lines.append("--")
            mark = ":" if hit.matched else "-"
            text = hit.text if len(hit.text) <= WIDTH else f"{hit.text[:WIDTH]} [… the line goes on]"
            lines.append(f"{self._name(hit.path)}{mark}{hit.line}{mark}{text}")
            last = hit
        return lines

    def _name(self, path: str) -> str:
        return readable(os.path.normpath(os.path.join(self.shown, path)))

    def _note(self) -> str:
        what = "matching line" if self.show == "lines" else "file"
        count = max(0, self._count() - self.skip)
        note = f"{count:,} {what}{'' if count == 1 else 's'}"
        if self.skip:
            note += f" after the first {self.skip:,}"
        if self._more:
            note += f"; there are more: go on with skip={self.skip + self.most}"
        return f"{note}; {self.stopped}, there may be more" if self.stopped else note
