"""What is known of a conversation that was governed, so that its next request costs what is new in it.

Three things are kept: the history as the rules mend it before the fit (`History`), where the fit stands (`Refit`), and
what was sent. What is appended follows what was sent, or the fit goes on from where it stands and the last repair is
made anew, of what is sent and no more. What hangs on the whole history is left to the whole pipeline. So `Prefix`
answers as that would, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from operator import is_

import msgspec

from legato import wire
from legato.calibration import Calibration
from legato.draft import Draft
from legato.edits import Request
from legato.errors import Unrepairable
from legato.fit.fold import Broke
from legato.history import CHOSEN, MENDERS, Fresh, History, notes
from legato.messages import Json, Message, Reasoning
from legato.pipeline import Governed, Run
from legato.refit import Refit
from legato.report import Change, Report
from legato.rules import role, think

SPILL = 1_000
"""What the last repair makes anew is counted and remembered. Of more than this, and twice the history, none is."""

BOUND = CHOSEN | {think.FOREIGN.code, role.NO_USER.code}
"""What the last repair may not have mended where new messages are to follow what was sent: it hangs on all of it."""


class Prefix:
    """A history that was governed by `run`, and what was appended since. Only `grown` changes it."""

    def __init__(self, run: Run, calibration: Calibration | None, again: Callable[[Json], Run]) -> None:
        self.run = run
        self.again = again
        self.key = wire.codec(run.target.format).KEY
        self.whole = isinstance(run.payload, dict)
        self.calibration = calibration
        self.same = False
        """Whether what is sent is what came in."""
        self.changes: Callable[[], Sequence[Change]] = lambda: run.whole.changes
        self.moved = False
        """Whether what is sent now is not just what was sent before and what was appended."""
        listed = run.payload[self.key] if self.whole else run.payload
        self.usable = isinstance(listed, list) and run.fitted.spent is not None and History.can_grow(run)
        self.seen: list[Json] = list(listed) if self.usable else []
        self.begun = False

    def grown(self, messages: Json, tools: Sequence[Json] | None, calibration: Calibration | None) -> Governed | None:
        """What to send of this history, if it only adds to the one that is known.

        None where that cannot be told: the whole pipeline has to, and nothing may be left here to go on from.
        """
        items = self._items(messages, tools) if self.usable and self._is_taught(calibration) else None
        if items is None:
            return None
        if not self.begun:
            self._begin()
        self.moved = False
        if len(items) > len(self.seen):
            fresh = self.history.grown(items[len(self.seen) :])
            if fresh is None or not self._is_request(fresh):
                return None
            self.usable = False  # until it is known that this is all of it
            if not self._take(fresh):
                return None
            self.seen += items[len(self.seen) :]
            if self.moved or not fresh.is_as_it_came:
                self.changes = self._told(len(self.seen))
            self.usable = self.spilt <= 2 * len(self.history.mended) + SPILL
        return self._governed(messages, items)

    def _begin(self) -> None:
        """Look at what is known, now that there is more: the first answer need not wait for it."""
        self.begun = True
        self.history = History(self.run)
        self.spilt = 0
        self.ours: dict[int, tuple[Message, tuple[Json, ...]]] = {}
        self.refit = Refit(self.run, self.history)
        self._send(self.run.whole)

    def _is_taught(self, calibration: Calibration | None) -> bool:
        """Whether nothing was learnt since that has a say in what is sent: the factor, the limit, the aim."""
        known = self.calibration
        if calibration is None:
            return known is None
        limits = (None, None) if known is None else (known.limit, known.aim)
        return calibration.factor == self.run.local.ledger.factor and (calibration.limit, calibration.aim) == limits

    def _items(self, messages: Json, tools: Sequence[Json] | None) -> list[Json] | None:
        """The list of wire items, if it and its head begin with what is known."""
        if isinstance(messages, dict) != self.whole:
            return None
        items = messages.get(self.key) if isinstance(messages, dict) else messages
        if not isinstance(items, list) or items[: len(self.seen)] != self.seen:
            return None
        given: dict[str, Json] = {}
        if isinstance(messages, dict):
            given = {key: value for key, value in messages.items() if key != self.key}
        if tools:
            given["tools"] = list(tools)
        return items if given == self.run.before.head else None

    def _is_request(self, fresh: Fresh) -> bool:
        """Whether a fold that was made for the last request is one of this history: an answer has to follow it."""
        if not self.folds or self.folds[-1].at is not None:
            return True
        return fresh.came[0].role == "assistant" and not self.history.before[-1].is_system

    def _take(self, fresh: Fresh) -> bool:
        """Take on what is appended. False where only the whole pipeline can tell what is sent then."""
        follows = self._follows(fresh)
        offset = len(self.history.mended)
        self.history.add(fresh)
        stale = self.refit.take(fresh.mended, offset)
        if self.refit.is_small(fresh.mended) and follows and not stale:
            self._follow(fresh)
            return True
        self.moved = True
        try:
            whole = self.refit.anew(stale, follows)
        except Unrepairable:
            return False
        if whole is not None:
            self.refit.send(whole)
            self._send(whole)
        return whole is not None

    def _follows(self, fresh: Fresh) -> bool:
        """Whether the last repair finds nothing in what is appended, seen behind what was sent."""
        tail = fresh.tail
        start = len(self.out) - len(tail)
        if not self.settled or start < 0 or not all(map(is_, tail, self.out[start:])):
            return False
        bound = self.run.target.reasoning_bound and not self.same
        if bound and any(type(part) is Reasoning for message in fresh.mended for part in message.parts):
            return False
        families = (*MENDERS, role.find) if fresh.changes else (role.find,)
        return self.refit.is_clean(fresh.beside.transcript, families)

    def _follow(self, fresh: Fresh) -> None:
        """Send what was sent, and what is appended."""
        if self.folds and self.folds[-1].at is None:
            self.folds[-1] = Broke(len(self.seen), self.folds[-1].kept)
        self.same = self.same and fresh.is_as_it_came
        self.sources += map(self._source, fresh.mended)
        self.out += fresh.mended

    def _send(self, whole: Draft) -> None:
        """Take on what is sent now."""
        run, before = self.run, self.history.before
        self.run = msgspec.structs.replace(run, whole=whole)
        self.out = list(whole.request.transcript)
        self.folds = list(whole.folds)
        self.same = not whole.request.altered and len(self.out) == len(before) and all(map(is_, self.out, before))
        self.sources: list[int | tuple[Json, ...]] = [
            message.origin[0] if message.raw is not None and not message.extra else self._source(message)
            for message in self.out
        ]
        late = whole.changes[len(run.local.changes) :]
        heads = {change.code for change in late if change.heads is not None}
        self.settled = heads <= {role.SYSTEM.code} and BOUND.isdisjoint(change.code for change in late)
        self.spilt += sum(len(change.new) for change in late)

    def _source(self, message: Message) -> int | tuple[Json, ...]:
        """Where the wire items of a message are from: the caller's own at that index, or ours."""
        if message.raw is not None and not notes(message):
            return message.origin[0]
        known = self.ours.get(id(message))
        if known is None:
            items = wire.codec(self.run.target.format).encode(message)
            known = self.ours[id(message)] = (message, tuple([wire.bare(item) for item in items]))
        return known[1]

    def _told(self, upto: int) -> Callable[[], Sequence[Change]]:
        """The changes of the history as it is now: the whole pipeline tells them, when they are read."""
        seen, again, payload, key = self.seen, self.again, self.run.payload, self.key
        return cache(lambda: again({**payload, key: seen[:upto]} if key in payload else seen[:upto]).whole.changes)

    def _governed(self, messages: Json, items: list[Json]) -> Governed:
        run, history = self.run, self.history
        same = self.same and not history.noted
        sent = items if same else [item for source in self.sources for item in _items(source, items)]
        body = messages if same else wire.body(run.whole.request, messages, run.target.format, sent)
        before, out = history.before, self.out  # lists that only grow: what they are now can be told
        upto, outto, folds, noted = len(before), len(out), tuple(self.folds), tuple(sorted(history.noted))
        changes = self.changes

        def report() -> Report:
            came = Request(run.before.head, tuple(before[:upto]))
            whole = run.whole.request
            left = came if same else Request(whole.head, tuple(out[:outto]), whole.altered)
            return Report(came, left, changes, run.budget, run.whole.ledger, run.notes(noted), folds)

        return Governed(body, sent, report)


def _items(source: int | tuple[Json, ...], items: list[Json]) -> tuple[Json, ...]:
    return (items[source],) if isinstance(source, int) else source
