"""Anthropic Messages, and every endpoint that copies it.

One wire message is one `Message`. The results of a turn are parts of the user message that brings them, beside its
text and in the wire's order. Blocks of tools that the provider runs itself (`server_tool_use` and the like) are
`Opaque`. `cache_control` stays in a part's `extra`. A null `id`, `name` or `input` is written as absent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from legato.errors import WireError
from legato.messages import (
    NOTHING,
    Json,
    Media,
    Message,
    Opaque,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Transcript,
)
from legato.wire import shape

KEY = "messages"

MEDIA = ("image", "document")
ROLES = {"tool": "user", "function": "user", "developer": "system"}
"""The wire's word for a neutral role, where it is another."""


def decode(items: Sequence[Json]) -> Transcript:
    """Wire messages to a transcript of the same length. Raises `WireError` with the place."""
    return shape.transcript(items, _message, KEY)


def encode(message: Message) -> tuple[Json, ...]:
    """The wire message: the very object that came in if nothing changed."""
    if message.raw is not None:
        return (message.raw,)
    item: dict[str, Json] = {"role": ROLES.get(message.role, message.role), **message.extra}
    if message.parts:
        item["content"] = _content(message.parts)
    elif "content" not in item:
        item["content"] = []
    return (item,)


def _message(item: Json, at: int) -> Message:
    fields = shape.fields(item, "")
    role = shape.text(fields, "role", "")
    content = fields.get("content")
    parts = _parts(content, _part)
    if len(fields) == 2 and parts:
        return Message(role, parts, (at,), None, NOTHING, item)
    extra = shape.rest(fields, ("role", "content"))
    if not parts and "content" in fields:
        extra["content"] = content
    return Message(role, parts, (at,), None, extra, item)


def _parts(content: Json, read: Callable[[Json], Part]) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content, True, NOTHING),)
    if isinstance(content, list):
        return shape.each(content, read, "content")
    if content is None:
        return ()
    raise WireError("content", f"must be text or a list of blocks, not {shape.kind(content)}")


def _part(block: Json) -> Part:
    kind = block.get("type") if type(block) is dict else None
    read = READ.get(kind) if type(kind) is str else None
    return _content_part(block) if read is None else read(block)


def _content_part(block: Json) -> Part:
    """What a message and a result can both hold."""
    if type(block) is dict:
        kind, text = block.get("type"), block.get("text")
        if kind == "text" and isinstance(text, str):
            return Text(text, False, NOTHING if len(block) == 2 else shape.rest(block, ("type", "text")), block)
        if kind in MEDIA:
            return Media(kind, block)
    return Opaque(block)


def _call(block: dict[str, Json]) -> ToolCall:
    call_id, name, arguments = block.get("id"), block.get("name"), block.get("input")
    if len(block) == 4 and type(call_id) is str and type(name) is str and arguments is not None:
        return ToolCall(call_id, name, arguments, False, NOTHING, block)
    extra = shape.rest(block, ("type", "id", "name", "input"))
    call_id, name = shape.optional_text(block, "id", ""), shape.optional_text(block, "name", "")
    return ToolCall(call_id, name, arguments, False, extra, block)


def _result(block: dict[str, Json]) -> ToolResult:
    """A flag that is not raised stays in `extra`, so that it is written again."""
    content, error = block.get("content"), block.get("is_error") is True
    parts = _parts(content, _content_part)
    call_id = shape.optional_text(block, "tool_use_id", "")
    if len(block) == 3 and parts and call_id is not None:
        return ToolResult(call_id, parts, None, False, NOTHING, block)
    extra = shape.rest(block, ("type", "tool_use_id", "content"))
    if error:
        del extra["is_error"]
    if not parts and "content" in block:
        extra["content"] = content
    return ToolResult(call_id, parts, None, error, extra, block)


def _reasoning(block: dict[str, Json]) -> Part:
    text, signature = block.get("thinking"), block.get("signature")
    if not isinstance(text, str):
        return Opaque(block)
    if isinstance(signature, str):
        return Reasoning(text, "thinking", signature, shape.rest(block, ("type", "thinking", "signature")), block)
    return Reasoning(text, "thinking", None, shape.rest(block, ("type", "thinking")), block)


def _redacted(block: dict[str, Json]) -> Reasoning:
    return Reasoning("", "redacted_thinking", None, shape.rest(block, ("type",)), block)


READ: dict[str, Callable[[dict[str, Json]], Part]] = {
    "tool_use": _call,
    "tool_result": _result,
    "thinking": _reasoning,
    "redacted_thinking": _redacted,
}


def _content(parts: Sequence[Part]) -> Json:
    """One string if it came as one, else a list of blocks."""
    if len(parts) == 1 and isinstance(parts[0], Text) and parts[0].flat:
        return parts[0].text
    return [_block(part) for part in parts]


def _block(part: Part) -> Json:
    if isinstance(part, Media | Opaque) or part.raw is not None:
        return part.raw
    block: dict[str, Json]
    if isinstance(part, Text):
        return {"type": "text", "text": part.text, **part.extra}
    if isinstance(part, ToolCall):
        block = {"type": "tool_use", "id": part.id, "name": part.name, "input": shape.as_object(part)}
        return {**{key: value for key, value in block.items() if value is not None}, **part.extra}
    if isinstance(part, ToolResult):
        return _result_block(part)
    assert isinstance(part, Reasoning), part
    if part.field == "redacted_thinking":
        return {"type": part.field, **part.extra}
    block = {"type": "thinking", "thinking": part.text, **part.extra}
    if part.signature is not None:
        block["signature"] = part.signature
    return block


def _result_block(result: ToolResult) -> Json:
    block: dict[str, Json] = {"type": "tool_result", **result.extra}
    if result.call_id is not None:
        block["tool_use_id"] = result.call_id
    if result.parts:
        block["content"] = _content(result.parts)
    if result.error:
        block["is_error"] = True
    return block
