"""What a reader of one agent's session files is, and what it takes to write one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from legato.messages import Fields, Json
from legato.transcripts.recording import Thread
from legato.transcripts.source import Source


@dataclass(frozen=True, slots=True)
class Writer:
    """How a message is written into a record of the format.

    `path` is where the message stands in its record. `fields(wire, old)` are the record's own words for a wire message
    that was changed, `old` those it had. `record(wire, neighbour, seed)` is a new record: what it does not know it
    takes from its neighbour, and its ids are made of `seed`. `links` are the fields of a record's id and its parent's,
    and `ident` makes an id. `merged`: a record holds calls and their results, so `fields` gets the list of messages
    that one became. `counter` is the field of the first record that counts messages from the start.
    `keeps` is the field in which a compaction names the first record that it keeps.
    `numbered` is the field that numbers the records: a file with it takes no new ones, and none can be taken out.
    `container` is where the list of records stands in a document; None: it is a file of lines.
    """

    record: Callable[[Json, Json, str], Json]
    path: tuple[str, ...] = ()
    fields: Callable[[Json, Json], Fields] = lambda wire, old: wire  # noqa: ARG005 - they are the same words
    links: tuple[str, str] | None = None
    ident: Callable[[str], str] = str
    merged: bool = False
    counter: str | None = None
    numbered: str | None = None
    keeps: str | None = None
    container: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Reader:
    """`sniff` tells by the first values whether a file is of this format; `threads` are its conversations."""

    name: str
    title: str
    sniff: Callable[[Source, Sequence[Json]], bool]
    threads: Callable[[Source], Iterator[Thread]]
    writer: Writer | None = None
    why_not: str = ""
    """Why the format cannot be written."""


def fields(value: Json) -> dict[str, Json]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def objects(values: Sequence[Json]) -> list[dict[str, Json]]:
    """The objects among the values."""
    return [value for value in values if isinstance(value, dict)]
