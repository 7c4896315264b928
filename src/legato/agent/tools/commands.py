"""Which commands run without asking: those that are one simple command, and fit a pattern word for word.

A pattern is words, the last of which may be `*` for any more: `git status`, `pytest *`. What a shell would make more of
than words never fits: `;`, `&&`, pipes, redirections, `$(…)`, variables, globs, newlines. A command that fits is run
without a shell, so that it means what it was judged by. A pattern trusts the program with its arguments and with what
it finds in the workspace: `pytest *` runs any test file that is there.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

REST = "*"
WORD = r"""(?:'[^'\n\r]*+'|"[^"\\$`!\n\r]*+"|[^\s'"\\$`;&|<>()*?\[\]{}~#!]|(?<=[^\s'"])[~#])++"""
SIMPLE = re.compile(rf"[ \t]*+{WORD}(?:[ \t]++{WORD})*+[ \t]*+")


def simple(command: str) -> list[str] | None:
    """The words of a simple command; None: it is something else."""
    return shlex.split(command) if SIMPLE.fullmatch(command) and "\0" not in command else None


def allowed(command: str, patterns: Sequence[str]) -> list[str] | None:
    """The words of a simple command that fits one of the patterns; None: it does not."""
    words = simple(command)
    return words if words and any(_fits(words, shlex.split(pattern)) for pattern in patterns) else None


def printable(command: str) -> str:
    """The command as a person can judge it: what would move the cursor or turn the text round is escaped."""
    return "".join(each if each.isprintable() or each == "\n" else ascii(each)[1:-1] for each in command)


def _fits(words: list[str], pattern: list[str]) -> bool:
    if pattern[-1:] == [REST]:
        return words[: len(pattern) - 1] == pattern[:-1]
    return words == pattern
