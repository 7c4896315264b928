"""Whatever is sent to a governed endpoint: it is served, and no fault of ours shows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopback import Running, proxied

PATHS = ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1beta/models/gemini-3-pro:generateContent"]
PROFILES = ["", "openai", "anthropic", "gemini", "glm", "mistral", "deepseek:deepseek-reasoner"]
WORDS = [
    "role",
    "user",
    "assistant",
    "tool",
    "system",
    "content",
    "text",
    "type",
    "tool_use",
    "tool_result",
    "id",
    "name",
]
KEYS = st.sampled_from(
    [*WORDS, "messages", "contents", "input", "parts", "tool_calls", "tools", "function", "arguments"]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(WORDS)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5))
MESSAGES = st.lists(st.dictionaries(KEYS, VALUES, max_size=5) | VALUES, max_size=5)
BODIES = st.fixed_dictionaries(
    {"model": VALUES | st.just("gpt-4o")},
    optional={"messages": MESSAGES, "contents": MESSAGES, "input": MESSAGES, "tools": VALUES, "max_tokens": VALUES},
)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with proxied(records=2) as found:
        yield found


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(body=BODIES | VALUES, path=st.sampled_from(PATHS), profile=st.sampled_from(PROFILES))
def test_any_json_is_served_governed_or_as_it_came(running: Running, body: Any, path: str, profile: str) -> None:
    data = json.dumps(body).encode()
    reply = running.ask(path, data, **({"x_legato_profile": profile} if profile else {}))
    seen = running.upstream.seen[-1]
    assert reply.status == 200
    if reply.headers.get("x-legato-changes", "none") == "none":
        assert seen.body == data
    assert not reply.headers.get("x-legato-failed", "").startswith("a fault"), reply.headers["x-legato-failed"]


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300), path=st.sampled_from(PATHS))
def test_any_bytes_go_on_as_they_came(running: Running, data: bytes, path: str) -> None:
    assert running.ask(path, data).status == 200
    assert running.upstream.seen[-1].body == data


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.text("/.%2eE5cabmv1:?#\\@ ", max_size=30))
def test_any_path_is_passed_on_below_the_upstream_or_refused(running: Running, path: str) -> None:
    before = len(running.upstream.seen)
    reply = running.raw(f"GET /{path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    if reply.status == 200:
        assert running.upstream.seen[-1].target.startswith("/")
        assert ".." not in running.upstream.seen[-1].target.partition("?")[0].split("/")
    else:
        assert reply.status in (400, 404)
        assert len(running.upstream.seen) == before
