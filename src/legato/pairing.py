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
from dataclasses import dataclass, field

from legato.messages import ToolCall, ToolResult, Transcript


@dataclass(slots=True)
class Call:
    """One call of the walk, and the results found for it. Places are (message, part)."""

    at: int
    part: int
    call: ToolCall
    results: list[tuple[int, int]] = field(default_factory=list)

    @property
    def places(self) -> tuple[int, ...]:
        """The messages that hold the call and its results."""
        return tuple(dict.fromkeys((self.at, *[at for at, _ in self.results])))

    @property
    def half(self) -> bool:
        return not (self.call.name and self.call.name.strip()) or self.call.arguments is None

    @property
    def label(self) -> str:
        return f"{self.call.name or 'a call without a name'} ({self.call.id or 'no id'})"


def match(transcript: Transcript) -> tuple[list[Call], list[tuple[int, int]]]:
    """The calls in order, each with its results (the first is its answer, more are duplicates), and the orphans."""
    calls: list[Call] = []
    orphans: list[tuple[int, int]] = []
    open_calls: dict[str | None, list[tuple[int, deque[Call]]]] = {}
    newest: dict[str | None, Call] = {}
    run = 0
    for at, message in enumerate(transcript):
        run += not (at and message.role == transcript[at - 1].role == "assistant")
        for part, value in enumerate(message.parts):
            kind = type(value)
            if kind is ToolCall:
                assert isinstance(value, ToolCall)
                call = Call(at, part, value)
                calls.append(call)
                key = value.id or None
                turns = open_calls.setdefault(key, [])
                if turns and turns[-1][0] == run:
                    turns[-1][1].append(call)
                else:
                    turns.append((run, deque((call,))))
                newest[key] = call
            elif kind is ToolResult:
                assert isinstance(value, ToolResult)
                key = value.call_id or None
                turns = open_calls.get(key, [])
                if turns:
                    turns[-1][1].popleft().results.append((at, part))
                    if not turns[-1][1]:
                        turns.pop()
                elif key in newest:
                    newest[key].results.append((at, part))
                else:
                    orphans.append((at, part))
    return calls, orphans


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
