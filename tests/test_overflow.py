"""Every provider's "too long" is recognised in whatever it is wrapped, with its numbers, and nothing else is."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legato import profiles
from legato.profiles.overflow import Overflow, Pattern, look_alike, overflow, signs
from recorded import needs_transcripts

T = TypeVar("T")


class Said(NamedTuple):
    """What is to be read from a message."""

    pattern: str
    limit: int | None = None
    used: int | None = None
    output: int | None = None
    kind: str = "window"
    over: int | None = None
    exact: bool = True


# What each provider sends, in full, with invented numbers.
MESSAGES = {
    # OpenAI and its clones
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 149767 tokens. "
    "Please reduce the length of the messages.": Said("openai.classic", 128_000, 149_767),
    "This model's maximum context length is 4097 tokens, however you requested 4927 tokens (927 in your prompt; "
    "4000 for the completion). Please reduce your prompt; or completion length.": Said(
        "openai.classic", 4_097, 927, 4_000, kind="output"
    ),
    "This model's maximum context length is 65536 tokens. However, you requested 74000 tokens (70000 in the "
    "messages, 4000 in the completion). Please reduce the length of the messages or completion.": Said(
        "openai.classic", 65_536, 70_000, 4_000
    ),
    "This model's maximum context length is 8192 tokens.": Said("openai.classic", 8_192),
    "This model's maximum context length is 8192 tokens. However, you requested 9100 tokens.": Said(
        "openai.classic", 8_192, 9_100, exact=False
    ),
    "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 509178 tokens. Please "
    "reduce the length of the messages.": Said("openai.configured", 272_000, 509_178),
    "Your input exceeds the context window of this model. Please adjust your input and try again.": Said(
        "openai.window"
    ),
    # OpenRouter estimates
    "This endpoint's maximum context length is 16384 tokens. However, you requested about 26265 tokens (26255 of "
    "text input, 10 in the output). Please reduce the length of either one, or use the context-compression "
    "plugin to compress your prompt automatically.": Said("openai.classic", 16_384, 26_255, 10, exact=False),
    "This endpoint's maximum context length is 65536 tokens. However, you requested about 65810 tokens (1430 of "
    "text input, 380 of tool input, 64000 in the output). Please reduce the length of either one.": Said(
        "openai.classic", 65_536, 1_810, 64_000, kind="output", exact=False
    ),
    "This endpoint's maximum context length is 204800 tokens. However, you requested about 309977 tokens (303247 "
    "of text input, 6730 of tool input). Please reduce the length of either one.": Said(
        "openai.classic", 204_800, 309_977, exact=False
    ),
    # Anthropic
    "prompt is too long: 213462 tokens > 200000 maximum": Said("anthropic.prompt", 200_000, 213_462),
    "prompt is too long": Said("anthropic.prompt"),
    "input length and `max_tokens` exceed context limit: 176312 + 32000 > 200000, decrease input length or "
    "`max_tokens` and try again": Said("anthropic.sum", 200_000, 176_312, 32_000, kind="output"),
    "input length and `max_tokens` exceed context limit: 201312 + 32000 > 200000, decrease input length or "
    "`max_tokens` and try again": Said("anthropic.sum", 200_000, 201_312, 32_000),
    "Request exceeds the maximum allowed number of bytes.": Said("bytes", kind="bytes"),
    "Request exceeds the maximum size": Said("bytes", kind="bytes"),
    "too many total text bytes: 12557162 > 9000000": Said("anthropic.bytes", kind="bytes"),
    # Bedrock
    "Input is too long for requested model.": Said("bedrock"),
    "400 Bad Request: Too many input tokens. Max input tokens: 8192, request input token count: 9279 ": Said(
        "bedrock.tokens", 8_192, 9_279
    ),
    "Malformed input request: expected maxLength: 2097152, actual: 2300114, please reformat your input and try "
    "again.": Said("bedrock.characters"),
    # Google
    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).": Said(
        "gemini", 1_048_575, 1_196_265
    ),
    "The input token count exceeds the maximum number of tokens allowed 1048576.": Said("gemini", 1_048_576),
    "Unable to submit request because the input token count is 1100023 but model only supports up to 1048576. "
    "Reduce the input token count and try again.": Said("gemini", 1_048_576, 1_100_023),
    "Request payload size exceeds the limit: 20971520 bytes.": Said("gemini.bytes", kind="bytes"),
    # other hosts
    "Prompt contains 140231 tokens and 0 draft tokens, too large for model with 131072 maximum context length": Said(
        "mistral", 131_072, 140_231
    ),
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.": Said(
        "xai", 131_072, 537_812
    ),
    "Please reduce the length of the messages or completion.": Said("groq"),
    "Please reduce the length of the messages or completion. Current length is 132784 while limit is 131000": Said(
        "cerebras", 131_000, 132_784
    ),
    "Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)": Said(
        "kimi", 262_144, 291_351
    ),
    "Invalid request: Your request exceeded model token limit: 8192": Said("kimi", 8_192),
    "invalid params, context window exceeds limit (2013)": Said("minimax"),
    "Prompt exceeds max length": Said("zhipu"),
    "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 258048]": Said("qwen", 258_048),
    "Total tokens of image and text exceed max message tokens. Request id: 0217x": Said("ark"),
    "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292. Try using a "
    "shorter prompt, or enabling prompt truncating.": Said("cohere", 4_081, 4_292),
    "too many tokens: total number of tokens in the prompt exceeds the limit of 4081": Said("cohere", 4_081),
    "Input length 270001 exceeds the maximum allowed input length of 262144 tokens.": Said("proxy", 262_144, 270_001),
    "Input length (265330) exceeds model's maximum context length (262144).": Said("proxy", 262_144, 265_330),
    "Input too long: 213000 input tokens, limit is 200000": Said("vercel", 200_000, 213_000),
    "input tokens [9211] exceed context window [8192]": Said("kronk", 8_192, 9_211),
    "prompt token count of 140512 exceeds the limit of 128000": Said("copilot", 128_000, 140_512),
    "Request body too large for gpt-4o model. Max size: 8000 tokens.": Said("github.models", 8_000),
    "5021: The estimated number of input and maximum output tokens (33012) exceeded this model context window "
    "limit (24000).": Said("cloudflare", 24_000, 33_012, exact=False),
    "Error: context_length_exceeded": Said("code"),
    "Provider finish_reason: model_context_window_exceeded": Said("finish"),
    # local servers
    "This model's maximum context length is 8192 tokens. However, you requested 512 output tokens and your "
    "prompt contains at least 7681 input tokens, for a total of at least 8193 tokens. Please reduce the length "
    "of the input prompt or the number of requested output tokens.": Said("vllm.0_8", 8_192, 7_681, 512, exact=False),
    "You passed 31745 input tokens and requested 1024 output tokens. However, the model's context length is only "
    "32768 tokens, resulting in a maximum input length of 31744 tokens. Please reduce the length of the input "
    "prompt. (parameter=input_tokens, value=31745)": Said("vllm.new", 32_768, 31_745, 1_024, exact=False),
    "You passed 999999 input characters and requested 1024 output tokens. However, the model's context length is "
    "only 32768 tokens, resulting in a maximum input length of 31744 tokens (at most 253952 characters). Please "
    "reduce the length of the input prompt.": Said("vllm.new", 32_768, None, 1_024, exact=False),
    "This model's maximum context length is 32768 tokens. However, your request has 40112 input tokens. Please "
    "reduce the length of the input messages.": Said("vllm.request", 32_768, 40_112),
    "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 32768 "
    "tokens and your request has 1200 input tokens (32000 > 32768 - 1200).": Said(
        "vllm.cap", 32_768, 1_200, 32_000, kind="output"
    ),
    "max_tokens must be at least 1, got -253.": Said("vllm.maxtok", over=253),
    "The input (35034 tokens) is longer than the model's context length (32768 tokens).": Said(
        "sglang", 32_768, 35_034
    ),
    "Requested token count exceeds the model's maximum context length of 64000 tokens. You requested a total of "
    "71897 tokens: 7897 tokens from the input messages and 64000 tokens for the completion. Please reduce the "
    "number of tokens in the input messages or the completion to fit within the limit.": Said(
        "openai.classic", 64_000, 7_897, 64_000, kind="output"
    ),
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4031 `inputs` tokens and "
    "200 `max_new_tokens`": Said("tgi.sum", 4_096, 4_031, 200, kind="output"),
    "Input validation error: `inputs` must have less than 4096 tokens. Given: 5021": Said("tgi.inputs", 4_096, 5_021),
    "request (138229 tokens) exceeds the available context size (133376 tokens), try increasing it": Said(
        "llamacpp", 133_376, 138_229
    ),
    "the request exceeds the available context size. try increasing the context size or enable context shift": Said(
        "llamacpp"
    ),
    "Context size has been exceeded.": Said("llamacpp.stream"),
    "Trying to keep the first 6269 tokens when context the overflows. However, the model is loaded with context "
    "length of only 4096 tokens, which is not enough. Try to load the model with a larger context length, or "
    "provide a shorter input": Said("lmstudio", 4_096, 6_269, exact=False),
    "The number of tokens to keep from the initial prompt is greater than the context length. Try to load the "
    "model with a larger context length, or provide a shorter input": Said("lmstudio.keep"),
    "prompt too long; exceeded max context length by 4821 tokens": Said("ollama", over=4_821),
    "the prompt is longer than the context length currently available to the model; shorten the prompt, adjust "
    "the context length in settings, or use a model with a longer context length": Said("ollama.local"),
    "The prompt is too long: 140000, model maximum context length: 131072": Said("anthropic.prompt", 131_072, 140_000),
    "Prompt has 256468 tokens, but the configured context size is 256000 tokens": Said("ds4", 256_000, 256_468),
    # one request above a limit per minute or day
    "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 41234. "
    "The input or output tokens must be reduced in order to run successfully. Visit the rate limits page to "
    "learn more.": Said("tpm.request", 30_000, 41_234, kind="throttle", exact=False),
    "Request too large for model `llama-x` in organization `org_x` service tier `on_demand` on tokens per minute "
    "(TPM): Limit 6000, Requested 7512, please reduce your message size and try again. Need more tokens? Upgrade "
    "today.": Said("tpm.request", 6_000, 7_512, kind="throttle", exact=False),
    "Rate limit reached for model `llama-x` in organization `org_x` on tokens per minute (TPM): Limit 6000, Used "
    "0, Requested 7512. Please try again in 15.1s.": Said("tpm.reached", 6_000, 7_512, kind="throttle", exact=False),
}
TEXTS = list(MESSAGES)

# What is refused for another reason, or accepted: (name, status, body).
LOOK_ALIKES: list[tuple[str | None, int | None, Any]] = [
    ("rate-limit", 429, {"error": {"message": "Rate limit reached for gpt-x on tokens per min (TPM): Limit 30000, Used "
                                   "29000, Requested 5000. Please try again in 8s.", "code": "rate_limit_exceeded"}}),
    ("rate-limit", 429, {"type": "error", "error": {"type": "rate_limit_error", "message": "This request would exceed "
                                   "the rate limit for your organization of 40,000 input tokens per minute."}}),
    ("rate-limit", None, "ThrottlingException: Too many tokens, please wait before trying again."),
    ("rate-limit", 413, {"error": {"message": "Over the limit of tokens per day (TPD).", "type": "tokens"}}),
    ("rate-limit", 429, {"error": {"message": "This model's maximum context length is 8192 tokens."}}),
    ("rate-limit", 400, {"error": {"message": "Provider returned error", "code": 429, "metadata": {
        "raw": '{"error":{"message":"Too many tokens: maximum context length is 8192 tokens"}}'}}}),
    ("rate-limit", 429, {"error": {"code": "context_length_exceeded", "message": "slow down"}}),
    ("output-cap", 400, {"error": {"message": "max_tokens is too large: 128000. This model supports at most 16384 "
                                   "completion tokens, whereas you provided 128000.", "param": "max_tokens"}}),
    ("output-cap", 400, {"type": "error", "error": {"type": "invalid_request_error", "message": "max_tokens: 100000 > "
                                   "64000, which is the maximum allowed number of output tokens for claude-x"}}),
    ("output-cap", 400, {"error": {"code": 400, "message": "Unable to submit request because it has a maxOutputTokens "
                                   "value of 100000 but the supported range is from 1 to 8193 (exclusive)."}}),
    ("output-cap", 400, {"code": "InvalidParameter", "message": "Range of max_tokens should be [1, 8192]"}),
    ("output-cap", 400, {"error": {"message": "Could not finish the message because max_tokens or model output limit "
                                   "was reached. Please try again with higher max_tokens."}}),
    ("string-length", 400, {"error": {"message": "Invalid 'user'.", "code": "string_above_max_length"}}),
    ("string-length", 400, "litellm.ContextWindowExceededError: litellm.BadRequestError: OpenAIException - Invalid "
                           "'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40, "
                           "but got a string with length 46 instead."),
    ("string-length", 400, {"error": {"message": "Invalid 'tools'.", "code": "array_above_max_length"}}),
    ("content-filter", 400, {"error": {"message": "The response was filtered due to the prompt triggering Azure "
                                   "OpenAI's content management policy.", "code": "content_filter"}}),
    (None, 400, {"error": {"message": "max_tokens must be at least 1, got 0.", "code": 400}}),
    (None, 400, {"message": "Malformed input request: #/messages/1/content/0/toolUse/name: expected maxLength: 64, "
                            "actual: 80, please reformat your input and try again."}),
    (None, 400, {"error": {"message": "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 "
                                      "bytes > 5242880 bytes"}}),
    (None, 402, {"error": {"message": "This request requires more credits, or fewer max_tokens. You requested up to "
                                      "32000 tokens, but can only afford 7843.", "code": 402}}),
    (None, 400, {"error": {"message": "messages: text content blocks must be non-empty"}}),
    (None, 422, {"detail": [{"loc": ["body", "messages", 0], "msg": "Input should be a valid string",
                             "input": "prompt is too long: 213462 tokens > 200000 maximum"}]}),
    (None, 502, "upstream connect error: prompt is too long"),
    (None, 500, b""),
    (None, 529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    (None, 400, None),
    (None, None, None),
    (None, None, b""),
]  # fmt: skip


def numbers(found: Overflow | None) -> Said | None:
    if found is None:
        return None
    return Said(found.pattern, found.limit, found.used, found.output, found.kind, found.over, found.exact)


def status_of(text: str) -> int:
    return 429 if MESSAGES[text].kind == "throttle" else 400


# --- wrappings: each makes another body of what is said, a text or the body of another wrapping

Wrapping = Callable[[Any], Any]


def as_text(said: Any) -> str:
    return said if isinstance(said, str) else json.dumps(said)


WRAPPINGS: dict[str, Wrapping] = {
    "openai": lambda said: {"error": {"message": said, "type": "invalid_request_error", "param": None, "code": None}},
    "anthropic": lambda said: {"type": "error", "error": {"type": "invalid_request_error", "message": said}},
    "google": lambda said: {"error": {"code": 400, "message": said, "status": "INVALID_ARGUMENT"}},
    "google in a list": lambda said: [{"error": {"code": 400, "message": said, "status": "INVALID_ARGUMENT"}}],
    "aws": lambda said: {"Error": {"Code": "ValidationException", "Message": said}},
    "vllm": lambda said: {"object": "error", "message": said, "type": "BadRequestError", "param": None, "code": 400},
    "siliconflow": lambda said: {"code": 20015, "message": said, "data": None},
    "minimax": lambda said: {"base_resp": {"status_code": 2013, "status_msg": said}},
    "bare error": lambda said: {"error": said},
    "fastapi": lambda said: {"detail": said},
    "fastapi list": lambda said: {"detail": [{"loc": ["body"], "msg": said, "type": "value_error"}]},
    "cloudflare": lambda said: {"success": False, "errors": [{"code": 5021, "message": said}], "result": None},
    "error_message": lambda said: {"error_message": said},
    "cause": lambda said: {"message": "the call failed", "cause": {"responseBody": said}},
    "openrouter": lambda said: {
        "error": {
            "message": "Provider returned error",
            "code": 400,
            "metadata": {"raw": as_text(said), "provider_name": "Some"},
        },
        "user_id": "u",
    },
    "json text": as_text,
    "json text twice": lambda said: json.dumps(as_text(said)),
    "indented": lambda said: json.dumps(said, indent=2),
    "litellm": lambda said: f"litellm.BadRequestError: SomeException - {as_text(said)}. Fallbacks=None",
    "litellm bytes": lambda said: f"litellm.BadRequestError: SomeException - b'{as_text({'error': said})}'",
    "proxy text": lambda said: {"error": {"message": f"400: {as_text({'detail': said})}", "code": "400"}},
}
LAST: dict[str, Wrapping] = {
    "as it is": lambda said: said,
    "bytes": lambda said: as_text(said).encode(),
    "sse": lambda said: f"event: error\ndata: {json.dumps({'type': 'error', 'error': {'message': said}})}\n\n",
    "sse bytes": lambda said: (
        b'data: {"choices": [{"delta": {"content": "We"}}]}\n\ndata: '
        + json.dumps({"error": {"message": said, "code": 400}}).encode()
        + b"\n\ndata: [DONE]\n"
    ),
    "responses sse": lambda said: (
        "event: response.failed\ndata: "
        + json.dumps({"type": "response.failed", "response": {"status": "failed", "error": {"message": said}}})
    ),
}


class SomeError(Exception):
    """An SDK's exception: the attributes it is made with, and a text."""

    def __init__(self, text: str, **attributes: Any) -> None:
        super().__init__(text)
        for name, value in attributes.items():
            setattr(self, name, value)


