"""What a message list says: its texts, as a person would look for them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from accidents import History, Wire


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def without_notes(message: Wire) -> Wire:
    """What there is to send of it: keys that start with `_` are the caller's own."""
    return {key: value for key, value in message.items() if not key.startswith("_")}


def strings(value: Any) -> Iterator[str]:
    """Every text inside a JSON value that is not a key."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from strings(inner)


def said(message: Wire) -> list[str]:
    """The texts of its content that are not blank."""
    content = message.get("content")
    found = [content] if isinstance(content, str) else [part.get("text") or "" for part in content or ()]
    return [text for text in found if text.strip()]


def leaves(message: Wire) -> list[str]:
    """Every text a model or a person wrote into it: content, image addresses, arguments, reasoning."""
    calls = [call["function"].get("arguments") for call in message.get("tool_calls") or ()]
    thoughts = [message.get("reasoning_content"), message.get("reasoning")]
    parts = message.get("content")
    written = [parts] if isinstance(parts, str) else [dict(part, type=None) for part in parts or ()]
    return [text for text in strings([written, calls, thoughts]) if text]


def pool(messages: Iterable[Wire]) -> list[str]:
    """All texts in which a leaf may have survived: those of the messages, and those inside their arguments' JSON."""
    found = list(strings(list(messages)))
    for message in messages:
        for call in message.get("tool_calls") or ():
            arguments = call["function"].get("arguments")
            found += strings(_parsed(arguments) if isinstance(arguments, str) else arguments)
    return found


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def nothing_to_send(messages: History) -> bool:
    """Whether no message but results holds a text, an image or a call that could be executed."""
    return not any(_has_something(message) for message in messages if message["role"] != "tool")


def _has_something(message: Wire) -> bool:
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    executable = [call for call in calls if (call.get("name") or "").strip() and call.get("arguments") is not None]
    return bool(said(message) or _media(message) or executable)


def _media(message: Wire) -> list[Wire]:
    content = message.get("content")
    return [part for part in content if part["type"] != "text"] if isinstance(content, list) else []
