"""Asking the person whether a call may run."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import TextIO

from legato.cli.terminal import Paint, plain
from legato.messages import Json, ToolCall
from legato.wire import shape

if sys.platform != "win32":
    import termios

ANSWERS = {"y": "y", "yes": "y", "n": "n", "no": "n", "": "n", "a": "a", "always": "a"}
CHOICE = "y = yes, n = no, a = always"
LINE = 4_096
"""Bytes of an answer that are read; a terminal gives a line at once."""


class Asker:
    """Puts the questions of tools to the person at a terminal; an `Approve` of the runner.

    `pause` gives the stream to write on; `keyboard` is a terminal to read from. "always" holds as long as the run: for
    the very same call, and of a tool named in `whole` for every call of it.
    """

    def __init__(
        self, pause: Callable[[], AbstractContextManager[TextIO]], keyboard: int, whole: Collection[str]
    ) -> None:
        self.pause = pause
        self.keyboard = keyboard
        self.whole = whole
        self._always: set[str] = set()

    async def __call__(self, question: str, call: ToolCall) -> bool:
        by_name = call.name in self.whole
        key = str(call.name) if by_name else _key(call)
        if key in self._always:
            return True
        scope = f"{plain(str(call.name))} in this run" if by_name else "this command in this run"
        with self.pause() as stream:
            answer = await self._ask(question, f"[{CHOICE} for {scope}] ", stream)
        if answer == "a":
            self._always.add(key)
        return answer != "n"

    async def _ask(self, question: str, choice: str, stream: TextIO) -> str:
        first, *rest = [plain(line, len(line)) for line in question.split("\n")]
        paint = Paint(stream)
        stream.write("\n".join([paint("bold", f"? {first}"), *[f"    {line}" for line in rest]]) + "\n")
        while True:
            termios.tcflush(self.keyboard, termios.TCIFLUSH)  # what was typed before is no answer to this
            stream.write(choice)
            stream.flush()
            typed = await typed_line(self.keyboard)
            if typed is None:
                stream.write("\n")
                return "n"
            answer = ANSWERS.get(typed.strip().lower())
            if answer is not None:
                return answer


def _key(call: ToolCall) -> str:
    """The call, and none that only looks like it, in a form that is the same however it is written."""
    value = shape.as_object(call)
    ordered = sorted(value.items()) if isinstance(value, dict) else value
    return shape.dump([call.name, ordered])


async def typed_line(keyboard: int) -> str | None:
    """The line that is typed next; None: nobody is there."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(keyboard, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(keyboard)
    try:
        line = os.read(keyboard, LINE)
    except OSError:  # the terminal is gone
        return None
    return line.decode("utf-8", "replace") if line else None


def asks_for(name: str, allowed: Collection[str]) -> Callable[[dict[str, Json]], str | None] | None:
    """What asks before a call of a server's tool runs; None where its name is allowed."""
    if name in allowed:
        return None

    def question(arguments: dict[str, Json]) -> str:
        shown = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in arguments.items()]
        return "\n".join([f"Call {name}?", *shown])  # all of it: what is approved must have been seen

    return question
