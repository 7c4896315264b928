"""A run as plain lines, and as JSON; and, for every view, what is shown of a call, of a result and of an answer.

What a model or a tool wrote is shown with its control characters as escapes: none of it steers the terminal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TextIO

from legato.agent.events import (
    BeforeRequest,
    Event,
    RequestFailed,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from legato.cli.run_meter import Meter
from legato.cli.terminal import plain
from legato.messages import Json

ARGUMENT = 80
"""So many characters of an argument are shown."""
WIDTH = 160
"""So many of a line of a result."""
ERROR = 600
"""So many of what a provider says is wrong."""
HEAD, TAIL = 3, 3
"""So many lines of a result are shown of its two ends."""


class View(Protocol):
    """Shows a run: a hook, and what the program itself has to say. `people` is where a person reads."""

    @property
    def people(self) -> TextIO: ...

    def __call__(self, event: Event) -> None: ...

    def said(self, text: str) -> None:
        """Something the user said, now or when it was recorded."""

    def say(self, text: str) -> None:
        """A remark of the program."""

    def pause(self) -> AbstractContextManager[TextIO]:
        """A place for a question to the person, while nothing else is written there."""

    def close(self, answer: str) -> None:
        """The run is over, and this is the answer, or nothing."""


class Lines:
    """Plain lines: the answer on one stream, whole, and all that led to it on another."""

    def __init__(self, answers: TextIO, stream: TextIO, meter: Meter) -> None:
        self.answers = answers
        self.people = stream
        self.meter = meter
        self._text = ""

    def __call__(self, event: Event) -> None:
        match event:
            case BeforeRequest():
                self._flush()
                changes = self.meter.changes()
                self._write([*([f"-- {changes}"] if changes else []), f"-- {' · '.join(self.meter.parts())}"])
            case TextDelta():
                self._text += event.text
            case RequestFailed():
                self._text = ""
                self._write([f"!! {plain(event.error, ERROR)}"])
            case ToolStarted():
                self._flush()
                self._write([f"> {call(event.name, event.arguments)}"])
            case ToolFinished():
                self._flush()
                asked = [] if event.ran else [f"> {call(event.name, event.arguments)}"]
                sign = "!" if event.error else "|"
                self._write([*asked, *[f"{sign} {line}".rstrip() for line in result(event.text)]])

    def said(self, text: str) -> None:
        self._flush()
        self._write([f"< {line}".rstrip() for line in result(text)])

    def say(self, text: str) -> None:
        self._flush()
        self._write([f"legato: {safe(text)}"])

    @contextmanager
    def pause(self) -> Iterator[TextIO]:
        yield self.people

    def close(self, answer: str) -> None:
        self._text = ""
        if answer.strip():
            self.answers.write(f"{answer.rstrip()}\n")
            self.answers.flush()

    def _flush(self) -> None:
        """What the model has said so far was not the answer: it goes on."""
        if self._text.strip():
            self._write([safe(line) for line in self._text.strip("\n").split("\n")])
        self._text = ""

    def _write(self, lines: list[str]) -> None:
        self.people.write("".join(f"{line}\n" for line in lines))
        self.people.flush()


class JsonLines:
    """One JSON object an event on a stream for programs; remarks and questions on another one for people."""

    def __init__(self, stream: TextIO, people: TextIO) -> None:
        self.stream = stream
        self.people = people

    def __call__(self, event: Event) -> None:
        self.write(event.to_dict())

    def write(self, value: Json) -> None:
        self.stream.write(json.dumps(value) + "\n")
        self.stream.flush()

    def said(self, text: str) -> None:
        """It is in the events."""

    def say(self, text: str) -> None:
        self.people.write(f"legato: {safe(text)}\n")
        self.people.flush()

    @contextmanager
    def pause(self) -> Iterator[TextIO]:
        yield self.people

    def close(self, answer: str) -> None:
        """It is in the last event."""


def safe(line: str) -> str:
    """The whole of a line, its control characters as escapes."""
    line = line.rstrip().expandtabs(4)
    return plain(line, len(line))


def call(name: str, arguments: Json) -> str:
    """A call in a line: its name, and its arguments shortened."""
    return " ".join([plain(name, ARGUMENT), *shortened(arguments)])


def shortened(arguments: Json) -> list[str]:
    """What is shown of each argument."""
    value = arguments
    if isinstance(arguments, str):
        try:
            value = json.loads(arguments)
        except (ValueError, RecursionError):  # as the model wrote it
            return [plain(arguments, ARGUMENT)] if arguments.strip() else []
    if not isinstance(value, dict):
        return [] if value is None else [plain(_text(value), ARGUMENT)]
    return [f"{plain(name, ARGUMENT)}={plain(_text(part), ARGUMENT)}" for name, part in value.items()]


def result(text: str) -> list[str]:
    """The head and the tail of a text, and how many lines lie between."""
    lines = text.strip("\n").split("\n")
    if len(lines) > HEAD + TAIL + 1:
        lines = [*lines[:HEAD], f"… {len(lines) - HEAD - TAIL:,} more lines …", *lines[-TAIL:]]
    return [plain(line.rstrip().expandtabs(4), WIDTH) for line in lines]


def _text(value: Json) -> str:
    try:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "…"
