"""OpenAI Chat Completions, and every API that copies it.

One wire message is one `Message`. A `tool` message holds one `ToolResult`; the calls of an assistant message come
after its text. Also read: the legacy `function_call` and role `function` (their calls have no id), `custom` tool
calls, and the reasoning fields of DeepSeek, Kimi, Qwen (`reasoning_content`), Groq and vLLM (`reasoning`) and
OpenRouter (`reasoning_details`).
"""

from __future__ import annotations

from collections.abc import Sequence

from legato.errors import WireError
from legato.messages import (
    NOTHING,
    Fields,
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

REASONING = ("reasoning_content", "reasoning", "reasoning_details")
MEDIA = {
    "image_url": "image",
    "input_audio": "audio",
    "file": "document",
    "document_url": "document",
    "video_url": "video",
}
SAYING = ("role", "name", "content")
CALLING = (*SAYING, "tool_calls")
"""The fields of a message that are no `extra`. Only an assistant calls; `tool_calls: null` and `[]` are no calls."""
RESULTS = ("tool", "function")
RESULT_FIELDS = frozenset(("role", "name", "content", "tool_call_id"))
USUAL: Fields = {"type": "function"}
NULL: Fields = {"content": None}
"""The `extra` of a usual call, and of a message that only calls: one for all of them."""


def decode(items: Sequence[Json]) -> Transcript:
    """Wire messages to a transcript of the same length. Raises `WireError` with the place."""
    return shape.transcript(items, _message, KEY)


def encode(message: Message) -> tuple[Json, ...]:
    """The wire message: the very object that came in if nothing changed."""
    if message.raw is not None:
        return (message.raw,)
    item: dict[str, Json] = {"role": message.role}
    if message.name is not None:
        item["name"] = message.name
    content: list[Part] = []
    calls: list[Json] = []
    results = message.results
    if results:
        return tuple(_result_item(message, result) for result in results)
    item.update(message.extra)
    for part in message.parts:
        if isinstance(part, ToolCall):
            legacy = part.extra.get("function_call")
            if isinstance(legacy, dict):
                item["function_call"] = {"name": part.name, "arguments": part.arguments, **legacy}
            else:
                calls.append(_call_item(part))
        elif isinstance(part, Reasoning):
            item[part.field] = part.text if part.raw is None else part.raw
        else:
            content.append(part)
    if content:
        item["content"] = _content(content)
    elif "content" not in item and message.role == "assistant" and not calls and "function_call" not in item:
        item["content"] = ""
    if calls:
        item["tool_calls"] = calls
    return (item,)


def _message(item: Json, at: int) -> Message:
    fields = item if type(item) is dict else shape.fields(item, "")
    role, content = fields.get("role"), fields.get("content")
    if type(role) is not str:
        role = shape.text(fields, "role", "")
    parts = (Text(content, True, NOTHING),) if type(content) is str else _parts(content, "content")
    if role in RESULTS:
        return _result(item, role, parts, fields, at)
    calls: tuple[ToolCall, ...] = ()
    if role == "assistant" and fields.get("tool_calls"):
        calls = shape.each(shape.items(fields["tool_calls"], "tool_calls"), _call, "tool_calls")
    if len(fields) == (3 if calls else 2) and (parts or (calls and content is None and "content" in fields)):
        return Message(role, (*parts, *calls) if calls else parts, (at,), None, NOTHING if parts else NULL, item)
    extra = shape.rest(fields, CALLING if calls else SAYING)
    if not parts and "content" in fields:
        extra["content"] = content
    name = shape.optional_text(fields, "name", "") if "name" in fields else None
    if name is None and "name" in fields:
        extra["name"] = None
    if extra and role == "assistant":
        parts = (*_reasoning(extra), *parts, *calls, *_legacy_call(extra))
    elif calls:
        parts = (*parts, *calls)
    return Message(role, parts, (at,), name, extra or NOTHING, item)


def _result(item: Json, role: str, parts: tuple[Part, ...], fields: dict[str, Json], at: int) -> Message:
    call_id, name = fields.get("tool_call_id"), fields.get("name")
    if type(call_id) is not str or not (name is None or type(name) is str):
        call_id, name = shape.optional_text(fields, "tool_call_id", ""), shape.optional_text(fields, "name", "")
    blank = NOTHING if parts or "content" not in fields else {"content": fields["content"]}
    extra = NOTHING if fields.keys() <= RESULT_FIELDS else shape.rest(fields, RESULT_FIELDS)
    return Message(role, (ToolResult(call_id, parts, name, False, blank),), (at,), None, extra, item)


def _parts(content: Json, place: str) -> tuple[Part, ...]:
    if content is None:
        return ()
    if isinstance(content, str):
        return (Text(content, flat=True),)
    if isinstance(content, list):
        return tuple([_part(block) for block in content])
    raise WireError(place, f"must be text, a list of parts or null, not {shape.kind(content)}")


def _part(block: Json) -> Part:
    if isinstance(block, dict):
        kind = block.get("type")
        if kind == "text" and isinstance(block.get("text"), str):
            return Text(block["text"], False, shape.rest(block, ("text",)), block)
        if isinstance(kind, str) and kind in MEDIA:
            return Media(MEDIA[kind], block)
    return Opaque(block)


def _reasoning(extra: dict[str, Json]) -> Sequence[Reasoning]:
    """Take the reasoning fields out of `extra`. A null one stays there."""
    found = []
    for field in REASONING:
        value = extra.get(field)
        if value is not None:
            del extra[field]
            found.append(Reasoning(value if isinstance(value, str) else "", field, raw=value))
    return found


def _legacy_call(extra: dict[str, Json]) -> Sequence[ToolCall]:
    """Take the call out of `extra` that stands in `function_call`."""
    legacy = extra.get("function_call")
    if not isinstance(legacy, dict):
        return ()
    del extra["function_call"]
    name, rest = shape.optional_text(legacy, "name", "function_call"), shape.rest(legacy, ("name", "arguments"))
    return (ToolCall(None, name, legacy.get("arguments"), extra={"function_call": rest}),)


def _call(item: Json) -> ToolCall:
    fields = item if type(item) is dict else shape.fields(item, "")
    kind = fields.get("type")
    body, text = ("custom", "input") if kind == "custom" else ("function", "arguments")
    function = fields.get(body)
    function = {} if function is None else shape.fields(function, body)
    call_id, name, arguments = fields.get("id"), function.get("name"), function.get(text)
    if type(call_id) is str and type(name) is str and arguments is not None:
        if kind == "function" and len(fields) == 3 and len(function) == 2:
            return ToolCall(call_id, name, arguments, False, USUAL, item)
    else:
        name, call_id = shape.optional_text(function, "name", body), shape.optional_text(fields, "id", "")
    extra, rest = shape.rest(fields, ("id", body)), shape.rest(function, ("name", text))
    if rest:
        extra[body] = rest
    return ToolCall(call_id, name, arguments, kind == "custom", extra, item)


def _call_item(call: ToolCall) -> Json:
    if call.raw is not None:
        return call.raw
    body, text = ("custom", "input") if call.free else ("function", "arguments")
    extra = dict(call.extra)
    rest: Fields = extra.pop(body, {})
    arguments = call.arguments if isinstance(call.arguments, str) else shape.dump(call.arguments)
    item = {"id": call.id, "type": body, **extra, body: {"name": call.name, text: arguments, **rest}}
    if call.id is None:
        del item["id"]
    return item


def _result_item(message: Message, result: ToolResult) -> Json:
    item: dict[str, Json] = {"role": message.role}
    if result.call_id is not None:
        item["tool_call_id"] = result.call_id
    if result.name is not None:
        item["name"] = result.name
    item.update(message.extra)
    item["content"] = _content(result.parts) if result.parts else result.extra.get("content", "")
    return item


def _content(parts: Sequence[Part]) -> Json:
    """The content field: one string if it came as one, else a list of blocks."""
    if len(parts) == 1 and isinstance(parts[0], Text) and parts[0].flat:
        return parts[0].text
    return [_block(part) for part in parts]


def _block(part: Part) -> Json:
    if isinstance(part, Media | Opaque) or part.raw is not None:
        return part.raw
    assert isinstance(part, Text), part
    return {"type": "text", **part.extra, "text": part.text}
