"""Chat completions as OpenAI and its many copies answer them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import legato
from apis import CHAT_USAGE, DONE, chat_stream, chat_whole, chunk
from legato.agent.provider import ProviderError, Reply
from legato.agent.providers.openai_chat import OpenAIChat
from model_server import ModelServer, Stream, Whole, data

Json = Any
BODY = {"messages": [{"role": "user", "content": "look"}], "max_tokens": 50}
FIRST = {"id": "call_a", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "a.py"}'}}
SECOND = {"id": "call_b", "type": "function", "function": {"name": "grep", "arguments": '{"pattern": "x"}'}}


def ask(server: ModelServer, streaming: bool = True, body: Json = BODY, **options: Any) -> Reply:
    async def asking() -> Reply:
        async with OpenAIChat("some-model", base_url=server.url, api_key="a key", **options) as provider:
            return await provider.complete(body, (lambda _: None) if streaming else None)

    return asyncio.run(asking())


def streamed(*deltas: Json, finish: str = "stop") -> Reply:
    with ModelServer(Stream(chat_stream(*deltas, finish=finish))) as server:
        return ask(server)


def calls(*pieces: Json) -> list[Json]:
    """The calls that deltas of so many pieces of calls make."""
    (item,) = streamed(*[{"tool_calls": list(each)} for each in pieces], finish="tool_calls").items
    found: list[Json] = item["tool_calls"]
    return found


def indexed(call: Json, index: int | None) -> Json:
    return call if index is None else {"index": index, **call}


def grow(call: Json, index: int) -> list[Json]:
    """A call as OpenAI streams it: its name, then its arguments letter by letter."""
    function = call["function"]
    start = {**call, "function": {"name": function["name"], "arguments": ""}}
    rest = [{"function": {"arguments": letter}} for letter in function["arguments"]]
    return [indexed(each, index) for each in (start, *rest)]


# -- tool calls --------------------------------------------------------------------------------------------------------


def test_calls_that_come_in_pieces_are_put_together() -> None:
    assert calls(*[[piece] for piece in (*grow(FIRST, 0), *grow(SECOND, 1))]) == [FIRST, SECOND]


def test_calls_whose_pieces_mix_are_told_apart_by_index() -> None:
    mixed = [[a, b] for a, b in zip(grow(FIRST, 0), grow(SECOND, 1), strict=False)]
    assert calls(*mixed)[0]["id"] == "call_a"
    assert [call["function"]["name"] for call in calls(*mixed)] == ["read_file", "grep"]


@pytest.mark.parametrize("indexes", [(None, None), (0, 0), (0, 1)], ids=["no index", "all the first", "counted"])
@pytest.mark.parametrize("together", [True, False], ids=["in one delta", "one by one"])
def test_calls_that_come_whole_are_kept_apart(indexes: tuple[int | None, int | None], together: bool) -> None:
    whole = [indexed(call, index) for call, index in zip((FIRST, SECOND), indexes, strict=True)]
    assert calls(*([whole] if together else [[call] for call in whole])) == [FIRST, SECOND]


def test_calls_without_index_or_id_are_told_apart_by_their_names() -> None:
    bare = [{"function": {"name": name, "arguments": "{"}} for name in ("read_file", "grep")]
    rest = {"function": {"arguments": "}"}}
    whole = [{"type": "function", "function": {"name": name, "arguments": "{}"}} for name in ("read_file", "grep")]
    assert calls([bare[0]], [rest], [bare[1]], [rest]) == whole


def test_pieces_without_index_are_told_apart_by_their_ids() -> None:
    pieces = [[{key: value for key, value in piece.items() if key != "index"}] for piece in grow(FIRST, 0)]
    assert calls(*pieces) == [FIRST]


@pytest.mark.parametrize("name", [("read_file", "read_file"), ("read_", "file"), ("read_", "read_file")])
def test_a_name_may_come_again_or_in_halves(name: tuple[str, str]) -> None:
    pieces = [
        [
            {
                "index": 0,
                "id": "call_a",
                "type": "function",
                "function": {"name": part, "arguments": "{" if at == 0 else "}"},
            }
        ]
        for at, part in enumerate(name)
    ]
    (call,) = calls(*pieces)
    assert call == {"id": "call_a", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}


def test_a_field_that_nobody_knows_stays_with_its_call() -> None:
    """Gemini's OpenAI endpoint keeps the signature of a thought there."""
    signed = {**FIRST, "extra_content": {"google": {"thought_signature": "abc"}}}
    assert calls([indexed(signed, 0)]) == [signed]


def test_arguments_that_are_no_json_stay_as_the_model_wrote_them() -> None:
    broken = {**FIRST, "function": {"name": "read_file", "arguments": '{"path": "a.p'}}
    reply = streamed({"tool_calls": [indexed(broken, 0)]}, finish="tool_calls")
    assert reply.items[0]["tool_calls"] == [broken]
    assert reply.stop == "calls"