class SomeResponse:
    """An HTTP client's response."""

    def __init__(self, status_code: int, text: str) -> None:
        self.status_code = status_code
        self.text = text
        self.content = text.encode()

    def json(self) -> Any:
        return json.loads(self.text)


class UnreadResponse:
    """A response whose body was not read: looking at it raises, as httpx does."""

    status_code = 400

    @property
    def text(self) -> str:
        raise RuntimeError("not read")

    content = text


def raised_from(cause: Exception) -> Exception:
    try:
        raise ValueError("the model call failed") from cause
    except ValueError as error:
        return error


EXCEPTIONS: dict[str, Callable[[int, str], Exception]] = {
    "openai": lambda status, said: SomeError(
        f"Error code: {status} - {{'error': {{'message': {said!r}}}}}",
        status_code=status,
        body={"message": said, "type": "invalid_request_error", "code": None},
        response=SomeResponse(status, json.dumps({"error": {"message": said}})),
        code=None,
        type="invalid_request_error",
    ),
    "anthropic": lambda status, said: SomeError(
        f"Error code: {status}", status_code=status, body={"type": "error", "error": {"message": said}}
    ),
    "text alone": lambda status, said: SomeError(f"Error code: {status} - {{'error': {{'message': {said!r}}}}}"),
    "google": lambda status, said: SomeError(
        f"{status} INVALID_ARGUMENT", code=status, status="INVALID_ARGUMENT", details={"error": {"message": said}}
    ),
    "botocore": lambda status, said: SomeError(
        f"An error occurred (ValidationException) when calling the Converse operation: {said}",
        response={
            "Error": {"Code": "ValidationException", "Message": said},
            "ResponseMetadata": {"HTTPStatusCode": status},
        },
    ),
    "httpx": lambda status, said: SomeError(
        f"Client error '{status}' for url 'http://x'", response=SomeResponse(status, json.dumps({"error": said}))
    ),
    "mistral": lambda status, said: SomeError(
        "API error occurred", status_code=status, body=json.dumps({"message": said})
    ),
    "ollama": lambda status, said: SomeError(said, status_code=status, error=said),
    "litellm": lambda status, said: SomeError(
        "", status_code=status, message=f"litellm.BadRequestError: {said}", response=SomeResponse(status, "")
    ),
    "raised from": lambda status, said: raised_from(
        SomeError("", status_code=status, body=json.dumps({"error": {"message": said}}).encode())
    ),
    "group": lambda status, said: ExceptionGroup("tasks", [SomeError("", status_code=status, body={"error": said})]),
}


