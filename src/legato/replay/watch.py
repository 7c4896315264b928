"""What one policy sends, request after request, and what that comes to."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from time import perf_counter

from legato.errors import GovernanceError
from legato.messages import Fields, Json
from legato.replay.cache import Cache, Hit
from legato.replay.played import Asked, Row
from legato.replay.policies import Change, Choice, Done
from legato.replay.script import Line
from legato.replay.stage import Stage

EDITS = 200
"""So many of the edits that are new in a request are kept, the rest are only counted."""


class Watch:
    """One policy along one session: each request is counted as far as it differs from the one before."""

    def __init__(self, stage: Stage, choice: Choice) -> None:
        self.stage, self.script, self.price = stage, stage.script, stage.price
        self.player = choice.make(stage.setting)
        self.cache = Cache(stage.price.rules)
        self.items: list[Json] = []
        self.lines: list[Line] = []
        self.tokens = [0]
        self.blocks = [0]
        self.head: Fields | None = None
        self.kinds: Counter[str] = Counter()
        self.present = bytearray(len(self.script.lines))
        self.accepted: list[Json] = []
        self.accepted_head: Fields | None = None
        self.known: set[tuple[str, int | None]] = set()
        self.changes: Sequence[Change] = ()
        self.counts: Counter[str] = Counter()

    def request(self, request: Asked) -> Row:
        """What the policy makes of one request."""
        history = self.script.items[: request.at]
        start = perf_counter()
        try:
            sent = self.player.send(history)
        except GovernanceError as problem:
            return self._failed(request, f"{type(problem).__name__}: {problem}", (perf_counter() - start) * 1000)
        spent = (perf_counter() - start) * 1000
        self._take(sent.items, sent.head)
        edits = self._edits(sent.changes)
        over = self.tokens[-1] > self.stage.setting.window - self.stage.setting.max_output
        common, broke, hit = self._common(), False, Hit(0, 0)
        if not over:
            broke = self.accepted_head is not None and common < len(self.accepted)
            hit = self.cache.ask(self.tokens, self.blocks, common, self._lead(), request.time)
            self.accepted, self.accepted_head = self.items, self.head
        lost = tuple(name for name, _ in request.names) if over else self._lost(request.turn)
        return Row(
            turn=request.turn,
            messages=len(self.items),
            tokens=self.tokens[-1],
            common=common,
            cached=hit.cached,
            written=hit.written,
            cost=0.0 if over else self.price.cost(self.tokens[-1], hit.cached, hit.written),
            broke=broke,
            kept=len(request.names) - len(lost),
            lost=lost,
            over=over,
            failure=None,
            kinds=dict(+self.kinds),
            changes=dict(self.counts),
            edits=edits,
            ms=spent,
        )

    def _take(self, items: list[Json], head: Fields) -> None:
        """Go over from what was sent before to this, from the first message that differs."""
        same = prefix(self.items, items)
        for line in self.lines[same:]:
            self.kinds[line.kind] -= line.tokens
            if line.at >= 0:
                self.present[line.at] = 0
        made = {id(line.item): line for line in self.lines if line.at < 0}
        fresh = [made.get(id(item)) or self.script.known(item) for item in items[same:]]
        for line in fresh:
            self.kinds[line.kind] += line.tokens
            if line.at >= 0:
                self.present[line.at] = 1
        self.lines = [*self.lines[:same], *fresh]
        self.items = list(items)
        if self.head is None or head != self.head:
            self.head, base = head, self.script.head_tokens(head)
            shift = base - self.tokens[0]
            self.tokens = [value + shift for value in self.tokens]
            self.kinds["head"] = base
        del self.tokens[same + 1 :], self.blocks[same + 1 :]
        for line in fresh:
            self.tokens.append(self.tokens[-1] + line.tokens)
            self.blocks.append(self.blocks[-1] + line.blocks)

    def _common(self) -> int:
        """How many messages this and the last request that was accepted begin with; -1: their heads differ."""
        if self.accepted_head is None or self.accepted_head != self.head:
            return -1
        return prefix(self.accepted, self.items)

    def _lead(self) -> int:
        lead = 0
        while lead < len(self.lines) and self.lines[lead].message.is_system:
            lead += 1
        return lead

    def _lost(self, turn: int) -> tuple[str, ...]:
        """What the answer used that is in no message of the history that is sent, and in none that was made."""
        gone = [used.name for used in self.script.needs[turn].used if not used.is_in(self.present)]
        if not gone:
            return ()
        made = [line.names for line in self.lines if line.at < 0 and line.names]
        return tuple(name for name in gone if not any(name in names for names in made))

    def _edits(self, changes: Sequence[Change]) -> tuple[Done, ...]:
        """The changes that were not made in an earlier request."""
        if changes is self.changes:
            return ()
        self.changes = changes
        self.counts = Counter()
        new: list[Done] = []
        for change in changes:
            code, at = change.code, change.at
            self.counts[code] += 1
            if (code, at) not in self.known:
                self.known.add((code, at))
                if len(new) < EDITS:
                    new.append(Done(code, at, change.reason, change.tokens))
        return tuple(new)

    def _failed(self, request: Asked, problem: str, spent: float) -> Row:
        lost = tuple(name for name, _ in request.names)
        return Row(request.turn, 0, 0, -1, 0, 0, 0.0, False, 0, lost, False, problem, {}, {}, (), spent)


def prefix(before: list[Json], after: list[Json]) -> int:
    """How many items two lists begin with alike."""
    if after[: len(before)] == before:
        return len(before)
    lengths = range(1, min(len(before), len(after)) + 1)
    return bisect_left(lengths, True, key=lambda length: before[:length] != after[:length])
