"""A command with a bounded output, that ends with all it started.

Each command is a session and process group of its own, and carries a mark in its environment. When it ends, is ended or
the call is cancelled, its group is killed, and on Linux every process that inherited the mark (`descendants.py`): one
that made itself a session of its own, or whose parent is gone, is found too.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

from legato.agent.tools.descendants import kill_marked

MARK = "LEGATO_EXEC"
"""The variable by which a command's descendants are known."""
GRACE = 1.0
"""Seconds between asking a command to end and killing it."""
DRAIN = 2.0
"""Seconds for the rest of the output once everything was killed."""
PIECE = 1 << 16


class Tail:
    """The first and the last half of what is written, in bytes."""

    def __init__(self, most: int) -> None:
        self.half = most // 2
        self.total = 0
        self.unread = 0
        self._first = bytearray()
        self._last = bytearray()
        self._gone = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        self.unread += len(data)
        room = self.half - len(self._first)
        self._first += data[:room]
        self._last += data[room:]
        if len(self._last) > 2 * self.half:
            self._trim()

    def take(self) -> str:
        """What is kept, as text, and forget it."""
        self._trim()
        gap = f"\n[… {self._gone:,} bytes of output were not kept …]\n".encode() if self._gone else b""
        text = (bytes(self._first) + gap + bytes(self._last)).decode("utf-8", "replace")
        self.unread = self._gone = 0
        self._first, self._last = bytearray(), bytearray()
        return text

    def _trim(self) -> None:
        gone = len(self._last) - self.half
        if gone > 0:
            self._gone += gone
            del self._last[:gone]


class Process:
    """A command. Whatever becomes of `start`, `end` must follow. `flood`: so many bytes of output are too many."""

    def __init__(self, most: int, flood: int) -> None:
        self.output = Tail(most)
        self.flooded = asyncio.Event()
        self.flood = flood
        self._mark = secrets.token_hex(16)
        self._process: asyncio.subprocess.Process | None = None
        self._group: int | None = None
        self._killed = False
        self._pipe: asyncio.ReadTransport | None = None
        self._reader: asyncio.Task[None] | None = None

    async def start(self, words: Sequence[str], cwd: str, env: Mapping[str, str], *, interactive: bool) -> None:
        """Start it, with its output and its errors as one stream. Raises `OSError`."""
        output, written = os.pipe()
        reader = asyncio.StreamReader(limit=PIECE)
        try:
            stream = open(output, "rb", buffering=0)  # noqa: SIM115 -- the pipe closes it
            self._pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), stream
            )
            self._process = await asyncio.create_subprocess_exec(
                *words,
                cwd=cwd,
                env={**env, MARK: f"{os.environ.get(MARK, '')}:{self._mark}"},  # it may itself be such a command
                stdin=asyncio.subprocess.PIPE if interactive else asyncio.subprocess.DEVNULL,
                stdout=written,
                stderr=written,
                start_new_session=True,
            )
        finally:
            os.close(written)
        self._group = self._process.pid
        self._reader = asyncio.create_task(self._read(reader))

    @property
    def code(self) -> int | None:
        """The exit code; negative: the signal that ended it; None: it runs, or never did."""
        return None if self._process is None else self._process.returncode

    async def wait(self, seconds: float | None) -> bool:
        """Wait until it has ended or writes too much. False: it still runs after so many seconds."""
        assert self._process is not None
        ends = {asyncio.create_task(self._process.wait()), asyncio.create_task(self.flooded.wait())}
        try:
            done, _ = await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return bool(done)
        finally:
            for task in ends:
                task.cancel()

    async def write(self, text: str, *, close: bool) -> None:
        """Write to its standard input, and wait until it is read. Raises `OSError` if it reads no more."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode("utf-8", "replace"))
        if close:
            self._process.stdin.close()
        await self._process.stdin.drain()

    async def end(self, grace: float = 0.0) -> bool:
        """Ask it to end, wait `grace` seconds, kill what is left, read the rest. True: something still ran."""
        found = False
        try:
            if self.code is None and self._group is not None and grace:
                found = self._signal(signal.SIGTERM)
                await self.wait(grace)
        finally:
            found = self.kill() or found
            await _to_its_end(self._tidy())
        return found

    def kill(self) -> bool:
        """Kill all of it at once. True: something was still running."""
        if self._killed:
            return False
        found = self._signal(signal.SIGKILL)
        self._group = None  # once the group is gone its number may become another's
        found = kill_marked(self._mark) or found
        self._killed = True
        return found

    async def _tidy(self) -> None:
        """Read what is left in the pipe, and let go of it and of the process."""
        if self._reader is not None:
            await asyncio.wait({self._reader}, timeout=DRAIN)
            self._reader.cancel()
            await asyncio.wait({self._reader})
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            if self._process.stdin is not None:
                self._process.stdin.close()
            await self._process.wait()

    def _signal(self, number: signal.Signals) -> bool:
        if self._group is None:
            return False
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._group, number)
            return True
        return False

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(PIECE):
            self.output.add(data)
            if self.output.total > self.flood:
                self.flooded.set()
                return


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Await something short whatever is cancelled meanwhile. The cancellation passes afterwards."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as problem:
            cancelled = problem
    if cancelled is not None:
        raise cancelled
