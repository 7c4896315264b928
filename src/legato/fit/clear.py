"""Clearing: a result becomes a line, the long strings of a call's arguments become short ones.

The line says that the call was done, so that the model does not take it for one that failed. What legato wrote itself
is never cleared again, and nothing is cleared that would not save tokens.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from legato.edits import Edit
from legato.errors import PolicyError
from legato.fit.cutting import unmarked
from legato.fit.microcompact import KEPT, RECALL, STALE, Keep, said
from legato.messages import Json, Message, Part, Text, ToolCall, ToolResult, changed
from legato.pairing import Call
from legato.rules.pair import BACKFILL
from legato.rules.violation import Rule

ARGUMENTS = Rule("SIZE006", "long-arguments", "The arguments of an old call fill the window.")

LINE = "[{tool} was done. Its result, {tokens:,} tokens, was left out to save context.]"
SHORT = "[{tokens:,} tokens left out]"

Cost = Callable[[Message], int]


class Clearing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which results and arguments are cleared, and what stands for them."""

    include: tuple[str, ...] = ()
    """The tools whose results are cleared; none named: all."""
    exclude: tuple[str, ...] = ()
    """The tools whose results and arguments are never cleared."""
    min_tokens: int = 100
    """Smaller results and argument strings are left alone."""
    arguments: bool = True
    """Whether long strings of arguments are cleared too."""
    placeholder: str = LINE
    """What stands for a result: `{tool}` is the tool's name, `{tokens}` what the result took. With a store it is
    `KEPT`, which has the handle."""

    def __post_init__(self) -> None:
        try:
            self.placeholder.format(tool="", tokens=0)
        except (KeyError, IndexError, ValueError) as problem:
            raise PolicyError(
                f"the placeholder {self.placeholder!r} may only name {{tool}} and {{tokens}}"
            ) from problem

    def takes(self, tool: str | None) -> bool:
        """Whether results of this tool may be cleared."""
        return tool not in self.exclude and (not self.include or tool in self.include)


class Repeat(msgspec.Struct, frozen=True):
    """A result that a later call reads again: unit, message and part, and the unit in which that call stands."""

    unit: int
    at: int
    part: int
    again: int


class Cleared:
    """What has been cleared in one transcript so far."""

    def __init__(
        self, transcript: Sequence[Message], clearing: Clearing, count: Callable[[str], int], keep: Keep | None = None
    ) -> None:
        self.transcript, self.clearing, self.count, self.keep = transcript, clearing, count, keep
        self.tools: dict[tuple[int, int], str | None] = {}
        self.latest: dict[tuple[str, str], tuple[int, int]] = {}
        self.new: dict[int, Message] = {}
        self.reasons: dict[int, tuple[Rule, str]] = {}

    def edits(self) -> list[Edit]:
        """One edit a message in which something was cleared."""
        return [Edit(at, (new,), self.reasons[at][0].code, self.reasons[at][1]) for at, new in self.new.items()]

    def results(self, at: int, cost: Cost) -> int:
        """Clear the results of a message. The tokens that saves."""
        parts = range(len(self.transcript[at].parts))
        return sum(self.result(at, part, cost) for part in parts)

    def result(self, at: int, part: int, cost: Cost) -> int:
        """Clear one result, if it is one that may be. The tokens that saves."""
        found = self.transcript[at].parts[part]
        if not isinstance(found, ToolResult):
            return 0
        tool = found.name or self.tools.get((at, part))
        text = said(found)
        if text is None or text == BACKFILL or not self.clearing.takes(tool):
            return 0
        if self.count(unmarked(text)) < self.clearing.min_tokens:
            return 0
        tokens = self.count(text)
        named = tool or "The tool"
        if self.keep is None or tool == RECALL:  # what was recalled is kept already
            line = self.clearing.placeholder.format(tool=named, tokens=tokens)
        else:
            line = KEPT.format(tool=named, tokens=tokens, handle=self.keep(text))
        if self.count(line) >= tokens:
            return 0
        new = changed(found, parts=(Text(line, flat=True),))
        return self._replace(at, part, new, STALE, f"an old result of {tool or 'a tool'}", cost)

    def arguments(self, at: int, cost: Cost) -> int:
        """Shorten the long strings in the arguments of a message's calls. The tokens that saves."""
        if not self.clearing.arguments:
            return 0
        saved = 0
        for part, call in enumerate(self.now(at).parts):
            if isinstance(call, ToolCall) and call.name not in self.clearing.exclude:
                new = self._shortened(call)
                if new is not call:
                    saved += self._replace(
                        at, part, new, ARGUMENTS, f"long arguments of an old call of {call.name}", cost
                    )
        return saved

    def learn(self, calls: Iterable[Call], offset: int, unit_of: Sequence[int]) -> Iterator[Repeat]:
        """Take on calls whose places are counted from `offset`. The results they read again, in order."""
        for call in calls:
            results = [(at + offset, part) for at, part in call.results]
            for place in results:
                self.tools[place] = call.call.name
            if not results or call.call.name is None:
                continue
            key = (call.call.name, _key(call.call.arguments))
            before = self.latest.get(key)
            if before is not None:
                yield Repeat(unit_of[before[0]], *before, unit_of[call.at + offset])
            self.latest[key] = results[0]

    def now(self, at: int) -> Message:
        """A message as it is sent now."""
        return self.new.get(at, self.transcript[at])

    def _replace(self, at: int, part: int, new: Part, rule: Rule, reason: str, cost: Cost) -> int:
        old = self.now(at)
        message = changed(old, parts=(*old.parts[:part], new, *old.parts[part + 1 :]))
        return self.put(at, message, rule, reason, cost)

    def put(self, at: int, message: Message, rule: Rule, reason: str, cost: Cost) -> int:
        """Send this in the place of a message, if it costs less. The tokens that saves."""
        saved = cost(self.now(at)) - cost(message)
        if saved <= 0:
            return 0
        self.new[at] = message
        self.reasons[at] = (rule, reason)
        return saved

    def _shortened(self, call: ToolCall) -> ToolCall:
        as_text = isinstance(call.arguments, str)
        if call.free:
            return call
        try:
            value = json.loads(call.arguments) if as_text else call.arguments
            new = self._short(value, 0)
        except (ValueError, RecursionError):
            return call
        if new is value:
            return call
        return changed(call, arguments=json.dumps(new, ensure_ascii=False) if as_text else new)

    def _short(self, value: Json, depth: int) -> Json:
        if isinstance(value, str):
            if len(value) < self.clearing.min_tokens:
                return value
            tokens = self.count(value)
            return SHORT.format(tokens=tokens) if tokens >= self.clearing.min_tokens else value
        if depth > 50:
            return value
        if isinstance(value, dict):
            pairs = {key: self._short(item, depth + 1) for key, item in value.items()}
            return pairs if any(pairs[key] is not value[key] for key in pairs) else value
        if isinstance(value, list):
            items = [self._short(item, depth + 1) for item in value]
            return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
        return value


def _key(arguments: Json) -> str:
    """Arguments as a text that is the same for the same JSON."""
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
        return json.dumps(value, sort_keys=True)
    except (ValueError, RecursionError, TypeError):
        return str(arguments)
