"""Responses: the items of an answer are the items of the next request."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import legato
from apis import RESPONSES_USAGE, response, response_stream, said_item
from legato.agent.provider import Reply
from legato.agent.providers.openai_responses import ENCRYPTED, OpenAIResponses
from model_server import ModelServer, Stream, Whole, named

Json = Any
BODY: dict[str, Json] = {"input": [{"type": "message", "role": "user", "content": "look"}]}
REASONING = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAAA"}
CALL = {
    "id": "fc_1",
    "type": "function_call",
    "call_id": "call_a",
    "name": "grep",
    "arguments": '{"pattern": "x"}',
    "status": "completed",
}
TURN = [REASONING, CALL]
each_way = pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])


def ask(server: ModelServer, streaming: bool, body: Json = BODY, **options: Any) -> Reply:
    async def asking() -> Reply:
        async with OpenAIResponses("m", base_url=server.url, api_key="k", **options) as provider:
            return await provider.complete(body, (lambda _: None) if streaming else None)

    return asyncio.run(asking())


def answer(output: list[Json], streaming: bool, status: str = "completed") -> Whole | Stream:
    return Stream(response_stream(output, "", status)) if streaming else Whole(response(output, status))


@each_way
def test_reasoning_and_calls_are_kept_as_they_are(streaming: bool) -> None:
    with ModelServer(answer(TURN, streaming)) as server:
        reply = ask(server, streaming)
    assert reply == Reply(items=tuple(TURN), usage=RESPONSES_USAGE, stop="calls", finish="completed")


@each_way
def test_what_comes_back_can_be_governed_and_sent_again(streaming: bool) -> None:
    output = {"type": "function_call_output", "call_id": "call_a", "output": "a.py:1: x = 1"}
    with ModelServer(answer(TURN, streaming), answer([said_item("Done")], streaming)) as server:
        reply = ask(server, streaming)
        session = legato.Session("openai-responses")
        body = session.prepare({**BODY, "store": False, "input": [*BODY["input"], *reply.items, output]}).body
        ask(server, streaming, body)
    sent = server.asked[1].body["input"]
    assert [item["type"] for item in sent] == ["message", "reasoning", "function_call", "function_call_output"]
    assert sent[1]["encrypted_content"] == REASONING["encrypted_content"]


@pytest.mark.parametrize(
    ("body", "options", "store", "include"),
    [
        ({}, {}, False, [ENCRYPTED]),
        ({"include": ["web_search_call.action.sources"]}, {}, False, ["web_search_call.action.sources", ENCRYPTED]),
        ({"include": [ENCRYPTED]}, {}, False, [ENCRYPTED]),
        ({"store": True}, {}, True, None),
        ({}, {"store": True}, True, None),
        ({"store": False}, {"store": True}, False, [ENCRYPTED]),
    ],
)
def test_reasoning_is_asked_for_encrypted_where_the_server_does_not_store(
    body: Json, options: Json, store: bool, include: Json
) -> None:
    with ModelServer(answer(TURN, False)) as server:
        ask(server, False, BODY | body, **options)
    assert (server.asked[0].body["store"], server.asked[0].body.get("include")) == (store, include)


def test_items_are_kept_where_the_last_event_has_none() -> None:
    """Some back ends leave the list of the last event empty."""
    events = response_stream(TURN)
    events[-1] = named({"type": "response.completed", "response": response([])})
    with ModelServer(Stream(events)) as server:
        assert ask(server, True).items == tuple(TURN)


@each_way
def test_a_refusal_is_one(streaming: bool) -> None:
    item = said_item("") | {"content": [{"type": "refusal", "refusal": "I can't do that."}]}
    with ModelServer(answer([item], streaming)) as server:
        assert ask(server, streaming).stop == "refusal"


@each_way
def test_calls_that_the_output_limit_cut_are_told_as_that(streaming: bool) -> None:
    cut = {**CALL, "arguments": '{"pat', "status": "incomplete"}
    with ModelServer(answer([cut], streaming, "max_output_tokens")) as server:
        reply = ask(server, streaming)
    assert (reply.stop, reply.items) == ("length", (cut,))


@each_way
def test_a_failed_response_is_an_error_that_legato_reads(streaming: bool) -> None:
    failed = response([], "failed")
    failed["error"] = {
        "code": "context_length_exceeded",
        "message": "Your input exceeds the context window of this model.",
    }
    told = Stream([named({"type": "response.failed", "response": failed})]) if streaming else Whole(failed)
    with ModelServer(told) as server, pytest.raises(legato.GovernanceError) as caught:
        ask(server, streaming)
    error: Any = caught.value
    assert error.body["error"] == failed["error"]
    assert legato.overflow(error.status, error.body) is not None
