"""ROLE: the order of roles the provider accepts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile

from legato.edits import HEAD, Edit, Request
from legato.messages import Message, Reasoning, Text, ToolCall, ToolResult, changed, user, without
from legato.profiles import Profile
from legato.rules.merge import JOINT, merge
from legato.rules.violation import Fix, Rule, Violation, violation
from legato.wire import system

UNKNOWN = Rule("ROLE001", "unknown-role", "The provider does not know the role.")
SYSTEM = Rule("ROLE002", "misplaced-system", "A system message stands where the provider takes none.")
REPEAT = Rule("ROLE003", "repeated-role", "Two messages of one role in a row, where they have to alternate.")
TRAILING = Rule(
    "ROLE004", "trailing-assistant", "The last message is the assistant's, and the provider takes no prefill."
)
LEADING = Rule("ROLE005", "leading-assistant", "The first message that is not system is not the user's.")
AFTER = Rule("ROLE006", "user-after-result", "A user message follows a tool result directly.")
NO_USER = Rule("ROLE007", "no-user-message", "No user says anything in the whole history.")
SPACE = Rule("ROLE008", "prefill-ends-in-space", "The text the model is to continue ends in white space.")
EARLY = Rule("ROLE009", "early-prefix-flag", "A message that is not the last is flagged as the start of the answer.")
TABLE = (UNKNOWN, SYSTEM, REPEAT, TRAILING, LEADING, AFTER, NO_USER, SPACE, EARLY)

OPENER = "[The conversation continues from here.]"
"""The text of a synthetic first user message."""
CONTINUE = "Continue."
"""The text of a synthetic last user message, after an assistant text that is kept."""
BRIDGE = "OK."
"""The text of a synthetic assistant message between a tool result and a user message."""
REMINDER = "<system-reminder>\n{}\n</system-reminder>"
"""How system text reads inside a user message."""

ALTERNATING = ("user", "assistant")
"""The roles that may not come twice in a row."""
STAND_INS = {"developer": "system", "function": "tool"}
"""The role that means the same where one is not known. Any other becomes user."""


def find(request: Request, profile: Profile) -> Iterator[Violation]:
    """Every fault of the family. Where two fixes touch one message, the one found first goes first."""
    yield from _unknown(request, profile)
    if profile.prefix_flag:
        yield from _early(request, profile, profile.prefix_flag)
    if profile.system != "anywhere":
        yield from _systems(request, profile)
    if profile.alternates:
        yield from _repeats(request, profile, "alternates")
    elif not profile.assistants_at_end:
        yield from _repeats(request, profile, "assistants_at_end")
    if request.transcript:
        yield from _last(request, profile)
        yield from _first(request, profile)
    if not profile.user_after_result:
        yield from _bridges(request, profile)


def _unknown(request: Request, profile: Profile) -> Iterator[Violation]:
    if {message.role for message in request.transcript}.issubset(profile.roles):
        return
    for at, message in enumerate(request.transcript):
        if message.role not in profile.roles and not message.results:
            role = STAND_INS.get(message.role, "user")
            role = role if role in profile.roles or role == "system" else "user"
            reason = f"the role {message.role!r} is not known"
            edits = {at: (changed(message, role=role),)}
            yield violation(request, at, profile, UNKNOWN, "roles", reason, f"make it {role}", edits)


def _early(request: Request, profile: Profile, flag: str) -> Iterator[Violation]:
    for at, message in enumerate(request.transcript[:-1]):
        if message.extra.get(flag):
            rest = without(message.extra, flag)
            edits = {at: (changed(message, extra=rest),)}
            reason = f"{flag} is set on a message that is not the last"
            yield violation(request, at, profile, EARLY, "prefix_flag", reason, "drop the flag", edits)


def _systems(request: Request, profile: Profile) -> Iterator[Violation]:
    """Leading system messages are joined, or moved to their field; later ones become reminders in a user message."""
    transcript = request.transcript
    body = next((at for at, message in enumerate(transcript) if not message.is_system), len(transcript))
    if profile.system.startswith("field") and body > 0:
        yield _hoisted(request, profile, body)
    elif profile.system == "once" and body > 1:
        edits: dict[int, tuple[Message, ...]] = dict.fromkeys(range(1, body), ())
        edits[0] = (merge(transcript[:body]),)
        reason = f"{body} system messages, only one is taken"
        yield violation(request, 1, profile, SYSTEM, "system", reason, "join them", edits)
    if profile.system == "none" and transcript and system.texts(request.head):
        yield _folded(request, profile)
    for at in range(0 if profile.system == "none" else body, len(transcript)):
        message = transcript[at]
        allowed = profile.system.endswith("after-user") and at > 0 and _takes_system(transcript[at - 1])
        if message.is_system and not allowed:
            late = _reminder(message)
            reason = (
                "a system message, which is not taken" if profile.system == "none" else "a system message after others"
            )
            title = "say it in a user message"
            yield violation(request, at, profile, SYSTEM, "system", reason, title, {at: late})


def _folded(request: Request, profile: Profile) -> Violation:
    """A system field becomes a reminder before everything else."""
    reason = "the model takes no system text"
    head = without(request.head, *system.FIELDS)
    late = user(REMINDER.format(JOINT.join(system.texts(request.head))))
    edits = (
        Edit(HEAD, (), SYSTEM.code, f"{reason}: it is said in a user message", head),
        Edit(0, (late, request.transcript[0]), SYSTEM.code, f"{reason}: it is said here"),
    )
    fix = Fix("say it in a user message", "safe", edits)
    return Violation(SYSTEM.code, None, reason, profile.severity("system"), "system field", fix)


def _takes_system(before: Message) -> bool:
    return before.is_system or before.role == "user"


def _hoisted(request: Request, profile: Profile, body: int) -> Violation:
    reason = "system messages have a field of their own"
    leading = request.transcript[:body]
    said = [part for message in leading for part in message.parts if system.takes(part, profile.format)]
    head = system.add(request.head, said, profile.format)
    edits = [Edit(HEAD, (), SYSTEM.code, f"{reason}: their text was moved there", head)]
    alone = body == len(request.transcript)
    for at, message in enumerate(leading):
        rest = tuple([part for part in message.parts if not system.takes(part, profile.format)])
        left = (Message("user", rest),) if rest else (user(OPENER),) if alone and at == body - 1 else ()
        edits.append(Edit(at, left, SYSTEM.code, f"{reason}: moved there"))
    where = request.index(0)
    fix = Fix("move it to the field", "safe", tuple(edits))
    return Violation(SYSTEM.code, where, reason, profile.severity("system"), f"[{where}]", fix)


def _reminder(message: Message) -> tuple[Message, ...]:
    """A system message as a user's: its text as a reminder, with the fields of its blocks, then what is no text."""
    said = [part for part in message.parts if isinstance(part, Text)]
    text = JOINT.join([part.text for part in said if part.text])
    rest = tuple([part for part in message.parts if not isinstance(part, Text)])
    fields = {key: value for part in said for key, value in part.extra.items()}
    reminder = (Text(REMINDER.format(text), flat=not fields and not rest, extra=fields),) if text or fields else ()
    return (Message("user", (*reminder, *rest), message.origin),) if reminder or rest else ()


