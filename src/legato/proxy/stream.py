"""What is read off a passing answer, and how ids and names come back in it as the client knows them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from legato.calibration import input_tokens
from legato.messages import Json
from legato.proxy.bodies import Inflater, Unreadable, inflater

HELD = 8 * 2**20
"""Bytes of an answer that are held to be read: of a longer one nothing is learnt."""

CLOSED = frozenset(("arguments", "input", "args", "parameters", "input_schema", "response", "output"))
"""Fields that hold what a tool is given or gives: nothing in there is the name of a call."""
NAMED = frozenset(("id", "call_id", "tool_call_id", "tool_use_id"))


class Tap:
    """Reads the usage off an answer while it passes. It looks at a copy, and never fails."""

    def __init__(self, kind: str, encoding: str) -> None:
        self.reported: int | None = None
        self._events = "text/event-stream" in kind
        self._inflate: Inflater | None = inflater(encoding) if self._events or "json" in kind else None
        self._rest = b""
        self._seen = 0

    def feed(self, data: bytes) -> None:
        """A piece of the answer as it passes."""
        if self._inflate is None:
            return
        try:
            self._rest += self._inflate(data)
        except Unreadable:
            self._inflate = None
            return
        if self._events:
            *lines, self._rest = self._rest.split(b"\n")
            for line in lines:
                self._line(line)
        if len(self._rest) > HELD:
            self._inflate, self._rest = None, b""

    def end(self) -> int | None:
        """What was reported of the input, None if nothing was."""
        if self._inflate is not None:
            if self._events:
                self._line(self._rest)
            else:
                self._read(self._rest)
        self._rest = b""
        return self.reported

    def _line(self, line: bytes) -> None:
        # Every name of a count has "oken" in it; a stream has hundreds of events, and one or two with usage.
        if line.startswith(b"data:") and b"oken" in line:
            self._read(line[5:])

    def _read(self, data: bytes) -> None:
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError):
            return
        for value in answer if isinstance(answer, list) else (answer,):
            found = input_tokens(value)
            self.reported = self.reported if found is None else found


class Renamer:
    """Gives an answer back with the client's own ids and names. `kind` and `encoding` are the answer's.

    Whole lines of a stream pass as soon as they are there; of plain JSON everything is held until its end.
    """

    def __init__(self, kind: str, encoding: str, ids: Mapping[str, str], names: Mapping[str, str]) -> None:
        self._events = "text/event-stream" in kind
        self._inflate = inflater(encoding) if self._events or "json" in kind else None
        self._rest = b""
        self._ids, self._names = ids, names
        self._marks = [each.encode() for each in (*ids, *names)]

    @property
    def works(self) -> bool:
        """Whether it can read the answer at all; else that passes as it is."""
        return self._inflate is not None

    def feed(self, data: bytes) -> bytes:
        """What can be passed on now. Raises `Unreadable`."""
        if self._inflate is None:
            return data
        self._rest += self._inflate(data)
        if not self._events:
            return b""
        whole, newline, self._rest = self._rest.rpartition(b"\n")
        return b"\n".join(map(self._line, whole.split(b"\n"))) + newline if newline else b""

    def end(self) -> bytes:
        """What is left."""
        rest, self._rest = self._rest, b""
        return self._line(rest) if self._events else self._renamed(rest)

    def _line(self, line: bytes) -> bytes:
        if not line.startswith(b"data:"):
            return line
        start = 6 if line.startswith(b"data: ") else 5
        return line[:start] + self._renamed(line[start:])

    def _renamed(self, data: bytes) -> bytes:
        if not any(mark in data for mark in self._marks):
            return data
        try:
            value = json.loads(data)
            renamed = self._walked(value)
        except (ValueError, RecursionError):
            return data
        end = b"\r" if data.endswith(b"\r") else b""
        return json.dumps(renamed, ensure_ascii=True, separators=(",", ":")).encode() + end

    def _walked(self, value: Json) -> Json:
        if isinstance(value, list):
            return [self._walked(inner) for inner in value]
        if not isinstance(value, dict):
            return value
        return {key: self._field(key, inner) for key, inner in value.items()}

    def _field(self, key: str, value: Json) -> Json:
        if isinstance(value, str):
            known = self._names if key == "name" else self._ids if key in NAMED else {}
            return known.get(value, value)
        if key in CLOSED and not _holds_items(key, value):
            return value
        return self._walked(value)


def _holds_items(key: str, value: Json) -> bool:
    """Whether it is an answer's own list of items or the answer in an event (Responses), not what a tool gave."""
    if key == "output":
        return isinstance(value, list) and any(isinstance(item, dict) and "type" in item for item in value)
    return key == "response" and isinstance(value, dict) and "object" in value
