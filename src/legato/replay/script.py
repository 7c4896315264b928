"""A recording as it is played: each message decoded and counted once, whatever number of policies send it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil

from legato import wire
from legato.messages import Fields, Json, Message
from legato.profiles import Profile
from legato.replay import evidence
from legato.report import Ledger
from legato.tokens import RATES, counting, head_tokens
from legato.transcripts.recording import Recording, Turn

STEERING = ("_origin", "_pin", "_summary")
"""The caller's notes that have a say in what is sent. All others are left out before anything is played."""


@dataclass(slots=True, eq=False)
class Line:
    """A message: as it is sent, as it is read, and what it costs. `at` is its index in the history, -1: it is none."""

    item: Json
    message: Message
    tokens: int
    at: int = -1
    _names: frozenset[str] | None = field(default=None, repr=False)

    @property
    def blocks(self) -> int:
        return max(1, len(self.message.parts))

    @property
    def kind(self) -> str:
        """`system`, `user`, `assistant`, or `tool` for what brings results."""
        if self.message.is_system:
            return "system"
        return "tool" if self.message.results else self.message.role

    @property
    def names(self) -> frozenset[str]:
        """The identifiers in it."""
        if self._names is None:
            self._names = evidence.names_in(self.message)
        return self._names


class Script:
    """What is played: the lines of a recording, and its answers."""

    def __init__(self, recording: Recording, profile: Profile) -> None:
        self.recording = recording
        self.profile = profile
        self.head: Fields = recording.head
        self.key = wire.codec(recording.format).KEY
        self.items = [_kept(item) for item in recording.messages]
        count, factor = counting(profile)
        self.ledger = Ledger(count, RATES[profile.rates], wire.codec(profile.format).encode, factor)
        self.lines = [self.line(item, at) for at, item in enumerate(self.items)]
        self.by_id = {id(line.item): line for line in self.lines}

    @property
    def turns(self) -> tuple[Turn, ...]:
        return self.recording.turns

    def line(self, item: Json, at: int = -1) -> Line:
        """A message read and counted. Raises `WireError`."""
        (message,) = wire.read([item], self.profile.format).transcript
        return Line(item, message, self.ledger.message(message), at)

    def known(self, item: Json) -> Line:
        """The line of a message that may be the history's own."""
        found = self.by_id.get(id(item))
        return self.line(item) if found is None else found

    def payload(self, items: list[Json]) -> Json:
        """These messages in the shape of the recording: a list, or a body where it has a head."""
        return {**self.head, self.key: items} if self.head else items

    def head_tokens(self, head: Fields) -> int:
        """What the head of a request costs."""
        return ceil(head_tokens(head, self.ledger.count, self.ledger.rates) * self.ledger.factor)

    def requests(self) -> Iterator[tuple[int, Turn]]:
        """The answers that a request was made for, with the number of each."""
        return ((number, turn) for number, turn in enumerate(self.turns) if turn.at > 0)

    @cached_property
    def needs(self) -> list[evidence.Need]:
        """What each answer used of what was said before it."""
        messages, names = [line.message for line in self.lines], [line.names for line in self.lines]
        return evidence.needs(messages, names, self.turns, self.head)


def _kept(item: Json) -> Json:
    if isinstance(item, dict) and any(key[:1] == "_" and key not in STEERING for key in item):
        return {key: value for key, value in item.items() if key[:1] != "_" or key in STEERING}
    return item
