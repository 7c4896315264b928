"""A stream that opens with "too long": one smaller request follows, and nothing else of any stream is held back."""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.proxy import opening
from legato.proxy.opening import HELD, Opening
from loopback import CHAT, END, PATIENCE, Hangup, Running, Seen, answer, chunk, events, proxied, start
from test_overflow_retry import history, refusing, size
from test_stream import SQUEEZES, cut

PATH = "/v1/chat/completions"
LIMIT = 3_000
TOO_LONG = f"This model's maximum context length is {LIMIT} tokens. However, your messages resulted in 9000 tokens."
DELTA = {"choices": [{"index": 0, "delta": {"content": "context_length_exceeded: prompt is too long"}}]}
ERRORS: dict[str, list[Any]] = {
    "openai chat": [{"error": {"message": TOO_LONG, "type": "invalid_request_error", "code": 400}}],
    "a router": [{"id": "gen-1", "error": {"code": 400, "message": TOO_LONG}, "choices": [{"delta": {"content": ""}}]}],
    "an object": [{"object": "error", "message": TOO_LONG, "code": 400}],
    "messages": [{"type": "ping"}, {"type": "error", "error": {"type": "invalid_request_error", "message": TOO_LONG}}],
    "responses": [
        {"type": "response.created", "response": {"object": "response", "error": None}},
        {"type": "response.in_progress", "response": {"object": "response", "error": None}},
        {"type": "error", "code": "context_length_exceeded", "message": TOO_LONG},
    ],
    "a failed response": [
        {"type": "response.created", "response": {"object": "response", "error": None}},
        {"type": "response.failed", "response": {"error": {"code": "context_length_exceeded", "message": TOO_LONG}}},
    ],
}


def stream(values: list[Any]) -> list[bytes]:
    """The pieces of an answer with these events, behind a comment."""
    return [start(), chunk(b": working\n\n"), *map(chunk, events(values)), END]


def text(values: list[Any]) -> bytes:
    return b": working\n\n" + b"".join(events(values))


@pytest.mark.parametrize("words", ERRORS)
def test_too_long_that_is_told_in_a_stream_leads_to_one_smaller_request(words: str) -> None:
    def script(seen: Seen) -> list[bytes]:
        return stream(ERRORS[words]) if size(seen) > LIMIT else stream([DELTA, CHAT])

    with proxied(script) as running:
        found = running.ask(PATH, {**history(20), "stream": True})
        assert (found.status, found.body, found.whole) == (200, text([DELTA, CHAT]), True)
        assert found.headers["x-legato-retried"] == "1"
        assert [size(seen) > LIMIT for seen in running.upstream.seen] == [True, False]
        record = running.settled()
        assert (record.retried, record.outcome, record.reported) == (True, "governed", 12)
        again = running.ask(PATH, {**history(21), "stream": True})
        assert "x-legato-retried" not in again.headers


@pytest.mark.parametrize("second", [answer({"error": {}}, 500), b"".join(stream(ERRORS["responses"])), b"no HTTP\r\n"])
def test_if_the_smaller_one_fails_too_the_first_stream_comes_back_as_it_was(second: bytes) -> None:
    first = stream(ERRORS["openai chat"])

    def script(_: Seen) -> list[bytes]:
        return first if len(running.upstream.seen) == 1 else [second]

    with proxied(script) as running:
        found = running.ask(PATH, {**history(20), "stream": True})
        assert (found.status, found.body, found.whole) == (200, text(ERRORS["openai chat"]), True)
        assert len(running.upstream.seen) == 2


def test_an_error_status_may_be_cured_by_a_stream() -> None:
    with proxied(refusing(LIMIT, lambda _: {"error": {"message": TOO_LONG}})) as running:
        assert running.ask(PATH, {**history(20), "stream": True}).headers["x-legato-retried"] == "1"


