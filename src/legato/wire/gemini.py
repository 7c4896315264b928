"""Google Gemini `generateContent` (AI Studio and Vertex).

One content is one `Message`; `model` is `assistant`, and the results of a turn are parts of the content that brings
them. Both spellings of a key are read (`functionCall`, `function_call`) and the one that came in is written again: a
part's `extra` then holds the snake key, with those of its inner fields that are not known. `thoughtSignature` stays in
the `extra` of its own part. A call without `args` has the arguments `{}`.

A response that is one text under one key (`output`, `result`, `error`, …) is a `Text`; any other is `Opaque`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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

KEY = "contents"

READ_ROLES = {"model": "assistant", "function": "user"}
ROLES = {"assistant": "model", "tool": "user", "function": "user", "developer": "system"}
"""The wire's word for a neutral role, where it is another."""

CALLS = ("functionCall", "function_call")
RESULTS = ("functionResponse", "function_response")
MEDIA = ("inlineData", "inline_data", "fileData", "file_data")
SIGNATURES = ("thoughtSignature", "thought_signature")
MIMES = ("mimeType", "mime_type")


def listed(value: Json) -> list[Json]:
    """The list of contents that the body's `contents` stands for: a bare text or a single content is a list of one."""
    if isinstance(value, str):
        return [{"role": "user", "parts": [{"text": value}]}]
    return [value] if isinstance(value, dict) else shape.items(value, KEY)


def decode(items: Sequence[Json]) -> Transcript:
    """Wire contents to a transcript of the same length. Raises `WireError` with the place."""
    return shape.transcript(items, _message, KEY)


def encode(message: Message) -> tuple[Json, ...]:
    """The wire content: the very object that came in if nothing changed."""
    if message.raw is not None:
        return (message.raw,)
    usual = ROLES.get(message.role, message.role)
    item: dict[str, Json] = {"role": usual, **message.extra}
    if _role(item["role"]) != message.role:
        item["role"] = usual
    elif item["role"] is None:
        del item["role"]
    if message.parts:
        item["parts"] = [_wire_part(part) for part in message.parts]
    elif "parts" not in item:
        item["parts"] = []
    return (item,)


def _message(item: Json, at: int) -> Message:
    """Its `extra` holds the wire's word for the role where that is not the usual one; None: there is none."""
    fields = shape.fields(item, "")
    word = shape.optional_text(fields, "role", "")
    role = _role(word)
    extra = shape.rest(fields, ("role", "parts"))
    if ROLES.get(role, role) != word:
        extra["role"] = word
    blocks = fields.get("parts")
    parts = () if blocks is None else shape.each(shape.items(blocks, "parts"), _part, "parts")
    if not parts and "parts" in fields:
        extra["parts"] = blocks
    return Message(role, parts, (at,), None, extra, item)


def _role(word: str | None) -> str:
    return READ_ROLES.get(word, word) if word else "user"


def _part(part: Json) -> Part:
    if type(part) is not dict:
        return Opaque(part)
    text = part.get("text")
    if len(part) == 1 and isinstance(text, str):
        return Text(text, raw=part)
    for key in part:
        read = READ.get(key)
        if read is not None:
            return read(part, key)
    if isinstance(text, str):
        if part.get("thought") is True:
            return _reasoning(part, text)
        return Text(text, False, shape.rest(part, ("text",)), part)
    return Opaque(part)


def _reasoning(part: dict[str, Json], text: str) -> Reasoning:
    """The key of the signature stays in `extra`, for its spelling."""
    extra = shape.rest(part, ("text", "thought"))
    signature = next((extra[key] for key in SIGNATURES if isinstance(extra.get(key), str)), None)
    return Reasoning(text, "thought", signature, extra, part)


def _call(part: dict[str, Json], key: str) -> ToolCall:
    call = shape.fields(part[key], key)
    call_id, name = shape.optional_text(call, "id", key), shape.optional_text(call, "name", key)
    arguments = call.get("args")
    extra = _extra(part, key, shape.rest(call, ("id", "name", "args")))
    return ToolCall(call_id, name, {} if arguments is None else arguments, False, extra, part)


