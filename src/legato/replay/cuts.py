"""A session as the offline optimum sees it: units that can be whole, cleared or dropped, and what each request needs.

The family of cuts: before request t the results of all units before `clear` are a line each and the units before `drop`
are gone (`drop <= clear`), save the first that a user asked. Positions never move back, and never into the newest unit.
What a prompt cache keeps is granted in full: the longest prefix that did not change.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from legato.fit.clear import LINE, Clearing
from legato.fit.units import units
from legato.messages import Message, Part, Text, ToolResult, changed
from legato.replay.evidence import Used
from legato.replay.played import Asked
from legato.replay.prices import Price
from legato.replay.script import Script

NEVER = -1


@dataclass(frozen=True, slots=True)
class Request:
    """One request: how many units it has, what its fixed part costs, and for each name its answer used until when it is
    kept: while `clear` is no more than the one, or `drop` no more than the other (of what no clearing takes away).

    `cold`: the cache had been forgotten when it came.
    """

    units: int
    fixed: int
    names: tuple[tuple[int, int], ...]
    cold: bool


@dataclass(frozen=True)
class Cuts:
    """The sums that tell what any cut costs. `whole[n]`, `short[n]` and `gone[n]` are those of the first n units whole,
    cleared and dropped."""

    requests: tuple[Request, ...]
    whole: Sequence[int]
    short: Sequence[int]
    gone: Sequence[int]
    price: Price
    budget: int

    @classmethod
    def of(cls, script: Script, asked: Sequence[Asked], price: Price, budget: int) -> Cuts:
        """The units of a recording. What is paired wrongly there is taken as it stands."""
        transcript = tuple(line.message for line in script.lines)
        found = units(transcript, script.profile)
        first = next((nth for nth, unit in enumerate(found) if unit.asks), None)
        whole, short, gone = [0], [0], [0]
        unit_of = [NEVER] * len(transcript)
        for nth, unit in enumerate(found):
            own = [at for at in range(unit.start, unit.end) if not transcript[at].is_system]
            for at in own:
                unit_of[at] = nth
            full = sum(script.lines[at].tokens for at in own)
            cleared = full if nth == first else sum(_cleared(script, at) for at in own)
            whole.append(whole[-1] + full)
            short.append(short[-1] + cleared)
            gone.append(gone[-1] + (full if nth == first else 0))
        starts = [unit.start for unit in found]
        head = script.head_tokens(script.head)
        requests = []
        last: float | None = None
        for request in asked:
            system = sum(line.tokens for line in script.lines[: request.at] if line.message.is_system)
            names = tuple(_kept(script, used, unit_of, first) for used in script.needs[request.turn].used)
            ttl = price.rules.ttl
            known = ttl is not None and last is not None and request.time is not None
            cold = known and request.time - last > ttl  # type: ignore[operator]
            last = request.time
            requests.append(Request(bisect_right(starts, request.at - 1), head + system, names, cold))
        return cls(tuple(requests), whole, short, gone, price, budget)

    def size(self, at: int, clear: int, drop: int) -> int:
        """What a request costs under a cut."""
        request = self.requests[at]
        rest = self.whole[request.units] - self.whole[clear]
        return request.fixed + self.gone[drop] + self.short[clear] - self.short[drop] + rest

    def prefix(self, at: int, old: tuple[int, int], new: tuple[int, int]) -> int:
        """The tokens that a request begins with like the one before it, of which the cut was the old one."""
        if at == 0 or self.requests[at].cold:
            return 0
        (clear, drop), fixed = old, self.requests[at - 1].fixed
        while drop < new[1] and self._is_first(drop):
            drop += 1
        if drop < new[1]:
            return fixed + self.gone[drop]
        same = self.unchanged(clear)
        if same < new[0]:
            return fixed + self.gone[old[1]] + self.short[same] - self.short[old[1]]
        return self.size(at - 1, clear, old[1])

    def unchanged(self, clear: int) -> int:
        """The first position from `clear` on whose unit is changed by clearing it."""
        while clear + 1 < len(self.whole) and self.step(self.whole, clear) == self.step(self.short, clear):
            clear += 1
        return clear

    def fresh(self, at: int) -> int:
        """What a request has that the one before it had not."""
        before, now = self.requests[at - 1], self.requests[at]
        return self.whole[now.units] - self.whole[before.units] + now.fixed - before.fixed

    def _is_first(self, unit: int) -> bool:
        return self.step(self.gone, unit) == self.step(self.whole, unit) > 0

    @staticmethod
    def step(sums: Sequence[int], unit: int) -> int:
        """What one unit adds."""
        return sums[unit + 1] - sums[unit]

    def cost(self, at: int, old: tuple[int, int], new: tuple[int, int]) -> float:
        """The dollars of a request under the new cut, after one under the old."""
        return self.charge(self.size(at, *new), self.prefix(at, old, new))

    def charge(self, size: int, prefix: int) -> float:
        """The dollars of so many tokens of which so many were sent before."""
        rules = self.price.rules
        if rules.how == "none":
            return self.price.cost(size, 0, 0)
        cached = prefix if prefix >= rules.minimum else 0
        return self.price.cost(size, cached, size - cached if size >= rules.minimum else 0)

    def kept(self, at: int, clear: int, drop: int) -> int:
        """How many of the names that the answer used are there under a cut."""
        return sum(clear <= whole or drop <= bare for whole, bare in self.requests[at].names)

    def fits(self, at: int, clear: int, drop: int) -> bool:
        """Whether the request is within the budget, and its newest unit whole."""
        return clear < max(1, self.requests[at].units) and self.size(at, clear, drop) <= self.budget


def _cleared(script: Script, at: int) -> int:
    """What a message costs with its results cleared, where that is less."""
    line, clearing = script.lines[at], Clearing()
    if not line.message.results:
        return line.tokens
    parts: list[Part] = []
    for part in line.message.parts:
        if isinstance(part, ToolResult):
            count = sum(script.ledger.text(inner.text) for inner in part.parts if isinstance(inner, Text))
            if count >= clearing.min_tokens:
                line_for_it = Text(LINE.format(tool=part.name or "tool", tokens=count), flat=True)
                parts.append(changed(part, parts=(line_for_it,)))
                continue
        parts.append(part)
    return min(line.tokens, script.ledger.message(changed(line.message, parts=tuple(parts))))


def _kept(script: Script, used: Used, unit_of: Sequence[int], first: int | None) -> tuple[int, int]:
    """The largest `clear` and the largest `drop` under which a name is still there."""
    whole = bare = NEVER
    for at in used.places[: used.known]:
        unit = unit_of[at]
        whole = max(whole, unit)
        message: Message = script.lines[at].message
        if unit == first:
            bare = max(bare, len(unit_of))
        elif not message.results:
            bare = max(bare, unit)
    return whole, bare
