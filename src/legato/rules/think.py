"""THINK: reasoning that is sent back.

Signed reasoning is never edited: it stays as it is, or goes. Within one tool loop (from one thing a user asked to the
next) it stays or goes as a whole, since the provider checks a loop as one. What has a text and may not be sent as
reasoning is said as text where that is legal, else the report holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from legato import traits
from legato.edits import HEAD, Edit, Request
from legato.messages import Message, Part, Reasoning, Text, ToolCall, Transcript, changed, without
from legato.profiles import Profile
from legato.rules.violation import Fix, Rule, Safety, Violation, of_message

REFUSED = Rule("THINK001", "refused-reasoning", "The provider takes no reasoning back, or under another name only.")
MISSING = Rule("THINK002", "missing-reasoning", "A past message lacks the reasoning that the provider wants back.")
FOREIGN = Rule("THINK003", "foreign-reasoning", "Reasoning of another model, or without a valid signature.")
ALONE = Rule("THINK004", "reasoning-only-message", "An assistant message holds nothing but reasoning.")
LOST = Rule("THINK005", "thinking-lost", "Thinking is on, but the newest turn that calls does not start with it.")
UNSIGNED = Rule("THINK006", "missing-call-signature", "The first call of a step has no thought signature.")
BOUND = Rule("THINK007", "reasoning-prefix-bound", "Signed reasoning stands behind something that was changed.")
TABLE = (REFUSED, MISSING, FOREIGN, ALONE, LOST, UNSIGNED, BOUND)

NAMES = ("reasoning_content", "reasoning", "reasoning_details")
"""The message fields of chat APIs that hold reasoning; a null one is refused like a full one."""
SEALED = frozenset(("data", "redactedContent"))
"""The fields of reasoning that is only a blob, which has no signature by design."""
SIGNATURES = ("thoughtSignature", "thought_signature")
SAID_NOTHING = "(no answer)"
"""The text of a message that would hold nothing but reasoning."""


def find(request: Request, profile: Profile) -> Iterator[Violation]:
    """Every fault of the family. Where two fixes touch one message, the one found first goes first."""
    if profile.reasoning_signed and request.having(traits.THINKS):
        yield from _foreign(request, profile)
    if profile.reasoning_bound:
        yield from _bound(request, profile)
    for at in request.having(traits.THINKS | traits.FIELDS | (traits.CALLS if profile.call_signature else 0)):
        message = request.transcript[at]
        for judge in JUDGES if message.role == "assistant" else ():
            finding = judge(message, profile)
            if finding is not None:
                yield of_message(request, at, profile, *finding)
    if profile.reasoning_required != "no" and request.thinks is not False:
        yield from _missing(request, profile)
    if profile.reasoning_first and request.thinks and request.head["thinking"]["type"] == "enabled":
        yield from _lost(request, profile)


Finding = tuple[Rule, str, str, str, Message, Safety]
"""A rule, the fact it rests on, what is wrong, how it is mended, the message mended, what that costs."""


def _refused(message: Message, profile: Profile) -> Finding | None:
    allowed = profile.reasoning_fields
    if allowed is None:
        return None
    stray = [name for name in NAMES if name in message.extra and name not in allowed]
    parts: list[Part] = []
    taken = {part.field for part in message.parts if isinstance(part, Reasoning)}
    lost = False
    for part in message.parts:
        if not isinstance(part, Reasoning) or part.field in allowed:
            parts.append(part)
        elif allowed and part.text and allowed[0] not in taken:
            taken.add(allowed[0])
            parts.append(Reasoning(part.text, allowed[0]))
        else:
            lost = lost or bool(part.text.strip())
    if not stray and parts == list(message.parts):
        return None
    extra = without(message.extra, *stray)
    names = ", ".join(dict.fromkeys([*stray, *(part.field for part in message.parts if isinstance(part, Reasoning))]))
    title = f"send it as {allowed[0]}" if allowed else "leave it out"
    new = changed(message, parts=tuple(parts), extra=extra)
    return REFUSED, "reasoning_fields", f"{names} is not taken back", title, new, "lossy" if lost else "safe"


def _alone(message: Message, profile: Profile) -> Finding | None:
    if profile.reasoning_alone or not message.parts or not all(isinstance(part, Reasoning) for part in message.parts):
        return None
    new = changed(message, parts=(*message.parts, Text(SAID_NOTHING, flat=True)))
    return ALONE, "reasoning_alone", "the message holds nothing but reasoning", "add a short text", new, "safe"


def _unsigned(message: Message, profile: Profile) -> Finding | None:
    if not profile.call_signature or not message.calls:
        return None
    first = next(at for at, part in enumerate(message.parts) if isinstance(part, ToolCall))
    call = message.parts[first]
    assert isinstance(call, ToolCall)
    if any(call.extra.get(key) for key in SIGNATURES):
        return None
    signed = changed(call, extra={**call.extra, SIGNATURES[0]: profile.call_signature})
    new = changed(message, parts=(*message.parts[:first], signed, *message.parts[first + 1 :]))
    reason = f"the first call, {call.name}, has no thought signature"
    return UNSIGNED, "call_signature", reason, "set the documented stand-in", new, "safe"


JUDGES: tuple[Callable[[Message, Profile], Finding | None], ...] = (_refused, _unsigned, _alone)


def _missing(request: Request, profile: Profile) -> Iterator[Violation]:
    name = profile.reasoning_fields[0] if profile.reasoning_fields else NAMES[0]
    for at, message in enumerate(request.transcript):
        wanted = message.role == "assistant" and (message.calls or profile.reasoning_required == "all")
        if wanted and not any(isinstance(part, Reasoning) and part.field == name for part in message.parts):
            filler = Reasoning(profile.reasoning_filler, name)
            extra = without(message.extra, name)
            new = changed(message, parts=(filler, *message.parts), extra=extra)
            reason = f"{name} is missing"
            title = "put a stand-in, since what the model thought is lost"
            yield of_message(request, at, profile, MISSING, "reasoning_required", reason, title, new, "safe")


def _foreign(request: Request, profile: Profile) -> Iterator[Violation]:
    """Reasoning of another model, or without a signature: its whole tool loop is degraded to text."""
    model = request.head.get("model") or profile.name.partition(":")[2] or None
    for start, end in loops(request.transcript):
        thinkers = [at for at in range(start, end) if _thinks(request.transcript[at])]
        bad = [at for at in thinkers if _is_foreign(request.transcript[at], model)]
        for at in thinkers if bad else ():
            reason = "reasoning of another model, or unsigned" if at in bad else "reasoning of a loop that has such"
            new = _as_text(request.transcript[at])
            title = "say it as text"
            yield of_message(request, at, profile, FOREIGN, "reasoning_signed", reason, title, new, "lossy")


def _is_foreign(message: Message, model: object) -> bool:
    origin = message.extra.get("_origin")
    if isinstance(origin, dict) and isinstance(model, str) and origin.get("model") not in (None, model):
        return True
    thoughts = [part for part in message.parts if isinstance(part, Reasoning)]
    return any(not part.signature and SEALED.isdisjoint(part.extra) for part in thoughts)


def _as_text(message: Message) -> Message:
    """The message, its thoughts said as text. Thoughts that are only a blob are left out."""
    parts: list[Part] = []
    for part in message.parts:
        if not isinstance(part, Reasoning):
            parts.append(changed(part, flat=False) if isinstance(part, Text) and part.flat else part)
        elif part.text.strip():
            parts.append(Text(part.text))
    return changed(message, parts=tuple(parts))


def _without(message: Message) -> Message:
    return changed(message, parts=tuple([part for part in message.parts if not isinstance(part, Reasoning)]))


def _thinks(message: Message) -> bool:
    return message.role == "assistant" and any(isinstance(part, Reasoning) for part in message.parts)


def loops(transcript: Transcript) -> Iterator[tuple[int, int]]:
    """The tool loops: from each thing a user asked to the next."""
    start = 0
    for at, message in enumerate(transcript):
        if message.asks and at > start:
            yield start, at
            start = at
    if start < len(transcript):
        yield start, len(transcript)


def _lost(request: Request, profile: Profile) -> Iterator[Violation]:
    """Without its reasoning the newest turn that calls is taken only if thinking is off for this request."""
    newest = max((start for start, _ in loops(request.transcript)), default=0)
    at = next((at for at in range(len(request.transcript) - 1, newest - 1, -1) if request.transcript[at].calls), None)
    if at is None or isinstance(request.transcript[at].parts[0], Reasoning):
        return
    head = without(request.head, "thinking")
    reason = "thinking is on, but the newest turn that calls does not start with it: thinking is off for this request"
    fix = Fix("switch thinking off for this request", "lossy", (Edit(HEAD, (), LOST.code, reason, head),))
    where = request.index(at)
    yield Violation(LOST.code, where, reason, profile.severity("reasoning_first"), f"[{where}]", fix)


def _bound(request: Request, profile: Profile) -> Iterator[Violation]:
    """Reasoning behind the first message that is not as it came in, or behind a gap, is no longer valid."""
    first = _first_changed(request)
    if first is None:
        return
    for start, end in loops(request.transcript):
        if end <= first:
            continue
        for at in range(start, end):
            message = request.transcript[at]
            if at >= first and any(isinstance(part, Reasoning) and _is_sealed(part) for part in message.parts):
                reason = (
                    f"its reasoning is bound to what stands before it, and message {request.index(first)} was changed"
                )
                new = _without(message)
                yield of_message(request, at, profile, BOUND, "reasoning_bound", reason, "leave it out", new, "lossy")


def _is_sealed(part: Reasoning) -> bool:
    return bool(part.signature) or not part.text


def _first_changed(request: Request) -> int | None:
    """The first position that has something else before it than what came in there."""
    if request.altered:
        return 0
    for at, message in enumerate(request.transcript):
        if message.origin != (at,):
            return at
        if message.raw is None:
            return at + 1
    return None
