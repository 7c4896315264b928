"""BODY: what a message holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TypeAlias, TypeGuard

import msgspec

from legato import traits, wire
from legato.edits import Edit, Request
from legato.messages import Message, Part, Reasoning, Text, ToolCall, ToolResult, changed, without
from legato.profiles import Profile
from legato.rules.violation import Fix, Rule, Safety, Severity, Violation
from legato.rules.wellformed import well_formed
from legato.wire import shape

NOTHING = Rule("BODY001", "empty-request", "There is no message at all.")
EMPTY = Rule("BODY002", "empty-message", "A message says nothing and calls nothing.")
NULL = Rule("BODY003", "null-content", "The content is null or an empty list where the provider wants text.")
NO_CALLS = Rule("BODY004", "empty-tool-calls", "`tool_calls` is null or an empty list.")
ARGUMENTS = Rule("BODY005", "arguments-not-an-object", "The arguments of a past call are not a JSON object.")
SURROGATE = Rule("BODY006", "lone-surrogate", "A text holds half of a surrogate pair, which no encoding can carry.")
BLANK = Rule("BODY007", "blank-text-block", "A text block holds nothing, or nothing but white space.")
BESIDE = Rule("BODY008", "text-beside-calls", "A message has text and calls, where it may have only one of them.")
SILENT = Rule("BODY009", "no-text-beside-calls", "The content beside calls is null or empty, where it has to be text.")
FIELD = Rule("BODY010", "unknown-field", "A message has a field that the provider refuses.")
TABLE = (NOTHING, EMPTY, NULL, NO_CALLS, ARGUMENTS, SURROGATE, BLANK, BESIDE, SILENT, FIELD)

FILLER = "."
"""The text of a message that only calls, where the provider wants one."""
OWN_FIELDS = ("role", "content", "tool_calls", "tool_call_id", "name", "function_call")
"""The fields that a codec reads into parts: they are judged by other rules."""


def find(request: Request, profile: Profile) -> Iterator[Violation]:
    """Every fault of the family, judge by judge. Where several fixes touch one message, the first found goes first."""
    if not request.transcript and not request.continues:
        yield Violation(NOTHING.code, None, "there is no message to send", fix=Fix("add a user message", "manual"))
    for judge, needs, matters in JUDGES:
        for at in request.having(needs) if matters(profile) else ():
            finding = judge(request.transcript[at], profile)
            if finding is not None:
                yield _violation(request, at, *finding)


Finding: TypeAlias = tuple[Rule, str, str, tuple[Message, ...], Severity, Safety]
"""A rule, what is wrong, how it is mended, what stands there then, how bad it is, what the fix costs."""


def _violation(
    request: Request,
    at: int,
    rule: Rule,
    reason: str,
    title: str,
    new: tuple[Message, ...],
    severity: Severity,
    safety: Safety,
) -> Violation:
    where = request.index(at)
    edit = Edit(at, new, rule.code, reason)
    return Violation(rule.code, where, reason, severity, f"[{where}]", Fix(title, safety, (edit,)))


def _surrogates(message: Message, _: Profile) -> Finding | None:
    new = well_formed(message)
    if new is message:
        return None
    return SURROGATE, "a text holds a lone surrogate", "put U+FFFD in its place", (new,), "error", "lossy"


def _empty(message: Message, profile: Profile) -> Finding | None:
    """A message that says nothing. It is judged by its parts: calls, results, media and unknown parts say something."""
    said = [part for part in message.parts if type(part) is not Reasoning]
    if said and not all(type(part) is Text and _is_blank(part.text, profile) for part in said):
        return None
    if not said and (profile.empty_messages or (message.role != "assistant" and _is_null(message, profile))):
        return None
    text = "".join(part.text for part in said if isinstance(part, Text))
    fact = "empty_messages" if not said else "blank_text" if text else "empty_text"
    safety: Safety = "safe" if said == list(message.parts) else "lossy"
    return EMPTY, f"the {message.role} message is empty", "drop it", (), profile.severity(fact), safety


def _is_null(message: Message, profile: Profile) -> bool:
    """Whether another rule gives the message its text: there an empty one is accepted, null is not."""
    return "content" in message.extra and profile.empty_text and not profile.null_content


def _is_blank(text: str, profile: Profile) -> bool:
    return not profile.empty_text and (not text or (not profile.blank_text and not text.strip()))


def _null(message: Message, profile: Profile) -> Finding | None:
    """Content that is null, absent or `[]` where text is wanted. Beside calls null says nothing, rightly."""
    results = message.results
    if results:
        parts = tuple([_filled(part) if type(part) is ToolResult else part for part in message.parts])
        if parts == message.parts:
            return None
        new = changed(message, parts=parts)
    elif not message.parts:
        new = changed(message, parts=(Text("", flat=True),), extra=without(message.extra, "content"))
    else:
        return None
    reason = "the content is null or an empty list"
    return NULL, reason, "make it an empty text", (new,), profile.severity("null_content"), "safe"


def _filled(result: ToolResult) -> ToolResult:
    if result.parts or "type" in result.extra:  # of a kind of its own, which may have no text
        return result
    return changed(result, parts=(Text("", flat=True),), extra=without(result.extra, "content"))


def _no_calls(message: Message, profile: Profile) -> Finding | None:
    if "tool_calls" not in message.extra or message.extra["tool_calls"]:
        return None
    new = changed(message, extra=without(message.extra, "tool_calls"))
    return (
        NO_CALLS,
        "tool_calls is null or an empty list",
        "drop the field",
        (new,),
        profile.severity("empty_calls"),
        "safe",
    )


def _arguments(message: Message, profile: Profile) -> Finding | None:
    if message.role != "assistant":
        return None
    parts = tuple([_with_object(part, profile) if type(part) is ToolCall else part for part in message.parts])
    if parts == message.parts:
        return None
    reason = "the arguments of a call are not the text of a JSON object"
    title = "make them one"
    return ARGUMENTS, reason, title, (changed(message, parts=parts),), profile.severity("arguments"), "safe"


def _with_object(call: ToolCall, profile: Profile) -> ToolCall:
    """The call, its arguments what the provider takes: an object, or an object that holds what they are.

    On a wire that holds them as text a value is written as text, under any profile.
    """
    arguments = call.arguments
    as_text = wire.takes_text(call, profile.format)
    if as_text is None or arguments is None:
        return call
    value = arguments
    if isinstance(arguments, str):
        if as_text and (profile.arguments == "any" or is_object(arguments)):
            return call
        text = arguments.strip()
        nothing = text in ("", "[]", "null")
        value = json.loads(text) if is_object(text) else {} if nothing else {shape.UNPARSED: text}
    elif isinstance(arguments, dict) and not as_text:
        return call
    elif not isinstance(arguments, dict):
        value = {} if arguments == [] else {shape.UNPARSED: arguments}
    return changed(call, arguments=shape.dump(value) if as_text else value)


def is_object(text: str) -> bool:
    """Whether a text is a JSON object. NaN and Infinity are not JSON."""
    try:
        return _read_strictly(text) is not None
    except (ValueError, RecursionError):  # it refuses more than is wrong: lone surrogates, huge numbers
        pass
    try:
        return isinstance(json.loads(text, parse_constant=_refuse), dict)
    except (ValueError, RecursionError):
        return False


_read_strictly = msgspec.json.Decoder(dict).decode


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _beside(message: Message, profile: Profile) -> Finding | None:
    """Text and calls of one turn become two messages, where the provider takes only one of them in a message."""
    if not message.calls:
        return None
    said = tuple([part for part in message.parts if not isinstance(part, ToolCall)])
    if not any(not isinstance(part, Text) or part.text for part in said):
        if not any(isinstance(part, Text) and not part.flat for part in said):
            return None
        bare = changed(message, parts=message.calls)
        return (
            BESIDE,
            "a blank block stands beside calls",
            "drop it",
            (bare,),
            profile.severity("text_with_calls"),
            "safe",
        )
    text = changed(message, parts=said)
    calls = Message("assistant", message.calls, message.origin, message.name)
    reason = "text and calls stand in one message"
    return BESIDE, reason, "make it two", (text, calls), profile.severity("text_with_calls"), "safe"


def _silent(message: Message, profile: Profile) -> Finding | None:
    """The content of a message that only calls: some providers want a string, some one that says something."""
    if not message.calls:
        return None
    said = [part for part in message.parts if not isinstance(part, ToolCall | Reasoning)]
    null = not said and "content" in message.extra
    if all(isinstance(part, Text) and not part.text for part in said) and (said or null):
        fact, text = ("empty_with_calls", FILLER) if not profile.empty_with_calls else ("null_with_calls", "")
        if fact == "null_with_calls" and not null:
            return None
        rest = tuple([part for part in message.parts if part not in said])
        new = changed(message, parts=(Text(text, flat=True), *rest), extra=without(message.extra, "content"))
        reason = "the content beside calls is null or empty"
        return SILENT, reason, "make it a text", (new,), profile.severity(fact), "safe"
    return None


def _fields(message: Message, profile: Profile) -> Finding | None:
    allowed = profile.message_keys
    unknown = [key for key in message.extra if key not in allowed and key not in OWN_FIELDS and key[:1] != "_"]
    if not unknown:
        return None
    rest = without(message.extra, *unknown)
    reason = f"the provider refuses the field {', '.join(unknown)}"
    new = changed(message, extra=rest)
    return FIELD, reason, "leave it out", (new,), profile.severity("message_keys"), "lossy"


def _blank_blocks(message: Message, profile: Profile) -> Finding | None:
    kept = tuple(
        [part for part in message.parts if not (_is_block(part, message, profile) and _is_blank(part.text, profile))]
    )
    if len(kept) == len(message.parts):
        return None
    new = changed(message, parts=kept)
    gone = [part for part in message.parts if _is_block(part, message, profile) and _is_blank(part.text, profile)]
    fact = "empty_text" if any(not part.text for part in gone) else "blank_text"
    return BLANK, "a text block is blank", "drop the block", (new,), profile.severity(fact), "safe"


def _is_block(part: Part, message: Message, profile: Profile) -> TypeGuard[Text]:
    """Whether it is a text that is written as a block: as it came, or since other parts stand beside it."""
    return type(part) is Text and (not part.flat or (wire.holds_parts(profile.format) and len(message.parts) > 1))


Judge: TypeAlias = Callable[[Message, Profile], Finding | None]

JUDGES: tuple[tuple[Judge, int, Callable[[Profile], object]], ...] = (
    (_surrogates, traits.ENCODED, lambda _: True),
    (_empty, traits.BARE | traits.BLANK, lambda profile: not (profile.empty_messages and profile.empty_text)),
    (_null, traits.BARE, lambda profile: not profile.null_content),
    (_no_calls, traits.FIELDS, lambda profile: not profile.empty_calls),
    (_arguments, traits.CALLS, lambda profile: profile.arguments != "any"),
    (_arguments, traits.ENCODED, lambda profile: profile.arguments == "any" and wire.holds_text(profile.format)),
    (_blank_blocks, traits.BLANK, lambda profile: not profile.empty_text),
    (_silent, traits.CALLS, lambda profile: not (profile.null_with_calls and profile.empty_with_calls)),
    (_fields, traits.FIELDS, lambda profile: profile.message_keys),
    (_beside, traits.CALLS, lambda profile: not profile.text_with_calls),
)
"""The judges, each with the traits of what it can find a fault in, and whether it can find any under a profile."""
