"""What the rules would change in a conversation of a session file, record by record.

A session is no request: who may follow whom, and what one provider wants beside, is settled when it is sent. So without
a profile only the rules apply on calls and results and on what a message is made of. With a profile all of its rules
do, judged as if the user spoke next: an answer at the end is no fault of a session.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from legato import profiles, wire
from legato.draft import Draft
from legato.edits import Request
from legato.errors import Unrepairable, WireError
from legato.messages import Fields, Json, Message, ToolResult, text_of, user
from legato.pipeline import OWN
from legato.pipeline import check as legato_check
from legato.profiles import Profile
from legato.report import Change, Ledger
from legato.rules import FAMILIES, Family, Violation, body, items, layout, pair, server
from legato.tokens import RATES, counter
from legato.transcripts.recording import Recording, Thread

SESSION: tuple[Family, ...] = (pair.find, layout.find, server.find, items.find, body.find)
"""What is mended without a profile."""
CODES = frozenset(rule.code for family in (pair, layout, items, body) for rule in family.TABLE)
"""The codes of those rules."""


class CannotWrite(WireError):
    """The file cannot be changed as the rules want it."""


@dataclass(frozen=True, slots=True)
class Row:
    """One message of the mended conversation. `old` is the piece it was (None: it is new), `new` the wire message where
    that is another."""

    old: int | None
    new: Json = None


def profile_for(form: str, name: str | None, model: Json = None) -> Profile:
    """The profile whose rules apply to a payload of this format: the format's own, or the one that was named."""
    name = OWN[form] if name is None else name
    found = profiles.get(f"{name}:{model}" if isinstance(model, str) and model and ":" not in name else name)
    if found.format == form:
        return found
    return profiles.sibling(found.name, form) or msgspec.structs.replace(found, format=form)


@dataclass(frozen=True, slots=True)
class Mended:
    """A mended conversation. `head` is what stands beside the messages, where that changed."""

    rows: list[Row]
    changes: tuple[Change, ...]
    head: Fields | None


def mend(thread: Thread, name: str | None, families: tuple[Family, ...] | None = None) -> Mended:
    """What the rules make of a conversation. `families` are those of a request. Raises `WireError`, `Unrepairable`."""
    if not thread.pieces and families is None:
        return Mended([], (), None)
    profile = profile_for(thread.format, name, thread.head.get("model") if families else None)
    rules = families or (SESSION if name is None else FAMILIES)
    key = wire.codec(thread.format).KEY
    messages = [piece.message for piece in thread.pieces]
    payload = {**thread.head, key: messages}
    before = wire.read(payload, thread.format)
    draft = None
    if rules is FAMILIES and families is None and before.transcript and before.transcript[-1].role == "assistant":
        draft = _as_if_asked(thread, profile, payload)
    if draft is None:
        draft = _drafted(before, profile).mend(rules)
    head = draft.request.head if draft.request.altered else None
    return Mended(_rows(before.transcript, draft, thread), draft.changes, head)


def check(recording: Recording, name: str | None, form: str | None = None) -> list[Violation]:
    """What is wrong with a recorded conversation, by the rules that would mend it. Raises as `legato.check` does."""
    if not recording.messages:
        return []
    form = form or recording.format
    codec = wire.codec(form)
    asked = name is not None and bool(recording.messages)
    messages = [*recording.messages, *codec.encode(user("?"))] if asked else recording.messages
    payload = {**recording.head, codec.KEY: messages} if recording.head else messages
    found = legato_check(payload, profile_for(form, name), format=form)
    if name is None:
        return [violation for violation in found if violation.code in CODES]
    return [violation for violation in found if violation.at is None or violation.at < len(recording.messages)]


def _drafted(request: Request, profile: Profile) -> Draft:
    ledger = Ledger(counter(profile.encoding), RATES[profile.rates], wire.codec(profile.format).encode)
    return Draft(request, (), profile, ledger)


def _as_if_asked(thread: Thread, profile: Profile, payload: dict[str, Json]) -> Draft | None:
    """The draft with a question after the end, taken off again; None if that became part of something else."""
    codec = wire.codec(thread.format)
    asked = {**payload, codec.KEY: [*payload[codec.KEY], *codec.encode(user("?"))]}
    draft = _drafted(wire.read(asked, thread.format), profile).mend(FAMILIES)
    last = draft.request.transcript[-1]
    if last.raw is not asked[codec.KEY][-1]:
        return None
    rest = msgspec.structs.replace(draft.request, transcript=draft.request.transcript[:-1])
    return Draft(rest, draft.changes, profile, draft.ledger)


def _rows(before: tuple[Message, ...], draft: Draft, thread: Thread) -> list[Row]:
    """The mended messages as rows, each piece used once; made-up results apart from what they were put into."""
    encode = wire.codec(thread.format).encode
    homes = {id(part): at for at, message in enumerate(before) for part in message.parts}
    rows: list[Row] = []
    used: set[int] = set()
    for message in draft.request.transcript:
        at = next((origin for origin in message.origin if origin not in used), None)
        if at is not None and message.raw is not None and message.raw is before[at].raw:
            used.add(at)
            rows.append(Row(at))
            continue
        foreign = _foreign(message, at, homes)
        rest = tuple([part for part in message.parts if not any(part is result for result in foreign)])
        made = _made(message.role, foreign, homes, before, used, encode)
        if not rest and made:
            rows += made
            continue
        own = _own(message, rest, at, before, encode)
        if at is not None:
            used.add(at)
        after = at is not None and bool(before[at].results)
        rows += [*own, *made] if after else [*made, *own]
    return rows


def _foreign(message: Message, at: int | None, homes: dict[int, int]) -> list[ToolResult]:
    """The results in a message of the user that came from elsewhere: moved here, or made up."""
    if message.role == "assistant":
        return []
    return [
        result
        for result in message.results
        if homes.get(id(result), at) != at or (id(result) not in homes and text_of(result.parts) == pair.BACKFILL)
    ]


def _made(
    role: str,
    foreign: list[ToolResult],
    homes: dict[int, int],
    before: tuple[Message, ...],
    used: set[int],
    encode: Json,
) -> list[Row]:
    """A row for each such result: the record that it was, if it was all of that."""
    rows = []
    for result in foreign:
        home = homes.get(id(result))
        if home is not None and len(before[home].parts) == 1 and home not in used:
            used.add(home)
            rows.append(Row(home))
        else:
            rows += [Row(None, item) for item in encode(Message(role, (result,)))]
    return rows


def _own(
    message: Message, rest: tuple[Json, ...], at: int | None, before: tuple[Message, ...], encode: Json
) -> list[Row]:
    """The rows of what is the message's own."""
    if at is not None and len(rest) == len(before[at].parts) and all(map(_is, rest, before[at].parts)):
        same_extra = message.role == before[at].role and message.extra == before[at].extra
        if same_extra:
            return [Row(at)]
    first, *more = encode(msgspec.structs.replace(message, parts=rest, raw=None))
    return [Row(at, first), *[Row(None, item) for item in more]]


def _is(one: Json, other: Json) -> bool:
    return one is other


def cannot(problem: Unrepairable) -> str:
    """Why it cannot be mended, in a line."""
    return "; ".join(map(str, problem.violations[:3]))
