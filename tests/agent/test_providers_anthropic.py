"""Messages: blocks stay as the model made them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import legato
from apis import message, message_stream, text_block
from legato.agent.provider import Reply
from legato.agent.providers.anthropic import EPHEMERAL, Anthropic, cached
from legato.policy import DEFAULT_OUTPUT
from model_server import ModelServer, Stream, Whole

Json = Any
Block = tuple[Json, list[Json]]
BODY: dict[str, Json] = {
    "system": [{"type": "text", "text": "Be terse.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "look", "cache_control": {"type": "ephemeral"}}]}
    ],
    "max_tokens": 99,
}
THOUGHT = {"type": "thinking", "thinking": "First look.", "signature": "EqQBCkYIBRgC"}
REDACTED = {"type": "redacted_thinking", "data": "EmwKAhgBEgy3"}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "grep", "input": {"pattern": "x"}}
USAGE = {"input_tokens": 11, "cache_read_input_tokens": 3, "output_tokens": 7}

THOUGHT_STREAM: Block = (
    {"type": "thinking", "thinking": "", "signature": ""},
    [
        {"type": "thinking_delta", "thinking": "First "},
        {"type": "thinking_delta", "thinking": "look."},
        {"type": "signature_delta", "signature": "EqQBCkYIBRgC"},
    ],
)
each_way = pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])


def call_stream(*pieces: str) -> Block:
    return {**CALL, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def ask(server: ModelServer, streaming: bool, body: Json = BODY) -> Reply:
    async def asking() -> Reply:
        async with Anthropic("m", base_url=server.url, api_key="k") as provider:
            return await provider.complete(body, (lambda _: None) if streaming else None)

    return asyncio.run(asking())


def streamed(*blocks: Block, stop: str = "tool_use") -> Reply:
    with ModelServer(Stream(message_stream(*blocks, stop=stop))) as server:
        return ask(server, True)


@each_way
def test_thinking_keeps_its_signature_and_its_place(streaming: bool) -> None:
    blocks: tuple[Block, ...] = (
        THOUGHT_STREAM,
        (REDACTED, []),
        text_block("I look."),
        call_stream("", '{"pat', 'tern": "x"}'),
    )
    whole = message([THOUGHT, REDACTED, {"type": "text", "text": "I look."}, CALL], "tool_use")
    with ModelServer(Stream(message_stream(*blocks, stop="tool_use")) if streaming else Whole(whole)) as server:
        reply = ask(server, streaming)
    assert reply.items == ({"role": "assistant", "content": whole["content"]},)
    assert (reply.stop, reply.finish, reply.usage) == ("calls", "tool_use", USAGE)


@each_way
def test_cache_markers_and_system_reach_the_server(streaming: bool) -> None:
    with ModelServer(Stream(message_stream(text_block("Done"))) if streaming else Whole(message([CALL]))) as server:
        ask(server, streaming)
    sent = server.asked[0].body
    assert {key: sent[key] for key in BODY} == BODY
    assert set(sent) - set(BODY) <= {"model", "stream"}


def test_an_output_limit_is_sent_where_the_body_has_none() -> None:
    with ModelServer(Whole(message([CALL]))) as server:
        ask(server, False, {"messages": BODY["messages"]})
    assert server.asked[0].body["max_tokens"] == DEFAULT_OUTPUT


def test_a_call_without_arguments_has_an_empty_object() -> None:
    assert streamed(call_stream()).items[0]["content"] == [{**CALL, "input": {}}]


def test_arguments_that_are_no_json_stay_as_text_and_are_mended_before_they_are_sent_again() -> None:
    reply = streamed(call_stream('{"pattern": "x'), stop="max_tokens")
    (item,) = reply.items
    assert item["content"][0]["input"] == '{"pattern": "x'
    assert reply.stop == "length"
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "no JSON"}]}
    tools = [{"name": "grep", "description": "Search.", "input_schema": {"type": "object", "properties": {}}}]
    governed = legato.govern([*BODY["messages"], item, result], profile="anthropic", tools=tools)
    assert isinstance(governed.messages[1]["content"][0]["input"], dict)
    assert '{"pattern": "x' in str(governed.messages[1])


def test_several_calls_of_one_turn_keep_their_order() -> None:
    second = {**CALL, "id": "toolu_2", "name": "exec"}
    start = {**second, "input": {}}
    reply = streamed(call_stream('{"pattern": "x"}'), (start, [{"type": "input_json_delta", "partial_json": "{}"}]))
    assert [block["id"] for block in reply.items[0]["content"]] == ["toolu_1", "toolu_2"]


def test_citations_and_unknown_deltas_grow_with_their_block() -> None:
    cited = {"type": "char_location", "cited_text": "x = 1", "document_index": 0}
    deltas = [
        {"type": "text_delta", "text": "It sets x."},
        {"type": "citations_delta", "citation": cited},
        {"type": "mood_delta", "mood": "cheer"},
        {"type": "mood_delta", "mood": "ful"},
    ]
    reply = streamed(({"type": "text", "text": "", "citations": []}, deltas), stop="end_turn")
    block = {"type": "text", "text": "It sets x.", "citations": [cited], "mood": "cheerful"}
    assert reply.items[0]["content"] == [block]


def test_results_of_the_providers_own_tools_are_kept() -> None:
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "web_search_result"}]}
    deltas = [{"type": "input_json_delta", "partial_json": '{"query": "x"}'}]
    reply = streamed((use, deltas), (found, []), text_block("Done"), stop="end_turn")
    assert reply.items[0]["content"][:2] == [{**use, "input": {"query": "x"}}, found]
    assert reply.stop == "end"


@each_way
def test_no_room_at_all_is_an_overflow_and_no_empty_answer(streaming: bool) -> None:
    stop = "model_context_window_exceeded"
    with (
        ModelServer(Stream(message_stream(stop=stop)) if streaming else Whole(message([], stop))) as server,
        pytest.raises(legato.GovernanceError) as caught,
    ):
        ask(server, streaming)
    error: Any = caught.value
    assert legato.overflow(error.status, error.body) is not None


def test_an_answer_that_ran_into_the_window_is_kept() -> None:
    reply = streamed(text_block("It sets"), stop="model_context_window_exceeded")
    assert reply.stop == "length"
    assert reply.items[0]["content"] == [{"type": "text", "text": "It sets"}]


def test_a_body_without_markers_gets_one_after_the_system_text_and_one_on_the_newest_block() -> None:
    body = {"system": "Be terse.", "messages": [{"role": "user", "content": "look"}]}
    marked = cached(body)
    assert marked["system"] == [{"type": "text", "text": "Be terse.", "cache_control": EPHEMERAL}]
    assert marked["messages"][0]["content"] == [{"type": "text", "text": "look", "cache_control": EPHEMERAL}]
    assert body == {"system": "Be terse.", "messages": [{"role": "user", "content": "look"}]}


@pytest.mark.parametrize("content", [[THOUGHT], [], "", [REDACTED]], ids=str)
def test_nothing_is_marked_that_cannot_be(content: Json) -> None:
    body = {"messages": [{"role": "assistant", "content": content}]}
    assert legato.check(cached({**body, "max_tokens": 9}), profile="anthropic") == legato.check(
        {**body, "max_tokens": 9}, profile="anthropic"
    )
    assert "cache_control" not in str(cached(body))


def test_the_markers_of_the_caller_are_left_as_they_are() -> None:
    assert cached(BODY) is BODY
