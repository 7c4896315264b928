"""The official SDKs work through the proxy unchanged: their own requests, answers, streams, tools and errors."""

from __future__ import annotations

import json
import os
from importlib import import_module
from typing import Any

import pytest

from loopback import CHAT, END, Seen, answer, chunk, events, proxied, start


def sdk(name: str) -> Any:
    """An SDK. Absent: the tests are skipped, in CI they fail."""
    return import_module(name) if os.environ.get("CI") == "true" else pytest.importorskip(name)


openai, anthropic, genai = sdk("openai"), sdk("anthropic"), sdk("google.genai")

BROKEN = [
    {"role": "user", "content": "look"},
    {
        "role": "assistant",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    },
    {"role": "user", "content": "and now?"},
]
"""A call without its result: every provider refuses it."""
TOOL: Any = {
    "type": "function",
    "function": {"name": "read.file now", "parameters": {"type": "object", "properties": {}}},
}


def delta(**fields: Any) -> Any:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "delta": fields, "finish_reason": None}],
    }


def streamed(values: list[Any], done: bool = False) -> list[bytes]:
    return [start(), *map(chunk, events(values, done)), END]


def test_openai_chat_and_its_errors() -> None:
    def script(seen: Seen) -> list[bytes]:
        calls = [m for m in seen.json["messages"] if m["role"] == "tool"]
        if not calls:
            return [answer({"error": {"message": "tool_calls must be followed by tool messages"}}, 400)]
        return [answer(CHAT)]

    with proxied(script, profile="openai") as running:
        with openai.OpenAI(base_url=f"{running.url}/v1", api_key="sk-k", max_retries=0) as client:
            said = client.chat.completions.create(model="gpt-4o", messages=BROKEN)
            assert said.choices[0].message.content == "Hello."
            assert said.usage.prompt_tokens == 12
            with pytest.raises(openai.BadRequestError, match="must be followed"):
                client.chat.completions.create(model="gpt-4o", messages=BROKEN[:1])
        assert running.upstream.seen[0].header("authorization") == "Bearer sk-k"


def test_openai_streams_with_a_tool_whose_name_had_to_change() -> None:
    def script(seen: Seen) -> list[bytes]:
        name = seen.json["tools"][0]["function"]["name"]
        assert seen.json["messages"][1]["tool_calls"][0]["function"]["name"] == name
        call = {"index": 0, "id": "call_9", "type": "function", "function": {"name": name, "arguments": ""}}
        more = {"index": 0, "function": {"arguments": json.dumps({"name": name})}}
        usage = {**delta(), "choices": [], "usage": {"prompt_tokens": 77, "completion_tokens": 1, "total_tokens": 78}}
        return streamed([delta(role="assistant", tool_calls=[call]), delta(tool_calls=[more]), usage], done=True)

    called = [
        BROKEN[0],
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": TOOL["function"]["name"], "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    ]
    with proxied(script, profile="openai") as running:
        with openai.OpenAI(base_url=f"{running.url}/v1", api_key="sk-k", max_retries=0) as client:
            stream = client.chat.completions.create(model="gpt-4o", messages=called, tools=[TOOL], stream=True)
            calls = [call for each in stream if each.choices for call in each.choices[0].delta.tool_calls or ()]
        sent = running.upstream.seen[0].json["tools"][0]["function"]["name"]
        assert sent != "read.file now"
        assert calls[0].function.name == "read.file now"
        assert json.loads(calls[1].function.arguments) == {"name": sent}
        assert running.settled().reported == 77


def test_openai_responses_with_and_without_a_stream() -> None:
    response = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "completed",
        "output": [
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "Hi.", "annotations": []}],
            }
        ],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 31,
            "output_tokens": 2,
            "total_tokens": 33,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }

    def script(seen: Seen) -> list[bytes]:
        assert all(item.get("type") != "function_call_output" for item in seen.json["input"])
        if not seen.json.get("stream"):
            return [answer(response)]
        text = {
            "type": "response.output_text.delta",
            "delta": "Hi.",
            "item_id": "msg_1",
            "output_index": 0,
            "content_index": 0,
            "logprobs": [],
            "sequence_number": 1,
        }
        return streamed([text, {"type": "response.completed", "response": response, "sequence_number": 2}])

    orphan = {"type": "function_call_output", "call_id": "call_gone", "output": "?"}
    asked = [{"role": "user", "content": "hi"}, orphan, {"role": "user", "content": "go on"}]
    with proxied(script, profile="openai-responses") as running:
        with openai.OpenAI(base_url=f"{running.url}/v1", api_key="sk-k", max_retries=0) as client:
            assert client.responses.create(model="gpt-5", input=asked).output_text == "Hi."
            assert running.settled().changes["PAIR001"][0] == 1
            seen = [event.type for event in client.responses.create(model="gpt-5", input=asked, stream=True)]
        assert seen == ["response.output_text.delta", "response.completed"]
        assert running.settled().reported == 31


MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "Hello."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 9, "output_tokens": 2, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 1},
}


def test_anthropic_messages_tools_and_count_tokens() -> None:
    def script(seen: Seen) -> list[bytes]:
        if seen.target.endswith("count_tokens"):
            return [answer({"input_tokens": 40})]
        roles = [message["role"] for message in seen.json["messages"]]
        results = [b for m in seen.json["messages"] if isinstance(m["content"], list) for b in m["content"]]
        assert roles[0] == "user"
        assert any(block["type"] == "tool_result" for block in results)
        return [answer(MESSAGE)]

    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
    asked: Any = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": "stop"},
    ]
    tools: Any = [{"name": "f", "input_schema": {"type": "object", "properties": {}}}]
    with proxied(script, profile="anthropic") as running:
        with anthropic.Anthropic(base_url=running.url, api_key="sk-ant", max_retries=0) as client:
            model = "claude-sonnet-4-5"
            said = client.messages.create(model=model, max_tokens=64, messages=asked, tools=tools)
            assert said.content[0].text == "Hello."
            assert running.settled().reported == 40
            assert client.messages.count_tokens(model=model, messages=asked, tools=tools).input_tokens == 40
        assert [each.target for each in running.upstream.seen] == ["/v1/messages", "/v1/messages/count_tokens"]
        assert b"sk-ant" in running.upstream.seen[0].head


def test_anthropic_streams_a_tool_call_under_the_client_s_name_for_it() -> None:
    def script(seen: Seen) -> list[bytes]:
        name = seen.json["tools"][0]["name"]
        assert name != "read.file now"
        block = {"type": "tool_use", "id": "toolu_9", "name": name, "input": {}}
        said: list[Any] = [
            {"type": "message_start", "message": {**MESSAGE, "content": []}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{}"}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        ]
        pairs = zip(said, events(said), strict=True)
        named = [b"event: %s\n" % each["type"].encode() + data for each, data in pairs]
        return [start(), *map(chunk, named), END]

    tools: Any = [{"name": "read.file now", "input_schema": {"type": "object", "properties": {}}}]
    asked: Any = [{"role": "user", "content": "look"}]
    with proxied(script, profile="anthropic") as running:
        with (
            anthropic.Anthropic(base_url=running.url, api_key="sk-ant", max_retries=0) as client,
            client.messages.stream(model="claude-sonnet-4-5", max_tokens=64, messages=asked, tools=tools) as stream,
        ):
            final = stream.get_final_message()
        assert final.content[0].name == "read.file now"
        assert running.settled().reported == 40


ANSWERED = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "Hi."}]}, "finishReason": "STOP", "index": 0}],
    "usageMetadata": {"promptTokenCount": 21, "candidatesTokenCount": 2, "totalTokenCount": 23},
}


def test_gemini_with_and_without_a_stream() -> None:
    def script(seen: Seen) -> list[bytes]:
        assert seen.json["contents"][-1]["role"] == "user"
        return streamed([ANSWERED]) if "stream" in seen.target else [answer(ANSWERED)]

    asked = [
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": []},
        {"role": "user", "parts": [{"text": "again"}]},
    ]
    with proxied(script, profile="gemini") as running:
        options = genai.types.HttpOptions(base_url=running.url)
        client = genai.Client(api_key="AIza-k", http_options=options)
        model = "gemini-2.5-flash"
        assert client.models.generate_content(model=model, contents=asked).text == "Hi."
        record = running.settled()
        assert (record.model, record.reported, record.outcome) == (model, 21, "governed")
        assert [each.text for each in client.models.generate_content_stream(model=model, contents=asked)] == ["Hi."]
        assert running.settled().reported == 21
        client.close()
        assert b"AIza-k" in running.upstream.seen[0].head
