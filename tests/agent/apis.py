"""The four APIs as a loopback server speaks them: what each answers, how it streams that, its own words for errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from legato.agent.providers.anthropic import Anthropic
from legato.agent.providers.gemini import Gemini
from legato.agent.providers.openai_chat import OpenAIChat
from legato.agent.providers.openai_responses import OpenAIResponses
from model_server import data, named

Json = Any
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Api:
    """`whole` and `events` answer with a text (none: an empty answer) and a reason to stop, in the API's own words."""

    name: str
    provider: Callable[..., Any]
    base: str
    paths: tuple[str, str]
    body: dict[str, Json]
    whole: Callable[[str, str], Json]
    events: Callable[[str, str], list[bytes]]
    stops: dict[str, str]
    error: Callable[[int, str, str], Json]
    stream_error: Callable[[int, str, str], bytes]
    overflow: tuple[int, str, str]
    overflow_numbers: tuple[int | None, int | None]
    busy: str

    def __str__(self) -> str:
        return self.name

    def connect(self, url: str, **options: Any) -> Any:
        return self.provider("some-model", base_url=url + self.base, api_key="a key", **options)


def pieces(text: str) -> list[str]:
    """The text as it may stream: a few letters at a time."""
    return [text[at : at + 5] for at in range(0, len(text), 5)]


# -- OpenAI Chat Completions -------------------------------------------------------------------------------------------

CHAT_USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


def chunk(delta: Json, finish: str | None = None, **more: Json) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return data(
        {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **more}
    )


def chat_stream(*deltas: Json, finish: str = "stop") -> list[bytes]:
    counted = data({"id": "c1", "object": "chat.completion.chunk", "choices": [], "usage": CHAT_USAGE})
    return [*map(chunk, deltas), chunk({}, finish), counted, DONE]


def chat_whole(message: Json, finish: str = "stop") -> Json:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion", "created": 1, "choices": [choice], "usage": CHAT_USAGE}


def _openai_error(status: int, kind: str, message: str) -> Json:
    code = "context_length_exceeded" if status == 400 else None
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


CHAT = Api(
    name="chat",
    provider=OpenAIChat,
    base="/v1",
    paths=("/v1/chat/completions", "/v1/chat/completions"),
    body={"messages": [{"role": "user", "content": "hello"}]},
    whole=lambda said, finish: chat_whole({"content": said}, finish),
    events=lambda said, finish: chat_stream(*[{"content": piece} for piece in pieces(said)], finish=finish),
    stops={"end": "stop", "length": "length", "refusal": "content_filter", "other": "whatever"},
    error=_openai_error,
    stream_error=lambda status, kind, message: data(_openai_error(status, kind, message)),
    overflow=(
        400,
        "invalid_request_error",
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens. "
        "Please reduce the length of the messages.",
    ),
    overflow_numbers=(8192, 9001),
    busy="server_error",
)

# -- OpenAI Responses --------------------------------------------------------------------------------------------------

RESPONSES_USAGE = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}


def response(output: Json, status: str = "completed") -> Json:
    """A response; a status that is none of the API's is the reason why it is incomplete."""
    known = status in ("completed", "failed", "cancelled")
    details = None if known else {"reason": status}
    whole = {"id": "r1", "object": "response", "status": status if known else "incomplete", "error": None}
    return {**whole, "incomplete_details": details, "output": output, "usage": RESPONSES_USAGE}


def said_item(said: str) -> Json:
    block = {"type": "output_text", "text": said, "annotations": []}
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [block]}


def response_stream(output: list[Json], said: str = "", status: str = "completed") -> list[bytes]:
    ends = {"completed": "completed", "failed": "failed"}
    texts = [{"type": "response.output_text.delta", "item_id": "msg_1", "delta": piece} for piece in pieces(said)]
    items = [{"type": "response.output_item.done", "output_index": at, "item": item} for at, item in enumerate(output)]
    last = {"type": f"response.{ends.get(status, 'incomplete')}", "response": response(output, status)}
    first = {"type": "response.created", "response": response([], "completed") | {"status": "in_progress"}}
    return [*map(named, [first, *texts, *items, last])]