def _result(part: dict[str, Json], key: str) -> ToolResult:
    """The response without its text stays in `extra` where its key is not the usual one."""
    result = shape.fields(part[key], key)
    call_id, name = shape.optional_text(result, "id", key), shape.optional_text(result, "name", key)
    inner = shape.rest(result, ("id", "name"))
    parts: tuple[Part, ...] = ()
    error = False
    response = inner.get("response")
    if response:
        del inner["response"]
        error = isinstance(response, dict) and bool(response.get("error"))
        word, text = next(iter(response.items())) if isinstance(response, dict) and len(response) == 1 else ("", None)
        parts = (Text(text, flat=True) if isinstance(text, str) else Opaque(response),)
        if isinstance(text, str) and word != ("error" if error else "output"):
            inner["response"] = {word: ""}
    blocks = inner.get("parts")
    if isinstance(blocks, list):
        found = [_media_part(block) for block in blocks]
        if found and all(isinstance(block, Media) for block in found):
            del inner["parts"]
            parts = (*parts, *found)
    return ToolResult(call_id, parts, name, error, _extra(part, key, inner), part)


def _media_part(block: Json) -> Part:
    key = next((key for key in MEDIA if key in block), None) if isinstance(block, dict) else None
    return Opaque(block) if key is None else _media(block, key)


def _extra(part: dict[str, Json], key: str, inner: dict[str, Json]) -> Fields:
    if len(part) == 1 and not inner and "_" not in key:
        return NOTHING
    extra = shape.rest(part, (key,))
    twin = next((other for other in extra if READ.get(other) is READ[key]), None)
    if twin is not None:
        raise WireError(key, f"stands beside {twin}, which is the same field")
    if inner or "_" in key:
        extra[key] = inner
    return extra


def _media(part: dict[str, Json], key: str) -> Part:
    data = part[key]
    if not isinstance(data, dict):
        return Opaque(part)
    mime = next((data[word] for word in MIMES if isinstance(data.get(word), str)), "")
    kind = mime.partition("/")[0]
    return Media(kind if kind in ("image", "audio", "video") else "document", part)


READ: dict[str, Callable[[dict[str, Json], str], Part]] = {
    **dict.fromkeys(CALLS, _call),
    **dict.fromkeys(RESULTS, _result),
    **dict.fromkeys(MEDIA, _media),
}


def _wire_part(part: Part) -> Json:
    if isinstance(part, Media | Opaque) or part.raw is not None:
        return part.raw
    if isinstance(part, Text):
        return {"text": part.text, **part.extra}
    if isinstance(part, Reasoning):
        return _thought_part(part)
    extra = dict(part.extra)
    fields: dict[str, Json]
    if isinstance(part, ToolCall):
        key, inner = _inner(extra, CALLS)
        fields = {"id": part.id, "name": part.name, "args": shape.as_object(part), **inner}
    else:
        assert isinstance(part, ToolResult), part
        key, inner = _inner(extra, RESULTS)
        fields = {"id": part.call_id, "name": part.name, **_response(part, inner)}
    known = {name: value for name, value in fields.items() if value is not None or name not in ("id", "name")}
    return {key: known, **extra}


def _thought_part(reasoning: Reasoning) -> Json:
    part = {"text": reasoning.text, "thought": True, **reasoning.extra}
    key = next((key for key in SIGNATURES if key in part), SIGNATURES[0])
    part.pop(key, None)
    return part if reasoning.signature is None else {**part, key: reasoning.signature}


def _inner(extra: dict[str, Json], keys: tuple[str, str]) -> tuple[str, dict[str, Json]]:
    """The wire's key for the part, and its inner fields that are not known; both taken out of `extra`.

    Both spellings never stand there: `_extra` refuses a part that has the two.
    """
    key = next((key for key in keys if key in extra), keys[0])
    return key, dict(extra.pop(key, {}))


def _response(result: ToolResult, inner: dict[str, Json]) -> dict[str, Json]:
    """The response as an object, and media beside it."""
    texts = [part.text for part in result.parts if isinstance(part, Text)]
    whole = next((part.raw for part in result.parts if isinstance(part, Opaque)), None)
    media = [_wire_part(part) for part in result.parts if isinstance(part, Media)]
    blank = inner.pop("response", None)
    if texts:
        word = "error" if result.error else next(iter(blank or ()), "output")
        text = "\n".join(texts)
        response = {**whole, word: text} if isinstance(whole, dict) else {word: text}
    else:
        response = whole if whole is not None else blank
    if response is None:
        response = {"error" if result.error else "output": ""}
    return {"response": response, **inner, **({"parts": media} if media else {})}
