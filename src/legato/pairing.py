"""Which result answers which call.

Matching is an ordered walk, a call at a time, never a set of ids: an id may come again in a later turn. A result
answers the newest open call of its id before it, within one turn (a run of assistant messages) the first; then older
open ones. With none open it
is a duplicate if its id was called before, else an orphan. A call or result without an id matches only its like, by
position.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

from legato.messages import ToolCall, ToolResult, Transcript


class Call(msgspec.Struct, gc=False):
    """One call of the walk, and the results found for it. Places are (message, part)."""

    at: int
    part: int
    call: ToolCall
    results: list[tuple[int, int]] = []

    @property
    def places(self) -> tuple[int, ...]:
        """The messages that hold the call and its results."""
        return tuple(dict.fromkeys((self.at, *[at for at, _ in self.results])))

    @property
    def half(self) -> bool:
        return not self.call.name or self.call.name.isspace() or self.call.arguments is None

    @property
    def label(self) -> str:
        return f"{self.call.name or 'a call without a name'} ({self.call.id or 'no id'})"


def match(transcript: Transcript) -> tuple[list[Call], list[tuple[int, int]]]:
    """The calls in order, each with its results (the first is its answer, more are duplicates), and the orphans."""
    calls: list[Call] = []
    orphans: list[tuple[int, int]] = []
    newest: dict[str | None, Call] = {}
    waiting: dict[str | None, Waiting] = {}
    run, before = 0, ""
    for at, message in enumerate(transcript):
        role = message.role
        if role != "assistant" or before != role:
            run, before = at, role
        for part, value in enumerate(message.parts):
            if type(value) is ToolCall:
                call = Call(at, part, value)
                calls.append(call)
                key = value.id or None
                other = newest.get(key)
                if other is not None and (not other.results or waiting.get(key)):
                    _wait(waiting.setdefault(key, []), other, call, run)
                newest[key] = call
            elif type(value) is ToolResult:
                key = value.call_id or None
                answered = _next(waiting[key]) if waiting and waiting.get(key) else newest.get(key)
                if answered is None:
                    orphans.append((at, part))
                else:
                    answered.results.append((at, part))
    return calls, orphans


Waiting: TypeAlias = list[tuple[int, deque[Call]]]
"""The open calls of one id, kept as soon as there are two: turn by turn, each with where it starts."""


def _wait(turns: Waiting, other: Call, call: Call, run: int) -> None:
    """Add an open call, and the one before it if it is not among them yet. `run`: where the turn of `call` starts."""
    if not turns:
        turns.append((min(other.at, run), deque((other,))))
    if turns[-1][0] == run:
        turns[-1][1].append(call)
    else:
        turns.append((run, deque((call,))))


def _next(turns: Waiting) -> Call:
    """Take the call that the next result answers: of the newest turn the first."""
    call = turns[-1][1].popleft()
    if not turns[-1][1]:
        turns.pop()
    return call


def turns(transcript: Transcript, calls: Iterable[Call], by_run: bool) -> Iterator[tuple[int, list[Call]]]:
    """The calls by turn, each with the index of its last message. `by_run`: neighbours of one role are one turn."""
    end = -1
    turn: list[Call] = []
    for call in calls:
        if turn and call.at > end:
            yield end, turn
            turn = []
        turn.append(call)
        end = max(end, call.at)
        if by_run:
            while end + 1 < len(transcript) and transcript[end + 1].role == "assistant":
                end += 1
    if turn:
        yield end, turn