@pytest.mark.parametrize("text", TEXTS)
def test_what_a_provider_says_is_read_with_its_numbers(text: str) -> None:
    found = overflow(status_of(text), {"error": {"message": text}})
    assert numbers(found) == MESSAGES[text]
    assert found is not None
    assert found.text == text.strip()
    assert numbers(overflow(None, text)) == MESSAGES[text]


@pytest.mark.parametrize("wrapping", WRAPPINGS.values(), ids=WRAPPINGS)
def test_a_wrapping_changes_nothing(wrapping: Wrapping) -> None:
    assert {text: numbers(overflow(status_of(text), wrapping(text))) for text in TEXTS} == MESSAGES
    assert {text: numbers(overflow(None, wrapping(text))) for text in TEXTS} == MESSAGES


@pytest.mark.parametrize("last", LAST.values(), ids=LAST)
@given(
    text=st.sampled_from(TEXTS), wrappings=st.lists(st.sampled_from(list(WRAPPINGS.values())), min_size=1, max_size=4)
)
@settings(max_examples=60)
def test_wrappings_in_wrappings_change_nothing(last: Wrapping, text: str, wrappings: list[Wrapping]) -> None:
    body: Any = text
    for wrapping in wrappings:
        body = wrapping(body)
    assert numbers(overflow(None, last(body))) == MESSAGES[text]


