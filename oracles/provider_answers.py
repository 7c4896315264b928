"""What a provider answers, in the shape of each API, whole or as a stream: a sentence, or the call of a tool."""

from __future__ import annotations

import json
from collections.abc import Sequence

from accidents import Wire

TEXT = "Hello."
CALL_ID = "call_9"
ARGUMENTS = json.dumps({"path": "a.py"})
MODEL = "tiny"


def answer(form: str, name: str | None) -> Wire:
    """The whole answer: the call of the tool of that name, or without one the sentence."""
    match form:
        case "openai-chat":
            said = {"content": TEXT} if name is None else {"content": None, "tool_calls": [_chat_call(name)]}
            message = {"role": "assistant", **said}
            choice = {"index": 0, "message": message, "finish_reason": "stop" if name is None else "tool_calls"}
            return {**_CHAT, "object": "chat.completion", "choices": [choice], "usage": _CHAT_USAGE}
        case "openai-responses":
            return _response("completed", [_item(name)])
        case "anthropic":
            stop = "end_turn" if name is None else "tool_use"
            return {**_MESSAGE, "content": [_block(name)], "stop_reason": stop}
    part = {"text": TEXT} if name is None else {"functionCall": {"name": name, "args": json.loads(ARGUMENTS)}}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 12, "candidatesTokenCount": 3, "totalTokenCount": 15}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": MODEL}


def stream(form: str, name: str | None) -> list[bytes]:
    """The same answer as server-sent events."""
    match form:
        case "openai-chat":
            return [*map(_event, _chat_chunks(name)), b"data: [DONE]\n\n"]
        case "openai-responses":
            numbered = [{**event, "sequence_number": at} for at, event in enumerate(_response_events(name))]
            return [_named(event) for event in numbered]
        case "anthropic":
            return [_named(event) for event in _message_events(name)]
    return [_event(answer(form, name))]


def _event(value: Wire) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


def _named(value: Wire) -> bytes:
    return f"event: {value['type']}\n".encode() + _event(value)


# -- OpenAI Chat -------------------------------------------------------------------------------------------------------

_CHAT: Wire = {"id": "chatcmpl-1", "created": 1, "model": MODEL}
_CHAT_USAGE = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}


def _chat_call(name: str) -> Wire:
    return {"id": CALL_ID, "type": "function", "function": {"name": name, "arguments": ARGUMENTS}}


def _chat_chunks(name: str | None) -> list[Wire]:
    if name is None:
        deltas: list[Wire] = [{"role": "assistant", "content": TEXT[:3]}, {"content": TEXT[3:]}]
    else:
        begun = {"index": 0, **_chat_call(name), "function": {"name": name, "arguments": ""}}
        rest = {"index": 0, "function": {"arguments": ARGUMENTS}}
        deltas = [{"role": "assistant", "content": None, "tool_calls": [begun]}, {"tool_calls": [rest]}]
    ends = [None] * len(deltas) + ["stop" if name is None else "tool_calls"]
    choices = [
        {"index": 0, "delta": delta, "finish_reason": end} for delta, end in zip([*deltas, {}], ends, strict=True)
    ]
    head = {**_CHAT, "object": "chat.completion.chunk"}
    return [*({**head, "choices": [choice]} for choice in choices), {**head, "choices": [], "usage": _CHAT_USAGE}]


# -- OpenAI Responses --------------------------------------------------------------------------------------------------


def _item(name: str | None, status: str = "completed") -> Wire:
    if name is None:
        content = [{"type": "output_text", "text": TEXT, "annotations": [], "logprobs": []}]
        return {"type": "message", "id": "msg_1", "role": "assistant", "status": status, "content": content}
    call = {"id": "fc_1", "call_id": CALL_ID, "name": name, "arguments": ARGUMENTS}
    return {"type": "function_call", "status": status, **call}


def _response(status: str, output: Sequence[Wire]) -> Wire:
    usage = {
        "input_tokens": 12,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 15,
    }
    settings = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": MODEL, "status": status, **settings}
    return {**head, "output": list(output), "usage": usage if status == "completed" else None}


def _response_events(name: str | None) -> list[Wire]:
    item = _item(name)
    at = {"item_id": item["id"], "output_index": 0}
    if name is None:
        begun: Wire = {**item, "status": "in_progress", "content": []}
        part, place = item["content"][0], {**at, "content_index": 0}
        middle: list[Wire] = [
            {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
            {"type": "response.output_text.delta", **place, "delta": TEXT, "logprobs": []},
            {"type": "response.output_text.done", **place, "text": TEXT, "logprobs": []},
            {"type": "response.content_part.done", **place, "part": part},
        ]
    else:
        begun = {**item, "status": "in_progress", "arguments": ""}
        middle = [
            {"type": "response.function_call_arguments.delta", **at, "delta": ARGUMENTS},
            {"type": "response.function_call_arguments.done", **at, "name": name, "arguments": ARGUMENTS},
        ]
    return [
        {"type": "response.created", "response": _response("in_progress", [])},
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
        *middle,
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": _response("completed", [item])},
    ]


# -- Anthropic Messages ------------------------------------------------------------------------------------------------

_MESSAGE: Wire = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": MODEL,
    "stop_sequence": None,
    "usage": {"input_tokens": 12, "output_tokens": 3, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0},
}


def _block(name: str | None) -> Wire:
    if name is None:
        return {"type": "text", "text": TEXT}
    return {"type": "tool_use", "id": CALL_ID, "name": name, "input": json.loads(ARGUMENTS)}


def _message_events(name: str | None) -> list[Wire]:
    block = _block(name)
    begun = {**block, "text": ""} if name is None else {**block, "input": {}}
    said = {"type": "text_delta", "text": TEXT}
    delta = said if name is None else {"type": "input_json_delta", "partial_json": ARGUMENTS}
    stop = {"stop_reason": "end_turn" if name is None else "tool_use", "stop_sequence": None}
    return [
        {"type": "message_start", "message": {**_MESSAGE, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": begun},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ]
