"""Reading, writing and editing text files of the workspace."""

from __future__ import annotations

import codecs
import os
import re

from legato.agent.tool import Tool, ToolError, tool
from legato.agent.tools.limits import Limits
from legato.agent.tools.workspace import Place, Workspace
from legato.recall.page import page

MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
IMAGES = {b"\x89PNG": "PNG image", b"\xff\xd8\xff": "JPEG image", b"GIF8": "GIF image", b"%PDF": "PDF document"}
LOOK = 8_192
"""Bytes at the start of a file in which a NUL says that it is no text."""
GUARDED = frozenset((".git", ".hg", ".svn", ".jj"))
"""Folders whose files name programs that are run, by `git status` too: no file tool writes there."""
ENDING = re.compile(r"\r\n|\n|\r")


class Files:
    """The tools over files of a workspace."""

    def __init__(self, workspace: Workspace, limits: Limits) -> None:
        self.workspace = workspace
        self.limits = limits

    def tools(self) -> list[Tool]:
        return [
            tool(self.read_file, reads_only=True, bounded=True),
            tool(self.write_file, bounded=True),
            tool(self.edit_file, bounded=True),
        ]

    def read_file(self, path: str, start: int = 1, lines: int | None = None) -> str:
        """Read a text file of the workspace, or a part of it. A note at the end says how to read on.

        Args:
            path: Path of the file, from the workspace on.
            start: Number of the first line to read, from 1.
            lines: How many lines to read at most; without it as many as can be shown at once.
        """
        with self.workspace.place(path) as place:
            data, _ = self._read(place)
            text, note = _decoded(place.shown, data)
        part = str(page(text, start, lines, max_chars=self.limits.result))
        return f"{part}\n[{note}]" if note else part

    def write_file(self, path: str, text: str) -> str:
        """Write a text file of the workspace, whole. A file that is there is replaced; missing folders are made.

        Args:
            path: Path of the file, from the workspace on.
            text: The whole new content.
        """
        data = _encoded(text)
        self._require_size(path, len(data))
        with self.workspace.place(path, make=True) as place:
            _require_free(place.shown)
            known = place.state() is not None
            place.replace(data)
            return f"{'replaced' if known else 'wrote'} {place.shown}: {len(data):,} bytes"

    def edit_file(self, path: str, old: str, new: str, replace_all: bool = False) -> str:
        """Replace one passage of a text file. The passage must be there exactly as given, and only once.

        Args:
            path: Path of the file, from the workspace on.
            old: The passage as it stands in the file, with its indentation; as many lines as make it unique.
            new: What to put in its place.
            replace_all: Replace every place where the passage stands.
        """
        if not old:
            raise ToolError("old is empty; to write a whole file use write_file")
        if old == new:
            raise ToolError("old and new are the same: nothing was changed")
        with self.workspace.place(path) as place:
            _require_free(place.shown)
            data, seen = self._read(place)
            try:
                text = data.decode("utf-8")
            except UnicodeDecodeError:
                raise ToolError(f"{place.shown} is not UTF-8 text; it was not changed") from None
            old = _as_written(old, text)
            count = text.count(old)
            if not count:
                raise ToolError(f"the passage is not in {place.shown}: read the file again and copy it exactly")
            if count > 1 and not replace_all:
                lines = ", ".join(_lines(text, old))
                raise ToolError(
                    f"the passage stands {count} times in {place.shown} (lines {lines}): "
                    "give more of the lines around it, or set replace_all"
                )
            written = _encoded(text.replace(old, ENDING.sub(_ending(old, text), new)))
            self._require_size(path, len(written))
            place.replace(written, seen)
            return f"edited {place.shown}: {count} {'place' if count == 1 else 'places'}"

    def _read(self, place: Place) -> tuple[bytes, os.stat_result]:
        with place.open() as stream:
            state = os.fstat(stream.fileno())
            self._require_size(place.shown, state.st_size)
            data = stream.read(self.limits.file + 1)  # files of /proc and the like say that their size is 0
            self._require_size(place.shown, len(data))
            return data, state

    def _require_size(self, path: str, size: int) -> None:
        if size > self.limits.file:
            raise ToolError(
                f"{path} has {size:,} bytes, more than {self.limits.file:,}; use grep, or exec with head or sed"
            )


def _require_free(shown: str) -> None:
    """Raises `ToolError` for a path that no file tool writes to."""
    if not GUARDED.isdisjoint(shown.lower().split("/")):
        raise ToolError(f"{shown} is version control's own; it was not changed")


def _decoded(shown: str, data: bytes) -> tuple[str, str]:
    """The text of a file, and what to say about it. Raises `ToolError` if it is none."""
    for mark, encoding in MARKS.items():
        if data.startswith(mark):
            return data.decode(encoding, "replace"), "the file is UTF-16"
    kind = next((name for start, name in IMAGES.items() if data.startswith(start)), "binary file")
    if b"\0" in data[:LOOK] or kind != "binary file":
        raise ToolError(f"{shown} is a {kind} of {len(data):,} bytes; read_file reads text only")
    try:
        return data.decode("utf-8"), ""
    except UnicodeDecodeError as problem:
        return data.decode(
            "utf-8", "replace"
        ), f"byte {problem.start:,} and maybe others are not UTF-8: shown as \ufffd"


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as problem:
        raise ToolError(
            f"character {problem.start:,} of the text is half a surrogate pair; nothing was written"
        ) from None


def _as_written(old: str, text: str) -> str:
    """The passage with the line endings that it has in the text."""
    for ending in ("\r\n", "\n", "\r"):
        passage = ENDING.sub(ending, old)
        if passage in text and old not in text:
            return passage
    return old


def _ending(old: str, text: str) -> str:
    """The line ending to write: that of the passage, else the first of the file."""
    found = ENDING.search(old) or ENDING.search(text)
    return found[0] if found else "\n"


def _lines(text: str, old: str) -> list[str]:
    """The numbers of the first lines in which the passage starts."""
    numbers: list[str] = []
    at = text.find(old)
    while at >= 0 and len(numbers) < 10:
        numbers.append(str(text.count("\n", 0, at) + 1))
        at = text.find(old, at + len(old))
    return numbers
