"""Gemini: parts keep their signatures and their places."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import legato
from apis import GEMINI_USAGE, content, content_stream
from legato.agent.provider import Reply
from legato.agent.providers.gemini import Gemini
from model_server import ModelServer, Stream, Whole, data

Json = Any
BODY: dict[str, Json] = {
    "contents": [{"role": "user", "parts": [{"text": "look"}]}],
    "systemInstruction": {"parts": [{"text": "Be terse."}]},
    "tools": [{"functionDeclarations": [{"name": "grep", "description": "Search."}]}],
    "generationConfig": {"maxOutputTokens": 99, "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "high"}},
}
CALL = {"functionCall": {"id": "c1", "name": "grep", "args": {"pattern": "x"}}, "thoughtSignature": "CiQB/abc+d=="}
SIBLING = {"functionCall": {"id": "c2", "name": "grep", "args": {"pattern": "y"}}}
THOUGHT = {"text": "First look.", "thought": True}
each_way = pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])


def ask(server: ModelServer, streaming: bool, body: Json = BODY, model: str = "m") -> Reply:
    async def asking() -> Reply:
        async with Gemini(model, base_url=server.url, api_key="a key") as provider:
            return await provider.complete(body, (lambda _: None) if streaming else None)

    return asyncio.run(asking())


def streamed(*chunks: list[Json], finish: str = "STOP") -> Reply:
    with ModelServer(Stream(content_stream(*chunks, finish=finish))) as server:
        return ask(server, True)


@each_way
def test_calls_keep_their_signatures_and_places(streaming: bool) -> None:
    parts = [THOUGHT, {"text": "I look."}, CALL, SIBLING]
    chunks = ([THOUGHT], [{"text": "I look."}], [CALL, SIBLING])
    with ModelServer(Stream(content_stream(*chunks)) if streaming else Whole(content(parts))) as server:
        reply = ask(server, streaming)
    assert reply.items == ({"role": "model", "parts": parts},)
    assert (reply.stop, reply.finish, reply.usage) == ("calls", "STOP", GEMINI_USAGE)


def test_text_grows_by_kind() -> None:
    chunks: list[list[Json]] = [
        [{"text": "First ", "thought": True}],
        [{"text": "look.", "thought": True}],
        [{"text": "Do"}],
        [{"text": "ne"}],
    ]
    assert streamed(*chunks).items[0]["parts"] == [THOUGHT, {"text": "Done"}]


def test_a_signature_in_an_empty_part_stays_in_it() -> None:
    signed = {"text": "", "thoughtSignature": "CiQB"}
    assert streamed([{"text": "Do"}], [{"text": "ne"}], [signed]).items[0]["parts"] == [{"text": "Done"}, signed]


def test_text_after_a_signed_part_begins_a_new_one() -> None:
    signed = {"text": "Do", "thoughtSignature": "CiQB"}
    assert streamed([signed], [{"text": "ne"}]).items[0]["parts"] == [signed, {"text": "ne"}]


@each_way
def test_every_field_of_the_body_reaches_the_server(streaming: bool) -> None:
    body = {
        **BODY,
        "contents": [*BODY["contents"], {"role": "model", "parts": [THOUGHT, CALL]}],
        "a_field": {"b_c": [1]},
    }
    with ModelServer(Stream(content_stream([{"text": "Done"}])) if streaming else Whole(content([]))) as server:
        ask(server, streaming, body)
    assert server.asked[0].body == body
    assert {name.lower(): value for name, value in server.asked[0].headers.items()}["x-goog-api-key"] == "a key"


def test_the_model_stands_in_the_address() -> None:
    with ModelServer(Whole(content([{"text": "Done"}])), Whole(content([{"text": "Done"}]))) as server:
        ask(server, False, {**BODY, "model": "m"})
        ask(server, False, model="tunedModels/mine")
    assert server.asked[0].path.endswith("/models/m:generateContent")
    assert server.asked[1].path.endswith("/tunedModels/mine:generateContent")
    assert "model" not in server.asked[0].body


@each_way
def test_a_blocked_prompt_is_a_refusal(streaming: bool) -> None:
    blocked = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": GEMINI_USAGE}
    with ModelServer(Stream([data(blocked)]) if streaming else Whole(blocked)) as server:
        reply = ask(server, streaming)
    assert reply == Reply(items=(), usage=GEMINI_USAGE, stop="refusal", finish="PROHIBITED_CONTENT")


def test_a_malformed_call_is_told_as_no_end() -> None:
    reply = streamed(finish="MALFORMED_FUNCTION_CALL")
    assert reply == Reply(items=(), usage=GEMINI_USAGE, stop="other", finish="MALFORMED_FUNCTION_CALL")


def test_what_comes_back_can_be_governed_and_sent_again() -> None:
    with ModelServer(Whole(content([THOUGHT, CALL, SIBLING])), Whole(content([{"text": "Done"}]))) as server:
        reply = ask(server, False)
        answers = [
            {"functionResponse": {"id": i, "name": "grep", "response": {"output": "none"}}} for i in ("c1", "c2")
        ]
        contents = [*BODY["contents"], *reply.items, {"role": "user", "parts": answers}]
        ask(server, False, legato.Session("gemini").prepare({**BODY, "contents": contents}).body)
    assert CALL in server.asked[1].body["contents"][1]["parts"]
