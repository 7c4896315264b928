"""What a provider's prompt cache would have kept from one request to the next.

A request begins with what the one before it sent, up to some message. Where caching is automatic that much is cached,
in whole blocks. Where it is explicit there are entries only where earlier requests had their markers: we set one after
the head (tools and system) and one after the last message, as agents do, and an entry is found if it is no more than so
many blocks before a marker. A part of a message counts for nothing: whole messages are compared.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from legato.replay.prices import Caching


@dataclass(frozen=True, slots=True)
class Hit:
    """The tokens that a request read from the cache, and those it put there."""

    cached: int
    written: int


class Cache:
    """The entries of one conversation. It is asked with every request that the provider took, in order."""

    def __init__(self, rules: Caching) -> None:
        self.rules = rules
        self._ends: list[int] = []
        """The numbers of messages after which an earlier request ended that begins like the newest one."""
        self._last: float | None = None
        self._any = False

    def ask(self, tokens: Sequence[int], blocks: Sequence[int], common: int, lead: int, time: float | None) -> Hit:
        """What a request hits, which is kept for the next.

        `tokens[n]` and `blocks[n]` are those of the head and the first n messages, `lead` of them system messages.
        `common` messages (-1: not even the head) are those that the last request began with.
        """
        rules, total = self.rules, tokens[-1]
        if self._is_over(time):
            self._ends, self._any = [], False
        self._last = time
        if rules.how == "none":
            return Hit(0, 0)
        self._ends = [end for end in self._ends if end <= common]
        cached = 0
        if self._any and common >= 0:
            cached = self._automatic(tokens, common) if rules.how == "automatic" else self._entry(tokens, blocks, lead)
        self._any = True
        self._ends.append(len(tokens) - 1)
        return Hit(cached, total - cached if total >= max(1, rules.minimum) else 0)

    def _is_over(self, time: float | None) -> bool:
        ttl = self.rules.ttl
        return ttl is not None and time is not None and self._last is not None and time - self._last > ttl

    def _automatic(self, tokens: Sequence[int], common: int) -> int:
        cached = tokens[common] // self.rules.block * self.rules.block
        return cached if cached >= self.rules.minimum else 0

    def _entry(self, tokens: Sequence[int], blocks: Sequence[int], lead: int) -> int:
        """The longest entry that can be seen from a marker."""
        near = bisect_right(self._ends, len(tokens) - 1)
        ends = [end for end in self._ends[max(0, near - 1) : near] if blocks[-1] - blocks[end] <= self.rules.lookback]
        return max([tokens[end] for end in (*ends, lead) if tokens[end] >= self.rules.minimum], default=0)
