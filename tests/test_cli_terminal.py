"""On a terminal lines are broken between words, and nothing moves the cursor where that is not understood."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"
ESCAPE = re.compile(r"\x1b\[[0-9;]*([A-Za-z])")


def shown(columns: int, term: str, *arguments: str | Path) -> str:
    """What the command writes to a terminal of so many columns."""
    child, terminal = pty.fork()
    if not child:
        environment = {**os.environ, "TERM": term}
        environment.pop("COLUMNS", None)
        os.execve(sys.executable, [sys.executable, "-m", "legato", *map(str, arguments)], environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    found = b""
    while True:
        try:
            piece = os.read(terminal, 65_536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        found += piece
    os.waitpid(child, 0)
    os.close(terminal)
    return found.decode().replace("\r\n", "\n")


def words(text: str) -> list[str]:
    return ESCAPE.sub("", text).split()


def test_every_line_fits_and_every_word_is_whole() -> None:
    for command in (
        ("check", EXAMPLES / "broken-session.json"),
        ("govern", EXAMPLES / "broken-session.json", "-o", os.devnull, "--profile", "openai"),
        ("fix", EXAMPLES / "torn-session.jsonl"),
    ):
        wide, narrow = shown(400, "xterm", *command), shown(80, "xterm", *command)
        assert words(narrow) == words(wide)
        longest = str(EXAMPLES)  # a name is no prose: it is never broken
        lines = [ESCAPE.sub("", line) for line in narrow.splitlines() if longest not in line]
        assert max(map(len, lines)) <= 80
        assert len(narrow.splitlines()) > len(wide.splitlines())


def test_a_terminal_that_is_dumb_gets_neither_colour_nor_movement() -> None:
    recorded = ("replay", EXAMPLES / "customer-service.json", "--live", "--window", "8k")
    assert {"A", "K", "m"} <= set(ESCAPE.findall(shown(120, "xterm", *recorded)))
    assert ESCAPE.findall(shown(120, "dumb", *recorded)) == []