def _repeats(request: Request, profile: Profile, fact: str) -> Iterator[Violation]:
    """Runs of user or assistant messages, or only one at the end. Every fault of a run has the run's one fix."""
    for start, run in _runs(request, profile):
        at_end = start + len(run) == len(request.transcript) and run[0].role == "assistant"
        if not (at_end or fact == "alternates"):
            continue
        edits: dict[int, tuple[Message, ...]] = dict.fromkeys(range(start + 1, start + len(run)), ())
        edits[start] = (merge(run),)
        reason = f"{len(run)} {run[0].role} messages in a row"
        first = violation(request, start + 1, profile, REPEAT, fact, reason, "merge them", edits)
        yield first
        for place in range(start + 2, start + len(run)):
            where = request.index(place)
            yield Violation(first.code, where, first.message, first.severity, f"[{where}]", first.fix)


def _runs(request: Request, profile: Profile) -> Iterator[tuple[int, Sequence[Message]]]:
    """The runs of several user or assistant messages, each with where it starts.

    What follows results that have to stand alone begins a run of its own: an assistant message will come between.
    """
    transcript = request.transcript
    start = end = 0
    for at, (before, message) in enumerate(pairwise(transcript), 1):
        if before.role != message.role or message.role not in ALTERNATING or _is_bridged(before, message, profile):
            continue
        if at > end:
            if end:
                yield start, transcript[start:end]
            start = at - 1
        end = at + 1
    if end:
        yield start, transcript[start:end]


