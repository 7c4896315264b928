"""Running commands: `exec` in the foreground or as a session in the background, and what sessions need.

A command runs with the rights of the agent's own user: what stands between a model and that is the question that is
asked first (see `commands.py`), not a sandbox. Of the environment only the variables in `INHERITED` reach it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import monotonic

import msgspec

from legato.agent.tool import Output, Tool, ToolError, tool
from legato.agent.tools.commands import allowed, printable
from legato.agent.tools.limits import Limits
from legato.agent.tools.process import GRACE, Process
from legato.agent.tools.workspace import Workspace
from legato.messages import Json

INHERITED = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TZ", "TMPDIR", "VIRTUAL_ENV"}
    | {"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "COLUMNS", "PYTHONPATH", "JAVA_HOME"}
)
"""What a command sees of the environment, `LC_*` besides. None of them holds a secret."""
MAX_WAIT = 60.0
"""Seconds that a call waits for a session at most."""
FIRST = 1.0
"""Seconds that are waited for the first output of a session."""
COMMAND = 120
"""Characters of a command in the list of sessions."""


def environment(outer: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """What a command gets: what may be inherited, without relative folders in PATH, and the extra variables."""
    env = {name: value for name, value in outer.items() if name in INHERITED or name.startswith("LC_")}
    env["PATH"] = os.pathsep.join(
        folder for folder in env.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(folder)
    )
    return {**env, **extra}


class Session(msgspec.Struct, eq=False):
    """A command in the background. `watch` is done when it has ended."""

    number: int
    command: str
    process: Process
    started: float
    watch: asyncio.Task[None]

    @property
    def state(self) -> str:
        return _ending(self.process) if self.watch.done() else "running"


class Execution:
    """The tools that run commands in a workspace. `close` ends the sessions; so does the end of the program."""

    def __init__(
        self, workspace: Workspace, limits: Limits, env: Mapping[str, str], allow: Sequence[str], ask: bool
    ) -> None:
        self.workspace = workspace
        self.limits = limits
        self.env = dict(env)
        self.allow = tuple(allow)
        self.ask = ask
        self._sessions: dict[int, Session] = {}
        self._last = 0
        weakref.finalize(self, _kill_all, self._sessions)

    def tools(self) -> list[Tool]:
        return [
            tool(self.exec, asks=self.question),
            tool(self.list_exec_sessions, reads_only=True, bounded=True),
            tool(self.write_stdin, asks=self.question_of_text),
            tool(self.kill_exec_session),
        ]

    def question(self, arguments: dict[str, Json]) -> str | None:
        """What to ask before a command runs. None: it is allowed."""
        command = str(arguments.get("command"))
        if not self.ask or allowed(command, self.allow):
            return None
        where = f" in {arguments['workdir']}" if arguments.get("workdir", ".") != "." else ""
        how = " in the background" if arguments.get("background") else ""
        return f"Run this command{printable(where)}{how}?\n{printable(command)}"

    def question_of_text(self, arguments: dict[str, Json]) -> str | None:
        """What to ask before text is sent to a session: to a shell it is a command like any other."""
        text = str(arguments.get("text", ""))
        return f"Send this to session {arguments.get('session')}?\n{printable(text)}" if self.ask and text else None

    async def exec(self, command: str, timeout: float = 60.0, workdir: str = ".", background: bool = False) -> Output:
        """Run a shell command in the workspace and return its output and its exit code.

        When it ends, whatever it left running is ended too; for a server, or a program to talk to, set `background`.

        Args:
            command: The command.
            timeout: Seconds after which it is ended, at most 600.
            workdir: Folder to run it in, from the workspace on.
            background: Keep it running as a session; see list_exec_sessions, write_stdin and kill_exec_session.
        """
        if background:
            return await self._begin(command, workdir)
        seconds = min(max(timeout, 0.1), self.limits.seconds)
        process = Process(self.limits.kept, self.limits.flood)
        try:
            await self._start(process, command, workdir, interactive=False)
            in_time = await process.wait(seconds)
            left = await process.end(GRACE if process.code is None else 0.0)
        finally:
            await process.end()
        note = _ending(process) if in_time else f"ended: it ran for more than {seconds:g} seconds"
        if left and in_time and not process.flooded.is_set():
            note += "; what it left running was ended"
        return Output(_with(process.output.take(), note), error=not in_time or process.flooded.is_set())

    def list_exec_sessions(self) -> str:
        """List the commands that were started in the background: number, state, age, output not yet read, command."""
        now = monotonic()
        lines = []
        for each in self._sessions.values():
            command = printable(each.command).replace("\n", " ")
            command = command if len(command) <= COMMAND else f"{command[:COMMAND]}…"
            unread = each.process.output.unread
            lines.append(f"{each.number}  {each.state}  {now - each.started:.0f} s  {unread:,} bytes unread  {command}")
        return "\n".join(lines) or "no commands in the background"

    async def write_stdin(self, session: int, text: str = "", wait: float = 1.0, close: bool = False) -> Output:
        """Write to the standard input of a command in the background, and return what it has written since last time.

        Args:
            session: Number of the session.
            text: What to write; end it with a newline to send the line. Nothing: only read.
            wait: Seconds to wait for the answer, at most 60; less if the command ends.
            close: Close its standard input.
        """
        found = self._session(session)
        seconds = min(max(wait, 0.0), MAX_WAIT)
        if (text or close) and found.watch.done():
            raise ToolError(f"session {session} reads no more: {found.state}")
        if text or close:
            try:
                async with asyncio.timeout(max(seconds, 1.0)):
                    await found.process.write(text, close=close)
            except TimeoutError:
                raise ToolError(f"session {session} does not read its standard input") from None
        await asyncio.wait({found.watch}, timeout=seconds)
        return Output(_with(found.process.output.take(), f"session {session}: {found.state}"))

    async def kill_exec_session(self, session: int) -> Output:
        """End a command in the background with all that it started, and return the rest of its output.

        Args:
            session: Number of the session.
        """
        found = self._session(session)
        await found.process.end(GRACE)
        await found.watch
        del self._sessions[session]
        return Output(_with(found.process.output.take(), f"session {session} was ended: {found.state}"))

    async def close(self) -> None:
        """End all sessions."""
        await asyncio.gather(*(each.process.end(GRACE) for each in self._sessions.values()))
        await asyncio.gather(*(each.watch for each in self._sessions.values()))
        self._sessions.clear()

    async def _begin(self, command: str, workdir: str) -> Output:
        """Start a session, and wait a moment for what it says first."""
        if sum(not each.watch.done() for each in self._sessions.values()) >= self.limits.sessions:
            raise ToolError(f"{self.limits.sessions} commands run in the background already; end one of them first")
        process = Process(self.limits.kept, self.limits.flood)
        try:
            await self._start(process, command, workdir, interactive=True)
        except BaseException:
            await process.end()
            raise
        for old in [each.number for each in self._sessions.values() if each.watch.done()][: -self.limits.sessions]:
            del self._sessions[old]
        self._last += 1
        session = Session(self._last, command, process, monotonic(), asyncio.create_task(_watch(process)))
        self._sessions[self._last] = session
        await asyncio.wait({session.watch}, timeout=FIRST)
        return Output(_with(process.output.take(), f"session {session.number}: {session.state}"))

    async def _start(self, process: Process, command: str, workdir: str, *, interactive: bool) -> None:
        words = allowed(command, self.allow) or [
            shutil.which("bash", path=self.env["PATH"]) or "/bin/sh",
            "-c",
            command,
        ]
        with self.workspace.folder(workdir) as (_, shown):
            cwd = os.path.join(self.workspace.root, shown)
        try:
            await process.start(words, cwd, self.env, interactive=interactive)
        except FileNotFoundError:
            raise ToolError(f"{words[0]}: not found") from None

    def _session(self, number: int) -> Session:
        if number not in self._sessions:
            numbers = ", ".join(map(str, self._sessions)) or "none"
            raise ToolError(f"no session {number}; there are: {numbers}")
        return self._sessions[number]


async def _watch(process: Process) -> None:
    try:
        await process.wait(None)
    finally:
        await process.end()


def _kill_all(sessions: dict[int, Session]) -> None:
    for each in sessions.values():
        each.process.kill()


def _ending(process: Process) -> str:
    """How it ended."""
    if process.flooded.is_set():
        return f"ended: it wrote more than {process.flood:,} bytes"
    code = process.code
    if code is not None and code < 0:
        with suppress(ValueError):
            return f"ended by {signal.Signals(-code).name}"
    return f"exit code {code}"


def _with(text: str, note: str) -> str:
    gap = "\n" if text and not text.endswith("\n") else ""
    return f"{text}{gap}[{note}]"
