"""What was done, and what it cost: the edits themselves, with the messages they replaced.

Tokens are counted when they are read. A change's `tokens` is new minus old, so that `tokens_in` plus the sum over the
changes is `tokens_out`; all of them count everything that is sent: system, tools and messages.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from legato.edits import HEAD, Edit, Request
from legato.errors import WireError
from legato.messages import Fields, Json, Media, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult
from legato.tokens import Rates, head_tokens, message_tokens
from legato.wire import shape

Count = Callable[[str], int]


class Ledger:
    """Tokens of requests, by one counter. Each message object is counted once."""

    def __init__(self, count: Count, rates: Rates) -> None:
        self.count = count
        self.rates = rates
        self._known: dict[int, tuple[Message, int]] = {}

    def message(self, message: Message) -> int:
        """Tokens of one message. Raises `WireError` where its JSON is nested too deeply to be counted."""
        known = self._known.get(id(message))
        if known is not None and known[0] is message:
            return known[1]
        tokens = message_tokens(message, self.count, self.rates)
        self._known[id(message)] = (message, tokens)
        return tokens

    def messages(self, messages: Iterable[Message]) -> int:
        return sum([self.message(message) for message in messages])

    def request(self, request: Request) -> int:
        """Tokens of all that is sent."""
        return self.head(request.head) + self.messages(request.transcript)

    def head(self, head: Fields) -> int:
        """Tokens of what is no message: tools, a system field, a response schema, the fixed overhead."""
        return head_tokens(head, self.count, self.rates)


class Change:
    """One edit that was made. `at` is the caller's own index (None: the head), `code` the rule's."""

    def __init__(self, edit: Edit, before: Request, at: int | None, ledger: Ledger) -> None:
        self.code = edit.code
        self.at = at
        self.reason = edit.reason
        self.old: tuple[Message, ...] = () if edit.at == HEAD else (before.transcript[edit.at],)
        self.new = edit.new
        self._heads = (before.head, edit.head) if edit.head is not None else None
        self._ledger = ledger

    def __repr__(self) -> str:
        return f"<Change {self.code} at {self.at}: {self.reason}>"

    @cached_property
    def tokens(self) -> int:
        """New minus old: below zero where something was saved."""
        if self._heads is not None:
            old, new = self._heads
            return self._ledger.head(new) - self._ledger.head(old)
        return self._ledger.messages(self.new) - self._ledger.messages(self.old)

    @property
    def removed(self) -> tuple[str, ...]:
        """The texts of what was there that are in nothing that came instead."""
        after = [text for message in self.new for text in texts(message.parts)]
        return tuple(
            text
            for message in self.old
            for text in texts(message.parts)
            if text and not any(text in new for new in after)
        )

    def to_dict(self, contents: bool = False) -> dict[str, Json]:
        """As JSON. `contents` adds the messages before and after, and the texts that are gone."""
        row: dict[str, Json] = {"code": self.code, "at": self.at, "reason": self.reason, "tokens": self.tokens}
        if contents:
            row["before"] = [describe(message) for message in self.old]
            row["after"] = [describe(message) for message in self.new]
            row["removed"] = list(self.removed)
            if self._heads is not None:
                row["head_before"], row["head_after"] = map(dict, self._heads)
        return row


class Report:
    """What `govern` or `repair` did. `budget` is tokens, None where no window is known; `notes` are remarks."""

    def __init__(
        self,
        before: Request,
        after: Request,
        changes: Sequence[Change],
        budget: int | None,
        ledger: Ledger,
        notes: Sequence[str],
    ) -> None:
        self.changes = tuple(changes)
        self.budget = budget
        self.notes = tuple(notes)
        self._before = before
        self._after = after
        self._ledger = ledger

    @cached_property
    def tokens_in(self) -> int:
        return self._ledger.request(self._before)

    @cached_property
    def tokens_out(self) -> int:
        return self._ledger.request(self._after) if self._after is not self._before else self.tokens_in

    @property
    def fits(self) -> bool | None:
        """Whether what came out is within the budget; None without one."""
        return None if self.budget is None else self.tokens_out <= self.budget

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The report as a person reads it: the account, then the changes, neighbours of one code together."""
        budget = "no window is known, so nothing was cut" if self.budget is None else f"budget {self.budget:,}"
        lines = [f"{self.tokens_in:,} -> {self.tokens_out:,} tokens ({budget}), {_count(self.changes, 'change')}"]
        for group in grouped(self.changes):
            lines.append("  " + summary(group))
        lines.extend(f"  note: {note}" for note in self.notes)
        return lines

    def to_dict(self, contents: bool = False) -> dict[str, Json]:
        """As JSON. Without `contents` nothing that a message says is in it, save ids and names of tools."""
        return {
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "budget": self.budget,
            "fits": self.fits,
            "changes": [change.to_dict(contents) for change in self.changes],
            "notes": list(self.notes),
        }

    def diff(self) -> str:
        """What was sent against what came in, as a unified diff of one line a message field."""
        before = [line for message in self._before.transcript for line in _lines(message)]
        after = [line for message in self._after.transcript for line in _lines(message)]
        return "\n".join(difflib.unified_diff(before, after, "before", "after", lineterm="", n=2))