def _is_bridged(before: Message, message: Message, profile: Profile) -> bool:
    """Whether a short assistant message has to stand between the two."""
    if profile.user_after_result or message.role != "user" or not message.says_something:
        return False
    return bool(before.results) and not before.says_something


def _first(request: Request, profile: Profile) -> Iterator[Violation]:
    transcript = request.transcript
    last = len(transcript) - 1
    body = next((at for at, message in enumerate(transcript) if not message.is_system), None)
    if profile.opens_with == "user" and body is None:
        edits = {last: (transcript[last], user(OPENER))}
        reason = "there are only system messages"
        yield violation(request, last, profile, LEADING, "opens_with", reason, "add a user message", edits)
    elif body is not None and _opens_wrong(request, profile, body):
        reason = f"the first message is the {transcript[body].role}'s, not the user's"
        edits = {body: (user(OPENER), transcript[body])}
        yield violation(request, body, profile, LEADING, "opens_with", reason, "put a user message first", edits)
    elif profile.needs_user and not any(message.asks for message in transcript):
        place = last if body is None else body
        opened = (transcript[place], user(OPENER)) if body is None else (user(OPENER), transcript[place])
        reason = "no user says anything"
        title = "add a user message"
        yield violation(request, place, profile, NO_USER, "needs_user", reason, title, {place: opened})


def _opens_wrong(request: Request, profile: Profile, body: int) -> bool:
    first = request.transcript[body]
    if profile.opens_with == "no-call":
        alone = first.role == "assistant" and len(request.transcript) == 1
        said = takewhile(lambda message: message.role == "assistant", request.transcript)
        opening = said if profile.pairs_by_run else (first,)
        return body == 0 and not request.continues and (alone or any(message.calls for message in opening))
    return profile.opens_with == "user" and first.role != "user"


def _last(request: Request, profile: Profile) -> Iterator[Violation]:
    transcript = request.transcript
    at = len(transcript) - 1
    message = transcript[at]
    if message.role != "assistant" or message.calls or any(part for part in message.parts if _is_open(part)):
        return
    flagged = bool(profile.prefix_flag) and message.extra.get(profile.prefix_flag) is True
    refused = profile.closes_with != "any" or (profile.reasoning_first and request.thinks)
    if not refused or flagged:
        if not profile.prefill_space:
            yield from _space(request, profile, at)
        return
    reason = "the last message is the assistant's"
    fact = "closes_with"
    if profile.closes_with != "removed":
        edits: dict[int, tuple[Message, ...]] = {at: (message, user(CONTINUE))}
        yield violation(request, at, profile, TRAILING, fact, reason, "add a user message", edits)
    elif any(not other.is_system for other in transcript[:at]):
        yield violation(request, at, profile, TRAILING, fact, reason, "remove it", {at: ()}, "lossy")
    else:
        silent = ToolCall | ToolResult | Reasoning
        said = tuple([part for part in message.parts if not isinstance(part, silent)])
        edits = {at: (Message("user", said, message.origin, message.name),)}
        reason = "the only message that is not system is the assistant's"
        yield violation(request, at, profile, TRAILING, fact, reason, "make it the user's", edits, "lossy")


def _is_open(part: object) -> bool:
    """Whether it is something the provider itself is to go on with: a server tool in flight."""
    raw = getattr(part, "raw", None)
    return isinstance(raw, dict) and raw.get("type") == "server_tool_use"


def _space(request: Request, profile: Profile, at: int) -> Iterator[Violation]:
    message = request.transcript[at]
    part = message.parts[-1] if message.parts else None
    if isinstance(part, Text) and part.text != part.text.rstrip():
        text = part.text.rstrip()
        parts = (*message.parts[:-1], *((changed(part, text=text),) if text else ()))
        edits = {at: (changed(message, parts=parts),) if parts else ()}
        reason = "the text the model is to continue ends in white space"
        yield violation(request, at, profile, SPACE, "prefill_space", reason, "strip it", edits)


def _bridges(request: Request, profile: Profile) -> Iterator[Violation]:
    """A short assistant message between a tool result and the user message after it."""
    transcript = request.transcript
    for at in range(1, len(transcript)):
        message, before = transcript[at], transcript[at - 1]
        if _is_bridged(before, message, profile):
            edits = {at: (Message("assistant", (Text(BRIDGE, flat=True),)), message)}
            reason = "a user message follows a tool result"
            title = "put a short assistant message between"
            yield violation(request, at, profile, AFTER, "user_after_result", reason, title, edits)
