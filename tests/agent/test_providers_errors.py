"""Every provider, over its official SDK, against a server of this machine: what is right and what goes wrong alike."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

import legato
from apis import ANTHROPIC, APIS, CHAT, RESPONSES, Api
from legato.agent.provider import ProviderError, Reply
from legato.agent.providers.anthropic import cached
from model_server import ModelServer, Stream, Whole
from web_server import nobody

SAID = "It sets x to one, and y to two."
each_api = pytest.mark.parametrize("api", APIS, ids=str)
each_way = pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
GOODBYE = 60
"""Seconds a server waits for a client to hang up before it says that it did not."""


def ask(api: Api, server: ModelServer, streaming: bool, body: Any = None, **options: Any) -> tuple[Reply, str]:
    """The reply to one request, and the text that came on the way."""
    seen: list[str] = []

    async def asking() -> Reply:
        async with api.connect(server.url, **options) as provider:
            reply = await provider.complete(api.body if body is None else body, seen.append if streaming else None)
            assert isinstance(reply, Reply)
            return reply

    return asyncio.run(asking()), "".join(seen)


def refused(api: Api, server: ModelServer, streaming: bool, **options: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        ask(api, server, streaming, **options)
    return caught.value


def answer(api: Api, said: str, stop: str, streaming: bool) -> Whole | Stream:
    finish = api.stops[stop]
    return Stream(api.events(said, finish)) if streaming else Whole(api.whole(said, finish))


# -- what is right -----------------------------------------------------------------------------------------------------


@each_api
@each_way
def test_a_text_comes_as_items_with_usage_and_reason(api: Api, streaming: bool) -> None:
    with ModelServer(answer(api, SAID, "end", streaming)) as server:
        reply, seen = ask(api, server, streaming)
    (item,) = reply.items
    assert SAID in str(item)
    assert reply.stop == "end"
    assert reply.finish == api.stops["end"]
    assert {11, 7} <= set(dict(reply.usage or {}).values())
    assert seen == (SAID if streaming else "")


@each_api
def test_a_streamed_answer_is_the_same_as_a_whole_one(api: Api) -> None:
    with ModelServer(answer(api, SAID, "end", False), answer(api, SAID, "end", True)) as server:
        whole, _ = ask(api, server, False)
        streamed, _ = ask(api, server, True)
    assert whole == streamed


@each_api
@each_way
def test_the_body_is_sent_as_it_is(api: Api, streaming: bool) -> None:
    body = {**api.body, "a_field_of_tomorrow": {"depth": [1, None, "ü", "\u2028"]}, "temperature": 0.5}
    with ModelServer(answer(api, SAID, "end", streaming)) as server:
        ask(api, server, streaming, body)
    (asked,) = server.asked
    assert asked.path.endswith(api.paths[streaming])
    expected = cached(body) if api.name == "anthropic" else body
    assert {key: asked.body[key] for key in body} == expected
    added = asked.body.keys() - body.keys()
    assert added <= {"model", "stream", "stream_options", "store", "include"}
    assert asked.body.get("model", "some-model") == "some-model"


@each_api
@each_way
def test_the_callers_body_is_not_changed(api: Api, streaming: bool) -> None:
    body = {**api.body}
    with ModelServer(answer(api, SAID, "end", streaming)) as server:
        ask(api, server, streaming, body)
    assert body == api.body


@each_api
@each_way
@pytest.mark.parametrize("stop", ["length", "refusal", "other"])
def test_why_the_model_stopped_is_told(api: Api, streaming: bool, stop: str) -> None:
    with ModelServer(answer(api, SAID, stop, streaming)) as server:
        reply, _ = ask(api, server, streaming)
    assert reply.stop == stop
    assert reply.finish == api.stops[stop]
    assert SAID in str(reply.items)


@each_api
@each_way
def test_an_empty_answer_is_a_reply_without_items(api: Api, streaming: bool) -> None:
    with ModelServer(answer(api, "", "end", streaming)) as server:
        reply, seen = ask(api, server, streaming)
    assert reply.items == ()
    assert reply.stop == "end"
    assert reply.usage is not None
    assert seen == ""


@each_api
def test_one_provider_serves_several_event_loops_and_opens_again_after_closing(api: Api) -> None:
    with ModelServer(*[answer(api, SAID, "end", False)] * 3) as server:
        provider = api.connect(server.url)

        async def twice() -> list[Reply]:
            first = await provider.complete(api.body)
            await provider.aclose()
            second = await provider.complete(api.body)
            await provider.aclose()
            await provider.aclose()
            return [first, second]

        async def once() -> Reply:
            reply: Reply = await provider.complete(api.body)
            await provider.aclose()
            return reply

        first, second = asyncio.run(twice())
        assert asyncio.run(once()) == first == second


# -- what the provider refuses -----------------------------------------------------------------------------------------


@each_api
@each_way
def test_an_overflow_is_an_error_that_legato_reads(api: Api, streaming: bool) -> None:
    status = api.overflow[0]
    with ModelServer(Whole(api.error(*api.overflow), status)) as server:
        error = refused(api, server, streaming)
    found = legato.overflow(error.status, error.body)
    assert found is not None
    assert found.kind == "window"
    assert (found.limit, found.used) == api.overflow_numbers
    assert error.status == status
    assert error.body == api.error(*api.overflow)
    assert api.overflow[2] in str(error)
    assert not error.retryable
    assert len(server.asked) == 1


@pytest.mark.parametrize("api", [CHAT, RESPONSES, ANTHROPIC], ids=str)
@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_overflow_is_not_sent_again_whatever_its_status(api: Api, status: int) -> None:
    """SGLang and gateways say it with a 5xx, Groq's limit a request with a 429."""
    said = "The input (40000 tokens) is longer than the model's context length (32768 tokens)."
    if status == 429:
        said = "Request too large for model `m` on tokens per minute (TPM): Limit 8000, Requested 11881."
    with ModelServer(Whole(api.error(status, "error", said), status)) as server:
        error = refused(api, server, False)
    assert legato.overflow(error.status, error.body) is not None
    assert (error.status, error.retryable, len(server.asked)) == (status, False, 1)


