"""BODY, second part: what stands beside the messages: tool definitions and cache markers."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from legato import traits
from legato.edits import HEAD, Edit, Request
from legato.messages import Fields, Message, Part, Reasoning, Text, ToolCall, ToolResult, changed, without
from legato.profiles import Profile
from legato.rules.violation import Fix, Rule, Safety, Violation, violation
from legato.wire import moving, system, tools

NO_TOOLS = Rule("BODY020", "empty-tools", "`tools` is an empty list.")
UNDEFINED = Rule("BODY021", "tools-missing", "The history calls tools, and the request defines none.")
TOO_MANY = Rule("BODY022", "too-many-tools", "The request defines more tools than the provider takes.")
NO_SCHEMA = Rule("BODY023", "tool-without-schema", "A tool definition has no parameter schema.")
MARKERS = Rule("BODY024", "too-many-cache-markers", "The request has more cache markers than the provider takes.")
UNMARKABLE = Rule("BODY025", "marked-reasoning", "A cache marker stands on reasoning, which the provider refuses.")
TABLE = (NO_TOOLS, UNDEFINED, TOO_MANY, NO_SCHEMA, MARKERS, UNMARKABLE)

MARKER = moving.CACHING


def find(request: Request, profile: Profile) -> Iterator[Violation]:
    """The faults of the head. Its fixes replace the head, so one goes at a time."""
    head = request.head
    if not profile.empty_tools and head.get("tools") == []:
        rest = without(head, "tools", "tool_choice")
        yield _violation(profile, NO_TOOLS, "empty_tools", "tools is an empty list", "drop the field", rest)
    config = head.get("toolConfig")
    if not profile.empty_tools and isinstance(config, dict) and config.get("tools") == []:
        rest = without(head, "toolConfig")
        yield _violation(profile, NO_TOOLS, "empty_tools", "toolConfig has no tools", "drop the field", rest)
    if profile.tools_required and is_whole(head) and not head.get("tools") and not tools.names(head):
        yield from _undefined(request, profile)
    if profile.tools_max and len(tools.names(head)) > profile.tools_max:
        reason = f"{len(tools.names(head))} tools, at most {profile.tools_max} are taken"
        fix = Fix("leave out the tools this request does not need", "manual")
        yield Violation(TOO_MANY.code, None, reason, profile.severity("tools_max"), "tools", fix)
    if profile.tool_schemas:
        bare = [definition["name"] for definition in tools.definitions(head) if not tools.has_schema(definition)]
        if bare:
            reason = f"no parameter schema: {', '.join(bare)}"
            new = tools.with_schemas(head)
            yield _violation(profile, NO_SCHEMA, "tool_schemas", reason, "add an empty object schema", new)
    if not profile.marked_reasoning:
        yield from _thoughts(request, profile)
    if profile.cache_markers_max:
        yield from _markers(request, profile)


def is_whole(head: Fields) -> bool:
    """Whether it is that of a body. A bare list, or one with its system text, cannot say that it has no tools: its
    caller may send them beside it.
    """
    return any(key not in system.FIELDS for key in head)


def _violation(
    profile: Profile, rule: Rule, fact: str, reason: str, title: str, head: Fields, safety: Safety = "safe"
) -> Violation:
    fix = Fix(title, safety, (Edit(HEAD, (), rule.code, reason, head),))
    return Violation(rule.code, None, reason, profile.severity(fact), "tools", fix)


def _undefined(request: Request, profile: Profile) -> Iterator[Violation]:
    names = dict.fromkeys(call.name for message in request.transcript for call in message.calls if call.name)
    if names:
        reason = f"the history calls {', '.join(names)}, and no tool is defined"
        new = tools.supply(request.head, list(names), profile.format)
        yield _violation(profile, UNDEFINED, "tools_required", reason, "define them by name, not to be called", new)


def _thoughts(request: Request, profile: Profile) -> Iterator[Violation]:
    """A marker on reasoning goes to the nearest part before it that can bear one, else to the next after it."""
    for at in request.having(traits.THINKS):
        message = request.transcript[at]
        parts: list[Part] = list(message.parts)
        for i, part in enumerate(parts):
            if not isinstance(part, Reasoning) or MARKER not in part.extra:
                continue
            parts[i] = changed(part, extra=without(part.extra, MARKER))
            for j in (*range(i - 1, -1, -1), *range(i + 1, len(parts))):
                bearer = parts[j]
                if isinstance(bearer, ToolCall | ToolResult) or (isinstance(bearer, Text) and bearer.text.strip()):
                    parts[j] = changed(bearer, extra={MARKER: part.extra[MARKER], **bearer.extra})
                    break
        if parts != list(message.parts):
            reason = "a cache marker stands on reasoning"
            edits = {at: (changed(message, parts=tuple(parts)),)}
            title = "put it on the nearest part that can bear one"
            yield violation(request, at, profile, UNMARKABLE, "marked_reasoning", reason, title, edits)


def _markers(request: Request, profile: Profile) -> Iterator[Violation]:
    """The newest markers of the messages go on working: the oldest go. Those of the head are kept."""
    found = [
        (at, i, j)
        for at in request.having(traits.ENCODED)
        for i, part in enumerate(request.transcript[at].parts)
        if type(part) is not ToolCall or part.extra
        for j in marked(part)
    ]
    found.sort(key=lambda place: request.transcript[place[0]].is_system)  # sessions share the system text: it goes last
    room = max(0, profile.cache_markers_max - tools.count_key(request.head, MARKER))
    surplus = found[: max(0, len(found) - room)]
    by_message: dict[int, list[tuple[int, int]]] = {}
    for at, i, j in surplus:
        by_message.setdefault(at, []).append((i, j))
    for at, places in by_message.items():
        message = request.transcript[at]
        reason = f"{len(found) + profile.cache_markers_max - room} cache markers, {profile.cache_markers_max} are taken"
        edit = Edit(at, (_unmarked(message, places),), MARKERS.code, reason)
        where = request.index(at)
        fix = Fix("keep the last ones", "safe", (edit,))
        yield Violation(MARKERS.code, where, reason, profile.severity("cache_markers_max"), f"[{where}]", fix)


def marked(part: Part) -> Iterator[int]:
    """-1 for a marker on the part itself, else the index of the marked block inside a result."""
    fields = part.extra if isinstance(part, Text | ToolCall | ToolResult) else part.raw
    if isinstance(fields, dict) and MARKER in fields:
        yield -1
    if isinstance(part, ToolResult):
        yield from (j for j, inner in enumerate(part.parts) if isinstance(inner, Text) and MARKER in inner.extra)


def _unmarked(message: Message, places: list[tuple[int, int]]) -> Message:
    parts = list(message.parts)
    for i, j in places:
        part = parts[i]
        if j >= 0 and isinstance(part, ToolResult):
            inner = part.parts[j]
            assert isinstance(inner, Text)
            plain = changed(inner, extra=without(inner.extra, MARKER))
            parts[i] = changed(part, parts=(*part.parts[:j], plain, *part.parts[j + 1 :]))
        elif isinstance(part, Text | ToolCall | ToolResult):
            parts[i] = changed(part, extra=without(part.extra, MARKER))
        else:
            parts[i] = msgspec.structs.replace(part, raw=without(part.raw, MARKER))
    return changed(message, parts=tuple(parts))
