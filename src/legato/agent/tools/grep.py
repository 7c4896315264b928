"""Searching the contents of files: by ripgrep where it is installed, else by `regex`, which no pattern can stall."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import stat
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, suppress
from threading import Event
from time import monotonic
from typing import Any

import msgspec

from legato.agent.extra import need
from legato.agent.tool import Tool, ToolError, tool
from legato.agent.tools.hits import WIDTH, Hit, Show, Tally
from legato.agent.tools.limits import Limits
from legato.agent.tools.listing import NOISE, Found, Walk, matcher
from legato.agent.tools.workspace import FILE, Place, Workspace

LOOK = 8_192
"""Bytes at the start of a file in which a NUL says that it is no text."""
CONTEXT = 20
"""Lines around a match that are shown at most."""
COLUMNS = 4 * WIDTH
"""Bytes of a line beyond which ripgrep gives its start only."""
LINE = 1 << 20
HIT = re.compile(rb"([^\0]+)\0(\d+)([:-])(.*)", re.DOTALL)


class Query(msgspec.Struct, frozen=True):
    """What is searched for. `glob` is in the syntax of .gitignore, `context` in lines before and after."""

    pattern: str
    glob: str | None
    ignore_case: bool
    literal: bool
    context: int


class Grep:
    """The tool that searches a workspace. `program` is ripgrep's path; None: it is not used."""

    def __init__(self, workspace: Workspace, limits: Limits, program: str | None = shutil.which("rg")) -> None:
        self.workspace = workspace
        self.limits = limits
        # Only Linux can start a program in a folder that is known by its descriptor, as `/proc/PID/fd/N`.
        # A relative path would be one that PATH finds in the current folder.
        self.program = program if program and os.path.isabs(program) and sys.platform == "linux" else None

    def tools(self) -> list[Tool]:
        return [tool(self.grep, reads_only=True)]

    async def grep(
        self,
        pattern: str,
        path: str = ".",
        glob: str | None = None,
        ignore_case: bool = False,
        literal: bool = False,
        context: int = 0,
        show: Show = "lines",
        skip: int = 0,
    ) -> str:
        """Search text files of the workspace, line by line, with a regular expression.

        Binary files, files over 8 MB, and what is in .git, node_modules and the like are not searched; such a folder is
        if `path` is in it.

        Args:
            pattern: The regular expression.
            path: Folder or file to search, from the workspace on.
            glob: Which files, as in a .gitignore: `*.py` anywhere, `src/**/test_*.py` from `path` on.
            ignore_case: Whether upper and lower case are the same.
            literal: Whether the pattern is plain text.
            context: How many lines before and after each match to show.
            show: `lines` that match, names of the `files` that have any, or the `count` of matching lines in each.
            skip: How many matches (or files) to leave out, to search on.
        """
        if glob is not None and glob.startswith("!"):
            raise ToolError("glob says which files to search, not which to leave out")
        query = Query(pattern, glob, ignore_case, literal, min(max(context, 0), CONTEXT))
        with self.workspace.place(path) as place:
            state = place.state()
            tally = Tally(place.shown, show, max(skip, 0), self.limits.entries)
            if state is None or not stat.S_ISDIR(state.st_mode) or not await self._ripgrep(path, query, tally):
                await self._regex(path, place, query, tally)
        return str(tally)

    async def _ripgrep(self, path: str, query: Query, tally: Tally) -> bool:
        """Search a folder with ripgrep. False: there is none, or it does not take the pattern."""
        if self.program is None:
            return False
        hits = None
        with self.workspace.folder(path) as (folder, _), suppress(TimeoutError):
            async with asyncio.timeout(self.limits.search_seconds), aclosing(self._run(folder, query)) as hits:
                async for hit in hits:
                    if hit is None:
                        return False
                    if tally.add(hit):
                        return True
                return True
        tally.stopped = f"stopped after {self.limits.search_seconds:g} seconds"
        return True

    async def _run(self, folder: int, query: Query) -> AsyncGenerator[Hit | None, None]:
        """The hits of ripgrep in an open folder; None if it fails before the first."""
        arguments = ["--no-config", "--hidden", "--no-ignore", "--sort=path", "--crlf", "--color=never", "--no-heading"]
        arguments += ["--line-number", "--with-filename", "--null", f"--max-columns={COLUMNS}", "--max-columns-preview"]
        arguments += [f"--max-filesize={self.limits.searched}", f"--context={query.context}"]
        arguments += ["--ignore-case"] * query.ignore_case + ["--fixed-strings"] * query.literal
        arguments += [f"--glob={glob}" for glob in ([query.glob] if query.glob else [])]
        arguments += [f"--glob=!{name}/" for name in sorted(NOISE)]
        process = await asyncio.create_subprocess_exec(
            self.program or "rg",
            *arguments,
            f"--regexp={query.pattern}",
            ".",
            cwd=f"/proc/{os.getpid()}/fd/{folder}",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=LINE,
        )
        any_hit = False
        try:
            assert process.stdout is not None
            while line := await _line(process.stdout):
                hit = _hit(line)
                if hit is not None:
                    any_hit = True
                    yield hit
            if await process.wait() > 1 and not any_hit:
                yield None
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _regex(self, path: str, place: Place, query: Query, tally: Tally) -> None:
        stop = Event()
        try:
            await asyncio.to_thread(self._search, path, place, query, tally, stop)
        finally:
            stop.set()

    def _search(self, path: str, place: Place, query: Query, tally: Tally, stop: Event) -> None:
        """Search a folder or one file, until there is enough, the time is over, or `stop`."""
        regex = need("regex")
        try:
            flags = regex.IGNORECASE if query.ignore_case else 0
            search = regex.compile(regex.escape(query.pattern) if query.literal else query.pattern, flags)
        except (regex.error, RecursionError) as problem:
            raise ToolError(f"the pattern {query.pattern!r} is no regular expression: {problem}") from None
        deadline = monotonic() + self.limits.search_seconds
        try:
            for name, text in self._texts(path, place, query.glob):
                for hit in _hits(name, text, search, query.context, deadline):
                    if tally.add(hit) or stop.is_set():
                        return
                if monotonic() > deadline or stop.is_set():
                    raise TimeoutError
        except TimeoutError:
            tally.stopped = f"stopped after {self.limits.search_seconds:g} seconds"

    def _texts(self, path: str, place: Place, glob: str | None) -> Iterator[tuple[str, str]]:
        """The text files of a folder, or the one that the path names."""
        state = place.state()
        if state is None or not stat.S_ISDIR(state.st_mode):
            with place.open() as stream:
                text = self._text(stream.read(self.limits.file))
            if text is None:
                raise ToolError(f"{place.shown} is a binary file")
            yield "", text
            return
        fits = matcher(glob) if glob else None
        with self.workspace.folder(path) as (folder, _):
            for file in Walk(folder):
                if file.state.st_size <= self.limits.searched and (fits is None or fits(file.path)):
                    text = self._text(_read(file, self.limits.searched))
                    if text is not None:
                        yield file.path, text

    def _text(self, data: bytes) -> str | None:
        return None if b"\0" in data[:LOOK] else data.decode("utf-8", "replace")


