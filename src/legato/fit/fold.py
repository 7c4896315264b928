"""The cache-friendly cut: rare, large, and at the same place until the window is full again.

A provider's prompt cache pays only for a prefix that did not change, so what is cut must move seldom. Nothing is
stored for that: on a history that only grows, every earlier request can be told from the history itself (each
assistant turn answered one), and the cut is a left fold over those requests. Whenever one of them would have been
over the budget, results are cleared, then arguments, then the oldest units dropped, until it is down to the target;
then nothing moves until the budget is full again. So any number of processes agree, and a crash forgets nothing.

What must stay (what is pinned, the newest unit, the question it answers) is cut in the middle where even that alone is
over the budget. The target is a share of what is left beside it, so that however large it is some context stays too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

import msgspec

from legato.edits import Edit, Request
from legato.errors import PolicyError
from legato.fit import clear, shrink
from legato.fit.microcompact import Keep
from legato.fit.snip import OVER
from legato.fit.units import Unit, units
from legato.messages import Message, Text, ToolResult, changed
from legato.pairing import Call
from legato.profiles import Profile
from legato.rules.role import BRIDGE

ROOM = 0.99
"""The share of the budget that is filled: what the last repair may add is only known when it is done."""

Pin = Callable[[Message], bool]
"""Whether a message must stay as it is, with its whole unit."""


class Fold(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the cut is made."""

    target: float = 0.5
    """How far down a full window is cut: a share of what of the budget is left beside what must stay."""
    newest: int = 8
    """So many of the newest units of a request are spared, as far as they fit the target."""
    first: bool = True
    """The first thing a user asked stays, whole as long as what must stay fits."""
    pin: str = "_pin"
    """The caller's note that pins the unit of its message."""
    clearing: clear.Clearing = clear.Clearing()
    """Which results and arguments are cleared, and what stands for them."""

    def __post_init__(self) -> None:
        if not 0 < self.target < 1:
            raise PolicyError(f"target must be a share of the budget between 0 and 1, not {self.target}")
        if self.newest < 1:
            raise PolicyError(f"at least the newest unit has to stay: newest is {self.newest}")


class Broke(msgspec.Struct, frozen=True):
    """A fold that was made: before the request that message `at` answered, the prefix was kept up to `kept`.

    Both are the caller's own indexes; `at` is None for the request that is being made now.
    """

    at: int | None
    kept: int


def room(budget: int, head: int) -> int:
    """What the messages may cost beside a head of so many tokens."""
    return max(1, int((budget - head) * ROOM))


def bridge(profile: Profile, cost: Callable[[Message], int]) -> int:
    """What the assistant message costs that will stand between a result and a user message."""
    return 0 if profile.user_after_result else cost(Message("assistant", (Text(BRIDGE, flat=True),)))


def bridges(request: Request, profile: Profile, cost: Callable[[Message], int]) -> int:
    """What all of them cost at most."""
    each = bridge(profile, cost)
    return each * sum(message.role == "user" for message in request.transcript) if each else 0


def _share(room: int, costs: list[int]) -> int:
    """The most that each of these may cost so that all fit the room."""
    share, long = room, sorted(costs)
    while long:
        share = room // len(long)
        if long[0] > share:
            break
        room -= long.pop(0)
    return share


