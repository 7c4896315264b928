"""A history as the rules mend it before the fit, which grows at the cost of what is appended.

What is appended is mended beside the newest units before it, and beside what the user asked last. If that leaves those
as they are, and nothing was mended that hangs on the whole history, the history has grown by what came out. `grown`
answers as mending all of it would, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from operator import is_, or_
from typing import NamedTuple, TypeAlias

import msgspec

from legato import traits, wire
from legato.draft import Draft
from legato.edits import Request
from legato.errors import Unrepairable, WireError
from legato.fit.units import units
from legato.messages import Json, Media, Message, ToolCall, ToolResult, changed
from legato.pipeline import Run
from legato.profiles import Profile
from legato.report import Change
from legato.rules import LOCAL, body, head, layout, media, name, size, think
from legato.wire import tools

Pair: TypeAlias = tuple[str | None, str | None]
"""An id or a name as it came in, and what it is now."""

SEAM = 2
"""So many of the newest units are looked at again with what is appended, since rules look at neighbours."""

AT_HEAD = frozenset(rule.code for rule in (head.NO_TOOLS, head.NO_SCHEMA, name.BAD_NAME, size.CAP))
"""What may have been mended at the head: nothing that is appended makes another fix of it."""

CHOSEN = frozenset(rule.code for rule in (name.REUSED, name.BAD_ID, name.BAD_NAME))
"""New ids and names are chosen to be like no other."""

BESIDE = CHOSEN.union(
    rule.code
    for rule in (
        *(body.NULL, body.NO_CALLS, body.ARGUMENTS, body.BLANK, body.BESIDE, body.SILENT, body.FIELD),
        *(layout.PARALLEL, layout.BESIDE, layout.MEDIA, layout.ERROR, layout.NAMELESS, layout.FLAGGED),
        *(think.REFUSED, think.MISSING, think.ALONE, think.UNSIGNED, media.PARTS, media.OUTSIDE),
    )
)
"""What is mended in a message by itself, or in its turn: beside the newest units as in the whole history."""

MENDERS = tuple(family for family in LOCAL if family not in (head.find, size.find))
"""The families that look at messages. Those of the head have had their say."""


class Fresh(NamedTuple):
    """What is appended, as it came in and as it was mended.

    `beside` is the request in which it was mended, with the `changes` that took; `tail` is what is known of it.
    """

    came: list[Message]
    mended: list[Message]
    beside: Request
    changes: tuple[Change, ...]
    tail: list[Message]

    @property
    def is_as_it_came(self) -> bool:
        return len(self.came) == len(self.mended) and all(map(is_, self.came, self.mended))


class Chosen:
    """The ids, or the names, that came in, and what was put for those that are refused: new to old."""

    def __init__(self, came: Iterable[str | None], pairs: Iterable[Pair]) -> None:
        self.came: set[str | None] = set()
        self.put: dict[str | None, str | None] = {}
        self.learn(came, pairs)

    def learn(self, came: Iterable[str | None], pairs: Iterable[Pair]) -> None:
        self.came.update(came)
        self.put.update((new, old) for old, new in pairs if new != old)

    def allows(self, pairs: Iterable[Pair], counted: bool) -> bool:
        """Whether the new ones are chosen as they are with the rest of the history, which keeps those it has.

        `counted`: the choice hangs on how often the old one came before.
        """
        for old, new in pairs:
            if old in self.put:
                return False
            if new != old and (not old or new in self.came or self.put.get(new, old) != old):
                return False
            if new != old and counted and old in self.came:
                return False
        return True


class History:
    """What came in, and what it was mended to.

    `starts` are the units of that, `asked` is what the user said last. `traits` are those of all of it.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.before = list(run.before.transcript)
        self.mended = list(run.local.request.transcript)
        self.starts = [unit.start for unit in units(self.mended, run.target)]
        self.asked = _newest_asking(self.mended)
        self.noted = set(wire.notes(run.before))
        self.marked = any(_is_marked(self.before[at]) for at in run.before.having(traits.ENCODED | traits.RAW))
        self.altered = bool(run.local.changes)
        self.traits = reduce(or_, set(run.local.request.traits), 0)
        calls = [call.call for call in run.before.pairs[0]]
        named = [*tools.names(run.before.head), *_names(self.before)]
        self.ids = Chosen((call.id for call in calls), _chosen(run.local.changes, _call_ids))
        self.names = Chosen(named, [*_chosen(run.local.changes, _names), *_defined(run.local.changes)])

    @staticmethod
    def can_grow(run: Run) -> bool:
        """Whether anything can be appended to what was governed that leaves the rest as it was mended."""
        changes = run.local.changes
        heads = {change.code for change in changes if change.heads is not None}
        foreign = any(change.code == think.FOREIGN.code for change in changes)
        return not run.before.continues and heads <= AT_HEAD and not foreign

    @property
    def profile(self) -> Profile:
        """The profile for what is appended: reasoning is not bound to what did not change."""
        target = self.run.target
        bound = target.reasoning_bound and not self.altered
        return msgspec.structs.replace(target, reasoning_bound=False) if bound else target

    def grown(self, items: list[Json]) -> Fresh | None:
        """These wire items, mended; None if that hangs on more than is looked at."""
        came = self._read(items)
        if came is None or not self._is_alone(came):
            return None
        start = self._seam()
        asked = self.asking if self.asked is not None and self.asked < start else []
        first = self.mended[start].origin[0] if start else 0
        request = Request(self.run.before.head, (*asked, *self.before[first:], *came))
        try:
            draft = Draft(request, (), self.profile, self.run.local.ledger).mend(MENDERS)
        except Unrepairable:
            return None
        tail = self.mended[start:]
        known, found = [*asked, *tail], draft.request.transcript
        if len(found) < len(known) or any(map(_differ, known, found)):
            return None
        fresh = Fresh(came, list(found[len(known) :]), draft.request, draft.changes, tail)
        return fresh if self._is_sure(fresh) else None

    def add(self, fresh: Fresh) -> None:
        """Take it on."""
        start, came, mended = len(self.mended), fresh.came, fresh.mended
        self.starts += [start + unit.start for unit in units(mended, self.run.target)]
        asked = _newest_asking(mended)
        self.asked = self.asked if asked is None else start + asked
        self.ids.learn(_call_ids(came), zip(_call_ids(came), _call_ids(mended), strict=True))
        self.names.learn(_names(came), zip(_call_names(came), _call_names(mended), strict=True))
        self.altered = self.altered or bool(fresh.changes)
        self.marked = self.marked or any(map(_is_marked, came))
        self.traits = reduce(or_, map(traits.of, mended), self.traits)
        self.noted.update(note for message in came for note in notes(message))
        self.before += came
        self.mended += mended

    @property
    def is_linked(self) -> bool:
        """Whether messages may hang on others far before them: what stays when those go has to be looked at again."""
        target = self.run.target
        rare = target.server_tools or target.reasoning_bound
        return target.items_bound or bool(rare and self.traits & (traits.THINKS | traits.RAW))

    @property
    def asking(self) -> list[Message]:
        """What the user said last, to look at others behind it: without results, whose calls are not there."""
        return [] if self.asked is None else [_said(self.mended[self.asked])]

    def _read(self, items: list[Json]) -> list[Message] | None:
        try:
            read = wire.read(items, self.run.target.format).transcript
        except WireError:
            return None
        start = len(self.before)
        return [msgspec.structs.replace(message, origin=(start + at,)) for at, message in enumerate(read)]

    def _seam(self) -> int:
        """Where the newest units start, at a place where something starts in what came in too."""
        k = len(self.starts) - SEAM
        while k > 0 and not self._is_seam(self.starts[k]):
            k -= 1
        return self.starts[k] if k > 0 else 0

    def _is_seam(self, at: int) -> bool:
        here = self.mended[at].origin
        return len(here) == 1 and here[0] > max(self.mended[at - 1].origin, default=-1)

    def _is_alone(self, came: Sequence[Message]) -> bool:
        """Whether no rule that looks at the whole history has anything to do with it."""
        profile, top = self.run.target, self.run.before.head
        parts = [part for message in came for part in message.parts]
        undefined = profile.tools_required and head.is_whole(top) and not tools.names(top)
        if undefined and any(type(part) is ToolCall for part in parts):
            return False
        if profile.many_images or profile.document_names:
            inner = [part for result in parts if type(result) is ToolResult for part in result.parts]
            if any(type(part) is Media for part in (*parts, *inner)):
                return False
        return not (profile.cache_markers_max and any(map(_is_marked, came)))

    def _is_sure(self, fresh: Fresh) -> bool:
        """Whether it is mended as it is with the rest of the history, which stays as it is."""
        target, codes = self.run.target, {change.code for change in fresh.changes}
        if not codes <= BESIDE or (codes and target.reasoning_bound):
            return False
        joins = [message.role for message in (*self.mended[-1:], *fresh.mended[:1])] == ["assistant"] * 2
        if (joins and target.pairs_by_run) or (
            fresh.beside.head is not self.run.before.head
            and tools.names(fresh.beside.head) != tools.names(self.run.local.request.head)
        ):
            return False
        ids, names = _call_ids(fresh.came), _call_names(fresh.came)
        new_ids, new_names = _call_ids(fresh.mended), _call_names(fresh.mended)
        others = set(_names(fresh.came)) - set(names)
        if len(ids) != len(new_ids) or (name.BAD_NAME.code in codes and others):
            return False
        if (target.ids_unique == "request" or not target.results_adjacent) and not self.ids.came.isdisjoint(ids):
            return False
        counted = target.ids_unique != "turn"
        return (
            self.ids.allows(zip(ids, new_ids, strict=True), counted)
            and self.names.allows(zip(names, new_names, strict=True), counted=False)
            and others.isdisjoint(self.names.put)
        )


