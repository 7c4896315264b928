"""Dropping the oldest units until the rest fits (the document's snip).

The newest units are kept as long as they fit; the system messages and the newest thing a user asked always are. What
is kept starts with a user message: where the cut falls into the middle of a turn, the message that opened the turn
stays and the units between go. So one turn that is larger than the budget loses its oldest steps, never its task.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from legato.edits import Edit
from legato.fit.units import Unit, units
from legato.messages import Message, ToolResult, changed
from legato.profiles import Profile
from legato.rules.violation import Rule

OVER = Rule("SIZE002", "history-over-budget", "The history does not fit the budget.")
SUMMED = Rule(
    "SIZE007", "summarised-history", "Units that no longer fit are replaced by a summary the caller had made."
)

ATTEMPTS = 4
"""How often the estimate of what the repairs will cost is corrected before units go one by one."""


class Cut:
    """The ways to cut a transcript that may grow: cut `k` keeps unit `k` and all newer ones, the last one the least.

    `dropped` is the one that was made.
    """

    def __init__(self, profile: Profile, cost: Callable[[Message], int]) -> None:
        self.profile, self.cost = profile, cost
        self.transcript: list[Message] = []
        self.units: list[Unit] = []
        self.openers: list[int | None] = []
        """For each cut the user message before it that stays: none where it starts with one, or has none before."""
        self.dropped = 0
        self._alone = {role: cost(Message(role)) - 1 for role in ("user", "assistant") if profile.alternates}
        self._systems: list[int] = []
        self._pinned = 0
        self._before = [0]
        """What the units before each one cost, and what all of them do."""
        self._merged = [0]
        """What of that they will not cost where messages of one role are merged."""
        self._asked: int | None = None

    def __len__(self) -> int:
        return len(self.units)

    def read(self, messages: Sequence[Message]) -> None:
        """Take on more messages, whole units of them."""
        offset = len(self.transcript)
        self.transcript += messages
        systems = [at for at, message in enumerate(messages, offset) if message.is_system]
        self._systems += systems
        self._pinned += sum(self.cost(self.transcript[at]) for at in systems)
        for found in units(messages, self.profile):
            unit = Unit(found.start + offset, found.end + offset, found.asks)
            opened = unit.asks and self.transcript[unit.start].role == "user"
            self.openers.append(None if opened else self._asked)
            self.units.append(unit)
            places = range(unit.start, unit.end)
            self._before.append(self._before[-1] + sum([self.cost(self.transcript[at]) for at in places]))
            self._merged.append(self._merged[-1] + (sum(map(self._saved, places)) if self._alone else 0))
            if unit.asks:
                self._asked = max(at for at in range(unit.start, unit.end) if self.transcript[at].asks)

    def put(self, at: int, message: Message) -> None:
        """Take a shorter message in that place, of the same role, which asks what the old one asked."""
        more = self.cost(message) - self.cost(self.transcript[at])
        saved = self._saved(at)
        self.transcript[at] = message
        saved -= self._saved(at)
        for k in range(bisect_right(self.units, at, key=lambda unit: unit.start), len(self._before)):
            self._before[k] += more
            self._merged[k] -= saved

    def cost_of(self, k: int) -> int:
        """What the messages of cut `k` cost."""
        opener = self.openers[k] if self.units else None
        own = self._pinned + self._before[-1] - self._before[k]
        return own if opener is None else own + self.cost(self.said(opener))

    def tokens(self, k: int) -> int:
        """What cut `k` costs, without the head and before any repair but the merging of messages."""
        return self.cost_of(k) - (self._merged[-1] - self._merged[k])

    def largest(self, budget: int) -> int:
        """The cut that keeps most within so many tokens; the least one if none fits. The cost only falls with `k`."""
        low, high = 0, len(self.units) - 1
        while low < high:
            middle = (low + high) // 2
            if self.tokens(middle) <= budget:
                high = middle
            else:
                low = middle + 1
        return low

    def edits(self, k: int) -> list[Edit]:
        """What turns the transcript into cut `k`."""
        opener = self.openers[k] if self.units else None
        reason = "dropped to fit the budget"
        made = []
        for unit in self.units[:k]:
            for at in range(unit.start, unit.end):
                if at != opener:
                    made.append(Edit(at, (), OVER.code, reason))
                elif self.transcript[at].results:
                    made.append(Edit(at, (self.said(at),), OVER.code, "its results were dropped to fit the budget"))
        return made

    def kept(self, k: int) -> list[Message]:
        """Cut `k`, at the cost of what is kept."""
        if not self.units:
            return list(self.transcript)
        start, opener = self.units[k].start, self.openers[k]
        places = [*self._systems[: bisect_left(self._systems, start)], *([] if opener is None else [opener])]
        front = [self.said(at) if at == opener else self.transcript[at] for at in sorted(places)]
        return front + self.transcript[start:]

    def said(self, at: int) -> Message:
        """What a message says, without the results in it."""
        message = self.transcript[at]
        said = tuple([part for part in message.parts if type(part) is not ToolResult])
        return message if len(said) == len(message.parts) else changed(message, parts=said)

    def _saved(self, at: int) -> int:
        """What a message will not cost where it is merged with the one before it."""
        message = self.transcript[at]
        if at == 0 or self.transcript[at - 1].role != message.role or message.role not in self._alone:
            return 0
        return min(self.cost(message), self._alone[message.role])
