"""A second opinion on OpenAI Chat message lists: a strict legality walk that shares no code with legato.

It judges the wire dicts themselves. Every rule is written again from the specification (section 2.5) and the
providers' own words, as plainly as possible, so that a mistake in legato's rules and one here are not the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

Wire = Mapping[str, Any]

ROLES = ("system", "developer", "user", "assistant", "tool")
REASONING = ("reasoning_content", "reasoning", "reasoning_details")

PRESETS: dict[str, dict[str, Any]] = {
    "portable": {
        "alternates": True,
        "user_first": True,
        "trailing_assistant_ok": False,
        "arguments_object": True,
        "blank_is_empty": True,
    },
    "openai": {
        "alternates": False,
        "user_first": False,
        "trailing_assistant_ok": True,
        "id_pattern": r".{1,40}",
        "name_pattern": r"[a-zA-Z0-9_-]{1,64}",
        "may_be_empty": ("system", "user", "assistant", "tool"),
        "media_in": ("user",),
    },
    "glm": {
        "alternates": True,
        "user_first": True,
        "trailing_assistant_ok": False,
        "arguments_object": True,
        "blank_is_empty": True,
        "ids_unique_in_request": True,
    },
    "mistral": {
        "alternates": False,
        "user_first": False,
        "trailing_assistant_ok": "prefix",
        "id_pattern": r"[a-zA-Z0-9]{9}",
        "name_pattern": r"[a-zA-Z0-9_-]{1,64}",
        "may_be_empty": ("system", "user", "assistant", "tool"),
        "media_in": ("user",),
        "forbidden_keys": REASONING,
        "call_first_ok": False,
        "empty_calls_ok": True,
        "order": {
            "system": ("user", "assistant", "system"),
            "user": ("assistant", "system", "user"),
            "assistant": ("assistant", "user", "tool"),
            "tool": ("assistant", "tool"),
        },
    },
}


def faults(
    messages: Sequence[Wire],
    *,
    alternates: bool,
    user_first: bool,
    trailing_assistant_ok: bool | str,
    id_pattern: str | None = None,
    name_pattern: str | None = None,
    ids_unique_in_request: bool = False,
    arguments_object: bool = False,
    blank_is_empty: bool = False,
    may_be_empty: Sequence[str] = ("tool",),
    media_in: Sequence[str] = ROLES,
    forbidden_keys: Sequence[str] = (),
    call_first_ok: bool = True,
    empty_calls_ok: bool = False,
    order: Mapping[str, Sequence[str]] | None = None,
) -> list[str]:
    """What a provider with these habits would refuse. `trailing_assistant_ok="prefix"`: only with the prefix flag."""
    roles = ["system" if message.get("role") == "developer" else str(message.get("role")) for message in messages]
    found = list(_ends(messages, roles, user_first, trailing_assistant_ok, call_first_ok))
    found += _order(roles, alternates, order)
    every_id = [call.get("id") for message in messages for call in message.get("tool_calls") or ()]
    if ids_unique_in_request and len(set(every_id)) < len(every_id):
        found.append(f"call ids repeat in the request: {every_id}")
    waiting: list[Any] = []
    for at, (message, role) in enumerate(zip(messages, roles, strict=True)):
        problems = [f"key {key}" for key in message if key.startswith("_") or key in forbidden_keys]
        if role not in ROLES:
            problems.append(f"role {role}")
        if role == "tool":
            answered = message.get("tool_call_id")
            if answered in waiting:
                waiting.remove(answered)
            else:
                problems.append(f"result {answered!r} answers no call that waits")
        else:
            problems += [f"call {missing!r} not answered before this" for missing in waiting]
            waiting = [call.get("id") for call in message.get("tool_calls") or ()]
        if message.get("tool_calls") == [] and not empty_calls_ok:
            problems.append("tool_calls is an empty list")
        problems += _calls(message, role, id_pattern, name_pattern, arguments_object)
        problems += _content(message, role, blank_is_empty, may_be_empty, media_in)
        found += [f"[{at}] {problem}" for problem in problems]
    return found + [f"call {missing!r} never answered" for missing in waiting]


def _order(roles: list[str], alternates: bool, order: Mapping[str, Sequence[str]] | None) -> Iterator[str]:
    for at, (before, after) in enumerate(pairwise(roles), 1):
        if alternates and before == after and after in ("user", "assistant"):
            yield f"[{at}] {after} after {before}"
        if order is not None and after not in order.get(before, ()):
            yield f"[{at}] {after} may not follow {before}"


def _ends(
    messages: Sequence[Wire], roles: list[str], user_first: bool, trailing_ok: bool | str, call_first_ok: bool
) -> Iterator[str]:
    if not messages:
        yield "no messages"
        return
    if not call_first_ok and (messages[0].get("tool_calls") or (len(messages) == 1 and roles[0] == "assistant")):
        yield "starts with a call, or is one assistant message"
    if user_first and [role for role in roles if role != "system"][:1] != ["user"]:
        yield "the first turn is not the user's"
    if roles[-1] == "assistant" and (not trailing_ok or (trailing_ok == "prefix" and not messages[-1].get("prefix"))):
        yield "ends with assistant"
    if trailing_ok == "prefix" and any(message.get("prefix") for message in messages[:-1]):
        yield "prefix flag before the end"


def _calls(message: Wire, role: str, ids: str | None, names: str | None, arguments_object: bool) -> Iterator[str]:
    calls = message.get("tool_calls") or ()
    if calls and role != "assistant":
        yield f"{role} calls a tool"
    own = [call.get("id") for call in calls]
    if len(set(own)) < len(own):
        yield f"call ids repeat: {own}"
    for call_id in own + ([message.get("tool_call_id")] if role == "tool" else []):
        if not isinstance(call_id, str) or not call_id or (ids and not re.fullmatch(ids, call_id, re.DOTALL)):
            yield f"id {call_id!r}"
    for name in [call["function"].get("name") for call in calls] + ([message["name"]] if "name" in message else []):
        if not isinstance(name, str) or not name.strip() or (names and not re.fullmatch(names, name)):
            yield f"name {name!r}"
    for arguments in [call["function"].get("arguments") for call in calls]:
        if not isinstance(arguments, str) or (arguments_object and not _is_object(arguments)):
            yield f"arguments {arguments!r}"


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _content(
    message: Wire, role: str, blank_is_empty: bool, may_be_empty: Sequence[str], media_in: Sequence[str]
) -> Iterator[str]:
    content = message.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    if content is None and not message.get("tool_calls"):
        yield "content is null beside no calls"
    needed = not message.get("tool_calls") and role not in may_be_empty
    if needed and not any(_says(part, blank_is_empty) for part in parts):
        yield "empty"
    if role not in media_in and any(part.get("type") != "text" for part in parts):
        yield f"media in {role}"


def _says(part: Wire, blank_is_empty: bool) -> bool:
    if part.get("type") != "text":
        return True
    text = str(part.get("text") or "")
    return bool(text.strip() if blank_is_empty else text)