@pytest.mark.parametrize("last", ["sse", "sse bytes", "responses sse"])
def test_an_error_in_the_stream_of_an_accepted_request_counts(last: str) -> None:
    assert {text: numbers(overflow(200, LAST[last](text))) for text in TEXTS} == MESSAGES


def test_an_error_in_the_body_of_an_accepted_request_counts() -> None:
    assert {text: numbers(overflow(200, {"code": 400, "message": text})) for text in TEXTS} == MESSAGES


@pytest.mark.parametrize("make", EXCEPTIONS.values(), ids=EXCEPTIONS)
def test_an_exception_says_what_its_answer_says(make: Callable[[int, str], Exception]) -> None:
    errors = {text: make(status_of(text), text) for text in TEXTS}
    assert {text: numbers(overflow(error)) for text, error in errors.items()} == MESSAGES
    assert {text: numbers(overflow(None, error)) for text, error in errors.items()} == MESSAGES
    assert {text: numbers(overflow(status_of(text), error)) for text, error in errors.items()} == MESSAGES


@pytest.mark.parametrize("text", TEXTS)
def test_numbers_may_have_commas(text: str) -> None:
    with_commas = re.sub(r"(?<![\w.-])\d{4,}", lambda number: f"{int(number[0]):,}", text)
    if MESSAGES[text].pattern != "bedrock.characters":
        assert numbers(overflow(None, with_commas)) == MESSAGES[text]


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, {"error": {"code": "context_length_exceeded", "message": "no"}}, ("code", "window", None)),
        (500, {"error": {"code": "context_length_exceeded", "message": "no"}}, ("code", "window", None)),
        (None, {"type": "error", "code": "context_length_exceeded", "message": "no"}, ("code", "window", None)),
        (400, {"error": {"code": "model_max_prompt_tokens_exceeded", "message": "no"}}, ("code", "window", None)),
        (400, {"error": {"code": "1261", "message": "no"}}, ("code", "window", None)),
        (400, {"error": {"code": 1261, "message": "no"}}, ("code", "window", None)),
        (400, "Error code: 400, {'error': {'code': '1261', 'message': 'no'}}", ("zhipu", "window", None)),
        (413, {"type": "error", "error": {"type": "request_too_large", "message": "no"}}, ("code", "bytes", None)),
        (413, {"error": {"code": "tokens_limit_reached", "message": "Max size"}}, ("code", "window", None)),
        (413, {"error": {"type": "request_too_large", "message": "prompt too long; exceeded context length"}},
         ("ollama", "window", None)),
        (400, {"error": {"type": "exceed_context_size_error", "n_ctx": 4096}}, ("code", "window", 4096)),
        (413, b"<html><head><title>413 Request Entity Too Large</title></head></html>", ("bytes", "bytes", None)),
        (413, {"message": "no"}, ("status", "bytes", None)),
        (413, None, ("status", "bytes", None)),
        (413, b"", ("nobody", "window", None)),
        (400, " \n", ("nobody", "window", None)),
        (None, "400 status code (no body)", ("nobody", "window", None)),
        (None, "413 (no body)", ("nobody", "window", None)),
        (500, {"error": {"code": 500, "message": "Context size has been exceeded."}},
         ("llamacpp.stream", "window", None)),
        (503, "The input (9 tokens) is longer than the model's context length (8 tokens).", ("sglang", "window", 8)),
        (502, {"error": {"code": 400, "message": "prompt is too long"}}, ("anthropic.prompt", "window", None)),
        (404, {"error": "Prompt exceeds max length"}, ("zhipu", "window", None)),
    ],
)  # fmt: skip
def test_codes_and_statuses_decide_where_the_text_does_not(
    status: int | None, body: Any, expected: tuple[str, str, int | None]
) -> None:
    found = overflow(status, body)
    assert found is not None
    assert (found.pattern, found.kind, found.limit) == expected


