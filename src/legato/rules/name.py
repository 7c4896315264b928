"""NAME: the ids of calls and the names of tools.

New ids are a function of the old one alone (and of how often it came before, where they have to differ), so the same
history gets the same ids on every request and in every process. They are nine letters or digits, which every API
takes. They stand on both sides: in the call and in its result.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from legato.edits import HEAD, Edit, Request
from legato.messages import Message, ToolCall, ToolResult, Transcript, changed
from legato.pairing import Call, turns
from legato.profiles import Profile
from legato.rules.violation import Fix, Rule, Violation
from legato.wire import tools

REUSED = Rule("NAME001", "reused-call-id", "Two calls share an id where ids must differ.")
BAD_ID = Rule("NAME002", "bad-call-id", "The id of a call is missing, too long, or of letters the provider refuses.")
BAD_NAME = Rule("NAME003", "bad-tool-name", "The name of a tool has letters or a length the provider refuses.")
UNDECLARED = Rule("NAME004", "undeclared-tool", "The history calls a tool that the request does not define.")
TABLE = (REUSED, BAD_ID, BAD_NAME, UNDECLARED)

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ID_LENGTH = 9
CALLED = (ToolCall, ToolResult)
ANY = re.compile(".*", re.DOTALL)


def find(request: Request, profile: Profile) -> Iterator[Violation]:
    """The ids first, then the names. Each message is changed once for each of the two."""
    calls, _ = request.pairs
    if calls and not _are_fine([call.call.id for call in calls if call.call.id], len(calls), profile):
        yield from _ids(request, calls, profile)
    if profile.name_shape is not None or profile.reserved_names:
        yield from _names(request, profile.name_shape or ANY, profile)
    if not profile.tools_declared:
        yield from _undeclared(request, calls)


def _are_fine(ids: list[str], calls: int, profile: Profile) -> bool:
    """Whether the ids of so many calls are beyond doubt: told at once, without looking at the turns."""
    return (
        (len(ids) == calls or not profile.ids_required)
        and (profile.ids_unique == "no" or len(set(ids)) == len(ids))
        and (profile.id_shape is None or all(map(profile.id_shape.fullmatch, ids)))
        and (not profile.id_max or max(map(len, ids), default=0) <= profile.id_max)
    )


def _ids(request: Request, calls: list[Call], profile: Profile) -> Iterator[Violation]:
    transcript = request.transcript
    taken = {call.call.id for call in calls if call.call.id}
    renamed: dict[int, dict[int, str]] = {}
    found: list[tuple[Rule, Call, str]] = []
    seen: Counter[str | None] = Counter()
    minted: dict[tuple[str | None, int], str] = {}
    nameless = 0
    for _, turn in turns(transcript, calls, profile.pairs_by_run):
        if profile.ids_unique == "turn":
            seen.clear()
        for call in turn:
            old = call.call.id or None
            fault = None if "function_call" in call.call.extra else _fault(old, seen[old], profile)
            if fault is not None:
                nth = nameless if old is None else seen[old]
                nameless += old is None
                new = minted.get((old, nth)) or _mint(f"{old}#{nth}" if old is None or nth else old, taken)
                minted[old, nth] = new
                found.append((fault[0], call, fault[1]))
                for at, part in ((call.at, call.part), *call.results):
                    renamed.setdefault(at, {})[part] = new
            seen[old] += 1
    reasons = {at: (rule.code, reason) for rule, call, reason in reversed(found) for at in call.places}
    edits = {at: _rename(transcript, at, ids, *reasons[at]) for at, ids in renamed.items()}
    for rule, call, reason in found:
        fix = Fix("give call and result a new id", "safe", tuple(edits[at] for at in call.places))
        where = request.index(call.at)
        severity = profile.severity(
            "ids_unique" if rule is REUSED else "id_pattern" if profile.id_pattern else "id_max"
        )
        yield Violation(rule.code, where, reason, severity, f"[{where}]", fix)


def _fault(call_id: str | None, before: int, profile: Profile) -> tuple[Rule, str] | None:
    if call_id is None:
        return (BAD_ID, "a call has no id") if profile.ids_required else None
    if profile.id_shape is not None and not profile.id_shape.fullmatch(call_id):
        return BAD_ID, f"the id {call_id!r} does not match {profile.id_pattern}"
    if profile.id_max and len(call_id) > profile.id_max:
        return BAD_ID, f"the id {call_id!r} is longer than {profile.id_max} characters"
    if before and profile.ids_unique != "no":
        return REUSED, f"the id {call_id!r} is used again in one {profile.ids_unique}"
    return None


def _mint(seed: str, taken: set[str]) -> str:
    """Nine letters or digits made of a seed; the next seed if those are taken. The result is taken too."""
    for step in range(len(taken) + 1):
        number = int.from_bytes(hashlib.sha256(f"{seed}/{step}".encode("utf-8", "surrogatepass")).digest()[:8])
        letters = []
        for _ in range(ID_LENGTH):
            number, rest = divmod(number, len(ALPHABET))
            letters.append(ALPHABET[rest])
        new = "".join(letters)
        if new not in taken:
            break
    taken.add(new)
    return new


def _rename(transcript: Transcript, at: int, ids: dict[int, str], code: str, reason: str) -> Edit:
    message = transcript[at]
    parts = list(message.parts)
    for place, new in ids.items():
        part = parts[place]
        parts[place] = changed(part, call_id=new) if isinstance(part, ToolResult) else _with_id(part, new)
    return Edit(at, (changed(message, parts=tuple(parts)),), code, f"{reason}: now {', '.join(ids.values())}")


def _with_id(part: object, new: str) -> ToolCall:
    assert isinstance(part, ToolCall)
    return changed(part, id=new)


def _names(request: Request, shape: re.Pattern[str], profile: Profile) -> Iterator[Violation]:
    """Tool names in the definitions, the calls and the results, by one map."""
    used = {part.name for message in request.transcript for part in message.parts if isinstance(part, CALLED)}
    defined = tools.names(request.head)
    if not any(name and _is_bad(name, shape, profile) for name in used.union(defined)):
        return
    names = dict.fromkeys([*defined, *[name for message in request.transcript for name in _named(message)]])
    bad = [name for name in names if _is_bad(name, shape, profile)]
    taken = set(names)
    new = {name: _sanitise(name, shape, taken) for name in bad}
    found: list[tuple[int | None, str, str]] = []
    edits: list[Edit] = []
    if any(name in new for name in defined):
        reason = f"tool names are refused: {', '.join(name for name in defined if name in new)}"
        found.append((None, "tools", reason))
        edits.append(Edit(HEAD, (), BAD_NAME.code, reason, tools.rename(request.head, new)))
    for at, message in enumerate(request.transcript):
        refused = [name for name in _named(message) if name in new]
        if refused:
            why = "is reserved" if refused[0] in profile.reserved_names else f"does not match {profile.name_pattern}"
            where, reason = request.index(at), f"the tool name {refused[0]!r} {why}"
            found.append((where, f"[{where}]", reason))
            edits.append(Edit(at, (_with_names(message, new),), BAD_NAME.code, reason))
    # One fix for all of them: while new ids go first in some messages, no name is put in others.
    fix = Fix("put _ for what is refused, everywhere", "safe", tuple(edits))
    for where, place, reason in found:
        yield Violation(BAD_NAME.code, where, reason, profile.severity("name_pattern"), place, fix)


def _is_bad(name: str, shape: re.Pattern[str], profile: Profile) -> bool:
    return name in profile.reserved_names or not shape.fullmatch(name)


def _undeclared(request: Request, calls: list[Call]) -> Iterator[Violation]:
    """A warning: the model may call it again, and the provider then ends the answer with an error."""
    defined = set(tools.names(request.head))
    if not defined:
        return
    for call in calls:
        if call.call.name and call.call.name not in defined:
            where = request.index(call.at)
            reason = f"{call.call.name} is called, and not among the tools of the request"
            yield Violation(UNDECLARED.code, where, reason, "warning", f"[{where}]")


def _named(message: Message) -> Iterable[str]:
    return [part.name for part in message.parts if isinstance(part, CALLED) and part.name]


def _with_names(message: Message, new: dict[str, str]) -> Message:
    parts = [
        changed(part, name=new[part.name]) if isinstance(part, ToolCall | ToolResult) and part.name in new else part
        for part in message.parts
    ]
    return changed(message, parts=tuple(parts))


def _sanitise(name: str, shape: re.Pattern[str], taken: set[str]) -> str:
    """The name with `_` for every refused letter; with a piece of its hash if that is taken, or still refused."""
    plain = re.sub(r"[^a-zA-Z0-9_-]", "_", name)
    if plain in taken or not shape.fullmatch(plain):
        plain = f"{plain[:48]}_{_mint(name, set())}"
    taken.add(plain)
    return plain
