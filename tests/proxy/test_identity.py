"""A request that needs nothing arrives at the upstream as the very bytes that came in."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from loopback import Running, proxied

HEADERS = {
    "user-agent": "agent/1",
    "authorization": "Bearer sk-secret",
    "x-second": "b",
    "content-type": "application/json",
    "accept": "application/json",
    "x-first": "a",
    "accept-encoding": "gzip, br",
}
CHAT = "/v1/chat/completions"
PLAIN = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}


def post(running: Running, path: str, body: bytes, **more: str) -> Any:
    reply = running.ask(path, body, **{**{key.replace("-", "_"): value for key, value in HEADERS.items()}, **more})
    assert reply.status == 200, reply.body
    return reply


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"nothing", b'{"messages": 3}', b"\xff\xfe"])
def test_what_is_no_request_at_all_passes_as_it_came_with_a_header_that_says_why(body: bytes) -> None:
    with proxied(profile="openai") as running:
        reply = post(running, CHAT, body)
        assert running.upstream.seen[0].body == body
        assert reply.headers["x-legato-failed"]
        assert "x-legato-changes" not in reply.headers


def test_headers_keep_their_order_and_values_and_ours_are_not_passed_on() -> None:
    with proxied(profile="openai") as running:
        post(running, CHAT, json.dumps(PLAIN).encode(), x_legato_profile="openai", x_legato_token="t", te="trailers")
        seen = running.upstream.seen[0]
        names = [name.lower() for name, _ in seen.headers]
        assert seen.headers[0] == ("Host", running.proxy.config.upstream[0].url.removeprefix("http://"))
        kept = [(name.lower(), value) for name, value in seen.headers if name.lower() in HEADERS]
        assert kept == list(HEADERS.items())
        assert set(names) == {"host", "content-length", *HEADERS}


@pytest.mark.parametrize("text", ["\n{ }", '{"b":1,\t"a":"\\u00e9","a":2,"n":1e400,"m":1.0}', '"\\ud800"'])
def test_spelling_of_the_json_is_kept(text: str) -> None:
    body = f'{{"messages" : [ {{"role":"user","content":"hi \\u00fc"}} ],  "x": {text} }}'.encode()
    with proxied(profile="openai") as running:
        reply = post(running, CHAT, body)
        assert running.upstream.seen[0].body == body
        assert "x-legato-failed" not in reply.headers


def test_a_compressed_body_that_needs_nothing_stays_compressed() -> None:
    body = gzip.compress(json.dumps(PLAIN).encode(), 9)
    with proxied(profile="openai") as running:
        reply = post(running, CHAT, body, content_encoding="gzip")
        assert running.upstream.seen[0].body == body
        assert running.upstream.seen[0].header("content-encoding") == "gzip"
        assert reply.headers["x-legato-changes"] == "none"


def test_a_compressed_body_that_is_changed_is_sent_plain() -> None:
    broken = {**PLAIN, "messages": [{"role": "tool", "tool_call_id": "x", "content": "?"}, *PLAIN["messages"]]}
    body = gzip.compress(json.dumps(broken).encode())
    with proxied(profile="openai") as running:
        reply = post(running, CHAT, body, content_encoding="gzip")
        seen = running.upstream.seen[0]
        assert seen.json == PLAIN
        assert seen.header("content-encoding") is None
        assert seen.header("content-length") == str(len(seen.body))
        assert reply.headers["x-legato-changes"] == "PAIR001=1"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models?limit=2&after=a%2Fb"),
        ("POST", "/v1/embeddings"),
        ("POST", "/v1/responses/resp_1/cancel"),
        ("POST", "/v1/threads/thread_1/messages"),
        ("POST", "/model/anthropic.claude/converse"),
        ("DELETE", "/v1/files/f%201"),
        ("PUT", "/v1/messages"),
        ("PATCH", "/any%2Fthing;x=1/"),
        ("POST", f"/v1/{'long/' * 1_000}?{'q=1&' * 1_000}"),
    ],
)
def test_everything_else_passes_through(method: str, path: str) -> None:
    body = b"" if method == "GET" else b'{"messages": [{"role": "tool"}]}'
    with proxied(profile="openai") as running:
        reply = running.ask(path, body, method, authorization="AWS4-HMAC-SHA256 Credential=x, Signature=y")
        seen = running.upstream.seen[0]
        assert (reply.status, seen.line, seen.body) == (200, f"{method} {path} HTTP/1.1", body)
        assert not any(name.startswith("x-legato") for name in reply.headers)


def test_a_body_in_chunks_passes_through_in_chunks() -> None:
    with proxied() as running:
        head = b"POST /v1/audio HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
        reply = running.raw(head + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
        assert (reply.status, running.upstream.seen[0].body) == (200, b"abcde")