def test_fields_of_their_own_complete_the_text() -> None:
    error = {"message": "the request exceeds the available context size", "n_prompt_tokens": 5000, "n_ctx": 4096}
    found = overflow(400, {"error": {"code": 400, "type": "exceed_context_size_error", **error}})
    assert numbers(found) == Said("llamacpp", 4_096, 5_000)


def test_an_empty_exception_of_a_400_is_a_bodyless_overflow() -> None:
    found = overflow(SomeError("Error code: 400", status_code=400, body=""))
    assert found is not None
    assert found.pattern == "nobody"


@pytest.mark.parametrize(
    "body",
    [
        {"type": "message", "role": "assistant", "content": [], "stop_reason": "model_context_window_exceeded"},
        {"choices": [{"message": {"content": ""}, "finish_reason": "model_context_window_exceeded"}]},
        {"output": {"message": {"content": []}}, "stopReason": "model_context_window_exceeded"},
        'event: message_delta\ndata: {"type": "message_delta", "delta": {"stop_reason": "model_context_window_'
        'exceeded"}}\n',
    ],
    ids=["anthropic", "z.ai", "bedrock", "sse"],
)
def test_a_finish_reason_of_an_accepted_request_counts(body: Any) -> None:
    for status in (200, None):
        found = overflow(status, body)
        assert found is not None
        assert (found.pattern, found.kind) == ("finish", "window")


