"""Cache markers are moved with the prefix they mark.

A `cache_control` marker says: all up to here is worth caching. Where the message that carries it is dropped, or the
text that does is cleared, the newest thing before it that stays ends that prefix now, and gets the marker; if it has
one already, the two prefixes have become one. So there are never more markers than there were.
"""

from __future__ import annotations

from collections.abc import Sequence

from legato import wire
from legato.edits import HEAD, Edit, Request
from legato.fit.snip import OVER
from legato.messages import Json, Message, Text, ToolCall, ToolResult, changed
from legato.rules.head import MARKER, marked

MOVED = "the cache marker of [{origin}] was moved here, since that was cut"


def carry(request: Request, edits: Sequence[Edit], form: str) -> list[Edit]:
    """The edits, and those that put the markers they would lose on what stays before them."""
    put = {edit.at: edit for edit in edits if edit.at != HEAD}
    lost = [at for at, edit in put.items() if _count((request.transcript[at],)) > _count(edit.new)]
    if not lost:
        return list(edits)
    for at in sorted(lost):
        place = _place(request, put, at, form)
        if place is None:
            continue
        new = put[place].new if place in put else (request.transcript[place],)
        if _count(new[-1:]):
            continue
        edit = put.get(place)
        code, reason = (OVER.code, MOVED.format(origin=request.index(at))) if edit is None else (edit.code, edit.reason)
        put[place] = Edit(place, (*new[:-1], _marked(new[-1], _marker(request.transcript[at]))), code, reason)
    return [edit for edit in edits if edit.at == HEAD] + list(put.values())


def _place(request: Request, put: dict[int, Edit], at: int, form: str) -> int | None:
    """The newest place up to `at` at which something stays that can carry a marker."""
    for place in range(at, -1, -1):
        new = put[place].new if place in put else (request.transcript[place],)
        if new and new[-1].parts:
            part = new[-1].parts[-1]
            if type(part) is Text or (wire.holds_parts(form) and type(part) in (ToolCall, ToolResult)):
                return place
    return None


def _count(messages: Sequence[Message]) -> int:
    return sum(1 for message in messages for part in message.parts for _ in marked(part))


def _marker(message: Message) -> Json:
    """The newest marker of a message."""
    for part in reversed(message.parts):
        for at in marked(part):
            inner = part.parts[at] if isinstance(part, ToolResult) and at >= 0 else part
            return inner.extra[MARKER] if isinstance(inner, Text | ToolCall | ToolResult) else inner.raw[MARKER]
    raise AssertionError("asked only of a message that has one")


def _marked(message: Message, marker: Json) -> Message:
    part = message.parts[-1]
    assert isinstance(part, Text | ToolCall | ToolResult)
    extra = {**part.extra, MARKER: marker}
    new = changed(part, flat=False, extra=extra) if isinstance(part, Text) else changed(part, extra=extra)
    return changed(message, parts=(*message.parts[:-1], new))
