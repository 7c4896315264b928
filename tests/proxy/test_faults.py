"""Upstreams and clients that misbehave: no hang, no leak, the right status, and the record says why."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from loopback import (
    CHAT,
    END,
    PATIENCE,
    Hangup,
    Running,
    Seen,
    answer,
    chunk,
    events,
    proxied,
    reply,
    start,
    wait_until,
)

PATH = "/v1/chat/completions"
PLAIN = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}
SHORT = 0.3
"""Seconds of a limit that nothing but its end can meet in time."""


@contextmanager
def nobody() -> Iterator[str]:
    """An address that refuses connections: its port is taken, so that no one else gets it, and not listened at."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def idle(running: Running) -> None:
    """Nothing is under way, and nothing is held."""
    running.settled()
    assert running.proxy.held == 0


# --- the upstream


def test_an_upstream_that_is_down_is_a_502_in_the_shape_of_the_api() -> None:
    with nobody() as address, proxied(url=address) as running:
        chat = running.ask(PATH, PLAIN)
        assert (chat.status, chat.headers["x-legato-error"]) == (502, "upstream-unreachable")
        assert chat.json["error"]["code"] == "upstream-unreachable"
        assert (running.settled().error, running.settled().why) == ("upstream-unreachable", "Connection refused")
        messages = running.ask("/v1/messages", {**PLAIN, "max_tokens": 5})
        assert messages.json == {
            "type": "error",
            "error": {"type": "api_error", "message": chat.json["error"]["message"]},
        }
        gemini = running.ask("/v1beta/models/g:generateContent", {"contents": []})
        assert gemini.json["error"]["status"] == "UNAVAILABLE"
        assert running.ask("/v1/models", method="GET").status == 502
        idle(running)


def test_an_upstream_that_does_not_answer_is_a_504() -> None:
    done = threading.Event()

    def script(_: Seen) -> Iterator[bytes]:
        done.wait(PATIENCE)
        yield answer(CHAT)

    with proxied(script, limits={"upstream_seconds": SHORT}) as running:
        found = running.ask(PATH, PLAIN)
        done.set()
        assert (found.status, found.headers["x-legato-error"]) == (504, "upstream-silent")
        idle(running)


@pytest.mark.parametrize("rubbish", [b"rubbish\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\nno"])
def test_an_upstream_that_speaks_no_http_is_a_502(rubbish: bytes) -> None:
    def script(_: Seen) -> Iterator[bytes]:
        yield rubbish
        raise Hangup

    with proxied(script) as running:
        found = running.ask(PATH, PLAIN)
        assert (found.status, found.headers["x-legato-error"]) == (502, "upstream-broken")
        idle(running)


@pytest.mark.parametrize("path", [PATH, "/v1/other"])
def test_a_stream_that_is_cut_is_cut_for_the_client_too(path: str) -> None:
    came = threading.Event()
    said = events([{"choices": []}])[0]

    def script(_: Seen) -> Iterator[bytes]:
        yield start() + chunk(said)
        came.wait(PATIENCE)
        raise Hangup

    with proxied(script) as running:
        with running.connect() as connection:
            connection.sendall(request(PLAIN, path))
            seen = b""
            while said not in seen:
                piece = connection.recv(1_000)
                assert piece
                seen += piece
            came.set()
            while piece := connection.recv(1_000):
                seen += piece
            assert not seen.endswith(END)
        assert running.settled().error == "upstream-cut"
        idle(running)


def test_a_stream_that_falls_silent_ends() -> None:
    done = threading.Event()

    def script(_: Seen) -> Iterator[bytes]:
        yield start() + chunk(b"data: 1\n\n")
        done.wait(PATIENCE)

    with proxied(script, limits={"upstream_seconds": 4}) as running:  # the start of the answer has to be faster
        found = running.ask(PATH, PLAIN)
        done.set()
        assert (found.status, found.whole) == (200, False)
        assert running.settled().error == "upstream-silent"