def grouped(changes: Iterable[Change]) -> list[list[Change]]:
    """The changes in order, neighbours of one code together."""
    groups: list[list[Change]] = []
    for change in changes:
        if groups and groups[-1][0].code == change.code and (len(groups[-1][0].new) == 0) == (len(change.new) == 0):
            groups[-1].append(change)
        else:
            groups.append([change])
    return groups


def summary(group: Sequence[Change]) -> str:
    """One line for changes of one code: where, why, and the tokens."""
    places = sorted({change.at for change in group if change.at is not None})
    tokens = sum(change.tokens for change in group)
    where = "head" if not places else f"[{places[0]}]" if len(places) == 1 else f"[{places[0]}..{places[-1]}]"
    more = f" (and {len(group) - 1:,} more)" if len(group) > 1 else ""
    return f"{group[0].code} {where} {group[0].reason}{more}, {tokens:+,} tokens"


def describe(message: Message) -> Json:
    """A message as JSON: the wire's own where it is unchanged, else its role and parts."""
    if message.raw is not None:
        return message.raw
    return {"role": message.role, "parts": [_described(part) for part in message.parts]}


def _described(part: Part) -> Json:
    match part:
        case Text():
            return {"text": part.text}
        case Reasoning():
            return {part.field: part.text or part.raw}
        case ToolCall():
            return {"call": part.name, "id": part.id, "arguments": part.arguments}
        case ToolResult():
            return {"result_of": part.call_id, "name": part.name, "parts": [_described(inner) for inner in part.parts]}
        case Media() | Opaque():
            return part.raw


def texts(parts: Iterable[Part]) -> list[str]:
    """Every text the parts hold, those of results, reasoning, arguments and media too."""
    found: list[str] = []
    for part in parts:
        match part:
            case Text():
                found.append(part.text)
            case Reasoning():
                found.append(part.text or _json(part.raw))
            case ToolCall():
                found.append(part.arguments if isinstance(part.arguments, str) else _json(part.arguments))
            case ToolResult():
                found.extend(texts(part.parts))
            case Media() | Opaque():
                found.append(_json(part.raw))
    return found


def _json(value: Json) -> str:
    try:
        return shape.dump(value)
    except RecursionError:
        raise WireError("", "JSON nested too deeply") from None


def _lines(message: Message) -> list[str]:
    lines = [f"{message.role}:"]
    for part in message.parts:
        lines.extend(f"    {line}" for line in json.dumps(_described(part), ensure_ascii=False, indent=1).splitlines())
    return lines


def _count(things: Sequence[object], name: str) -> str:
    return f"{len(things):,} {name}{'' if len(things) == 1 else 's'}"
