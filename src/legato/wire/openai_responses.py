"""OpenAI Responses.

One item of `input` is one `Message`: a message item as it says, a call or a reasoning item as an `assistant` message
with that one part, an output as a `tool` message with its one `ToolResult`. Items that are neither said nor paired by
the client (searches the provider ran, references, compactions, …) are one `Opaque` part. A message that holds several
of these, after a merge or from another format, is written as several items.

The `extra` of a call or result holds the item's `type` where it is not the function kind. There, None stands for a
field that the wire has not got, where legato would otherwise write one.
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

KEY = "input"

FUNCTION, CUSTOM = "function_call", "custom_tool_call"
CALLS = {
    FUNCTION: "arguments",
    CUSTOM: "input",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
    "computer_call": "action",
    "tool_search_call": "arguments",
}
"""The calls that the client answers, and where their arguments are. The last five name their tool by their type."""

OUTPUTS = frozenset(f"{kind}_output" for kind in CALLS)
SEARCHES = ("tool_search_call", "tool_search_output")
"""A search for tools is the client's to answer only if it says so; a plain function output answers it too."""
MEDIA = {
    "input_image": "image",
    "input_file": "document",
    "input_audio": "audio",
    "input_video": "video",
    "computer_screenshot": "image",
}
TEXTS = ("input_text", "output_text", "text")
SIDED = ("input_text", "output_text", "refusal")
"""Texts that only one side may say: in a message that is written anew they get the type that fits its role."""
BLOCKS = ("input_", "output_", "text", "refusal", "summary_text", "reasoning_text", "computer_screenshot")
"""How the type of a block inside a message starts, where a merge left no other way to tell it from an item."""


def listed(value: Json) -> list[Json]:
    """The list of items that the body's `input` stands for: a bare text is one user message."""
    return [{"role": "user", "content": value}] if isinstance(value, str) else shape.items(value, KEY)


def decode(items: Sequence[Json]) -> Transcript:
    """Wire items to a transcript of the same length. Raises `WireError` with the place."""
    return shape.transcript(items, _message, KEY)


def encode(message: Message) -> tuple[Json, ...]:
    """The wire items: the very object that came in if nothing changed."""
    if message.raw is not None:
        return (message.raw,)
    items: list[Json] = []
    said: list[Part] = []
    # llama.cpp takes an assistant's words only under a type: "Cannot determine type of 'item'" (2026-12-01)
    extra = message.extra if message.origin or message.role != "assistant" else {"type": "message", **message.extra}
    kind = extra.get("type")
    for part in message.parts:
        if _is_said(part, kind):
            said.append(part)
            continue
        if said:
            items.append(_said_item(message.role, said, extra))
            said, extra = [], {"type": "message"}
        items.append(_part_item(part))
    if said or not items:
        items.append(_said_item(message.role, said, extra))
    return tuple(items)


def answer_fields(call: ToolCall) -> Fields:
    """The `extra` that a made-up result of this call needs so that it is written as the output of that kind."""
    kind = _kind(call)
    if kind == FUNCTION or kind in SEARCHES:
        return {}
    return {"type": f"{kind}_output", **({"status": "failed"} if kind == "apply_patch_call" else {})}


def _message(item: Json, at: int) -> Message:
    fields = shape.fields(item, "")
    kind = shape.optional_text(fields, "type", "")
    if kind == "message" or (kind is None and "role" in fields):
        return _said(fields, at, item)
    notes = {key: value for key, value in fields.items() if key[:1] == "_"}
    if notes:
        fields = shape.rest(fields, tuple(notes))
    if kind in SEARCHES and fields.get("execution") == "client":
        part = _call(fields, kind) if kind in CALLS else _result(fields, kind)
        return Message("assistant" if kind in CALLS else "tool", (part,), (at,), None, notes, item)
    if kind in CALLS and kind not in SEARCHES:
        return Message("assistant", (_call(fields, kind),), (at,), None, notes, item)
    if kind in OUTPUTS:
        return Message("tool", (_result(fields, kind),), (at,), None, notes, item)
    if kind == "reasoning":
        return Message("assistant", (_reasoning(fields),), (at,), None, notes, item)
    if kind is None and "id" not in fields:
        raise WireError("", "has neither a type nor a role")
    role = fields.get("role")
    extra = {"type": kind or "item_reference", **notes}
    return Message(role if isinstance(role, str) else "assistant", (Opaque(fields),), (at,), None, extra, item)


