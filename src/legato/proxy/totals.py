"""What the requests of a worker come to, since it started: the figures at the top of the dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from legato.rules import RULES

if TYPE_CHECKING:
    from legato.proxy.records import Record


class Totals(msgspec.Struct, kw_only=True):
    """Sums over all requests. `changes`: by code in how many requests, how many changes, their tokens, and faults.

    A fault that is found again in every later request of its conversation is one; `faults` is the sum. `mended`:
    requests that had any and were taken; `fitted`: those that were made smaller. `kept` of `repeated` tokens, which a
    conversation had sent before, began its next request again. `saved` is dollars, over the `priced` requests, whose
    model has a known price.
    """

    requests: int = 0
    outcomes: dict[str, int] = {}
    changes: dict[str, tuple[int, int, int, int]] = {}
    faults: int = 0
    mended: int = 0
    fitted: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    kept: float = 0.0
    repeated: int = 0
    saved: float = 0.0
    priced: int = 0
    folds: int = 0
    retries: int = 0

    def add(self, record: Record, repeated: int) -> None:
        """A finished request, before which its conversation had sent `repeated` tokens."""
        self.requests += 1
        self.outcomes[record.outcome] = self.outcomes.get(record.outcome, 0) + 1
        for code, (times, tokens) in record.changes.items():
            requests, all_times, all_tokens, faults = self.changes.get(code, (0, 0, 0, 0))
            faults += record.new.get(code, 0)
            self.changes[code] = (requests + 1, all_times + times, all_tokens + tokens, faults)
        self.faults += sum(record.new.values())
        self.mended += record.status < 400 and any(code in RULES for code in record.changes)
        self.fitted += any(code not in RULES for code in record.changes)
        self.tokens_in += record.tokens_in or 0
        self.tokens_out += record.tokens_out or 0
        if record.prefix_kept is not None:
            self.kept += record.prefix_kept * repeated
            self.repeated += repeated
        if record.saved is not None:
            self.saved += record.saved
            self.priced += 1
        self.folds += record.folded
        self.retries += record.retried
