"""What an answer needed of what was said before it, as far as it can be told without a model.

An answer that names a path, an id, a number or a quoted text which stands in the history and not in the system prompt
took it from there. If what a policy sends no longer holds that name, the model could not have given this answer. See
docs/replay.md for what this measure does not see.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from legato.messages import Fields, Json, Message, Part, Reasoning, Text, ToolCall, ToolResult
from legato.transcripts.recording import Turn
from legato.wire import shape

CHUNK = re.compile(r"[A-Za-z0-9_./~@:+#=-]{3,120}")
PIECE = re.compile(r"[/:#=@+~]")
QUOTED = re.compile(r'"([^"\n{}]{6,80})"|`([^`\n{}]{6,80})`')
PROPER = re.compile(r"\b[A-Z][a-z]{2,}\b")
CAMEL = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
EDGES = ".,:;/-=+#@~"
COMMON = frozenset(("utf-8", "e.g", "i.e", "and/or", "n/a", "true/false", "yes/no", "read/write", "input/output"))
SHORT = 60
"""A string of arguments that is no longer may be a name, or hold some."""
AGES = (1, 2, 5, 10, 20, 50)
"""The bounds of the ages that are told apart, in requests."""


@dataclass(frozen=True, slots=True)
class Used:
    """An identifier that an answer used. `age`: requests since it came up last.

    The first `known` of the `places` are the messages before the answer that hold it.
    """

    name: str
    places: Sequence[int]
    known: int
    age: int

    def is_in(self, present: Sequence[int]) -> bool:
        """Whether any of these messages is present."""
        return any(present[self.places[nth]] for nth in range(self.known - 1, -1, -1))


@dataclass(frozen=True, slots=True)
class Need:
    """All that an answer used of what was said before."""

    used: tuple[Used, ...]


def names_in(message: Message) -> frozenset[str]:
    """The identifiers that a message holds."""
    return frozenset(name for text in _texts(message.parts) for name in _found(text))


def needs(
    messages: Sequence[Message], names: Sequence[frozenset[str]], turns: Sequence[Turn], head: Fields
) -> list[Need]:
    """What each turn used of the messages before it, without what the system prompt and the tools say already.

    `names` are the identifiers of each message.
    """
    given = set(_found(_written(head)))
    for message, own in zip(messages, names, strict=True):
        if message.is_system:
            given |= own
    places: dict[str, list[int]] = {}
    starts = [turn.at for turn in turns]
    read = 0
    found: list[Need] = []
    for number, turn in enumerate(turns):
        for at in range(read, turn.at):
            if not messages[at].is_system:
                for name in names[at]:
                    places.setdefault(name, []).append(at)
        read = max(read, turn.at)
        wanted = {name for message in messages[turn.at : turn.end] for name in _used(message)} - given
        used = []
        for name in sorted(wanted & places.keys()):
            seen = places[name]
            used.append(Used(name, seen, len(seen), number - bisect_right(starts, seen[-1])))
        found.append(Need(tuple(used)))
    return found


def bucket(age: int) -> int:
    """Which of the ages it is: an index, `len(AGES)` for the oldest."""
    return bisect_right(AGES, age)


def labels() -> list[str]:
    """The names of the ages."""
    bounds = (0, *AGES)
    spans = [(low, high - 1) for low, high in zip(bounds, AGES, strict=False)]
    return [f"{low}" if low == high else f"{low}-{high}" for low, high in spans] + [f"{AGES[-1]}+"]


def _used(message: Message) -> set[str]:
    """The identifiers of what an answer says and calls; what it thinks does not count."""
    names: set[str] = set()
    for part in message.parts:
        if type(part) is Text:
            names.update(_found(part.text, proper=False))
        elif type(part) is ToolCall:
            for text in _leaves(_read(part.arguments)):
                names.update(_found(text, proper=len(text) <= SHORT))
    return names


def _found(text: str, proper: bool = True) -> frozenset[str]:
    names: set[str] = set()
    for chunk in CHUNK.findall(text):
        whole = chunk.strip(EDGES)
        names.add(whole)
        if not whole.isalnum():
            names.update(piece.strip(EDGES) for piece in PIECE.split(whole))
    names = {name for name in names if is_identifier(name)}
    names.update(first or second for first, second in QUOTED.findall(text) if " " in (first or second).strip())
    if proper:
        names.update(PROPER.findall(text))
    return frozenset(names)


def is_identifier(name: str) -> bool:
    """Whether a word is a name, a path, an id or a number, and no word of a sentence."""
    if len(name) < 3 or name.lower() in COMMON:
        return False
    if name.isalpha():
        return CAMEL.search(name) is not None
    if any(each.isdigit() for each in name):
        return True
    if "_" in name.strip("_") or "@" in name or "/" in name:
        return any(each.isalpha() for each in name)
    return "." in name and ".." not in name and all(len(piece) > 1 for piece in name.split("."))


def _texts(parts: Iterable[Part]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, Text | Reasoning):
            yield part.text
        elif isinstance(part, ToolResult):
            yield from _texts(part.parts)
        elif isinstance(part, ToolCall):
            yield part.name or ""
            yield from _leaves(_read(part.arguments))


def _read(arguments: Json) -> Json:
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def _leaves(value: Json) -> Iterator[str]:
    """The strings and numbers of a JSON value, without its keys."""
    rest = [value]
    while rest:
        each = rest.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, int | float) and not isinstance(each, bool):
            yield str(each)
        elif isinstance(each, dict):
            rest += reversed(each.values())
        elif isinstance(each, list | tuple):
            rest += reversed(each)


def _written(head: Fields) -> str:
    return shape.dump(dict(head)) if head else ""