RESPONSES = Api(
    name="responses",
    provider=OpenAIResponses,
    base="/v1",
    paths=("/v1/responses", "/v1/responses"),
    body={"input": [{"type": "message", "role": "user", "content": "hello"}]},
    whole=lambda said, finish: response([said_item(said)] if said else [], finish),
    events=lambda said, finish: response_stream([said_item(said)] if said else [], said, finish),
    stops={"end": "completed", "length": "max_output_tokens", "refusal": "content_filter", "other": "whatever"},
    error=_openai_error,
    stream_error=lambda status, kind, message: named(
        {"type": "error", "code": _openai_error(status, kind, message)["error"]["code"] or kind, "message": message}
    ),
    overflow=(
        400,
        "invalid_request_error",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
    ),
    overflow_numbers=(None, None),
    busy="server_error",
)

# -- Anthropic Messages ------------------------------------------------------------------------------------------------


def message(content: list[Json], stop: str = "end_turn") -> Json:
    usage = {"input_tokens": 11, "cache_read_input_tokens": 3, "output_tokens": 7}
    whole = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content}
    return {**whole, "stop_reason": stop, "stop_sequence": None, "usage": usage}


def message_stream(*blocks: tuple[Json, list[Json]], stop: str = "end_turn") -> list[bytes]:
    """Blocks as they start, each with the deltas that follow."""
    opening = message([], stop) | {"stop_reason": None}
    opening["usage"] = {"input_tokens": 11, "cache_read_input_tokens": 3, "output_tokens": 1}
    events: list[Json] = [{"type": "message_start", "message": opening}, {"type": "ping"}]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": stop, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}})
    events.append({"type": "message_stop"})
    return [*map(named, events)]


def text_block(said: str) -> tuple[Json, list[Json]]:
    return {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(said)]


def _anthropic_error(_: int, kind: str, message: str) -> Json:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


ANTHROPIC = Api(
    name="anthropic",
    provider=Anthropic,
    base="",
    paths=("/v1/messages", "/v1/messages"),
    body={"messages": [{"role": "user", "content": "hello"}], "max_tokens": 99},
    whole=lambda said, finish: message([{"type": "text", "text": said}] if said else [], finish),
    events=lambda said, finish: message_stream(*([text_block(said)] if said else []), stop=finish),
    stops={"end": "end_turn", "length": "max_tokens", "refusal": "refusal", "other": "pause_turn"},
    error=_anthropic_error,
    stream_error=lambda status, kind, message: named(_anthropic_error(status, kind, message)),
    overflow=(400, "invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum"),
    overflow_numbers=(200_000, 213_462),
    busy="overloaded_error",
)

# -- Google Gemini -----------------------------------------------------------------------------------------------------

GEMINI_USAGE = {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18}


def content(parts: list[Json], finish: str | None = "STOP") -> Json:
    candidate = {"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": finish}
    return {"candidates": [candidate], "usageMetadata": GEMINI_USAGE, "modelVersion": "m"}


def content_stream(*chunks: list[Json], finish: str = "STOP") -> list[bytes]:
    return [*[data(content(parts, None)) for parts in chunks], data(content([], finish))]


def _gemini_error(status: int, kind: str, message: str) -> Json:
    return {"error": {"code": status, "message": message, "status": kind}}


GEMINI = Api(
    name="gemini",
    provider=Gemini,
    base="",
    paths=("/models/some-model:generateContent", "/models/some-model:streamGenerateContent?alt=sse"),
    body={"contents": [{"role": "user", "parts": [{"text": "hello"}]}]},
    whole=lambda said, finish: content([{"text": said}] if said else [], finish),
    events=lambda said, finish: content_stream(*[[{"text": piece}] for piece in pieces(said)], finish=finish),
    stops={"end": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY", "other": "MALFORMED_FUNCTION_CALL"},
    error=_gemini_error,
    stream_error=lambda status, kind, message: data(_gemini_error(status, kind, message)),
    overflow=(
        400,
        "INVALID_ARGUMENT",
        "The input token count (1048999) exceeds the maximum number of tokens allowed (1048575).",
    ),
    overflow_numbers=(1_048_575, 1_048_999),
    busy="UNAVAILABLE",
)

APIS = (CHAT, RESPONSES, ANTHROPIC, GEMINI)