@each_api
@each_way
def test_a_busy_provider_is_asked_again(api: Api, streaming: bool) -> None:
    busy = Whole(api.error(429, api.busy, "slow down"), 429, {"retry-after-ms": "1", "retry-after": "0.001"})
    with ModelServer(busy, answer(api, SAID, "end", streaming)) as server:
        reply, _ = ask(api, server, streaming)
    assert reply.stop == "end"
    assert [asked.body for asked in server.asked] == [server.asked[0].body] * 2


@each_api
@each_way
@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_stays_busy_is_an_error_to_try_again_later(api: Api, streaming: bool, status: int) -> None:
    body = api.error(status, api.busy, "come back later")
    with ModelServer(Whole(body, status)) as server:
        error = refused(api, server, streaming, max_retries=0)
    assert (error.status, error.retryable) == (status, True)
    assert error.body == body
    assert "come back later" in str(error)
    assert str(status) in str(error)


@each_api
@each_way
def test_a_wrong_key_is_an_error_to_give_up_on(api: Api, streaming: bool) -> None:
    with ModelServer(Whole(api.error(401, "authentication_error", "invalid key"), 401)) as server:
        error = refused(api, server, streaming)
    assert (error.status, error.retryable, len(server.asked)) == (401, False, 1)


@each_api
@each_way
def test_an_error_without_json_keeps_its_text(api: Api, streaming: bool) -> None:
    with ModelServer(Whole(b"<h1>Bad gateway</h1>", 502, kind="text/html")) as server:
        error = refused(api, server, streaming, max_retries=0)
    assert (error.status, error.retryable) == (502, True)
    assert "Bad gateway" in str(error.body)