def _read(file: Found, most: int) -> bytes:
    """What is in a file that was found; nothing if it is gone, unreadable, or another kind of thing by now."""
    try:
        with open(os.open(file.name, FILE, dir_fd=file.folder), "rb") as stream:
            return stream.read(most) if stat.S_ISREG(os.fstat(stream.fileno()).st_mode) else b""
    except OSError:
        return b""


def _hits(path: str, text: str, search: Any, context: int, deadline: float) -> Iterator[Hit]:
    """The matching lines of a text, and those around them. Raises `TimeoutError`."""
    lines = text.removesuffix("\n").split("\n") if text else []
    shown = 0
    ahead = 0
    for at, line in enumerate(lines):
        if search.search(line.removesuffix("\r"), timeout=max(deadline - monotonic(), 0.001), concurrent=True):
            for before in range(max(shown, at - context), at):
                yield Hit(path, before + 1, lines[before].removesuffix("\r"), False)
            yield Hit(path, at + 1, line.removesuffix("\r"), True)
            shown, ahead = at + 1, context
        elif ahead:
            yield Hit(path, at + 1, line.removesuffix("\r"), False)
            shown, ahead = at + 1, ahead - 1


async def _line(stream: asyncio.StreamReader) -> bytes:
    """The next line; one that is absurdly long even as a preview is left out. Empty: there is none."""
    while True:
        try:
            return await stream.readline()
        except ValueError:
            continue


def _hit(line: bytes) -> Hit | None:
    """What ripgrep says in a line: path, NUL, number, `:` or `-`, text. None: it is a separator."""
    found = HIT.fullmatch(line.rstrip(b"\r\n"))
    if found is None:
        return None
    path = os.path.normpath(os.fsdecode(found[1]))
    return Hit(path, int(found[2]), found[4].decode("utf-8", "replace"), found[3] == b":")
