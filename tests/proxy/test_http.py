"""What HTTP clients of all kinds do: old ones, careful ones, and those that offer to speak something newer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopback import CHAT, END, Seen, answer, chunk, proxied, replies, reply

PATH = "/v1/chat/completions"
USER = {"role": "user", "content": "hi"}
ORPHAN = {"role": "tool", "tool_call_id": "x", "content": "?"}
PLAIN = {"model": "gpt-4o", "messages": [USER]}
BROKEN = {"model": "gpt-4o", "messages": [USER, ORPHAN]}
H2C = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAEAAEAAAAIAAAAB\r\n"
"""What the client of Java's own library offers with its first request on a connection."""
WEBSOCKET = b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: eA==\r\nsec-websocket-version: 13\r\n"


def post(body: Any, more: bytes = b"", chunked: bool = False, path: str = PATH) -> bytes:
    data = json.dumps(body).encode()
    framing = b"transfer-encoding: chunked\r\n" if chunked else b"content-length: %d\r\n" % len(data)
    head = b"POST %s HTTP/1.1\r\nhost: x\r\n%s%s\r\n" % (path.encode(), more, framing)
    return head + (chunk(data[:9]) + chunk(data[9:]) + END if chunked else data)


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("offer", [H2C, WEBSOCKET])
def test_an_offer_to_speak_something_else_is_not_taken_up_and_the_request_is_served(
    offer: bytes, chunked: bool
) -> None:
    with proxied(profile="openai") as running:
        with running.connect() as connection:
            for more in (offer, b"", offer):
                connection.sendall(post(BROKEN, more, chunked))
                found = reply(connection)
                assert (found.json, found.headers["x-legato-changes"]) == (CHAT, "PAIR001=1")
        assert [seen.json for seen in running.upstream.seen] == [PLAIN] * 3
        for seen in running.upstream.seen:
            assert seen.header("upgrade") is seen.header("http2-settings") is seen.header("connection") is None


def test_an_offer_is_not_taken_up_wherever_the_network_cuts_the_request() -> None:
    whole = post(BROKEN, H2C) + post(BROKEN)
    with proxied(profile="openai") as running, running.connect() as connection:
        for place in range(1, len(whole), 7):
            connection.sendall(whole[:place])
            connection.sendall(whole[place:])
            assert [found.json for found in replies(connection, 2)] == [CHAT] * 2
        assert all(seen.json == PLAIN for seen in running.upstream.seen)


def test_many_offers_at_once_are_answered_in_turn() -> None:
    with proxied() as running, running.connect() as connection:
        connection.sendall(b"GET /v1/models HTTP/1.1\r\nhost: x\r\n%s\r\n" % H2C * 200)
        assert [found.json for found in replies(connection, 200)] == [CHAT] * 200


def test_a_body_is_asked_for_where_the_client_waits_for_that() -> None:
    body = json.dumps(BROKEN).encode()
    head = b"POST %s HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: %d\r\n\r\n"
    with proxied(profile="openai") as running, running.connect() as connection:
        connection.sendall(head % (PATH.encode(), len(body)))
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert reply(connection).headers["x-legato-changes"] == "PAIR001=1"
        assert running.upstream.seen[0].header("expect") is None


def test_a_body_that_is_too_large_is_not_asked_for() -> None:
    head = b"POST %s HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 5000\r\n\r\n"
    with proxied(limits={"body": 1_000}) as running:
        assert running.raw(head % PATH.encode()).status == 413


def test_a_client_of_http_1_0_is_served_and_its_connection_closed() -> None:
    for body in (PLAIN, {**PLAIN, "stream": True}):
        with proxied() as running, running.connect() as connection:
            connection.sendall(post(body).replace(b"HTTP/1.1", b"HTTP/1.0"))
            found = reply(connection)
            assert (found.status, found.json, found.headers["connection"]) == (200, CHAT, "close")
            assert connection.recv(1) == b""


@pytest.mark.parametrize("path", [PATH, "/v1/models"])
def test_a_head_is_answered_without_a_body(path: str) -> None:
    def script(seen: Seen) -> list[bytes]:
        return [answer(CHAT).split(b"\r\n\r\n")[0] + b"\r\n\r\n" if seen.line.startswith("HEAD") else answer(CHAT)]

    with proxied(script) as running, running.connect() as connection:
        connection.sendall(b"HEAD %s HTTP/1.1\r\nhost: x\r\n\r\n" % path.encode() + post(PLAIN))
        with connection.makefile("rb") as reading:
            assert reading.readline().split()[1] == b"200"
            named = list(iter(reading.readline, b"\r\n"))
            assert b"content-length: %d\r\n" % len(json.dumps(CHAT)) in named
            assert reading.readline().split()[1] == b"200"


def test_a_browser_s_question_before_a_request_is_the_upstream_s_to_answer() -> None:
    said = {"access_control_allow_origin": "https://page", "access_control_allow_headers": "authorization"}
    with proxied(lambda _: [answer(b"", 204, **said)]) as running:
        asked = {"origin": "https://page", "access_control_request_method": "POST"}
        found = running.ask(PATH, method="OPTIONS", **asked)
        assert (found.status, found.headers["access-control-allow-origin"]) == (204, "https://page")
        seen = running.upstream.seen[0]
        assert (seen.line, seen.header("origin")) == (f"OPTIONS {PATH} HTTP/1.1", "https://page")


@pytest.mark.parametrize(
    "path", [f"{PATH}/", f"{PATH}//", "/v1//chat/completions", "/chat/completions/", "/v1/messages/", "/v1/responses/"]
)
def test_slashes_too_many_change_nothing_about_what_is_governed(path: str) -> None:
    key = "input" if "responses" in path else "messages"
    with proxied() as running:
        found = running.ask(path, {"model": "m", "max_tokens": 9, key: [USER]})
        assert found.headers["x-legato-changes"] == "none"
        assert running.upstream.seen[0].target == path