@each_api
@each_way
def test_an_error_without_a_body_is_told(api: Api, streaming: bool) -> None:
    with ModelServer(Whole(b"", 500)) as server:
        error = refused(api, server, streaming, max_retries=0)
    assert (error.status, error.retryable) == (500, True)


# -- what is no answer -------------------------------------------------------------------------------------------------


@each_api
@each_way
def test_a_page_instead_of_an_answer_is_an_error(api: Api, streaming: bool) -> None:
    with ModelServer(Whole(b"<html>Please log in</html>", kind="text/html")) as server:
        error = refused(api, server, streaming)
    assert error.status == 200
    assert "log in" in f"{error} {error.body}"


@each_api
@each_way
@pytest.mark.parametrize(
    "body", [b'{"status": "ok"}', b"[]", b"null", b'{"choices": [', b"\xff\xfe", b"[" * 200_000], ids=range(6)
)
def test_json_that_is_no_answer_is_an_error(api: Api, streaming: bool, body: bytes) -> None:
    with ModelServer(Whole(body)) as server:
        error = refused(api, server, streaming)
    assert error.status == 200
    assert legato.overflow(error.status, error.body) is None


@each_api
@each_way
def test_an_error_under_status_200_is_an_error(api: Api, streaming: bool) -> None:
    """OpenRouter hides what an upstream said so."""
    body = {"error": {"code": 400, "message": "prompt is too long: 9001 tokens > 8192 maximum"}}
    with ModelServer(Whole(body)) as server:
        error = refused(api, server, streaming)
    found = legato.overflow(error.status, error.body)
    assert found is not None
    assert found.used == 9001
    assert not error.retryable


@each_api
def test_a_server_that_does_not_stream_is_understood(api: Api) -> None:
    with ModelServer(Whole(api.whole(SAID, api.stops["end"]))) as server:
        reply, _ = ask(api, server, True)
    assert SAID in str(reply.items)


# -- streams that break ------------------------------------------------------------------------------------------------


@each_api
@pytest.mark.parametrize("end", ["cut", "complete"])
def test_a_stream_that_breaks_off_is_an_error_to_try_again(api: Api, end: Any) -> None:
    events = api.events(SAID, api.stops["end"])
    with ModelServer(Stream(events[:4], end)) as server:
        error = refused(api, server, True)
    assert error.retryable
    assert legato.overflow(error.status, error.body) is None


@each_api
def test_a_stream_of_nothing_is_an_error_to_try_again(api: Api) -> None:
    with ModelServer(Stream([])) as server:
        assert refused(api, server, True).retryable


@each_api
def test_an_error_inside_a_stream_is_read(api: Api) -> None:
    events = api.events(SAID, api.stops["end"])[:3]
    with ModelServer(Stream([*events, api.stream_error(*api.overflow)])) as server:
        error = refused(api, server, True)
    found = legato.overflow(error.status, error.body)
    assert found is not None
    assert (found.limit, found.used) == api.overflow_numbers
    assert not error.retryable


@each_api
def test_a_provider_that_gets_busy_inside_a_stream_may_be_asked_again(api: Api) -> None:
    events = api.events(SAID, api.stops["end"])[:3]
    with ModelServer(Stream([*events, api.stream_error(503, api.busy, "too many of you")])) as server:
        error = refused(api, server, True)
    assert error.retryable
    assert "too many of you" in str(error)


@each_api
def test_an_event_that_is_no_json_is_an_error(api: Api) -> None:
    events = api.events(SAID, api.stops["end"])[:2]
    with ModelServer(Stream([*events, b'event: message_delta\ndata: {"half\n\n'])) as server:
        error = refused(api, server, True)
    assert error.status == 200


@each_api
@each_way
def test_a_server_that_falls_silent_is_an_error_to_try_again(api: Api, streaming: bool) -> None:
    with ModelServer(Stream(api.events(SAID, api.stops["end"])[:3], "silence")) as server:
        error = refused(api, server, streaming, timeout=0.3, max_retries=0)
    assert error.retryable
    assert legato.overflow(error.status, error.body) is None