def _said(fields: dict[str, Json], at: int, item: Json) -> Message:
    role = shape.text(fields, "role", "")
    content = fields.get("content")
    parts = _parts(content, "content")
    extra = shape.rest(fields, ("role", "content"))
    if not parts and "content" in fields:
        extra["content"] = content
    return Message(role, parts, (at,), None, extra, item)


def _text_kind(role: str) -> str:
    return "output_text" if role == "assistant" else "input_text"


def _parts(content: Json, place: str) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content, True),)
    if isinstance(content, list):
        return tuple([_part(block) for block in content])
    if content is None:
        return ()
    raise WireError(place, f"must be text or a list of parts, not {shape.kind(content)}")


def _part(block: Json) -> Part:
    if type(block) is not dict:
        return Opaque(block)
    kind = block.get("type")
    if not isinstance(kind, str):
        return Opaque(block)
    if kind in TEXTS:
        text = block.get("text")
        if isinstance(text, str):
            return Text(text, False, shape.rest(block, ("text",) if kind == "text" else ("type", "text")), block)
    elif kind in MEDIA:
        return Media(MEDIA[kind], block)
    elif kind == "refusal" and isinstance(block.get("refusal"), str):
        return Text(block["refusal"], False, shape.rest(block, ("refusal",)), block)
    return Opaque(block)


def _call(fields: dict[str, Json], kind: str) -> ToolCall:
    body = CALLS[kind]
    call_id, arguments = shape.optional_text(fields, "call_id", ""), fields.get(body)
    if kind in (FUNCTION, CUSTOM):
        extra = shape.rest(fields, ("type", "call_id", "name", body))
        return ToolCall(call_id, shape.optional_text(fields, "name", ""), arguments, kind == CUSTOM, extra, fields)
    extra = shape.rest(fields, ("call_id", body))
    if arguments is None:
        extra[body] = None
    return ToolCall(call_id, kind.removesuffix("_call"), {} if arguments is None else arguments, False, extra, fields)


def _result(fields: dict[str, Json], kind: str) -> ToolResult:
    is_function = kind == "function_call_output"
    extra = shape.rest(fields, ("type", "call_id", "output") if is_function else ("call_id", "output"))
    call_id = shape.optional_text(fields, "call_id", "")
    if call_id is None and kind == "local_shell_call_output":
        call_id = shape.optional_text(fields, "id", "")
        extra["call_id"] = None
    output = fields.get("output")
    if kind == "computer_call_output" and isinstance(output, dict):
        parts: tuple[Part, ...] = (_part(output),)
    else:
        parts = _parts(output, "output")
    if not parts:
        extra["output"] = output
    return ToolResult(call_id, parts, None, fields.get("status") == "failed", extra, fields)


def _reasoning(fields: dict[str, Json]) -> Reasoning:
    """Summary and content stay in `extra` too: they are written again as long as the text is theirs."""
    signature = fields.get("encrypted_content")
    known = ("type", "encrypted_content") if isinstance(signature, str) else ("type",)
    extra = shape.rest(fields, known)
    return Reasoning(_thought(extra), "reasoning", signature if isinstance(signature, str) else None, extra, fields)