@pytest.mark.parametrize("status", [400, 401, 413, 429, 500, 529])
def test_an_error_that_is_no_overflow_comes_back_as_it_is(status: int) -> None:
    said = {"error": {"message": "slow down", "type": "rate_limit"}}
    with proxied(lambda _: [answer(said, status, retry_after="7", x_request_id="r1")]) as running:
        found = running.ask(PATH, PLAIN)
        if status == 413:
            return  # a 413 does say that the body is too long: see test_overflow
        assert (found.status, found.json) == (status, said)
        assert (found.headers["retry-after"], found.headers["x-request-id"]) == ("7", "r1")
        assert len(running.upstream.seen) == 1


def test_redirects_go_to_the_client_and_are_not_followed() -> None:
    with proxied(lambda _: [answer(b"", 307, location="http://127.0.0.1:1/elsewhere")]) as running:
        found = running.ask(PATH, PLAIN)
        assert (found.status, found.headers["location"]) == (307, "http://127.0.0.1:1/elsewhere")
        assert len(running.upstream.seen) == 1


# --- the client


def test_a_client_that_leaves_ends_the_stream_at_the_upstream() -> None:
    def script(_: Seen) -> Iterator[bytes]:
        yield start()
        while True:
            yield chunk(b"data: {}\n\n" * 1_000)

    with proxied(script) as running:
        with running.connect() as connection:
            connection.sendall(request(PLAIN))
            assert connection.recv(10)
        assert running.upstream.left.wait(PATIENCE)
        assert (running.settled().status, running.settled().outcome) == (499, "gone")
        idle(running)


def test_a_client_that_leaves_before_the_answer_ends_the_request_at_the_upstream() -> None:
    asked, done = threading.Event(), threading.Event()

    def script(_: Seen) -> Iterator[bytes]:
        asked.set()
        done.wait(PATIENCE)
        while True:
            yield b"x" * 100_000

    with proxied(script) as running:
        with running.connect() as connection:
            connection.sendall(request(PLAIN))
            assert asked.wait(PATIENCE)
        assert running.settled().outcome == "gone"
        done.set()
        assert running.upstream.left.wait(PATIENCE)
        idle(running)


def test_a_client_that_leaves_with_a_second_request_in_line_ends_the_first_too() -> None:
    asked, done = threading.Event(), threading.Event()

    def script(_: Seen) -> Iterator[bytes]:
        asked.set()
        done.wait(PATIENCE)
        yield answer(CHAT)

    with proxied(script) as running:
        with running.connect() as connection:
            connection.sendall(request(PLAIN) * 2)
            assert asked.wait(PATIENCE)
        wait_until(lambda: running.proxy.active == 0)
        assert running.proxy.records.newest(9)[0].outcome == "gone"
        done.set()


def test_a_slow_client_holds_the_upstream_back() -> None:
    sent = 0

    def script(_: Seen) -> Iterator[bytes]:
        nonlocal sent
        yield start()
        while sent < 2_000:
            sent += 1
            yield chunk(b"x" * 65_536)
        yield END

    with proxied(script) as running, running.connect() as connection:
        connection.sendall(request(PLAIN))
        assert connection.recv(10)
        before = -1
        while sent != before:  # it stands still once all buffers on the way are full
            before = sent
            assert not threading.Event().wait(0.3)
        assert sent < 500
        rest, end = 0, b""
        while not end.endswith(b"\r\n" + END):
            piece = connection.recv(2**20)
            assert piece
            rest, end = rest + len(piece), (end + piece)[-len(END) - 2 :]
        assert rest > 2_000 * 65_536