def test_a_finish_reason_is_found_in_an_object_of_an_sdk() -> None:
    choice = SimpleNamespace(finish_reason="model_context_window_exceeded", message=SimpleNamespace(content=TEXTS[0]))
    for reply in (SimpleNamespace(choices=[choice]), SimpleNamespace(stop_reason="model_context_window_exceeded")):
        found = overflow(200, reply)
        assert found is not None
        assert found.pattern == "finish"
    assert overflow(200, SimpleNamespace(choices=[SimpleNamespace(finish_reason="stop", text=TEXTS[0])])) is None


@pytest.mark.parametrize(("name", "status", "body"), LOOK_ALIKES)
def test_a_look_alike_is_no_overflow(name: str | None, status: int | None, body: Any) -> None:
    assert overflow(status, body) is None
    assert look_alike(status, body) == name
    if isinstance(body, dict):
        assert overflow(status, json.dumps(body).encode()) is None
        assert overflow(SomeError("failed", status_code=status, body=body)) is None


def test_an_overflow_is_no_look_alike() -> None:
    assert [text for text in TEXTS if look_alike(status_of(text), text) is not None] == []


@pytest.mark.parametrize("text", TEXTS)
def test_a_model_that_talks_about_an_overflow_is_none(text: str) -> None:
    quoted = {"role": "assistant", "content": text}
    replies: list[Any] = [
        {"choices": [{"index": 0, "message": quoted, "finish_reason": "stop"}], "object": "chat.completion"},
        {"choices": [{"index": 0, "text": text, "finish_reason": "length"}]},
        {"type": "message", "content": [{"type": "text", "text": text}], "stop_reason": "end_turn"},
        {"candidates": [{"content": {"parts": [{"text": text}], "role": "model"}, "finishReason": "STOP"}]},
        {"output": {"message": {"role": "assistant", "content": [{"text": text}]}}, "stopReason": "end_turn"},
        {"object": "response", "status": "completed", "error": None, "output": [{"type": "message", "content": [
            {"type": "output_text", "text": text}]}]},
        {"model": "m", "message": quoted, "done": True, "done_reason": "stop"},
        {"model": "m", "response": text, "done": True},
        "\n\n".join("data: " + json.dumps({"choices": [{"delta": {"content": part}}]}) for part in ("I say: ", text)),
        f'event: content_block_delta\ndata: {json.dumps({"type": "content_block_delta", "delta": {"text": text}})}\n',
    ]  # fmt: skip
    assert [reply for reply in replies if overflow(200, reply) is not None] == []
    assert [reply for reply in replies if overflow(None, reply) is not None] == []
    assert overflow(200, text) is None


