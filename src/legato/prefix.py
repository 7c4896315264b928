"""What is known of a history that was governed, so that only what is appended to it has to be looked at.

Most of what is appended changes nothing before it: an agent's calls, their results, a user's next question. `Prefix`
governs those at their own cost, and leaves all else to the whole pipeline: a message with a fault, a window that is
full, a rule that looks at the whole history. So it answers as the pipeline would, or not at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import msgspec

from legato import wire
from legato.calibration import Calibration
from legato.draft import Draft
from legato.edits import Request
from legato.errors import Unrepairable, WireError
from legato.fit import fold
from legato.fit.fold import Broke
from legato.fit.units import units
from legato.fitting import Fitted
from legato.messages import Json, Media, Message, ToolCall, ToolResult
from legato.pairing import match
from legato.pipeline import Governed, Run
from legato.report import Change, Report
from legato.rules import FAMILIES, head, name, role, size, think
from legato.wire import tools as definitions

SEAM = 2
"""So many of the newest units are judged again with what is appended, since rules look at neighbours."""

AT_HEAD = frozenset((role.SYSTEM.code, head.NO_TOOLS.code, head.NO_SCHEMA.code))
"""What may have been mended at the head: nothing that is appended makes another fix of it."""

CHOSEN = frozenset(rule.code for rule in name.TABLE)
"""New ids and names are chosen to be like no other: with another one after them they may be chosen otherwise."""

GROWING = tuple(family for family in FAMILIES if family not in (head.find, size.find))
"""The families that judge messages. Those of the head have found it in order."""


class Prefix:
    """A history that was governed by `run`, and what was appended since. Only `grown` changes it."""

    def __init__(self, run: Run, calibration: Calibration | None, again: Callable[[Json], Run]) -> None:
        self.run = run
        self.again = again
        self.changes: Callable[[], tuple[Change, ...]] = lambda: run.whole.changes
        self.folded = False
        self.walk = run.fitted.walk
        self.key = wire.codec(run.target.format).KEY
        self.whole = isinstance(run.payload, dict)
        self.taught = _taught(calibration)
        self.ids = {call.id for message in run.local.request.transcript for call in message.calls}
        self.seen: list[Json] = []
        self.before = list(run.before.transcript)
        self.noted = set(wire.notes(run.before))
        self.usable = self._is_usable(run)
        if self.usable:
            self.seen = list(run.payload[self.key] if self.whole else run.payload)
            how = run.policy.microcompact
            self.newest = deque(how.results(run.local.request)[-how.keep :] if how is not None else ())
            self._learn(run)

    def grown(self, messages: Json, tools: Sequence[Json] | None, calibration: Calibration | None) -> Governed | None:
        """What to send of this history, if it only adds to the one that is known; else None, and nothing is learnt."""
        items = self._items(messages, tools) if self.usable and _taught(calibration) == self.taught else None
        if items is None:
            return None
        fresh = self._read(items[len(self.seen) :])
        if fresh is None or not self._is_alone(fresh) or not self._is_clean(fresh):
            return None
        if self._is_aging(fresh):
            return None
        self.folded = False
        if not self._is_small(fresh):
            cut = self._folded(fresh)
            if cut is None:
                return None
            self._add(items, fresh)
            self._cut(cut, messages, items)
        else:
            self._add(items, fresh)
        return self._governed(messages, items)

    def _is_usable(self, run: Run) -> bool:
        """Whether anything can be appended to it that leaves what stands before as it is."""
        listed = run.payload[self.key] if self.whole else run.payload
        heads = {change.code for change in run.whole.changes if change.heads is not None}
        codes = {change.code for change in run.whole.changes}
        return (
            run.fitted.spent is not None
            and isinstance(listed, list)
            and not run.before.continues
            and heads <= AT_HEAD
            and not (codes & CHOSEN)
            and think.FOREIGN.code not in codes
        )

    def _learn(self, run: Run) -> None:
        """Take on what is sent now."""
        request, ledger = run.whole.request, run.whole.ledger
        self.run = run
        self.out = list(request.transcript)
        self.folds = list(run.whole.folds)
        self.profile = run.target
        self.same = request.transcript is run.before.transcript and not request.altered and not self.noted
        if run.target.reasoning_bound and not (request.altered or run.whole.changes or self.folds):
            self.profile = msgspec.structs.replace(run.target, reasoning_bound=False)
        self.sources = [source for message in self.out for source in self._sources(message)]
        self.starts = [unit.start for unit in units(request.transcript, run.target)]
        self.asked = max((at for at, message in enumerate(self.out) if message.asks), default=0)
        self.total = run.whole.tokens()
        self.left = self._room(run.fitted.spent or 0)
        self.owed: list[Message] = []
        self.due = 0
        self.bridge = fold.bridge(run.target, ledger.message)

    # --- is it the same history, and more?

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

    def _read(self, items: list[Json]) -> list[Message] | None:
        try:
            read = wire.read(items, self.run.target.format).transcript
        except WireError:
            return None
        start = len(self.seen)
        return [msgspec.structs.replace(message, origin=(start + at,)) for at, message in enumerate(read)]

    # --- does it leave what stands before it as it is?

    def _is_alone(self, fresh: list[Message]) -> bool:
        """Whether no rule that looks at the whole history has anything to do with it."""
        profile = self.run.target
        if self.folds and self.folds[-1].at is None and fresh:
            first = next((message for message in fresh if not message.is_system), None)
            if first is None or first.role != "assistant" or fresh[0].is_system or self.before[-1].is_system:
                return False
        parts = [part for message in fresh for part in message.parts]
        calls = [part for part in parts if type(part) is ToolCall]
        top = self.run.before.head
        if calls:
            if profile.tools_required and head.is_whole(top) and not definitions.names(top):
                return False
            if profile.ids_unique not in ("no", "turn") and any(call.id in self.ids for call in calls):
                return False
        if profile.many_images or profile.document_names:
            inner = [part for result in parts if type(result) is ToolResult for part in result.parts]
            if any(type(part) is Media for part in (*parts, *inner)):
                return False
        return not profile.cache_markers_max or not any(True for part in parts for _ in head.marked(part))

    def _is_clean(self, fresh: list[Message]) -> bool:
        """Whether the rules find nothing in it, seen with the units before it and with what the user asked last."""
        if not fresh:
            return True
        seam = self.starts[-SEAM] if len(self.starts) >= SEAM else 0
        tail = self.out[seam:]
        if any(old is not new for old, new in zip(reversed(self.before), reversed(tail), strict=False)):
            return False
        if self.asked < seam:
            tail = [self.out[self.asked], *tail]
        whole = self.run.whole.request
        request = Request(whole.head, (*tail, *fresh), whole.altered)
        return not any(
            violation.severity == "error" for family in GROWING for violation in family(request, self.profile)
        )

    def _is_aging(self, fresh: list[Message]) -> bool:
        """Whether a result is no longer one of the newest, and is compacted."""
        how = self.run.policy.microcompact
        if how is None:
            return False
        known = [*self.newest, *how.results(Request({}, tuple(fresh)))]
        return any(how.is_stale(*old, self.run.whole.ledger.count) for old in known[: max(0, len(known) - how.keep)])

    def _is_small(self, fresh: list[Message]) -> bool:
        """Whether there is room for it. Texts are counted only where their bytes could be too many tokens."""
        if self.left is None:
            return True
        ledger = self.run.whole.ledger
        due = self._bridges(fresh) + sum(map(ledger.most, fresh))
        if self.due + due <= self.left:
            self.due += due
            self.owed += fresh
            return True
        owed = [*self.owed, *fresh]
        cost = ledger.messages(owed)
        due = self._bridges(owed) + cost
        if due > self.left:
            return False
        if self.walk is not None:
            self.walk.read(owed, match(tuple(owed))[0])
        self.left, self.due, self.owed, self.total = self.left - due, 0, [], self.total + cost
        return True

    def _folded(self, fresh: list[Message]) -> Run | None:
        """The request cut anew where the window is full again; None: it has to be looked at whole."""
        run, walk = self.run, self.walk
        kept = run.policy.recall is not None or run.policy.summarise
        if (
            walk is None
            or kept
            or any(True for message in self.out for part in message.parts for _ in head.marked(part))
        ):
            return None
        self.usable = False  # until it is known that this is the whole of it
        owed, local, target = [*self.owed, *fresh], run.local, run.target
        walk.read(owed, match(tuple(owed))[0])
        spent = walk.reach()
        request = Request(local.request.head, tuple(walk.kept()), local.request.altered)
        try:
            whole = Draft(request, local.changes, target, local.ledger, folds=tuple(walk.broke)).mend(FAMILIES)
        except Unrepairable:
            return None
        fitted = Fitted(whole, spent, walk)
        cut = msgspec.structs.replace(run, whole=whole, fitted=fitted)
        self.total = whole.tokens()
        room = self._room(spent)
        return cut if room is not None and room >= 0 and self._is_usable(cut) else None

    def _cut(self, cut: Run, messages: Json, items: list[Json]) -> None:
        """Go on from a fold. Its changes are told by the whole pipeline, when they are read."""
        again, known = self.again, list(items)
        payload = {**messages, self.key: known} if self.whole else known
        self.changes = cache(lambda: again(payload).whole.changes)
        self._learn(cut)
        self.usable = self.folded = True

    def _bridges(self, messages: list[Message]) -> int:
        return self.bridge * sum(message.role == "user" for message in messages) if self.bridge else 0

    def _room(self, spent: int) -> int | None:
        """What may be appended before something has to be cut; None: anything."""
        run, total = self.run, self.total
        if run.budget is None:
            return None
        room = run.budget - total
        if run.policy.fold is not None:
            top = run.whole.ledger.head(run.local.request.head)
            most = fold.room(run.budget, top)
            room = min(most - spent, most + top - total)
        if run.target.output_counts:
            asked = wire.limits.output(run.whole.request.head) or 0
            room = min(room, (run.policy.window or run.target.window or 0) - asked - total)
        return room

    # --- then it is sent on

    def _add(self, items: list[Json], fresh: list[Message]) -> None:
        if not fresh:
            return
        how = self.run.policy.microcompact
        if how is not None:
            self.newest.extend(how.results(Request({}, tuple(fresh))))
            while len(self.newest) > how.keep:
                self.newest.popleft()
        if self.folds and self.folds[-1].at is None:
            at = next(message.origin[0] for message in fresh if not message.is_system)
            self.folds[-1] = Broke(at, self.folds[-1].kept)
        start = len(self.out)
        self.starts += [start + unit.start for unit in units(tuple(fresh), self.run.target)]
        self.asked = max((start + at for at, message in enumerate(fresh) if message.asks), default=self.asked)
        if self.run.target.ids_unique == "request":
            self.ids.update(call.id for message in fresh for call in message.calls)
        self.sources += [source for message in fresh for source in self._sources(message)]
        self.noted.update(note for message in fresh for note in _notes(message))
        self.seen += items[len(self.seen) :]
        self.before += fresh
        self.out += fresh

    def _sources(self, message: Message) -> Iterator[int | tuple[Json]]:
        """Where the wire items of a message are from: the caller's own at that index, or one of ours."""
        if message.raw is not None and len(message.origin) == 1 and not _notes(message):
            yield message.origin[0]
        else:
            yield from ((wire.bare(item),) for item in wire.codec(self.run.target.format).encode(message))

    def _governed(self, messages: Json, items: list[Json]) -> Governed:
        run = self.run
        same = self.same and not self.noted
        sent = items if same else [items[source] if isinstance(source, int) else source[0] for source in self.sources]
        body = messages if same else wire.body(run.whole.request, messages, run.target.format, sent)
        upto, outto, folds, noted = len(self.before), len(self.out), tuple(self.folds), tuple(sorted(self.noted))
        before, out, changes = (
            self.before,
            self.out,
            self.changes,
        )  # lists that only grow: what they are now can be told

        def report() -> Report:
            came = Request(run.before.head, tuple(before[:upto]))
            whole = run.whole.request
            left = came if same else Request(whole.head, tuple(out[:outto]), whole.altered)
            return Report(came, left, changes(), run.budget, run.whole.ledger, run.notes(noted), folds)

        return Governed(body, sent, report)


def _notes(message: Message) -> list[str]:
    """The caller's notes on it, which are never sent."""
    return [key for key in message.extra if key[:1] == "_"]


def _taught(calibration: Calibration | None) -> tuple[float, int | None, int | None] | None:
    """What of a calibration has a say in what is sent."""
    return None if calibration is None else (calibration.factor, calibration.limit, calibration.aim)
