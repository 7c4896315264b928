"""Dropping the oldest units until the rest fits (the document's snip).

The newest units are kept as long as they fit; the system messages and the newest thing a user asked always are. What
is kept starts with a user message: where the cut falls into the middle of a turn, the message that opened the turn
stays and the units between go. So one turn that is larger than the budget loses its oldest steps, never its task.
"""

from __future__ import annotations

from collections.abc import Callable

from legato.edits import Edit, Request
from legato.fit.units import Unit, units
from legato.messages import Message, ToolResult, Transcript, changed
from legato.profiles import Profile
from legato.rules.violation import Rule

OVER = Rule("SIZE002", "history-over-budget", "The history does not fit the budget.")
SUMMED = Rule(
    "SIZE007", "summarised-history", "Units that no longer fit are replaced by a summary the caller had made."
)

ATTEMPTS = 4
"""How often the estimate of what the repairs will cost is corrected before units go one by one."""


class Cut:
    """The ways to cut one transcript: cut `k` keeps unit `k` and all newer ones, the last one the least."""

    def __init__(self, request: Request, profile: Profile, cost: Callable[[Message], int]) -> None:
        self.transcript: Transcript = request.transcript
        self.units = units(self.transcript, profile)
        costs = [cost(message) for message in self.transcript]
        if profile.alternates:
            self._discount_merges(costs, cost)
        self.pinned = sum(tokens for tokens, message in zip(costs, self.transcript, strict=True) if message.is_system)
        self._openers = self._find_openers()
        self._tokens = [0] * (len(self.units) + 1)
        for at in range(len(self.units) - 1, -1, -1):
            self._tokens[at] = self._tokens[at + 1] + sum(self._unit_costs(self.units[at], costs))
        self._opener_tokens = [0 if opener is None else cost(self._opener(opener)) for opener in self._openers]

    def __len__(self) -> int:
        return len(self.units)

    def tokens(self, k: int) -> int:
        """What cut `k` costs, without the head and before any repair."""
        return self.pinned + self._tokens[k] + self._opener_tokens[k]

    def newest(self, k: int) -> int:
        """What the units of cut `k` cost, without what is pinned and without the opener."""
        return self._tokens[k]

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
        opener = self._openers[k]
        reason = "dropped to fit the budget"
        made = []
        for unit in self.units[:k]:
            for at in range(unit.start, unit.end):
                message = self.transcript[at]
                if message.is_system:
                    continue
                if at != opener:
                    made.append(Edit(at, (), OVER.code, reason))
                elif message.results:
                    made.append(Edit(at, (self._opener(at),), OVER.code, "its results were dropped to fit the budget"))
        return made

    def _discount_merges(self, costs: list[int], cost: Callable[[Message], int]) -> None:
        """Take off what a message costs by itself where it will be merged with the one before it."""
        alone = {role: cost(Message(role)) - 1 for role in ("user", "assistant")}
        for at in range(1, len(costs)):
            role = self.transcript[at].role
            if role in alone and self.transcript[at - 1].role == role:
                costs[at] -= min(costs[at], alone[role])

    def _unit_costs(self, unit: Unit, costs: list[int]) -> list[int]:
        return [costs[at] for at in range(unit.start, unit.end) if not self.transcript[at].is_system]

    def _find_openers(self) -> list[int | None]:
        """For each cut the user message before it that stays: none where it starts with one, or has none before."""
        found: list[int | None] = []
        before: int | None = None
        for unit in self.units:
            found.append(None if self.transcript[unit.start].role == "user" and unit.asks else before)
            for at in range(unit.start, unit.end):
                if self.transcript[at].asks:
                    before = at
        return found or [None]

    def _opener(self, at: int) -> Message:
        message = self.transcript[at]
        said = tuple([part for part in message.parts if type(part) is not ToolResult])
        return message if len(said) == len(message.parts) else changed(message, parts=said)
