"""What a body of any wire format says, in no format's words: texts in order, calls, and what each call gave.

A reader of the tests' own, which shares no code with legato. It is for legal bodies: a result answers the first open
call of its id, one without an id the first that has none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Wire = Mapping[str, Any]
Event = tuple[str, Any, Any]
"""`text` with role and text, `call` with id and (name, arguments), or `result` with id and text."""

SYSTEM = ("system", "systemInstruction", "instructions")


@dataclass
class Called:
    """One call and the text of its result."""

    id: Any
    name: str
    arguments: Any
    result: str | None = None


@dataclass
class Gist:
    """`system` holds the texts of system messages and of the body's own field."""

    system: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    calls: list[Called] = field(default_factory=list)


def gist(payload: Any, form: str) -> Gist:
    """What a body or a bare list says."""
    items = payload if isinstance(payload, list) else next(payload[key] for key in KEYS if key in payload)
    found = Gist()
    if isinstance(payload, dict):
        found.system += [text for key in SYSTEM for text in _texts(payload.get(key))]
    open_calls: list[Called] = []
    for kind, key, value in (event for item in items for event in READ[form](item)):
        if kind == "text":
            (found.system if key in ("system", "developer") else found.texts).append(value)
        elif kind == "call":
            call = Called(key, value[0], arguments(value[1]))
            found.calls.append(call)
            open_calls.append(call)
        else:
            answered = next(call for call in open_calls if (call.id or None) == (key or None))
            answered.result = value
            open_calls.remove(answered)
    return found


KEYS = ("messages", "contents", "input")


def _texts(value: Any) -> list[str]:
    """The texts of a content: a string, a list of blocks of any format, an object with parts."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return _texts(value["parts"]) if "parts" in value else _texts(value.get("text"))
    return [text for block in value or () for text in _texts(block)]


def arguments(value: Any) -> Any:
    """Arguments as a value: a text is parsed if it can be, a wrapped one taken out first; nothing is {}."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return value.strip() or {}
    if isinstance(value, dict) and set(value) == {"_raw"}:
        return arguments(value["_raw"])
    return value if value not in (None, [], "") else {}


def plain(name: str) -> str:
    """A tool's name with `_` for what most APIs refuse."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)


# -- one reader a format -----------------------------------------------------------------------------------------------


def _chat(message: Wire) -> Iterator[Event]:
    if message["role"] == "tool":
        yield "result", message.get("tool_call_id"), "\n".join(_texts(message.get("content")))
        return
    for text in _texts(message.get("content")):
        yield "text", message["role"], text
    for call in message.get("tool_calls") or ():
        yield "call", call.get("id"), (call["function"]["name"], call["function"]["arguments"])


def _responses(item: Wire) -> Iterator[Event]:
    match item.get("type", "message"):
        case "function_call":
            yield "call", item.get("call_id"), (item["name"], item["arguments"])
        case "function_call_output":
            yield "result", item.get("call_id"), "\n".join(_texts(item.get("output")))
        case "message":
            for text in _texts(item.get("content")):
                yield "text", item["role"], text


def _anthropic(message: Wire) -> Iterator[Event]:
    content = message["content"]
    for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        match block["type"]:
            case "text":
                yield "text", message["role"], block["text"]
            case "tool_use":
                yield "call", block.get("id"), (block["name"], block["input"])
            case "tool_result":
                yield "result", block.get("tool_use_id"), "\n".join(_texts(block.get("content")))


def _bedrock(message: Wire) -> Iterator[Event]:
    for block in message["content"]:
        if "text" in block:
            yield "text", message["role"], block["text"]
        elif "toolUse" in block:
            yield "call", block["toolUse"].get("toolUseId"), (block["toolUse"]["name"], block["toolUse"]["input"])
        elif "toolResult" in block:
            result = block["toolResult"]
            yield "result", result.get("toolUseId"), "\n".join(_texts(result.get("content")))


def _gemini(content: Wire) -> Iterator[Event]:
    for part in content["parts"]:
        if "functionCall" in part:
            call = part["functionCall"]
            yield "call", call.get("id"), (call["name"], call.get("args", {}))
        elif "functionResponse" in part:
            response = part["functionResponse"]
            yield "result", response.get("id"), "\n".join(_values(response["response"]))
        elif "text" in part and not part.get("thought"):
            yield "text", content.get("role", "user"), part["text"]


def _values(response: Wire) -> Sequence[str]:
    return [value for value in response.values() if isinstance(value, str)]


READ = {
    "openai-chat": _chat,
    "openai-responses": _responses,
    "anthropic": _anthropic,
    "bedrock": _bedrock,
    "gemini": _gemini,
}