@pytest.mark.parametrize("path", [PATH, "/v1/files"])
def test_half_a_body_reaches_nobody(path: str) -> None:
    with proxied() as running:
        with running.connect() as connection:
            connection.sendall(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{{".encode())
            connection.shutdown(socket.SHUT_WR)
            assert reply(connection).status == 0
        assert running.settled().outcome == "gone"
        assert all(len(seen.body) < 1000 for seen in running.upstream.seen)
        idle(running)


@pytest.mark.parametrize("path", [PATH, "/v1/files"])
def test_a_body_that_does_not_come_is_a_408(path: str) -> None:
    with proxied(limits={"read_seconds": SHORT}) as running:
        found = running.raw(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{{".encode())
        assert found.status == 408
        idle(running)


def test_headers_that_do_not_come_are_a_408_and_a_silent_connection_ends() -> None:
    with proxied(limits={"header_seconds": SHORT}) as running:
        assert running.raw(b"POST / HTTP/1.1\r\nhost: x\r\n").status == 408
        assert running.raw(b"").status == 408


@pytest.mark.parametrize(
    "head", [b"x-a: " + b"a" * 70_000 + b"\r\n", b"".join(b"x-%d: a\r\n" % i for i in range(9_000)), b"x" * 70_000]
)
def test_headers_beyond_the_limit_are_a_431(head: bytes) -> None:
    with proxied() as running:
        assert running.raw(b"POST /v1/x HTTP/1.1\r\nhost: x\r\n" + head + b"content-length: 0\r\n\r\n").status == 431
        assert running.upstream.seen == []


@pytest.mark.parametrize(
    "head",
    [
        b"content-length: 2\r\ntransfer-encoding: chunked\r\n",
        b"content-length: 2\r\ncontent-length: 3\r\n",
        b"content-length: -2\r\n",
        b"content-length: two\r\n",
        b"transfer-encoding: gzip\r\n",
    ],
)
def test_lengths_that_contradict_themselves_are_refused(head: bytes) -> None:
    with proxied() as running:
        found = running.raw(b"POST " + PATH.encode() + b" HTTP/1.1\r\nhost: x\r\n" + head + b"\r\n{}")
        assert found.status == 400
        assert running.upstream.seen == []


def test_more_body_than_was_announced_is_not_sent_on() -> None:
    with proxied() as running:
        body = json.dumps(PLAIN).encode()
        head = b"POST " + PATH.encode() + b" HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
        assert running.raw(head + body + b"GARBAGE MORE\r\n\r\n").status in (200, 400)
        idle(running)
        assert all(seen.body == body for seen in running.upstream.seen)


def test_a_body_beyond_the_limit_is_a_413_whether_it_says_so_or_not() -> None:
    with proxied(limits={"body": 1_000}) as running:
        assert running.ask(PATH, b"x" * 1_001).status == 413
        head = b"POST " + PATH.encode() + b" HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
        assert running.raw(head + b"3ea\r\n" + b"x" * 1_002 + b"\r\n0\r\n\r\n").status == 413
        messages = running.ask("/v1/messages", b"x" * 1_001)
        assert messages.json["error"]["type"] == "request_too_large"
        assert running.upstream.seen == []
        idle(running)


def test_a_gzip_bomb_is_a_413_before_it_is_large() -> None:
    bomb = gzip.compress(b"0" * 200_000_000, 9)
    assert len(bomb) < 300_000
    with proxied(limits={"body": 1_000_000}) as running:
        found = running.ask(PATH, bomb, content_encoding="gzip")
        assert found.status == 413
        assert running.upstream.seen == []
        idle(running)


@pytest.mark.parametrize(
    ("body", "encoding"), [(b"no gzip", "gzip"), (gzip.compress(b"{}", mtime=0)[:-9], "gzip"), (b"?", "zstd")]
)
def test_what_cannot_be_inflated_goes_on_as_it_came(body: bytes, encoding: str) -> None:
    with proxied() as running:
        found = running.ask(PATH, body, content_encoding=encoding)
        assert (found.status, running.upstream.seen[0].body) == (200, body)
        assert encoding in found.headers["x-legato-failed"]


def test_one_request_too_many_is_a_503_and_the_next_is_served() -> None:
    asked, done = threading.Event(), threading.Event()

    def script(_: Seen) -> Iterator[bytes]:
        asked.set()
        done.wait(PATIENCE)
        yield answer(CHAT)

    with proxied(script, limits={"concurrent": 1}) as running:
        with running.connect() as connection:
            connection.sendall(request(PLAIN))
            assert asked.wait(PATIENCE)
            found = running.ask(PATH, PLAIN)
            assert (found.status, found.headers["retry-after"]) == (503, "1")
            done.set()
            assert reply(connection).status == 200
        idle(running)
        assert running.ask(PATH, PLAIN).status == 200


def test_bodies_that_together_are_too_much_to_hold_are_a_503() -> None:
    with proxied(limits={"memory": 100}) as running:
        assert running.ask(PATH, b"x" * 200).status == 503
        idle(running)
        assert running.ask(PATH, b"x" * 50).status == 200


def request(body: Any, path: str = PATH) -> bytes:
    data = json.dumps(body).encode()
    return f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data