def test_recorded_refusals_are_no_overflows() -> None:
    refused = 0
    for file in sorted(needs_transcripts("provider-requests").glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            if record["status"] >= 400:
                refused += 1
                assert overflow(record["status"], record["error"]) is None
                assert overflow(None, json.dumps(record["error"])) is None
    assert refused >= 25


# --- whatever comes, and fast

SECONDS = 1.0
"""Far above what a call takes (a tenth of a millisecond to some tens of them), far below a search that explodes."""


def timed(status: object, body: object) -> Overflow | None:
    return swift(lambda: overflow(status, body))


def swift(call: Callable[[], T]) -> T:
    """What the call returns. Fails if it never takes less than `SECONDS` of this thread's own processor time."""
    for _ in range(3):
        begin = time.thread_time()
        found = call()
        if time.thread_time() - begin < SECONDS:
            return found
    pytest.fail(f"three times over {SECONDS} s")


SIGNS = (*signs().pattern, *signs().look_alike)
NAMES = sorted({name for names in signs().wrappings.values() for name in names} | {"Error", "n_ctx", "metadata", "x"})
FRAGMENTS = sorted({part for sign in SIGNS for part in re.findall(r"\S+\s?", sign.example)})
words = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=5), max_size=12).map("".join)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | words
    | st.sampled_from(TEXTS)
    | st.sampled_from([400, 429])
)
values = st.recursive(
    scalars | words.map(str.encode) | st.binary(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), inner, max_size=5)
        | inner.map(lambda value: repr(value))
        | inner.map(lambda value: SomeError("x", body=value))
        | inner.map(lambda value: SomeError("x", response=value, message=value))
    ),
    max_leaves=20,
)


@given(status=st.none() | st.integers() | st.sampled_from([200, 400, 413, 429, 500]) | values, body=values)
@settings(max_examples=400)
def test_nothing_raises_or_takes_long(status: Any, body: Any) -> None:
    found = timed(status, body)
    assert found is None or found.kind in ("window", "output", "bytes", "throttle")
    assert timed(status, body) == found