@each_api
def test_nobody_at_the_address_is_an_error_to_try_again(api: Api) -> None:
    async def asking(address: str) -> None:
        async with api.connect(address, max_retries=0) as provider:
            await provider.complete(api.body)

    with nobody() as address:
        with pytest.raises(ProviderError) as caught:
            asyncio.run(asking(address))
        assert f"the connection to {address} failed: " in str(caught.value)
    assert (caught.value.status, caught.value.body, caught.value.retryable) == (None, None, True)


# -- leaving -----------------------------------------------------------------------------------------------------------


@each_api
@each_way
@pytest.mark.parametrize("heard", [0, 4])
def test_a_request_that_is_cancelled_hangs_up(api: Api, streaming: bool, heard: int) -> None:
    async def cancelling(server: ModelServer) -> None:
        async with api.connect(server.url) as provider:
            task = asyncio.create_task(provider.complete(api.body, (lambda _: None) if streaming else None))
            assert await asyncio.to_thread(server.silent.wait, GOODBYE)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(server.hung_up.wait, GOODBYE)

    with ModelServer(Stream(api.events(SAID, api.stops["end"])[:heard], "silence")) as server:
        asyncio.run(cancelling(server))


@each_api
def test_a_listener_that_raises_ends_the_stream_and_is_heard(api: Api) -> None:
    class Enough(ValueError):
        pass

    def listen(_: str) -> None:
        raise Enough("enough")

    async def listening(server: ModelServer) -> None:
        async with api.connect(server.url) as provider:
            with pytest.raises(Enough):
                await provider.complete(api.body, listen)
            assert await asyncio.to_thread(server.hung_up.wait, GOODBYE)

    with ModelServer(Stream(api.events(SAID, api.stops["end"])[:4], "silence")) as server:
        asyncio.run(listening(server))


@each_api
@pytest.mark.parametrize(
    "address", ["http://[", "nowhere", "http://127.0.0.1:99999999", "ftp://127.0.0.1", "http:///v1"]
)
def test_an_address_that_is_none_is_named(api: Api, address: str) -> None:
    with pytest.raises(ProviderError, match=re.escape(repr(address))):
        api.provider("m", base_url=address, api_key="a key")


@each_api
def test_a_missing_key_is_an_error_to_give_up_on(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    with ModelServer() as server:

        async def asking() -> None:
            async with api.provider("m", base_url=server.url) as provider:
                await provider.complete(api.body)

        with pytest.raises(ProviderError) as caught:
            asyncio.run(asking())
    assert not caught.value.retryable
    assert server.asked == []


@each_api
def test_requests_at_the_same_time_do_not_mix(api: Api) -> None:
    answers = [Stream(api.events(f"{at} {SAID}", api.stops["end"])) for at in range(4)]

    async def asking(server: ModelServer) -> list[str]:
        async with api.connect(server.url) as provider:
            seen: list[list[str]] = [[] for _ in answers]
            await asyncio.gather(*[provider.complete(api.body, each.append) for each in seen])
            return ["".join(each) for each in seen]

    with ModelServer(*answers) as server:
        assert sorted(asyncio.run(asking(server))) == [f"{at} {SAID}" for at in range(4)]


@each_api
def test_a_client_of_the_callers_is_used_and_left_open(api: Api) -> None:
    with ModelServer(answer(api, SAID, "end", False), answer(api, SAID, "end", True)) as server:

        async def asking() -> None:
            maker = api.connect(server.url)
            client = maker._client()
            async with api.provider("some-model", client=client) as provider:
                await provider.complete(api.body)
            await provider.complete(api.body, lambda _: None)
            await maker.aclose()

        asyncio.run(asking())
    assert len(server.asked) == 2


@each_api
def test_a_body_that_is_no_json_is_an_error_that_says_so(api: Api) -> None:
    with ModelServer() as server:
        with pytest.raises(ProviderError) as caught:
            ask(api, server, False, {**api.body, "user": object()})
        assert not caught.value.retryable
        assert server.asked == []
