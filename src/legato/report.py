"""What was done, and what it cost: the edits themselves, with the messages they replaced.

Tokens are counted when they are read. A change's `tokens` is new minus old, so that `tokens_in` plus the sum over the
changes is `tokens_out`; all of them count everything that is sent: system, tools and messages.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from math import ceil

from legato import fit
from legato.edits import HEAD, Edit, Request
from legato.errors import WireError
from legato.fit.fold import Broke
from legato.messages import Fields, Json, Media, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult
from legato.rules import RULES, Rule
from legato.tokens import Rates, TextCounter, head_tokens, message_tokens, most_tokens
from legato.wire import shape

Count = Callable[[str], int]

CODES: dict[str, Rule] = {**RULES, **{rule.code: rule for rule in fit.TABLE}}
"""Every code that a change may carry: those of the rules, and those of the ways to save tokens."""

RANGES = 4
"""A line names so many places or ranges of places; of more it says how many messages they are."""


class Ledger:
    """Tokens of requests, by one counter, and how a message is written. Each message object is counted once.

    `factor` is what the provider counts for one token of the counter. Each message and the head are rounded up by
    themselves, so that an account still adds up.
    """

    def __init__(
        self, count: Count, rates: Rates, encode: Callable[[Message], tuple[Json, ...]], factor: float = 1.0
    ) -> None:
        self.count = count
        self.rates = rates
        self.encode = encode
        self.factor = factor
        self._known: dict[int, tuple[Message, int]] = {}
        self._head: tuple[Fields, int] | None = None

    def message(self, message: Message) -> int:
        """Tokens of one message. Raises `WireError` where its JSON is nested too deeply to be counted."""
        return ceil(self.counted(message) * self.factor)

    def counted(self, message: Message) -> int:
        """What the counter says of one message, uncorrected."""
        known = self._known.get(id(message))
        if known is not None and known[0] is message:
            return known[1]
        tokens = message_tokens(message, self.count, self.rates)
        self._known[id(message)] = (message, tokens)
        return tokens

    def most(self, message: Message) -> int:
        """No less than what the message costs, told without counting: no token is less than a byte.

        A counter of the caller's own may count as it likes; so it is asked.
        """
        if not isinstance(self.count, TextCounter):
            return self.message(message)
        return ceil(most_tokens(message, self.count.most, self.rates) * self.factor)

    def spent(self, messages: Sequence[Message], room: int) -> int:
        """What messages cost. As long as even their bytes leave room nothing is counted: then it is their `most`."""
        if isinstance(self.count, TextCounter):
            count, rates = self.count.most, self.rates
            weight = ceil(sum([most_tokens(message, count, rates) for message in messages]) * self.factor)
            weight += len(messages)  # each is rounded up
            if weight <= room:
                return weight
        return self.messages(messages)

    def within(self, request: Request, most: int) -> bool:
        """Whether a request costs no more than so many tokens."""
        room = most - self.head(request.head)
        return self.spent(request.transcript, room) <= room

    def messages(self, messages: Iterable[Message]) -> int:
        return sum([self.message(message) for message in messages])

    def request(self, request: Request) -> int:
        """Tokens of all that is sent."""
        return self.head(request.head) + self.messages(request.transcript)

    def head(self, head: Fields) -> int:
        """Tokens of what is no message: tools, a system field, a response schema, the fixed overhead."""
        if self._head is None or self._head[0] is not head:
            self._head = head, head_tokens(head, self.count, self.rates)
        return ceil(self._head[1] * self.factor)

    def text(self, text: str) -> int:
        """Tokens of one text, as the provider is expected to count it."""
        return ceil(self.count(text) * self.factor)


class Change:
    """One edit that was made. `at` is the caller's own index (None: the head), `code` the rule's."""

    def __init__(self, edit: Edit, before: Request, at: int | None, ledger: Ledger, harmless: bool) -> None:
        self.code = edit.code
        self.at = at
        self.reason = edit.reason
        self.old: tuple[Message, ...] = () if edit.at == HEAD else (before.transcript[edit.at],)
        self.new = edit.new
        self.harmless = harmless
        self.heads = (before.head, edit.head) if edit.head is not None else None
        self._ledger = ledger

    def __repr__(self) -> str:
        return f"<Change {self.code} at {self.at}: {self.reason}>"

    @cached_property
    def tokens(self) -> int:
        """New minus old: below zero where something was saved."""
        if self.heads is not None:
            old, new = self.heads
            return self._ledger.head(new) - self._ledger.head(old)
        return self._ledger.messages(self.new) - self._ledger.messages(self.old)

    @property
    def removed(self) -> tuple[str, ...]:
        """The texts of what was there that are in nothing that came instead. Nothing where the change loses nothing."""
        if self.harmless:
            return ()
        after = [text for message in self.new for text in (*texts(message.parts), *_fields(message))]
        return tuple(
            text
            for message in self.old
            for text in (*texts(message.parts), *_fields(message))
            if text and not any(text in new for new in after)
        )

    def to_dict(self, contents: bool = False) -> dict[str, Json]:
        """As JSON. `contents` adds the messages before and after, and the texts that are gone."""
        row: dict[str, Json] = {"code": self.code, "at": self.at, "reason": self.reason, "tokens": self.tokens}
        if contents:
            row["before"], row["after"] = self._written(self.old), self._written(self.new)
            row["removed"] = list(self.removed)
            if self.heads is not None:
                row["head_before"], row["head_after"] = map(dict, self.heads)
        return row

    def _written(self, messages: Sequence[Message]) -> Json:
        """The wire items of messages as nothing but JSON: what an SDK takes as bytes is base64."""
        return json.loads(shape.dump([item for message in messages for item in self._ledger.encode(message)]))


class Report:
    """What `govern` or `repair` did. `budget` is tokens, None where no window is known; `notes` are remarks.

    `folds` are the requests of this history before which the cut moved, and up to which message the prefix was kept.
    """

    def __init__(
        self,
        before: Request,
        after: Request,
        changes: Sequence[Change] | Callable[[], Sequence[Change]],
        budget: int | None,
        ledger: Ledger,
        notes: Sequence[str],
        folds: Sequence[Broke] = (),
    ) -> None:
        self.folds = tuple(folds)
        self.budget = budget
        self.notes = tuple(notes)
        self._before = before
        self._after = after
        self._changes = changes
        self._ledger = ledger

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """What was done, in its order. A session tells it when it is first asked."""
        return tuple(self._changes() if callable(self._changes) else self._changes)

    @cached_property
    def tokens_in(self) -> int:
        return self._ledger.request(self._before)

    @cached_property
    def tokens_out(self) -> int:
        return self._ledger.request(self._after) if self._after is not self._before else self.tokens_in

    @property
    def factor(self) -> float:
        """What the provider is expected to count for one token of the counter."""
        return self._ledger.factor

    @cached_property
    def counted(self) -> int:
        """What came out in tokens of the counter, uncorrected: what a `Calibration` is told."""
        head = head_tokens(self._after.head, self._ledger.count, self._ledger.rates)
        return head + sum(map(self._ledger.counted, self._after.transcript))

    @property
    def fits(self) -> bool | None:
        """Whether what came out is within the budget; None without one."""
        return None if self.budget is None else self.tokens_out <= self.budget

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, full: bool = False) -> list[str]:
        """The report as a person reads it: the account, then a line a code, or if `full` a line a reason."""
        budget = "no window is known, so nothing was cut" if self.budget is None else f"budget {self.budget:,}"
        if not self.changes:
            lines = [f"{self.tokens_in:,} tokens ({budget}), nothing had to change"]
        else:
            lines = [f"{self.tokens_in:,} -> {self.tokens_out:,} tokens ({budget}), {_count(self.changes, 'change')}"]
        lines += table(self.changes, full)
        if self.folds:
            last = self.folds[-1]
            when = "now" if last.at is None else f"before [{last.at}]"
            lines.append(f"  cache: folded {_count(self.folds, 'time')}, last {when}; unchanged since: [..{last.kept}]")
        lines += [f"  note: {note}" for note in self.notes]
        return lines

    def to_dict(self, contents: bool = False) -> dict[str, Json]:
        """As JSON. Without `contents` nothing that a message says is in it, save ids and names of tools."""
        return {
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "budget": self.budget,
            "fits": self.fits,
            "changes": [change.to_dict(contents) for change in self.changes],
            "folds": [{"at": fold.at, "kept": fold.kept} for fold in self.folds],
            "notes": list(self.notes),
        }

    def diff(self) -> str:
        """What came in against what is sent, a piece a message: `@@ [index] role @@` with its unified diff."""
        before, after = self._before.transcript, self._after.transcript
        kept = {at for message in after for at in message.origin}
        heads = [_pretty(request.head) for request in (self._before, self._after)]
        lines = _hunk("head", *heads)
        at = 0
        for message in (*after, None):
            end = len(before) if message is None else max(message.origin, default=at - 1) + 1
            for gone in range(at, end):
                if gone not in kept:
                    lines += _hunk(f"[{gone}] {before[gone].role}, dropped", _lines(before[gone]), [])
            at = max(at, end)
            if message is not None and not (len(message.origin) == 1 and before[message.origin[0]] is message):
                old = [line for origin in message.origin for line in _lines(before[origin])]
                where = ranges(message.origin) if message.origin else "added"
                lines += _hunk(f"{where} {message.role}", old, _lines(message))
        return "\n".join(lines)


def table(changes: Iterable[Change], full: bool = False) -> list[str]:
    """The changes in columns: code and name, tokens, where, why. A line a code, or if `full` a line a reason."""
    groups: dict[tuple[str, str], list[Change]] = {}
    for change in changes:
        groups.setdefault((change.code, change.reason if full else ""), []).append(change)
    rows = []
    for (code, _), group in groups.items():
        reasons = list(dict.fromkeys(change.reason for change in group))
        why = reasons[0] + (f"; and {len(reasons) - 1:,} more like it" if len(reasons) > 1 else "")
        where = ranges([change.at for change in group], None if full else RANGES)
        rows.append((f"{code} {CODES[code].name}", f"{sum(change.tokens for change in group):+,}", where, why))
    rule, cost, place = (max((len(row[column]) for row in rows), default=0) for column in range(3))
    return [f"  {row[0]:<{rule}}  {row[1]:>{cost}}  {row[2]:<{place}}  {row[3]}" for row in rows]


def ranges(places: Iterable[int | None], most: int | None = None) -> str:
    """Indexes as `[2] [4..9]`, the head as `head`. Where there are more than `most`, how many messages that is."""
    found = sorted({at for at in places if at is not None})
    runs: list[list[int]] = []
    for at in found:
        if runs and at == runs[-1][-1] + 1:
            runs[-1][1:] = [at]
        else:
            runs.append([at])
    shown = [f"[{'..'.join(map(str, run))}]" for run in runs[:most]]
    if len(shown) < len(runs):
        shown.append(f"… {len(found):,} messages")
    return " ".join(shown) or "head"


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


def _fields(message: Message) -> list[str]:
    """What the fields of a message say that are no parts of it. The caller's notes are his own."""
    return [
        value if isinstance(value, str) else _json(value)
        for key, value in message.extra.items()
        if key[:1] != "_" and value not in (None, "", [], {})
    ]