class Walk:
    """The state of the fold while it walks from request to request: what each unit costs now, and their sum.

    `cost` and `measure` are the tokens of a message and of a text as the provider counts them, `count` those that the
    lines which stand for results name.
    """

    def __init__(
        self,
        profile: Profile,
        fold: Fold,
        budget: int,
        cost: Callable[[Message], int],
        count: Callable[[str], int],
        measure: Callable[[str], int],
        keep: Keep | None = None,
        pinned: Pin | None = None,
    ) -> None:
        self.profile, self.fold, self.budget, self.cost, self.measure = profile, fold, budget, cost, measure
        self.bridge = bridge(profile, cost)
        self.transcript: list[Message] = []
        self.units: list[Unit] = []
        self.clear = clear.Cleared(self.transcript, fold.clearing, count, keep)
        self.pinned: set[int] = set()
        self.openers: list[int | None] = [None]
        self.costs: list[int] = []
        self.total = 0
        self.opener_cost = 0
        self.cleared = self.argued = self.dropped = 0
        self.repeats: deque[clear.Repeat] = deque()
        self.broke: list[Broke] = []
        self._pin = pinned
        self._held: set[int] = set()
        self._task: int | None = None
        self._pinned_cost = 0
        self._unit_at: list[int] = []
        self._stays: list[int] = []
        self._counted = self._system_cost = 0
        self._lowest = 0
        """The first unit that the fold which is being made has touched."""

    def read(self, messages: Sequence[Message], calls: Iterable[Call]) -> None:
        """Take on more messages, whole units of them, folding at every request among them that is over the budget.

        `calls` are theirs, with their places counted from the first of the messages.
        """
        offset = len(self.transcript)
        self.transcript += messages
        fresh = [Unit(unit.start + offset, unit.end + offset, unit.asks) for unit in units(messages, self.profile)]
        self._place(fresh)
        self.repeats.extend(self.clear.learn(calls, offset, self._unit_at))
        if self.broke and self.broke[-1].at is None and fresh:
            self.broke[-1] = Broke(self._index(fresh[0].start), self.broke[-1].kept)
        for unit in fresh:
            system = self._system(self.units[-1].end if self.units else 0)
            i = len(self.units)
            self.units.append(unit)
            if self.transcript[unit.start].role == "assistant":
                self._reach(i, system)
            self._judge(i, unit)
            self.costs.append(self._own(unit))
            self.total += self.costs[i]
            self._pinned_cost += self.costs[i] if i in self.pinned else 0

    def reach(self) -> int:
        """Fold if the request that is made of all that was read is over the budget. What it costs."""
        system = self._system(len(self.transcript))
        self._reach(len(self.units), system)
        return self._size(system)

    def kept(self) -> list[Message]:
        """What the last request sends, before any repair."""
        opener = self.openers[self.dropped]
        places = [*self._stays, *range(self.units[self.dropped - 1].end if self.dropped else 0, len(self.transcript))]
        if opener is None or self._unit_at[opener] >= self.dropped or self._unit_at[opener] in self.pinned:
            return [self.clear.now(at) for at in places]
        places = sorted([*places, opener])
        return [self._opener(at) if at == opener else self.clear.now(at) for at in places]

    def edits(self) -> list[Edit]:
        """What turns the transcript into what the last request sends."""
        made: list[Edit] = []
        opener = self.openers[self.dropped]
        for i, unit in enumerate(self.units[: self.dropped]):
            if i not in self.pinned:
                made.extend(self._drop(at, opener) for at in self._places(unit) if at != opener or self._is_mixed(at))
        cleared = self.clear.edits()
        gone = {edit.at for edit in made}
        return made + [edit for edit in cleared if edit.at not in gone and not self._is_gone(edit.at, opener)]

    def _reach(self, end: int, system: int) -> None:
        """The request whose newest unit stands before `end`: fold if it is over the budget."""
        if self._size(system) <= self.budget or end == 0:
            return
        self._lowest = end
        if self._stay(end, system) > self.budget:
            self._shrink(end, system)
        stay = self._stay(end, system)
        goal = stay + self.fold.target * max(0, self.budget - stay)
        limit = self._spared(end, goal - stay)
        self._clear_repeats(end, limit, system, goal)
        self._advance(limit, system, goal)
        self._advance(end - 1, system, goal)  # the message that opens the units that are spared may be large
        if self._lowest < end:
            self.broke.append(self._report(end, self._lowest))

    def _stay(self, end: int, system: int) -> int:
        """What the least that can be sent costs: what is pinned, the newest unit, the question that it answers."""
        asked, newest = self._asked(end), 0 if end - 1 in self.pinned else self.costs[end - 1]
        return system + self._pinned_cost + newest + (0 if asked is None else self.cost(self._opener(asked)))

    def _asked(self, end: int) -> int | None:
        """The question that the newest unit answers, if that is in a unit that may be dropped."""
        asked = self.openers[end - 1]
        return None if asked is None or self._unit_at[asked] in self.pinned else asked

    def _spared(self, end: int, room: float) -> int:
        """The first of the newest units that are left alone: so many as fit beside the very newest."""
        first = end - 1
        while first > max(0, end - self.fold.newest) and self.costs[first - 1] <= room:
            first -= 1
            room -= self.costs[first]
        return first

    def _shrink(self, end: int, system: int) -> None:
        """Cut the texts of what must stay, which does not fit.

        The long ones go down to an equal share of what the rest of it leaves, with one share for all the other units.
        A first question is cut no more than it has to be: there is nothing else yet. What the caller pins stays.
        """
        asked = self._asked(end)
        question = None if asked is None else self._unit_at[asked]
        found = [i for i in dict.fromkeys((end - 1, question, self._task)) if i is not None and i not in self._held]
        gone = question if question is not None and question < self.dropped else None
        places = {i: [asked] if i == gone and asked is not None else self._places(self.units[i]) for i in found}
        sent = {i: tuple([self._opener(at) if i == gone else self.clear.now(at) for at in places[i]]) for i in found}
        costs = {i: sum(map(self.cost, messages)) for i, messages in sent.items()}
        room = self.budget - self._stay(end, system) + sum(costs.values())
        share = _share(room, [*costs.values(), *([room] if end > 1 else [])])
        for i, messages in sent.items():
            saved = 0
            for edit in shrink.plan(Request({}, messages), costs[i] - share, self.measure, self.clear.keep):
                saved += self.clear.put(places[i][edit.at], edit.new[0], shrink.LONG, edit.reason, self.cost)
            if i == gone:
                self.opener_cost -= saved
                self._lowest = min(self._lowest, i)
            else:
                self._save(i, saved)

    def _save(self, i: int, saved: int) -> None:
        """Note that a unit costs so much less."""
        if saved > 0:
            self._lowest = min(self._lowest, i)
        self.costs[i] -= saved
        self.total -= saved
        self._pinned_cost -= saved if i in self.pinned else 0

    def _advance(self, limit: int, system: int, goal: float) -> None:
        """Clear results, then arguments, then drop units, before the unit `limit`, until the goal is reached."""
        while self._size(system) > goal and self.cleared < limit:
            self._change(self.cleared, self.clear.results)
            self.cleared += 1
        while self._size(system) > goal and self.argued < min(self.cleared, limit):
            self._change(self.argued, self.clear.arguments)
            self.argued += 1
        while self._size(system) > goal and self.dropped < limit:
            self._forget(self.dropped)
            self.dropped += 1

    def _clear_repeats(self, end: int, limit: int, system: int, goal: float) -> None:
        """Clear what a later call of this request read again."""
        while self.repeats and self.repeats[0].again < end and self._size(system) > goal:
            repeat = self.repeats.popleft()
            if repeat.unit < limit and repeat.unit >= self.cleared and repeat.unit not in self.pinned:
                self._save(repeat.unit, self.clear.result(repeat.at, repeat.part, self.cost))

    def _change(self, i: int, step: Callable[[int, Callable[[Message], int]], int]) -> None:
        """Take a step of clearing in every message of a unit that is not pinned."""
        if i in self.pinned or i < self.dropped:
            return
        self._save(i, sum(step(at, self.cost) for at in self._places(self.units[i])))

    def _forget(self, i: int) -> None:
        for at in range(self.units[i - 1].end if i else 0, self.units[i].end):
            if i in self.pinned or self.transcript[at].is_system:
                self._stays.append(at)
        if i not in self.pinned:
            self._save(i, self.costs[i])
        opener = self.openers[i + 1]
        kept = opener is None or self._unit_at[opener] in self.pinned or self._unit_at[opener] > i
        self.opener_cost = 0 if kept or opener is None else self.cost(self._opener(opener))

    def _size(self, system: int) -> int:
        return self.total + self.opener_cost + system

    def _system(self, end: int) -> int:
        """What the system messages before a position cost. Asked for ever later positions."""
        while self._counted < end:
            message = self.transcript[self._counted]
            self._system_cost += self.cost(message) if message.is_system else 0
            self._counted += 1
        return self._system_cost

    def _own(self, unit: Unit) -> int:
        """What a unit costs whole, with the bridges between results and user messages where the provider wants them."""
        places = self._places(unit)
        bridged = [at for at in places if at > 0 and self._is_bridged(at)] if self.bridge else ()
        return sum(self.cost(self.transcript[at]) for at in places) + self.bridge * len(bridged)

    def _is_bridged(self, at: int) -> bool:
        message = self.transcript[at]
        return message.role == "user" and message.says_something and bool(self.transcript[at - 1].results)

    def _places(self, unit: Unit) -> list[int]:
        transcript = self.transcript
        return [at for at in range(unit.start, unit.end) if not transcript[at].is_system]

    def _place(self, fresh: Sequence[Unit]) -> None:
        """Note the unit of each new message; a system message has that of the unit before it."""
        found = self._unit_at
        for i, unit in enumerate(fresh, len(self.units)):
            found.extend([max(0, i - 1)] * (unit.start - len(found)))
            found.extend([i] * (unit.end - len(found)))
        found.extend([max(0, len(self.units) + len(fresh) - 1)] * (len(self.transcript) - len(found)))

    def _judge(self, i: int, unit: Unit) -> None:
        """Note whether a unit is pinned, and which user message has to stay where the cut falls behind it."""
        messages = self.transcript[unit.start : unit.end]
        if any(map(self._is_pinned, messages)):
            self._held.add(i)
        if self._task is None and unit.asks and self.fold.first:
            self._task = i
        if i in self._held or i == self._task:
            self.pinned.add(i)
        before = self.openers.pop()
        self.openers.append(None if messages[0].role == "user" and unit.asks else before)
        asking = [unit.start + at for at, message in enumerate(messages) if message.asks]
        self.openers.append(asking[-1] if asking else before)

    def _is_pinned(self, message: Message) -> bool:
        return bool(message.extra.get(self.fold.pin)) or (self._pin is not None and self._pin(message))

    def _is_mixed(self, at: int) -> bool:
        return bool(self.transcript[at].results)

    def _opener(self, at: int) -> Message:
        message = self.clear.now(at)
        said = tuple([part for part in message.parts if type(part) is not ToolResult])
        return message if len(said) == len(message.parts) else changed(message, parts=said)

    def _drop(self, at: int, opener: int | None) -> Edit:
        if at == opener:
            return Edit(at, (self._opener(at),), OVER.code, "its results were dropped to fit the budget")
        return Edit(at, (), OVER.code, "dropped to fit the budget")

    def _is_gone(self, at: int, opener: int | None) -> bool:
        unit = self._unit_at[at]
        return unit < self.dropped and unit not in self.pinned and at != opener

    def _report(self, end: int, lowest: int) -> Broke:
        answered = self.units[end].start if end < len(self.units) else None
        return Broke(None if answered is None else self._index(answered), self._index(self.units[lowest].start) or 0)

    def _index(self, at: int) -> int | None:
        """The caller's own index of a message; of a synthetic one, that of its nearest neighbour."""
        order = chain(range(at, -1, -1), range(at + 1, len(self.transcript)))
        return next((self.transcript[place].origin[0] for place in order if self.transcript[place].origin), None)