def test_calls_that_the_output_limit_cut_are_told_as_that() -> None:
    broken = {**FIRST, "function": {"name": "read_file", "arguments": '{"pa'}}
    assert streamed({"tool_calls": [indexed(broken, 0)]}, finish="length").stop == "length"


@pytest.mark.parametrize(("finish", "stop"), [("stop", "calls"), ("tool_calls", "calls"), ("function_call", "calls")])
def test_calls_are_calls_whatever_the_server_says(finish: str, stop: str) -> None:
    assert streamed({"tool_calls": [indexed(FIRST, 0)]}, finish=finish).stop == stop


def test_calls_that_are_announced_and_missing_are_none() -> None:
    assert streamed({"content": "I will look."}, finish="tool_calls").stop == "other"


def test_a_legacy_function_call_is_put_together() -> None:
    deltas = [{"function_call": {"name": "grep", "arguments": ""}}, {"function_call": {"arguments": "{}"}}]
    (item,) = streamed(*deltas, finish="function_call").items
    assert item["function_call"] == {"name": "grep", "arguments": "{}"}


def test_a_turn_of_calls_without_text_has_content_null() -> None:
    (item,) = streamed({"role": "assistant"}, {"tool_calls": [indexed(FIRST, 0)]}).items
    assert item == {"role": "assistant", "content": None, "tool_calls": [FIRST]}


# -- reasoning and what else there is ----------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "a_field_of_tomorrow"])
def test_reasoning_is_kept_and_not_shown(field: str) -> None:
    seen: list[str] = []

    async def asking(server: ModelServer) -> Reply:
        async with OpenAIChat("m", base_url=server.url, api_key="k") as provider:
            return await provider.complete(BODY, seen.append)

    deltas = [{"role": "assistant", "content": None, field: "First "}, {field: "look."}, {"content": "Done"}]
    with ModelServer(Stream(chat_stream(*deltas))) as server:
        reply = asyncio.run(asking(server))
    assert reply.items == ({"role": "assistant", "content": "Done", field: "First look."},)
    assert seen == ["Done"]


def test_reasoning_details_grow_by_kind_and_index() -> None:
    def text(words: str, index: int, **more: Json) -> Json:
        return {"type": "reasoning.text", "text": words, "format": "f-v1", "index": index, **more}

    sealed = [{"type": "reasoning.encrypted", "data": seal, "index": 2} for seal in ("abc", "def")]
    deltas = [[text("First ", 0)], [text("look.", 0)], [text("", 0, signature="sig")], [text("Then", 1)], sealed]
    (item,) = streamed(*[{"reasoning_details": each} for each in deltas], {"content": "Done"}).items
    assert item["reasoning_details"] == [text("First look.", 0, signature="sig"), text("Then", 1), *sealed]


def test_thinking_blocks_in_the_content_are_put_together_with_the_text_after_them() -> None:
    """Mistral's reasoning models begin with blocks and go on with plain text."""

    def thinking(words: str) -> Json:
        return {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": words}]}]}

    (item,) = streamed(thinking("First "), thinking("look."), {"content": "Do"}, {"content": "ne"}).items
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "First look."}]}
    assert item["content"] == [thought, {"type": "text", "text": "Done"}]


def test_images_that_come_whole_are_not_merged() -> None:
    images = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{name}"}} for name in ("AA", "BB")]
    (item,) = streamed({"content": "Look", "images": images[:1]}, {"images": images[1:]}).items
    assert item["images"] == images


def test_a_refusal_is_one() -> None:
    reply = streamed({"refusal": "I can't "}, {"refusal": "do that."})
    assert reply.items[0]["refusal"] == "I can't do that."
    assert reply.stop == "refusal"


def test_fields_that_are_null_are_left_out() -> None:
    message: Json = {
        "content": "Done",
        "refusal": None,
        "tool_calls": None,
        "reasoning_content": None,
        "annotations": [],
    }
    with ModelServer(Whole(chat_whole(message))) as server:
        reply = ask(server, streaming=False)
    assert reply.items == ({"role": "assistant", "content": "Done", "annotations": []},)


def test_only_the_first_of_several_choices_is_the_answer() -> None:
    other = data({"choices": [{"index": 1, "delta": {"content": "No"}, "finish_reason": None}]})
    with ModelServer(Stream([chunk({"content": "Yes"}), other, chunk({}, "stop"), DONE])) as server:
        assert ask(server).items == ({"role": "assistant", "content": "Yes"},)


