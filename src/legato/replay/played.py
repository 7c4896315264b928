"""What a replay found: a row a request, the sum of a policy, and the JSON of it all.

`Replay.to_dict` is what the page, `--json` and the tests read; docs/replay.md lists its fields. Its `version` grows
when one of them changes its meaning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from legato.messages import Json
from legato.replay import evidence
from legato.replay.policies import Done
from legato.replay.prices import Price

VERSION = 1


@dataclass(frozen=True, slots=True)
class Asked:
    """One request of the recording, whatever the policy. `tokens` are those of the whole history.

    `refused` are the codes of what the provider would refuse in it as it is, `reported` what the provider counted,
    `names` the identifiers its answer used of what was said before, with their ages.
    """

    turn: int
    at: int
    end: int
    time: float | None
    tokens: int
    answer: int
    reported: int | None
    refused: tuple[str, ...]
    names: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One request under one policy. Tokens throughout, `cost` in dollars, `ms` spent on governing.

    `common` is the number of messages that it begins with like the request before it (-1: not even the head), `broke`
    whether something that was sent before was changed. `lost` are the identifiers its answer used that are not in it.
    `failure`: nothing could be sent, and why. `over`: more than the window takes, so that it costs and caches nothing.
    """

    turn: int
    messages: int
    tokens: int
    common: int
    cached: int
    written: int
    cost: float
    broke: bool
    kept: int
    lost: tuple[str, ...]
    over: bool
    failure: str | None
    kinds: Mapping[str, int]
    changes: Mapping[str, int]
    edits: tuple[Done, ...]
    ms: float

    @property
    def refused(self) -> bool:
        return self.over or self.failure is not None

    def to_dict(self) -> dict[str, Json]:
        fields: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        fields["cost"], fields["ms"] = round(self.cost, 8), round(self.ms, 3)
        fields["lost"] = list(self.lost)
        fields["edits"] = [[edit.code, edit.at, edit.tokens, edit.reason] for edit in self.edits]
        return fields


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums of one policy. `ages` are (used, kept) for each age of `evidence.labels()`; `tokens` and what follows up
    to `answers` count only requests that the provider takes. `shares` is the sum of the share that each answer had of
    what it used, over the `informed` ones that used anything."""

    requests: int = 0
    tokens: int = 0
    cached: int = 0
    written: int = 0
    cost: float = 0.0
    answers: float = 0.0
    breaks: int = 0
    used: int = 0
    kept: int = 0
    informed: int = 0
    shares: float = 0.0
    refused: int = 0
    over: int = 0
    ms: float = 0.0
    ages: tuple[tuple[int, int], ...] = ((0, 0),) * (len(evidence.AGES) + 1)
    changes: Mapping[str, int] = field(default_factory=dict)

    @property
    def evidence(self) -> float:
        """The share that was kept; 1 where nothing was used."""
        return self.kept / self.used if self.used else 1.0

    @property
    def per_answer(self) -> float:
        """The same with every answer counting alike, however many names it used."""
        return self.shares / self.informed if self.informed else 1.0

    @property
    def share(self) -> float:
        """The share of what was sent that came from the cache."""
        return self.cached / self.tokens if self.tokens else 0.0

    def __add__(self, other: Totals) -> Totals:
        sums = {
            name: getattr(self, name) + getattr(other, name)
            for name in self.__slots__
            if name not in ("ages", "changes")
        }
        ages = tuple((a + c, b + d) for (a, b), (c, d) in zip(self.ages, other.ages, strict=True))
        return Totals(**sums, ages=ages, changes=Counter(self.changes) + Counter(other.changes))

    def to_dict(self) -> dict[str, Json]:
        fields: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        fields["cost"], fields["answers"] = round(self.cost, 8), round(self.answers, 8)
        fields["ms"], fields["shares"] = round(self.ms, 3), round(self.shares, 6)
        fields["changes"] = dict(sorted(self.changes.items()))
        ages = zip(evidence.labels(), self.ages, strict=True)
        fields["ages"] = [{"age": label, "used": used, "kept": kept} for label, (used, kept) in ages]
        return {
            **fields,
            "evidence": round(self.evidence, 6),
            "per_answer": round(self.per_answer, 6),
            "share": round(self.share, 6),
        }


@dataclass(frozen=True)
class Played:
    """A recording under one policy."""

    name: str
    about: str
    source: str
    rows: tuple[Row, ...]
    totals: Totals

    def to_dict(self) -> dict[str, Json]:
        return {
            "name": self.name,
            "about": self.about,
            "source": self.source,
            "totals": self.totals.to_dict(),
            "requests": [row.to_dict() for row in self.rows],
        }


@dataclass(frozen=True)
class Shown:
    """A message of the history as the page shows it. `text` is None unless contents were asked for."""

    role: str
    kind: str
    tokens: int
    text: str | None = None


@dataclass(frozen=True)
class Replay:
    """One recording under several policies."""

    file: str
    label: str
    source: str
    format: str
    profile: str
    model: str | None
    window: int
    max_output: int
    budget: int
    price: Price
    head: int
    messages: tuple[Shown, ...]
    asked: tuple[Asked, ...]
    policies: tuple[Played, ...]
    notes: tuple[str, ...] = ()
    optimum: Json = None

    @cached_property
    def where(self) -> str:
        return f"{self.file}#{self.label}" if self.label else self.file

    def to_dict(self) -> dict[str, Json]:
        """All of it as JSON. What messages say is in it only where `replay` was told to keep contents."""
        price = {name: value for name, value in msgspec.to_builtins(self.price).items() if name != "caching"}
        return {
            "version": VERSION,
            "file": self.file,
            "label": self.label,
            "source": self.source,
            "format": self.format,
            "profile": self.profile,
            "model": self.model,
            "window": self.window,
            "max_output": self.max_output,
            "budget": self.budget,
            "price": {**price, "caching": msgspec.to_builtins(self.price.rules)},
            "head": self.head,
            "ages": evidence.labels(),
            "messages": [
                {"role": each.role, "kind": each.kind, "tokens": each.tokens, "text": each.text}
                for each in self.messages
            ],
            "requests": [msgspec.to_builtins(each) for each in self.asked],
            "policies": [played.to_dict() for played in self.policies],
            "notes": list(self.notes),
            "optimum": self.optimum,
        }


def total(rows: Sequence[Row], asked: Sequence[Asked], price: Price) -> Totals:
    """The sums over the requests of one policy."""
    taken = [row for row in rows if not row.refused]
    ages = [[0, 0] for _ in range(len(evidence.AGES) + 1)]
    for row, request in zip(rows, asked, strict=True):
        lost = set(row.lost)
        for name, age in request.names:
            ages[evidence.bucket(age)][0] += 1
            ages[evidence.bucket(age)][1] += name not in lost
    answered = {row.turn for row in taken}
    changes: Counter[str] = Counter()
    for row in rows:
        changes.update(edit.code for edit in row.edits)
    return Totals(
        requests=len(rows),
        tokens=sum(row.tokens for row in taken),
        cached=sum(row.cached for row in taken),
        written=sum(row.written for row in taken),
        cost=sum(row.cost for row in taken),
        answers=sum(price.answer(request.answer) for request in asked if request.turn in answered),
        breaks=sum(row.broke for row in taken),
        used=sum(used for used, _ in ages),
        kept=sum(kept for _, kept in ages),
        informed=sum(bool(request.names) for request in asked),
        shares=sum(row.kept / len(request.names) for row, request in zip(rows, asked, strict=True) if request.names),
        refused=sum(row.refused for row in rows),
        over=sum(row.over for row in rows),
        ms=sum(row.ms for row in rows),
        ages=tuple((used, kept) for used, kept in ages),
        changes=changes,
    )