def _json(value: Json) -> str:
    try:
        return shape.dump(value)
    except RecursionError:
        raise WireError("", "JSON nested too deeply") from None


def _hunk(title: str, old: Sequence[str], new: Sequence[str]) -> list[str]:
    """A title and the lines that differ, each with a neighbour; nothing if none do."""
    lines = list(difflib.unified_diff(old, new, lineterm="", n=1))[3:]
    return [f"@@ {title} @@", *["   …" if line.startswith("@@") else line for line in lines]] if lines else []


def _lines(message: Message) -> list[str]:
    """A message as lines: its role and fields, then what each part says."""
    fields = {"role": message.role, "name": message.name, **message.extra}
    lines = [f"{key}: {_json(value)}" for key, value in fields.items() if value is not None or key in message.extra]
    return lines + [line for part in message.parts for line in said(part)]


def said(part: Part) -> list[str]:
    """What a part says, as lines that a person can read."""
    match part:
        case Text():
            return part.text.split("\n")
        case Reasoning():
            return [f"{part.field}:", *(part.text or _json(part.raw)).split("\n")]
        case ToolCall():
            arguments = part.arguments if isinstance(part.arguments, str) else _json(part.arguments)
            return [f"call {part.name} (id {part.id}): {arguments}"]
        case ToolResult():
            return [f"result of {part.call_id}:", *[line for inner in part.parts for line in said(inner)]]
        case Media() | Opaque():
            return [_json(part.raw)]


def _pretty(head: Fields) -> list[str]:
    return [f"{key}: {_json(value)}" for key, value in head.items()]


def _count(things: Sequence[object], name: str) -> str:
    return f"{len(things):,} {name}{'' if len(things) == 1 else 's'}"