def test_no_room_at_all_is_an_overflow_and_no_empty_answer() -> None:
    """z.ai takes a request that is too long, and says so only by the reason to stop."""
    with (
        ModelServer(Whole(chat_whole({"content": ""}, "model_context_window_exceeded"))) as server,
        pytest.raises(ProviderError) as caught,
    ):
        ask(server, streaming=False)
    assert legato.overflow(caught.value.status, caught.value.body) is not None


# -- usage and what servers do not take --------------------------------------------------------------------------------


def test_the_usage_of_a_stream_is_asked_for() -> None:
    with ModelServer(Stream(chat_stream({"content": "Done"}))) as server:
        assert ask(server).usage == CHAT_USAGE
    assert server.asked[0].body["stream_options"] == {"include_usage": True}


def test_what_the_caller_asks_of_a_stream_stays() -> None:
    body = {**BODY, "stream_options": {"include_usage": False}}
    with ModelServer(Stream(chat_stream({"content": "Done"}))) as server:
        ask(server, body=body)
    assert server.asked[0].body["stream_options"] == {"include_usage": False}


@pytest.mark.parametrize("place", ["x_groq", "choice"])
def test_usage_is_found_where_copies_put_it(place: str) -> None:
    last = {"index": 0, "delta": {}, "finish_reason": "stop"}
    ending = {"x_groq": {"usage": CHAT_USAGE}} if place == "x_groq" else {}
    if place == "choice":
        last["usage"] = CHAT_USAGE
    with ModelServer(Stream([chunk({"content": "Done"}), data({"choices": [last], **ending}), DONE])) as server:
        assert ask(server).usage == CHAT_USAGE


FORBIDDEN = {"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}


def twice(server: ModelServer) -> list[Reply]:
    async def asking() -> list[Reply]:
        async with OpenAIChat("m", base_url=server.url, api_key="k") as provider:
            return [await provider.complete(BODY, lambda _: None) for _ in range(2)]

    return asyncio.run(asking())


def test_a_server_that_does_not_count_streams_is_asked_once() -> None:
    refusal = Whole({"object": "error", "message": {"detail": [FORBIDDEN]}}, 422)
    answer = Stream(chat_stream({"content": "Done"}))
    with ModelServer(refusal, answer, answer) as server:
        assert [reply.stop for reply in twice(server)] == ["end", "end"]
    assert ["stream_options" in asked.body for asked in server.asked] == [True, False, False]


def test_the_limit_goes_by_the_name_that_the_model_wants() -> None:
    said = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    refusal = Whole({"error": {"message": said, "param": "max_tokens", "code": "unsupported_parameter"}}, 400)
    answer = Stream(chat_stream({"content": "Done"}))
    with ModelServer(refusal, answer, answer) as server:
        twice(server)
    limits = [{key: value for key, value in asked.body.items() if key.startswith("max_")} for asked in server.asked]
    assert limits == [{"max_tokens": 50}, {"max_completion_tokens": 50}, {"max_completion_tokens": 50}]


def test_a_limit_that_is_too_large_is_no_wrong_name() -> None:
    said = (
        "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 32768 "
        "tokens and your request has 1200 input tokens (32000 > 32768 - 1200)."
    )
    with ModelServer(Whole({"error": {"message": said}}, 400)) as server, pytest.raises(ProviderError):
        ask(server)
    assert len(server.asked) == 1


# -- errors of copies --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "event",
    [
        {"object": "error", "message": "prompt is too long: 9001 tokens > 8192 maximum", "code": 400},
        {"error": {"message": "prompt is too long: 9001 tokens > 8192 maximum", "code": 400}},
        {"error": "prompt is too long: 9001 tokens > 8192 maximum"},
    ],
)
def test_an_error_in_a_stream_is_read_in_every_shape(event: Json) -> None:
    with ModelServer(Stream([chunk({"content": "Do"}), data(event)])) as server, pytest.raises(ProviderError) as caught:
        ask(server)
    found = legato.overflow(caught.value.status, caught.value.body)
    assert found is not None
    assert found.limit == 8192


def test_an_error_in_a_choice_is_an_error() -> None:
    answer = chat_whole({"content": ""}, "error")
    answer["choices"][0]["error"] = {"code": 502, "message": "upstream went away"}
    with ModelServer(Whole(answer)) as server, pytest.raises(ProviderError, match="no completion") as caught:
        ask(server, streaming=False)
    assert caught.value.body == json.loads(json.dumps(answer))


def test_an_empty_account_is_not_worth_waiting_for() -> None:
    body = {
        "error": {
            "message": "You exceeded your current quota.",
            "type": "insufficient_quota",
            "code": "insufficient_quota",
        }
    }
    with ModelServer(Whole(body, 429)) as server, pytest.raises(ProviderError) as caught:
        ask(server, max_retries=0)
    assert not caught.value.retryable
