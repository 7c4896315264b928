"""What can be compared: legato's own policies by name or file, and the field's (see `peers.py`).

A `Player` steps along one session: it is asked with each request's whole history, and says what would be sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

import legato
from legato import wire
from legato.errors import PolicyError
from legato.messages import Fields, Json
from legato.policy import PRESETS
from legato.replay import peers
from legato.replay.script import Script

NO_LIMIT = 2**50
RULES = legato.Policy(window=NO_LIMIT, max_output=0, reserve=0, microcompact=None)
"""Nothing is saved: only what the provider would refuse is mended."""


class Change(Protocol):
    """What was changed: the code and the reason, the message of the history (None: the head), the tokens it cost."""

    @property
    def code(self) -> str: ...
    @property
    def at(self) -> int | None: ...
    @property
    def reason(self) -> str: ...
    @property
    def tokens(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Done:
    """A change as it is kept."""

    code: str
    at: int | None
    reason: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Sent:
    """What a policy sends for one request. `changes` is the same object as long as nothing more was changed."""

    items: list[Json]
    head: Fields
    changes: Sequence[Change]


class Player(Protocol):
    def send(self, items: list[Json]) -> Sent:
        """What would be sent of this history. Raises `GovernanceError` where the policy can send nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Setting:
    """What every policy is given: the session, the window, the room for the answer and what is left for the request."""

    script: Script
    window: int
    max_output: int
    budget: int


@dataclass(frozen=True, slots=True)
class Choice:
    """A policy by its name. `about` says what it does, `source` whose published behaviour it is (empty: our own)."""

    name: str
    about: str
    make: Callable[[Setting], Player]
    source: str = ""


class Raw:
    """The history as it is."""

    def __init__(self, setting: Setting) -> None:
        self.head = setting.script.head

    def send(self, items: list[Json]) -> Sent:
        return Sent(items, self.head, ())


class Governed:
    """A policy of legato's, in a `legato.Session`."""

    def __init__(self, setting: Setting, policy: legato.Policy) -> None:
        self.script = setting.script
        sizes = {"window": setting.window, "max_output": setting.max_output}
        self.session = legato.Session(
            setting.script.profile,
            msgspec.structs.replace(policy, **sizes),
            format=setting.script.profile.format,
        )

    def send(self, items: list[Json]) -> Sent:
        governed = self.session.prepare(self.script.payload(items))
        return Sent(governed.messages, head_of(governed.body, self.script.key), governed.report.changes)


class Mended:
    """A peer's cut, and what the provider would refuse of it mended by legato's rules, so that each can be sent."""

    def __init__(self, setting: Setting, peer: peers.Peer) -> None:
        self.script, self.peer = setting.script, peer
        self.session = legato.Session(setting.script.profile, RULES, format=setting.script.profile.format)
        self._cuts: Sequence[Done] = ()
        self._state: tuple[int, int] = (0, 0)
        self._mended: Sequence[Change] = ()
        self._changes: Sequence[Change] = ()

    def send(self, items: list[Json]) -> Sent:
        cut = self.peer.send(items)
        governed = self.session.prepare(self.script.payload(cut))
        head = head_of(governed.body, self.script.key)
        return Sent(governed.messages, head, self._noted(governed.report.changes))

    def _noted(self, mended: Sequence[Change]) -> Sequence[Change]:
        """Its own cuts, then what was mended. The indexes of the latter are those of the cut, so they are left out."""
        state = (len(self.peer.cleared), len(self.peer.dropped))
        if state != self._state or mended is not self._mended:
            codes = [Done(change.code, None, "mended after the cut", 0) for change in mended]
            cleared = [Done("cleared", at, self.peer.why, saved) for at, saved in self.peer.cleared.items()]
            dropped = [Done("dropped", at, self.peer.why_dropped, saved) for at, saved in self.peer.dropped.items()]
            self._changes, self._state, self._mended = (*cleared, *dropped, *codes), state, mended
        return self._changes


def head_of(body: Json, key: str) -> Fields:
    """The fields of a body that are not its messages; none of a bare list."""
    return {name: value for name, value in body.items() if name != key} if isinstance(body, dict) else {}


def _own(name: str, policy: legato.Policy, about: str) -> Choice:
    return Choice(name, about, lambda setting: Governed(setting, policy))


def _peer(name: str, kind: type[peers.Peer], about: str, source: str, sizes: Mapping[str, float]) -> Choice:
    def make(setting: Setting) -> Player:
        given = peers.Limits(setting.window, setting.budget, setting.script.head_tokens(setting.script.head))
        read = {id(line.item): peers.Piece.of(line.message, line.tokens) for line in setting.script.lines}
        codec = wire.codec(setting.script.profile.format)
        return Mended(setting, kind(given, read, codec, setting.script.ledger.message, **sizes))

    return Choice(name, about, make, source)


CHOICES: dict[str, Choice] = {
    choice.name: choice
    for choice in (
        Choice("none", "nothing is done, until the window overflows", Raw),
        _own("document", legato.Policy(), "old results of eight tools become a line at once, then the oldest units go"),
        _own("cache-friendly", legato.Policy.cache_friendly(), "nothing until the window is full, then much at once"),
        *(_peer(*row) for row in peers.TABLE),
    )
}
"""Every policy that has a name, in the order of the table."""

DEFAULT = tuple(CHOICES)


def choose(names: Sequence[str]) -> list[Choice]:
    """The policies of these names; what is none of them is a TOML file (see `Policy.load`). Raises `PolicyError`."""
    found = []
    for name in names:
        if name in CHOICES:
            found.append(CHOICES[name])
            continue
        if not Path(name).is_file():
            raise PolicyError(f"no policy {name!r}: neither a file nor one of {', '.join(CHOICES)}")
        found.append(_own(name, legato.Policy.load(name), "a policy file"))
    return found


__all__ = ["CHOICES", "DEFAULT", "PRESETS", "Choice", "Done", "Player", "Sent", "Setting", "choose"]
