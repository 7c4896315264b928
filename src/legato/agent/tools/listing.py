"""What there is in the workspace: one folder, or every file that fits a pattern."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Literal

import msgspec

from legato.agent.extra import need
from legato.agent.tool import Tool, tool
from legato.agent.tools.limits import Limits
from legato.agent.tools.workspace import FOLDER, Workspace

NOISE = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "site-packages", "node_modules", "__pycache__", ".tox", ".nox", ".cache"}
    | {".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".gradle", ".terraform", ".next"}
)
"""Folders that are not searched unless they are named: what is in them was not written by hand."""
VISITED = 200_000
"""Files that one search looks at."""
DEPTH = 100
"""Folders within folders that one search goes into, each of which is kept open."""


class Found(msgspec.Struct, frozen=True):
    """A regular file: its path from where the search started, and its name in a folder that is open until the next."""

    path: str
    name: str
    folder: int
    state: os.stat_result


class Listing:
    """The tools that list names of a workspace."""

    def __init__(self, workspace: Workspace, limits: Limits) -> None:
        self.workspace = workspace
        self.limits = limits

    def tools(self) -> list[Tool]:
        return [tool(self.list_dir, reads_only=True), tool(self.find_files, reads_only=True)]

    def list_dir(self, path: str = ".", skip: int = 0) -> str:
        """List a folder of the workspace: `name/` is a folder, `name -> target` a link; files have their size in bytes.

        Args:
            path: Path of the folder, from the workspace on.
            skip: How many entries to leave out, to list on.
        """
        with self.workspace.folder(path) as (folder, _):
            lines = [_entry(name, folder) for name in sorted(os.listdir(folder))]
        return _some(lines, max(0, skip), self.limits.entries, "entry", "entries")

    def find_files(self, pattern: str, path: str = ".", sort: Literal["path", "newest"] = "path", skip: int = 0) -> str:
        """Find files of the workspace by name. Those in .git, node_modules and the like only if `path` is there.

        Args:
            pattern: Which files, as in a .gitignore: `*.py` anywhere, `src/**/test_*.py` from `path` on.
            path: Folder to search, from the workspace on.
            sort: `path`, or `newest` for those first that were changed last.
            skip: How many files to leave out, to list on.
        """
        fits = matcher(pattern)
        found: list[tuple[float, str]] = []
        with self.workspace.folder(path) as (folder, shown):
            walk = Walk(folder)
            for file in walk:
                if fits(file.path):
                    name = readable(os.path.normpath(os.path.join(shown, file.path)))
                    age = (
                        -os.stat(file.name, dir_fd=file.folder, follow_symlinks=False).st_mtime
                        if sort == "newest"
                        else 0
                    )
                    found.append((age, name))
        found.sort()
        return _some([name for _, name in found], max(0, skip), self.limits.entries, "file", "files") + walk.note


class Walk:
    """The regular files below an open folder, in order of their paths. No link is followed, even if it is raced in."""

    def __init__(self, folder: int) -> None:
        self.folder = folder
        self.skipped: set[str] = set()
        self.seen = 0

    def __iter__(self) -> Iterator[Found]:
        open_folders, path = [self.folder], [""]
        todo = [iter(sorted(os.listdir(self.folder)))]
        try:
            while todo and self.seen <= VISITED:
                name = next(todo[-1], None)
                if name is None:
                    todo.pop()
                    path.pop()
                    if len(open_folders) > 1:
                        os.close(open_folders.pop())
                    continue
                state = _state(name, open_folders[-1])
                if state is not None and stat.S_ISREG(state.st_mode):
                    self.seen += 1
                    yield Found(path[-1] + name, name, open_folders[-1], state)
                elif state is not None and stat.S_ISDIR(state.st_mode) and self._enters(name, len(todo)):
                    with suppress(OSError):  # gone, not to be read, or a link by now
                        open_folders.append(os.open(name, FOLDER, dir_fd=open_folders[-1]))
                        path.append(f"{path[-1]}{name}/")
                        todo.append(iter(sorted(os.listdir(open_folders[-1]))))
        finally:
            for folder in open_folders[1:]:
                os.close(folder)

    def _enters(self, name: str, depth: int) -> bool:
        if name in NOISE or depth > DEPTH:
            self.skipped.add(name)
            return False
        return True

    @property
    def note(self) -> str:
        """What was not looked at."""
        notes = []
        if self.skipped:
            notes.append(f"not searched: {', '.join(sorted(self.skipped))}")
        if self.seen > VISITED:
            notes.append(f"stopped after {VISITED:,} files; name a folder")
        return "".join(f"\n[{note}]" for note in notes)


def matcher(pattern: str) -> Any:
    """Says of a path whether it fits a pattern in the syntax of .gitignore."""
    return need("pathspec").GitIgnoreSpec.from_lines([pattern]).match_file


def readable(name: str) -> str:
    """A name as text; bytes of it that are not UTF-8 are shown as `\\xNN`."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _state(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _entry(name: str, folder: int) -> str:
    """A name of a folder, and what it is."""
    shown, state = readable(name), _state(name, folder)
    if state is None:
        return f"{shown}  (gone)"
    if stat.S_ISDIR(state.st_mode):
        return f"{shown}/"
    if stat.S_ISLNK(state.st_mode):
        try:
            return f"{shown} -> {readable(os.readlink(name, dir_fd=folder))}"
        except OSError:
            return f"{shown}  (gone)"
    return f"{shown}  {state.st_size:,}" if stat.S_ISREG(state.st_mode) else f"{shown}  (no file)"


def _some(lines: list[str], skip: int, most: int, one: str, many: str) -> str:
    """The lines from `skip` on, no more than `most`, and a note that says how many there are."""
    shown = lines[skip : skip + most]
    note = f"{len(lines):,} {one if len(lines) == 1 else many}"
    if len(shown) < len(lines):
        note += f", {skip + 1}-{skip + len(shown)} shown" if shown else f", none after {skip}"
    if skip + len(shown) < len(lines):
        note += f"; go on with skip={skip + len(shown)}"
    return "\n".join([*shown, f"[{note}]"])
