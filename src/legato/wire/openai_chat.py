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
RESULTS = ("tool", "function")


def decode(items: Sequence[Json]) -> Transcript:
    """Wire messages to a transcript of the same length. Raises `WireError` with the place."""
    return tuple([_message(item, at) for at, item in enumerate(items)])


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
            if "function_call" in part.extra:
                item["function_call"] = {"name": part.name, "arguments": part.arguments, **part.extra["function_call"]}
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
    place = f"messages[{at}]"
    fields = shape.fields(item, place)
    role = shape.text(fields, "role", place)
    extra = {key: value for key, value in fields.items() if key not in ("role", "name", "content")}
    parts = _parts(fields.get("content"), f"{place}.content")
    name = shape.optional_text(fields, "name", place)
    if role in RESULTS:
        call_id = shape.optional_text(fields, "tool_call_id", place)
        extra.pop("tool_call_id", None)
        blank = {} if parts or "content" not in fields else {"content": fields["content"]}
        result = ToolResult(call_id, parts, name, extra=blank)
        return Message(role, (result,), (at,), extra=extra, raw=item)
    if not parts and "content" in fields:
        extra["content"] = fields["content"]
    if "name" in fields and name is None:
        extra["name"] = None
    if role == "assistant":
        parts = (*_reasoning(extra), *parts, *_calls(extra, place))
    return Message(role, parts, (at,), name, extra, item)


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
            extra = {key: value for key, value in block.items() if key != "text"}
            return Text(block["text"], extra=extra, raw=block)
        if isinstance(kind, str) and kind in MEDIA:
            return Media(MEDIA[kind], block)
    return Opaque(block)


def _reasoning(extra: dict[str, Json]) -> list[Reasoning]:
    """Take the reasoning fields out of `extra`. A null one stays there."""
    found = []
    for field in REASONING:
        value = extra.get(field)
        if value is not None:
            del extra[field]
            found.append(Reasoning(value if isinstance(value, str) else "", field, raw=value))
    return found


def _calls(extra: dict[str, Json], place: str) -> list[ToolCall]:
    """Take the calls out of `extra`. `tool_calls: null` and `[]` stay there."""
    found = []
    items = extra.get("tool_calls")
    if items:
        if not isinstance(items, list):
            raise WireError(f"{place}.tool_calls", f"must be a list, not {shape.kind(items)}")
        del extra["tool_calls"]
        found = [_call(item, f"{place}.tool_calls[{at}]") for at, item in enumerate(items)]
    legacy = extra.get("function_call")
    if isinstance(legacy, dict):
        del extra["function_call"]
        rest = {key: value for key, value in legacy.items() if key not in ("name", "arguments")}
        found.append(ToolCall(None, legacy.get("name"), legacy.get("arguments"), extra={"function_call": rest}))
    return found


def _call(item: Json, place: str) -> ToolCall:
    fields = shape.fields(item, place)
    free = fields.get("type") == "custom"
    body, text = ("custom", "input") if free else ("function", "arguments")
    function = fields.get(body)
    if function is None:
        function = {}
    function = shape.fields(function, f"{place}.{body}")
    name = shape.optional_text(function, "name", f"{place}.{body}")
    extra = {key: value for key, value in fields.items() if key not in ("id", body)}
    rest = {key: value for key, value in function.items() if key not in ("name", text)}
    if rest:
        extra[body] = rest
    return ToolCall(shape.optional_text(fields, "id", place), name, function.get(text), free, extra, item)


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
    if part.raw is not None:
        return part.raw
    assert isinstance(part, Text), part
    return {"type": "text", **part.extra, "text": part.text}