def notes(message: Message) -> list[str]:
    """The caller's notes on it, which are never sent."""
    return [key for key in message.extra if key[:1] == "_"]


def _differ(old: Message, new: Message) -> bool:
    return old is not new and old != new


def _newest_asking(messages: Sequence[Message]) -> int | None:
    return next((at for at in range(len(messages) - 1, -1, -1) if messages[at].asks), None)


def _said(message: Message) -> Message:
    said = tuple([part for part in message.parts if type(part) is not ToolResult])
    return message if len(said) == len(message.parts) else changed(message, parts=said)


def _is_marked(message: Message) -> bool:
    return any(True for part in message.parts for _ in head.marked(part))


def _call_ids(messages: Iterable[Message]) -> list[str | None]:
    return [part.id for message in messages for part in message.parts if type(part) is ToolCall]


def _call_names(messages: Iterable[Message]) -> list[str | None]:
    return [part.name for message in messages for part in message.parts if type(part) is ToolCall]


def _names(messages: Iterable[Message]) -> list[str | None]:
    """The names of tools in calls and results."""
    parts = (part for message in messages for part in message.parts)
    return [part.name for part in parts if isinstance(part, ToolCall | ToolResult) and part.name is not None]


def _chosen(changes: Iterable[Change], told: Callable[[Iterable[Message]], list[str | None]]) -> Iterator[Pair]:
    """What was put for what by the rules that choose: old and new."""
    for change in changes:
        if change.code in CHOSEN:
            yield from zip(told(change.old), told(change.new), strict=True)


def _defined(changes: Iterable[Change]) -> Iterator[Pair]:
    for change in changes:
        if change.code in CHOSEN and change.heads is not None:
            yield from zip(*map(tools.names, change.heads), strict=True)
