"""The newest requests, each in a row: what `/_legato/api/` shows, and a dashboard is made of.

A record holds no contents, unless the operator turns them on: then `diff` is what was changed, word for word.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from legato.proxy.account import Account, Faults, Reasons
from legato.proxy.core import Prints, kept
from legato.proxy.savings import Sent, saved
from legato.proxy.totals import Totals
from legato.replay.prices import models, price

CONVERSATIONS = 256
"""Conversations whose last request is remembered, to say how much of it begins the next."""
WAITING = 256
"""Records that wait for a slow reader of the feed; it loses what is more."""


class Record(msgspec.Struct, kw_only=True):
    """One request. Times: `time` is seconds since 1970, the others milliseconds; sizes are tokens.

    `outcome`: `untouched` (the very bytes), `governed`, `passed` (not ours to govern), `failed` (could not be governed,
    the original was sent), `refused` (by the proxy), `gone` (the client went away). `changes`: by code how many and
    their tokens, `reasons` where and why, `new` how many of them the conversation's last request had not yet.
    `prefix_kept`: the share of that which begins this one.
    """

    id: int
    time: float
    method: str
    path: str
    upstream: str = ""
    api: str = ""
    model: str = ""
    profile: str = ""
    policy: str = ""
    conversation: str = ""
    outcome: str = "passed"
    status: int = 0
    stream: bool = False
    bytes_in: int = 0
    bytes_out: int = 0
    """Of the request, as it came and as it was sent."""
    tokens_in: int | None = None
    tokens_out: int | None = None
    budget: int | None = None
    reported: int | None = None
    """What the provider says came in."""
    changes: dict[str, tuple[int, int]] = {}
    reasons: Reasons = {}
    new: dict[str, int] = {}
    """Of what the provider would have refused only."""
    folds: int = 0
    folded: bool = False
    prefix_kept: float | None = None
    saved: float | None = None
    """Dollars; None where the model's price is not known."""
    retried: bool = False
    """A refusal for length was answered with a smaller request."""
    error: str = ""
    why: str = ""
    """Of an error: what the system says of the upstream, or why the request could not be governed."""
    governing: float = 0.0
    first_byte: float = 0.0
    milliseconds: float = 0.0
    diff: str | None = None

    def take(self, account: Account | None) -> None:
        """What was done, into the record."""
        if account is not None:
            self.tokens_in, self.tokens_out, self.budget = account.tokens_in, account.tokens_out, account.budget
            self.changes, self.reasons, self.diff = account.changes, account.reasons, account.diff
            self.folds, self.folded = account.folds, account.kept is not None


class Last(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of a conversation's last request."""

    prints: Prints = ()
    sent: Sent | None = None
    faults: Faults = ()


class Records:
    """A ring of the newest records of this process, and a feed of new ones. `most` of 0 keeps none.

    `instance` names this process's numbering, so that a reader tells it from that of another worker, or before a
    restart; `under_way` are the requests that are not finished.
    """

    def __init__(self, most: int) -> None:
        self.instance = secrets.token_hex(4)
        self.totals = Totals()
        self.under_way: dict[int, Record] = {}
        self._ring: deque[Record] = deque(maxlen=most)
        self._readers: set[asyncio.Queue[Record]] = set()
        self._last: OrderedDict[str, Last] = OrderedDict()
        self._number = 0
        models()  # the price list is read now, and not while a request waits

    def new(self, time: float, method: str, path: str) -> Record:
        """A record with a number of its own. It is shown when it is `add`ed."""
        self._number += 1
        record = Record(id=self._number, time=time, method=method, path=path)
        self.under_way[record.id] = record
        return record

    def add(self, record: Record, prints: Prints = (), faults: Faults = ()) -> None:
        """Shows a finished record to whoever looks. `prints` are those of what was sent, `faults` what was mended."""
        self.under_way.pop(record.id, None)
        self.totals.add(record, self._compare(record, prints, faults) if prints else 0)
        self._ring.append(record)
        for queue in self._readers:
            if not queue.full():
                queue.put_nowait(record)

    def _compare(self, record: Record, prints: Prints, faults: Faults) -> int:
        """Sets what hangs on the conversation's last request. Returns the tokens that one sent."""
        now = Sent(record.time, record.tokens_in or 0, record.tokens_out or 0)
        last = self._last.pop(record.conversation, None) or Last()
        before = last.sent
        record.prefix_kept = kept(last.prints, prints)
        if record.status < 400:
            record.new = dict(Counter(code for code, _ in (Counter(faults) - Counter(last.faults)).elements()))
        else:
            faults = last.faults  # what came of it was an error all the same: it counts when one is taken
        known = price(record.model) if record.status < 300 and record.api != "count_tokens" else None
        if known is not None and record.tokens_out is not None:
            record.saved = saved(now, before, record.prefix_kept, known)
        self._last[record.conversation] = Last(prints=prints, sent=now, faults=faults)
        if len(self._last) > CONVERSATIONS:
            self._last.popitem(last=False)
        return 0 if before is None else before.tokens_out

    def newest(self, limit: int, after: int = 0) -> list[Record]:
        """At most `limit` records with a greater number than `after`, the newest last."""
        found = [record for record in self._ring if record.id > after]
        return found[len(found) - limit :] if limit < len(found) else found

    def find(self, number: int) -> Record | None:
        return next((record for record in self._ring if record.id == number), None)

    @contextmanager
    def feed(self) -> Iterator[asyncio.Queue[Record]]:
        """Every record from now on."""
        queue: asyncio.Queue[Record] = asyncio.Queue(WAITING)
        self._readers.add(queue)
        try:
            yield queue
        finally:
            self._readers.discard(queue)


def row(record: Record) -> dict[str, object]:
    """A record as it is listed: without its diff, but saying whether there is one."""
    found: dict[str, object] = msgspec.to_builtins(record)
    found["diff"] = record.diff is not None
    return found
