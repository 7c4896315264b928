"""The accidents that happen to a message history on its way through agents, stores and crashes.

Each changes the history in place; `at` and `to` are any numbers: they choose a place, a partner, a variant, counted
round and round. An accident that finds nothing to happen to does nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

Wire = dict[str, Any]
History = list[Wire]

BACKFILL = "[Tool result unavailable — call was interrupted or lost]"
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
MISSING = "missing"
SPOILED: tuple[tuple[str, Any], ...] = (
    ("name", None),
    ("name", ""),
    ("name", " "),
    ("name", MISSING),
    ("name", "files.read file"),
    ("arguments", None),
    ("arguments", ""),
    ("arguments", MISSING),
    ("arguments", '{"path": "<half of a pa'),
    ("arguments", "<not json>"),
    ("arguments", '["<list>"]'),
    ("arguments", ["<list>"]),
    ("arguments", {"path": "<object>"}),
    ("arguments", "null"),
)


Accident = Callable[[History, int, int], None]


def _some(history: History, at: int, *roles: str) -> Wire | None:
    """The `at`-th message (counted round and round) of one of the roles."""
    found = [message for message in history if message["role"] in roles]
    return found[at % len(found)] if found else None


def _call(history: History, at: int) -> Wire | None:
    calls = [call for message in history for call in message.get("tool_calls") or ()]
    found: Wire | None = calls[at % len(calls)] if calls else None
    return found


def _place(history: History, message: Wire) -> int:
    """Where this very message is; an equal one does not count."""
    return next(at for at, other in enumerate(history) if other is message)


def _take(history: History, message: Wire) -> int:
    """Remove this very message; where it was."""
    at = _place(history, message)
    del history[at]
    return at


def lose_result(history: History, at: int, _to: int) -> None:
    if result := _some(history, at, "tool"):
        _take(history, result)


def lose_turn(history: History, at: int, _to: int) -> None:
    """Its results stay behind as orphans."""
    if turn := _some(history, at, "assistant"):
        _take(history, turn)


def lose_user(history: History, at: int, _to: int) -> None:
    if turn := _some(history, at, "user"):
        _take(history, turn)


def displace_result(history: History, at: int, to: int) -> None:
    """Past other messages: later, or before its own call."""
    if result := _some(history, at, "tool"):
        was = _take(history, result)
        history.insert(min(was + 1 + to // 2, len(history)) if to % 2 else max(was - 2 - to // 2, 0), result)


def duplicate_result(history: History, at: int, to: int) -> None:
    """A second answer to one call: the same, another success, an error, or a backfill; before or after the first."""
    if result := _some(history, at, "tool"):
        content = (result.get("content"), f"<second answer {at}>", f"Error: <second answer {at}>", BACKFILL)[to % 4]
        history.insert(_place(history, result) + to // 4 % 4, {**copy.deepcopy(result), "content": content})


def backfilled_result(history: History, at: int, _to: int) -> None:
    """The result is a synthetic one from an earlier repair."""
    if result := _some(history, at, "tool"):
        result["content"] = BACKFILL


def duplicate_message(history: History, at: int, to: int) -> None:
    if history:
        history.insert(to % (len(history) + 1), copy.deepcopy(history[at % len(history)]))


def interleave(history: History, at: int, to: int) -> None:
    """A message of another role right before a result (or anywhere, where there is none)."""
    role = ("user", "system", "developer", "assistant")[to % 4]
    result = _some(history, at, "tool")
    place = _place(history, result) if result else at % (len(history) + 1)
    history.insert(place, {"role": role, "content": f"<interleaved {role} {at}.{to}>"})


def late_system(history: History, at: int, to: int) -> None:
    role = ("system", "developer")[to % 2]
    history.insert(at % (len(history) + 1), {"role": role, "content": f"<late {role} {at}.{to}>"})


def reuse_id(history: History, at: int, to: int) -> None:
    """One call and its result get the id of another, in the same turn or a later one."""
    one, other = _call(history, at), _call(history, to)
    if one and other:
        for message in history:
            if message.get("tool_call_id") == one.get("id") and one.get("id") is not None:
                message["tool_call_id"] = other.get("id")
        one["id"] = other.get("id")


def restart_ids(history: History, _at: int, _to: int) -> None:
    """call_0, call_1, … in every turn, as some models number them."""
    new: dict[Any, str] = {}
    for message in history:
        for number, call in enumerate(message.get("tool_calls") or ()):
            new[call.get("id")] = call["id"] = f"call_{number}"
        if message["role"] == "tool" and message.get("tool_call_id") in new:
            message["tool_call_id"] = new[message.get("tool_call_id")]


def spoil_call_id(history: History, at: int, to: int) -> None:
    if call := _call(history, at):
        _spoil(call, "id", to)


def spoil_result_id(history: History, at: int, to: int) -> None:
    if result := _some(history, at, "tool"):
        _spoil(result, "tool_call_id", to)


def spoil_pair_id(history: History, at: int, to: int) -> None:
    """The call and its result lose their id alike."""
    if call := _call(history, at):
        results = [message for message in history if message.get("tool_call_id") == call.get("id")]
        for value, key in [(call, "id"), *[(result, "tool_call_id") for result in results if result["role"] == "tool"]]:
            _spoil(value, key, to)


def _spoil(value: Wire, key: str, to: int) -> None:
    if to % 4 == 3:
        value.pop(key, None)
    else:
        value[key] = (None, "", "toolu_" + "x" * 60)[to % 4]


def cut_head(history: History, at: int, _to: int) -> None:
    del history[: 1 + at % 6]


def cut_tail(history: History, at: int, _to: int) -> None:
    del history[-1 - at % 6 :]


def spoil_call(history: History, at: int, to: int) -> None:
    """No name, a blank one, one no provider takes; arguments missing, cut off, blank, not JSON, not an object."""
    if call := _call(history, at):
        key, value = SPOILED[to % len(SPOILED)]
        if value == MISSING:
            call["function"].pop(key, None)
        else:
            call["function"][key] = copy.deepcopy(value)


def no_calls(history: History, at: int, to: int) -> None:
    if turn := _some(history, at, "assistant"):
        turn["tool_calls"] = ([], None)[to % 2]


def empty_content(history: History, at: int, to: int) -> None:
    """Nothing, null, an empty or blank string, no parts, empty parts; any role."""
    if history:
        message = history[at % len(history)]
        if to % 6 == 5:
            message.pop("content", None)
        else:
            message["content"] = ("", None, " \n", [], [{"type": "text", "text": ""}])[to % 6]


def change_parts(history: History, at: int, to: int) -> None:
    """A string becomes parts; beside it an empty part, an image, or another text."""
    if not history:
        return
    message = history[at % len(history)]
    content = message.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
    more = ({"type": "text", "text": ""}, copy.deepcopy(IMAGE), {"type": "text", "text": f"<another part {at}>"})
    message["content"] = [*parts, *([more[to % 4]] if to % 4 < 3 else [])]


def add_message(history: History, at: int, to: int) -> None:
    """One more message in a row: user after user, assistant after assistant, one of each at an end."""
    role = ("user", "assistant")[to % 2]
    place = (at % (len(history) + 1), len(history), 0)[to // 2 % 3]
    history.insert(place, {"role": role, "content": f"<added {role} {at}.{to}>"})


def extra_keys(history: History, at: int, to: int) -> None:
    keys: tuple[Wire, ...] = (
        {"_notes": {"n": at}},
        {"vendor_key": [at]},
        {"_origin": {"provider": "x", "model": "y"}},
        {"refusal": None},
        {"name": "alice"},
        {"prefix": True},
    )
    roles = {4: ("user",), 5: ("assistant",)}.get(to % 6, ("system", "user", "assistant", "tool"))
    if message := _some(history, at, *roles):
        message.update(keys[to % 6])


def add_reasoning(history: History, at: int, to: int) -> None:
    if turn := _some(history, at, "assistant"):
        turn[("reasoning_content", "reasoning")[to % 2]] = ("", f"<thought {at}.{to}>")[to // 2 % 2]


def only_one_role(history: History, _at: int, to: int) -> None:
    role = ("assistant", "system", "tool", "user")[to % 4]
    history[:] = [message for message in history if message["role"] == role]


ACCIDENTS: tuple[Accident, ...] = (
    lose_result,
    lose_turn,
    lose_user,
    displace_result,
    duplicate_result,
    backfilled_result,
    duplicate_message,
    interleave,
    late_system,
    reuse_id,
    restart_ids,
    spoil_call_id,
    spoil_result_id,
    spoil_pair_id,
    cut_head,
    cut_tail,
    spoil_call,
    no_calls,
    empty_content,
    change_parts,
    add_message,
    extra_keys,
    add_reasoning,
    only_one_role,
)