@given(
    sign=st.sampled_from(SIGNS),
    cut=st.integers(min_value=1, max_value=200),
    filler=st.sampled_from(["1", "1,", " ", "(", "{", '{"error":', "data: {\n", "limit 1 ", "tokens ", "`", "\n"]),
    alone=st.booleans(),
)
@settings(max_examples=300)
def test_no_text_makes_a_search_slow(sign: Pattern, cut: int, filler: str, alone: bool) -> None:
    start = sign.example[:cut]
    text = start + filler * (20_000 // len(filler)) if alone else (start + filler * 9) * (40_000 // (cut + 9))
    swift(lambda: sign.expression.search(text[:20_000]))
    timed(None, text)


@pytest.mark.parametrize("depth", [100, 200_000])
def test_deep_nesting_ends(depth: int) -> None:
    text = TEXTS[0]
    said = MESSAGES[text] if depth == 100 else None
    nested: Any = text
    for _ in range(depth):
        nested = {"error": nested}
    assert numbers(timed(400, nested)) == said
    assert numbers(timed(400, '{"error":' * depth + json.dumps(text) + "}" * depth)) == said
    for opened in ("[", '{"error":', '{"a":', "'", '"'):
        assert timed(400, opened * depth) is None
        assert timed(None, (opened * depth).encode()) is None


@pytest.mark.parametrize("length", [10, 10_000])
def test_a_long_chain_of_causes_ends(length: int) -> None:
    error: BaseException = SomeError(TEXTS[0])
    for _ in range(length):
        error, cause = SomeError("no"), error
        error.__cause__ = cause
    assert (timed(400, error) is not None) == (length == 10)


def test_what_holds_itself_ends() -> None:
    body: dict[str, Any] = {"message": "no"}
    body["error"] = body["errors"] = [body, body]
    assert timed(400, body) is None
    first, second = SomeError("no"), SomeError("nor this")
    first.__cause__, second.__cause__ = second, first
    assert timed(400, first) is None


def test_a_huge_answer_is_read_at_its_ends() -> None:
    filler = "x" * 3_000_000
    for body in (f"{TEXTS[0]} {filler}", f"{filler} {TEXTS[0]}", f"{filler} {TEXTS[0]}".encode()):
        found = timed(400, body)
        assert numbers(found) == MESSAGES[TEXTS[0]]
        assert found is not None
        assert len(found.text) < 21_000
    stream = ("data: " + json.dumps({"choices": [{"delta": {"content": filler[:1000]}}]}) + "\n\n") * 3_000
    assert numbers(timed(200, stream + LAST["sse"](TEXTS[0]))) == MESSAGES[TEXTS[0]]
    assert numbers(timed(400, {"error": [{"message": "no"}] * 200 + [{"message": TEXTS[0]}]})) is None


def test_an_absurd_number_is_no_number() -> None:
    found = timed(400, f"prompt is too long: {'9' * 6_000} tokens > 200000 maximum")
    assert found is not None
    assert (found.used, found.limit) == (None, 200_000)


def test_an_exception_that_cannot_be_read_has_nothing_to_say() -> None:
    class Sealed(Exception):
        def __str__(self) -> str:
            raise ValueError("sealed")

    assert overflow(Sealed()) is None
    assert overflow(SomeError("failed", response=UnreadResponse())) is None
    assert overflow(object()) is None


# --- the data


def test_every_pattern_finds_its_own_example_first() -> None:
    for pattern in signs().pattern:
        found = overflow(None, pattern.example)
        assert found is not None
        assert (pattern.name, found.pattern) == (pattern.name, pattern.name)


def test_every_look_alike_finds_its_own_example() -> None:
    assert {sign.name: look_alike(400, sign.example) for sign in signs().look_alike} == {
        sign.name: sign.name for sign in signs().look_alike
    }


def test_every_pattern_has_a_name_of_its_own_a_source_and_a_date() -> None:
    assert len({sign.name for sign in SIGNS}) == len(SIGNS)
    assert all(sign.source and re.fullmatch(r"20\d\d-\d\d", sign.date) for sign in SIGNS)
    assert all(pattern.provider for pattern in signs().pattern)
    named = {name for sign in SIGNS for name in sign.expression.groupindex}
    assert named <= {"limit", "used", "total", "output", "over", "about"}


def test_every_pattern_has_a_message_in_full() -> None:
    assert {pattern.name for pattern in signs().pattern} - {said.pattern for said in MESSAGES.values()} == {"nobody"}


def test_the_error_texts_are_no_profile() -> None:
    assert "overflow" not in profiles.NAMES
