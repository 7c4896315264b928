"""What answers and refusals taught, by upstream and model: bounded, and for a while only."""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from legato import Calibration, Overflow
from legato.proxy.account import Account

HELD = 1_024
"""Models that are remembered."""
SECONDS = 3_600.0
"""How long a limit that was learnt holds. A wrong one must not last, and a right one costs a refusal an hour."""


class Learnt:
    """The calibrations of a proxy. Shared is what holds for every conversation: never what one had to come down to."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], tuple[Calibration, float]] = OrderedDict()

    def of(self, upstream: str, model: str, now: float) -> Calibration | None:
        """What is known. `now` is seconds of any steady clock."""
        found = self._known.get((upstream, model))
        if found is None:
            return None
        calibration, until = found
        return calibration if now < until else msgspec.structs.replace(calibration, limit=None)

    def answered(self, upstream: str, model: str, account: Account, reported: int, messages: int, now: float) -> None:
        """After an answer that says how many tokens came in."""
        before = self.of(upstream, model, now) or Calibration(account.factor)
        until = self._known.get((upstream, model), (before, now + SECONDS))[1]
        self._keep(upstream, model, before.observe(account.counted, reported, messages), until)

    def refused(self, upstream: str, model: str, account: Account, overflow: Overflow, now: float) -> None:
        """After a refusal. A limit is kept only where the refusal names one: a guess is good for one retry."""
        before = self.of(upstream, model, now) or Calibration(account.factor)
        after = before.overflowed(account.counted, overflow)
        named = overflow.limit is not None and overflow.kind in ("window", "output")
        limit = after.limit if named else before.limit
        self._keep(upstream, model, msgspec.structs.replace(after, aim=None, limit=limit), now + SECONDS)

    def _keep(self, upstream: str, model: str, calibration: Calibration, until: float) -> None:
        self._known[upstream, model] = (calibration, until)
        self._known.move_to_end((upstream, model))
        while len(self._known) > HELD:
            self._known.popitem(last=False)