@pytest.mark.parametrize(
    "values",
    [
        [DELTA, *ERRORS["openai chat"]],
        [{"error": {"message": "Rate limit reached", "code": 429}}],
        [{"type": "message_start", "message": {"usage": {}}}, *ERRORS["messages"]],
        [{"error": None, **DELTA}],
        ["error"],
        [{"type": "error"}],
    ],
)
def test_what_does_not_open_with_too_long_passes_as_it_came(values: list[Any]) -> None:
    with proxied(lambda _: stream(values)) as running:
        found = running.ask(PATH, {**history(20), "stream": True})
        assert (found.body, found.whole) == (text(values), True)
        assert len(running.upstream.seen) == 1


@pytest.mark.parametrize("part", [b"", chunk(b": working\n\n")])
def test_a_stream_that_is_cut_before_its_first_event_is_an_error_that_can_be_tried_again(part: bytes) -> None:
    def script(_: Seen) -> Iterator[bytes]:
        yield start() + part
        raise Hangup

    with proxied(script) as running:
        found = running.ask(PATH, {**history(2), "stream": True})
        assert (found.status, found.headers["x-legato-error"]) == (502, "upstream-cut")
        assert running.settled().error == "upstream-cut"


@contextmanager
def first_part(part: bytes) -> Iterator[Running]:
    """A proxy whose upstream streams no more than this before the client has it."""
    came = threading.Event()

    def script(_: Seen) -> Iterator[bytes]:
        yield start() + chunk(part)
        assert came.wait(PATIENCE)
        yield END

    with proxied(script) as running, running.connect() as connection:
        data = json.dumps({**history(2), "stream": True}).encode()
        connection.sendall(b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (PATH.encode(), len(data)))
        connection.sendall(data)
        with connection.makefile("rb") as reading:
            assert next(line for line in reading if line == b"\r\n")
            received = b""
            while received != part:
                received += reading.read(int(reading.readline(), 16))
                assert (reading.readline(), part[: len(received)]) == (b"\r\n", received)
        came.set()
        yield running
        assert running.settled().status == 200


@pytest.mark.parametrize(
    "part", [*events([DELTA]), b": x\ndata: {\n", b"data:\n", b"not an event\n", b": x\r\rdata: 1\r", b": x" * HELD]
)
def test_the_first_event_goes_on_while_the_next_is_still_waited_for(
    part: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "SECONDS", 10 * PATIENCE)
    with first_part(part) as running:
        assert len(running.upstream.seen) == 1


def test_an_opening_is_not_held_back_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "SECONDS", 0.1)
    with first_part(b": working\n\ndata: {") as running:
        assert len(running.upstream.seen) == 1


@pytest.mark.parametrize("words", ERRORS)
@given(
    encoding=st.sampled_from([*SQUEEZES]),
    end=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    places=st.lists(st.integers(0, 600), max_size=6),
)
def test_an_error_is_found_whatever_the_pieces_and_the_encoding(
    words: str, encoding: str, end: bytes, places: list[int]
) -> None:
    data = text(ERRORS[words]).replace(b"\n", end)
    for plain in (data, data.rstrip()):
        reading = Opening(encoding)
        for piece in cut(SQUEEZES[encoding](plain), places):
            reading.feed(piece)
        found = reading.end()
        assert found is not None
        assert json.loads(found) == ERRORS[words][-1]


@given(data=st.binary(max_size=300), encoding=st.sampled_from([*SQUEEZES, "zstd"]))
def test_rubbish_is_no_error(data: bytes, encoding: str) -> None:
    reading = Opening(encoding)
    reading.feed(data.replace(b"error", b""))
    assert reading.end() is None


def test_no_more_of_an_opening_is_read_than_its_bound() -> None:
    bomb = zlib.compress(b": " + b"x" * 10_000_000)
    for encoding, piece in (("", b": x\n" * 1_000), ("deflate", bomb)):
        reading = Opening(encoding)
        for _ in range(HELD // 4_000 + 1):
            reading.feed(piece)
        assert reading.is_over
