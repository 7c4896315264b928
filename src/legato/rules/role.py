"""ROLE: the order of roles the provider accepts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

from legato.edits import Edit, Request
from legato.messages import Message, Reasoning, Text, ToolCall, ToolResult, Transcript, changed, user
from legato.profiles import Profile
from legato.rules.merge import merge
from legato.rules.violation import Fix, Rule, Safety, Severity, Violation, index

UNKNOWN = Rule("ROLE001", "unknown-role", "The provider does not know the role.")
SYSTEM = Rule("ROLE002", "misplaced-system", "A system message stands where the provider takes none.")
REPEAT = Rule(
    "ROLE003", "repeated-role", "Two messages of one role in a row, where the provider wants them to alternate."
)
TRAILING = Rule(
    "ROLE004", "trailing-assistant", "The last message is the assistant's, and the provider takes no prefill."
)
LEADING = Rule("ROLE005", "leading-assistant", "The first message that is not system is not the user's.")
AFTER = Rule("ROLE006", "user-after-result", "A user message follows a tool result directly.")
TABLE = (UNKNOWN, SYSTEM, REPEAT, TRAILING, LEADING, AFTER)

OPENER = "[The conversation continues from here.]"
"""The text of a synthetic first user message."""
CONTINUE = "Continue."
"""The text of a synthetic last user message, after an assistant text that is kept."""
BRIDGE = "OK."
"""The text of a synthetic assistant message between a tool result and a user message."""
REMINDER = "<system-reminder>\n{}\n</system-reminder>"
"""How system text reads inside a user message."""


def find(request: Request, profile: Profile) -> Iterator[Violation]:
    """Every fault of the family. Where two fixes touch one message, the one found first goes first."""
    transcript = request.transcript
    yield from _unknown(transcript, profile)
    if profile.system != "anywhere":
        yield from _systems(transcript, profile)
    if profile.alternates:
        yield from _repeats(transcript, profile)
    yield from _ends(transcript, profile)
    if not profile.user_after_result:
        yield from _bridges(transcript, profile)


def _violation(
    rule: Rule,
    transcript: Transcript,
    at: int,
    reason: str,
    title: str,
    edits: Mapping[int, tuple[Message, ...]],
    severity: Severity,
    safety: Safety = "safe",
) -> Violation:
    where = index(transcript, at)
    made = tuple(Edit(place, new, rule.code, reason) for place, new in edits.items())
    return Violation(rule.code, where, reason, severity, f"[{where}]", Fix(title, safety, made))


def _unknown(transcript: Transcript, profile: Profile) -> Iterator[Violation]:
    """A role the provider lacks: developer becomes system, function tool, anything else user."""
    for at, message in enumerate(transcript):
        if message.role not in profile.roles:
            role = {"developer": "system", "function": "tool"}.get(message.role, "user")
            role = role if role in profile.roles else "user"
            new = (changed(message, role=role),)
            reason = f"the role {message.role!r} is not known"
            severity = profile.severity("roles")
            yield _violation(UNKNOWN, transcript, at, reason, f"make it {role}", {at: new}, severity)


def _systems(transcript: Transcript, profile: Profile) -> Iterator[Violation]:
    """Leading system messages are joined where only one is taken; later ones become reminders in a user message."""
    body = next((at for at, message in enumerate(transcript) if not message.is_system), len(transcript))
    severity = profile.severity("system")
    if profile.system == "once" and body > 1:
        edits: dict[int, tuple[Message, ...]] = dict.fromkeys(range(1, body), ())
        edits[0] = (merge(transcript[:body]),)
        yield _violation(
            SYSTEM, transcript, 1, f"{body} system messages, only one is taken", "join them", edits, severity
        )
    for at in range(body, len(transcript)):
        message = transcript[at]
        if message.is_system and not (profile.system == "after-user" and _allows_system(transcript[at - 1])):
            texts = [part.text for part in message.parts if isinstance(part, Text)]
            reminder = Message("user", (Text(REMINDER.format("\n\n".join(texts)), flat=True),), message.origin)
            reason = "a system message after other roles"
            yield _violation(SYSTEM, transcript, at, reason, "say it in a user message", {at: (reminder,)}, severity)


def _allows_system(before: Message) -> bool:
    return before.is_system or before.role == "user"


def _repeats(transcript: Transcript, profile: Profile) -> Iterator[Violation]:
    """Runs of user or assistant messages. Every fault of a run has the run's one fix."""
    at = 0
    for role, group in groupby(transcript, key=lambda message: message.role):
        run = tuple(group)
        if len(run) > 1 and role in ("user", "assistant"):
            edits: dict[int, tuple[Message, ...]] = dict.fromkeys(range(at + 1, at + len(run)), ())
            edits[at] = (merge(run),)
            reason = f"{len(run)} {role} messages in a row"
            severity = profile.severity("alternates")
            first = _violation(REPEAT, transcript, at + 1, reason, "merge them", edits, severity)
            yield first
            for place in range(at + 2, at + len(run)):
                where = index(transcript, place)
                yield Violation(first.code, where, first.message, first.severity, f"[{where}]", first.fix)
        at += len(run)


def _ends(transcript: Transcript, profile: Profile) -> Iterator[Violation]:
    """The first message after the system's, and the last."""
    if not transcript:
        return
    last = len(transcript) - 1
    body = next((at for at, message in enumerate(transcript) if not message.is_system), None)
    if body is not None and transcript[last].role == "assistant" and not transcript[last].calls:
        yield from _trailing(transcript, profile, body, last)
    if profile.opens_with != "user":
        return
    severity = profile.severity("opens_with")
    if body is None:
        edits = {last: (transcript[last], user(OPENER))}
        yield _violation(
            LEADING, transcript, last, "there are only system messages", "add a user message", edits, severity
        )
    elif transcript[body].role != "user":
        reason = f"the first message after the system's is the {transcript[body].role}'s, not the user's"
        edits = {body: (user(OPENER), transcript[body])}
        yield _violation(LEADING, transcript, body, reason, "put a user message first", edits, severity)


def _trailing(transcript: Transcript, profile: Profile, body: int, last: int) -> Iterator[Violation]:
    message = transcript[last]
    if profile.closes_with == "any" or (profile.prefix_flag and message.extra.get(profile.prefix_flag) is True):
        return
    reason = "the last message is the assistant's"
    severity = profile.severity("closes_with")
    if profile.closes_with == "user":
        edits = {last: (message, user(CONTINUE))}
        yield _violation(TRAILING, transcript, last, reason, "add a user message", edits, severity)
    elif any(not other.is_system for other in transcript[body:last]):
        yield _violation(TRAILING, transcript, last, reason, "remove it", {last: ()}, severity, "lossy")
    else:
        silent = ToolCall | ToolResult | Reasoning
        said = tuple([part for part in message.parts if not isinstance(part, silent)])
        back = (Message("user", said, message.origin, message.name),)
        reason = "the only message that is not system is the assistant's"
        yield _violation(TRAILING, transcript, last, reason, "make it the user's", {last: back}, severity, "lossy")


def _bridges(transcript: Transcript, profile: Profile) -> Iterator[Violation]:
    """A short assistant message between a tool result and the user message after it."""
    for at in range(1, len(transcript)):
        message, before = transcript[at], transcript[at - 1]
        if message.role == "user" and before.results and not before.says_something:
            edits = {at: (Message("assistant", (Text(BRIDGE, flat=True),)), message)}
            reason = "a user message follows a tool result"
            title = "put a short assistant message between"
            yield _violation(AFTER, transcript, at, reason, title, edits, profile.severity("user_after_result"))
