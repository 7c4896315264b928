"""`legato run` as a program: through pipes, or at a terminal that a test types at."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from apis import chat_stream
from legato.agent.sessionfile import Line, SessionFile
from legato.cli import run_sessions
from model_server import Stream

PROGRAM = [sys.executable, "-m", "legato", "run"]
SIZE = struct.pack("HHHH", 50, 120, 0, 0)
"""Of the terminal: lines and columns."""
PATIENCE = 300.0
"""Seconds after which a program that says nothing is taken for one that hangs."""


class Done(NamedTuple):
    code: int
    out: str
    err: str


def clean(home: Path, **more: str) -> dict[str, str]:
    """An environment with a data folder of its own, no key of anybody and no size of another terminal."""
    sizes = ("COLUMNS", "LINES")
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_KEY") and name not in sizes}
    return {**kept, "XDG_DATA_HOME": str(home), "TERM": "xterm", "PYTHONUTF8": "1", **more}


def run(home: Path, *arguments: str | Path, folder: Path | None = None, stdin: str = "", **more: str) -> Done:
    """Run it to its end, with no terminal anywhere."""
    done = subprocess.run(
        [*PROGRAM, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=folder,
        env=clean(home, **more),
        timeout=PATIENCE,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Done(done.returncode, done.stdout, done.stderr)


class Terminal:
    """The program at a terminal, from entering to leaving: what it writes is read, and it is typed at."""

    def __init__(self, home: Path, *arguments: str | Path, folder: Path, **more: str) -> None:
        self.command = [*PROGRAM, *map(str, arguments)]
        self.folder = folder
        self.environment = clean(home, **more)
        self.seen = ""

    def __enter__(self) -> Self:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, SIZE)
        self._process = subprocess.Popen(
            self.command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=self.folder,
            env=self.environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._master)

    def wait_for(self, text: str) -> str:
        """What it wrote up to this text, which is taken."""
        while text not in self.seen:
            piece = self._read()
            assert piece, f"it ended without {text!r}: {self.seen}"
            self.seen += piece
        before, _, self.seen = self.seen.partition(text)
        return before

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def end(self) -> tuple[int, str]:
        """Its exit code, and what it wrote last."""
        while piece := self._read():
            self.seen += piece
        return self._process.wait(PATIENCE), self.seen

    def _read(self) -> str:
        ready, _, _ = select.select([self._master], [], [], PATIENCE)
        assert ready, f"it says nothing more: {self.seen}"
        try:
            return os.read(self._master, 65_536).decode("utf-8", "replace")
        except OSError:  # it has closed the terminal
            return ""


def until(holds: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait until it holds: for what happens in another process and cannot be waited for otherwise."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.01)


def calls(*made: tuple[str, str], said: str = "") -> Stream:
    """An answer that makes these calls: names and arguments as JSON text."""
    deltas: list[Mapping[str, Any]] = [{"content": said}] if said else []
    for nth, (name, arguments) in enumerate(made):
        function = {"name": name, "arguments": arguments}
        deltas.append({"tool_calls": [{"index": nth, "id": f"call_{nth}", "type": "function", "function": function}]})
    return Stream(chat_stream(*deltas, finish="tool_calls"))


def says(text: str) -> Stream:
    return Stream(chat_stream(*[{"content": word} for word in text.splitlines(keepends=True)]))


def sessions(home: Path) -> list[Path]:
    """The session files in a data folder."""
    return sorted((home / "legato" / "sessions").glob("*/*.jsonl"))


def lines_of(path: Path) -> Sequence[Line]:
    file = SessionFile(path, run_sessions.header(path))
    file.close()
    return file.lines
