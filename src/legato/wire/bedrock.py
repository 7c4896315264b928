"""AWS Bedrock Converse.

One message is one `Message`, as in Anthropic Messages, but a block is an object whose only key says what it is. Blocks
of tools that the provider runs itself carry a `type` and are `Opaque`, and so are cache points and guarded text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from legato.errors import WireError
from legato.messages import Json, Media, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult, Transcript
from legato.wire import shape

KEY = "messages"

MEDIA = ("image", "document", "video", "audio")
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
        item["content"] = [_block(part) for part in message.parts]
    elif "content" not in item:
        item["content"] = []
    return (item,)


def _message(item: Json, at: int) -> Message:
    fields = shape.fields(item, "")
    role = shape.text(fields, "role", "")
    extra = shape.rest(fields, ("role", "content"))
    blocks = fields.get("content")
    parts = () if blocks is None else shape.each(shape.items(blocks, "content"), _part, "content")
    if not parts and "content" in fields:
        extra["content"] = blocks
    return Message(role, parts, (at,), None, extra, item)


def _part(block: Json) -> Part:
    if type(block) is dict and len(block) == 1:
        ((kind, value),) = block.items()
        read = READ.get(kind)
        if read is not None and isinstance(value, dict) and "type" not in value:
            return read(value, block)
    return _content_part(block)


def _content_part(block: Json) -> Part:
    """What a message and a result can both hold."""
    if type(block) is dict and len(block) == 1:
        ((kind, value),) = block.items()
        if kind == "text" and isinstance(value, str):
            return Text(value, raw=block)
        if kind in MEDIA:
            return Media(kind, block)
    return Opaque(block)


def _call(value: dict[str, Json], block: Json) -> ToolCall:
    call_id = shape.optional_text(value, "toolUseId", "toolUse")
    name = shape.optional_text(value, "name", "toolUse")
    return ToolCall(call_id, name, value.get("input"), False, shape.rest(value, ("toolUseId", "name", "input")), block)


def _result(value: dict[str, Json], block: Json) -> ToolResult:
    """A status that is not `error` stays in `extra`, so that it is written again."""
    try:
        content, error = value.get("content"), value.get("status") == "error"
        parts = () if content is None else shape.each(shape.items(content, "content"), _content_part, "content")
        call_id = shape.optional_text(value, "toolUseId", "")
    except WireError as problem:
        raise shape.under("toolResult", problem) from None
    extra = shape.rest(value, ("toolUseId", "content"))
    if error:
        del extra["status"]
    if not parts and "content" in value:
        extra["content"] = content
    return ToolResult(call_id, parts, None, error, extra, block)


def _reasoning(value: dict[str, Json], block: Json) -> Part:
    inner = value.get("reasoningText")
    if len(value) == 1 and isinstance(inner, dict) and isinstance(inner.get("text"), str):
        signature = inner["signature"] if isinstance(inner.get("signature"), str) else None
        extra = shape.rest(inner, ("text",) if signature is None else ("text", "signature"))
        return Reasoning(inner["text"], "reasoningText", signature, extra, block)
    if "redactedContent" in value:
        return Reasoning("", "redactedContent", None, value, block)
    return Opaque(block)


READ: dict[str, Callable[[dict[str, Json], Json], Part]] = {
    "toolUse": _call,
    "toolResult": _result,
    "reasoningContent": _reasoning,
}


def _block(part: Part) -> Json:
    if isinstance(part, Media | Opaque) or part.raw is not None:
        return part.raw
    if isinstance(part, Text):
        return {"text": part.text}
    if isinstance(part, ToolCall):
        call = {"toolUseId": part.id, "name": part.name, "input": shape.as_object(part)}
        return {"toolUse": {**{key: value for key, value in call.items() if value is not None}, **part.extra}}
    if isinstance(part, ToolResult):
        return {"toolResult": _result_fields(part)}
    assert isinstance(part, Reasoning), part
    if part.field == "redactedContent":
        return {"reasoningContent": dict(part.extra)}
    inner = {"text": part.text, **part.extra}
    if part.signature is not None:
        inner["signature"] = part.signature
    return {"reasoningContent": {"reasoningText": inner}}


def _result_fields(result: ToolResult) -> dict[str, Json]:
    fields: dict[str, Json] = {"content": [], **result.extra}
    if result.call_id is not None:
        fields["toolUseId"] = result.call_id
    if result.parts:
        fields["content"] = [_block(part) for part in result.parts]
    if result.error:
        fields["status"] = "error"
    return fields