def _thought(fields: Fields) -> str:
    for key in ("summary", "content"):
        blocks = fields.get(key)
        texts = [block.get("text") for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
        if texts:
            return "\n\n".join([text for text in texts if isinstance(text, str)])
    return ""


def _is_said(part: Part, kind: Json) -> bool:
    """Whether the part stands inside a message item. `kind` is the type the message has, or has after a merge."""
    if not isinstance(part, Opaque):
        return isinstance(part, Text | Media)
    if kind is None or kind == "message":
        return True
    own = part.raw.get("type", "") if isinstance(part.raw, dict) else ""
    return own != kind and isinstance(own, str) and own.startswith(BLOCKS)


def _said_item(role: str, parts: list[Part], extra: Fields) -> Json:
    role = "user" if role in ("tool", "function") else role
    item: dict[str, Json] = {"role": role, **extra}
    if "type" in item:
        item["type"] = "message"
    if parts or "content" not in item:
        item["content"] = _content(parts, _text_kind(role)) if parts else ""
    return item


def _content(parts: Sequence[Part], text_kind: str) -> Json:
    """One string if it came as one, else a list of blocks."""
    if len(parts) == 1 and isinstance(parts[0], Text) and parts[0].flat:
        return parts[0].text
    return [_block(part, text_kind) for part in parts]


def _block(part: Part, text_kind: str) -> Json:
    if not isinstance(part, Text):
        return part.raw
    kind = (part.raw or part.extra).get("type", text_kind)
    if kind in SIDED and kind != text_kind and not (kind == "refusal" and text_kind == "output_text"):
        return {"type": text_kind, "text": part.text}
    if part.raw is not None:
        return part.raw
    return {"type": kind, "refusal" if kind == "refusal" else "text": part.text, **part.extra}


def _part_item(part: Part) -> Json:
    if isinstance(part, Media | Opaque) or part.raw is not None:
        return part.raw
    if isinstance(part, ToolCall):
        return _call_item(part)
    if isinstance(part, ToolResult):
        return _result_item(part)
    assert isinstance(part, Reasoning), part
    item: dict[str, Json] = {"type": "reasoning", "summary": [], **part.extra}
    if part.text != _thought(part.extra):
        item.pop("content", None)
        item["summary"] = [{"type": "summary_text", "text": part.text}] if part.text else []
    if part.signature is not None:
        item["encrypted_content"] = part.signature
    return item


def _kind(call: ToolCall) -> str:
    kind: str = call.extra.get("type", CUSTOM if call.free else FUNCTION)
    return kind


def _call_item(call: ToolCall) -> Json:
    kind = _kind(call)
    body = CALLS[kind]
    named = kind in (FUNCTION, CUSTOM)
    item: dict[str, Json] = {"type": kind}
    if call.id is not None:
        item["call_id"] = call.id
    if named and call.name is not None:
        item["name"] = call.name
    item.update(call.extra)
    if body in call.extra and not call.arguments:
        del item[body]
    elif call.arguments is not None:
        item[body] = shape.as_text(call) if named else call.arguments
    return item


def _result_item(result: ToolResult) -> Json:
    item: dict[str, Json] = {"type": "function_call_output", "output": "", **result.extra}
    if "call_id" in item:
        item["id"] = result.call_id
        del item["call_id"]
    elif result.call_id is not None:
        item["call_id"] = result.call_id
    if result.parts:
        item["output"] = _output(result, item["type"])
    elif item["output"] is None:
        del item["output"]
    return item


def _output(result: ToolResult, kind: str) -> Json:
    if kind == "computer_call_output" and len(result.parts) == 1 and result.parts[0].raw is not None:
        return result.parts[0].raw
    if kind == "shell_call_output":
        return [_shell_chunk(part, result.error) if isinstance(part, Text) else part.raw for part in result.parts]
    return _content(result.parts, "input_text")


def _shell_chunk(text: Text, error: bool) -> Json:
    """The form this kind of output wants a text in."""
    outcome = {"type": "exit", "exit_code": int(error)}
    return {"stdout": "" if error else text.text, "stderr": text.text if error else "", "outcome": outcome}
