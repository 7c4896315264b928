"""Where a request goes, and under which path."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from legato.errors import PolicyError, UnknownProfile
from legato.proxy import routes
from legato.proxy.config import Upstream, load, made, profile_of
from loopback import CHAT, Seen, answer, events, proxied, says

PLAIN = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize(
    ("url", "path", "expected"),
    [
        ("https://h", "/v1/models", "https://h/v1/models"),
        ("https://h/", "/v1/models", "https://h/v1/models"),
        ("https://h/v1", "/v1/models", "https://h/v1/models"),
        ("https://h/v1", "/models", "https://h/v1/models"),
        ("https://h/openai/v1", "/v1/models", "https://h/openai/v1/models"),
        ("https://h/openai/v1", "/openai/v1/models", "https://h/openai/v1/models"),
        ("https://h/api", "/v1/a%2Fb/", "https://h/api/v1/a%2Fb/"),
        ("https://h:1/a", "/", "https://h:1/a/"),
        ("https://h", "/", "https://h/"),
        ("https://h/v1", "/v11/x", "https://h/v1/v11/x"),
    ],
)
def test_a_path_is_put_under_the_upstream_s_and_repeats_nothing(url: str, path: str, expected: str) -> None:
    assert routes.target(Upstream(url=url), path, b"") == expected
    assert routes.target(Upstream(url=url), path, b"a=b&c=%2F") == f"{expected}?a=b&c=%2F"


@pytest.mark.parametrize(
    ("path", "name", "model"),
    [
        ("/v1/chat/completions", "chat", ""),
        ("/chat/completions", "chat", ""),
        ("/api/paas/v4/chat/completions", "chat", ""),
        ("/openai/deployments/my-gpt/chat/completions", "chat", "my-gpt"),
        ("/v1/responses", "responses", ""),
        ("/v1/messages", "messages", ""),
        ("/anthropic/v1/messages", "messages", ""),
        ("/v1/messages/count_tokens", "count_tokens", ""),
        ("/v1beta/models/gemini-2.5-pro:generateContent", "generateContent", "gemini-2.5-pro"),
        ("/v1/projects/p/models/gemini-3-pro%3AstreamGenerateContent", "generateContent", "gemini-3-pro"),
        ("/model/us.anthropic.claude-x%3A0/converse", "converse", "us.anthropic.claude-x:0"),
        ("/model/amazon.nova/converse-stream", "converse-stream", "amazon.nova"),
    ],
)
def test_the_endpoints_that_are_governed(path: str, name: str, model: str) -> None:
    found = routes.api_of("POST", path, b"Bearer k")
    assert found is not None
    assert (found[0].name, found[1]) == (name, model)
    assert routes.api_of("GET", path, b"") is None
    assert routes.api_of("POST", path, b"AWS4-HMAC-SHA256 Credential=...") is None


def test_upstreams_are_chosen_by_path_then_by_model_then_the_general_one() -> None:
    by_path = Upstream(url="http://a", path="/openai")
    claude = Upstream(url="http://b", models=("claude-*", "anthropic/*"))
    general = Upstream(url="http://c")
    every = (general, claude, by_path)
    assert routes.choose(every, "/openai/v1/x", "claude-3") == (by_path, "/v1/x")
    assert routes.choose(every, "/openai", "") == (by_path, "/")
    assert routes.choose(every, "/openaix/v1", "") == (general, "/openaix/v1")
    assert routes.choose(every, "/v1/x", "Claude-3") == (claude, "/v1/x")
    assert routes.choose(every, "/v1/x", "gpt") == (general, "/v1/x")
    assert routes.choose((claude, by_path), "/v1/x", "gpt") is None


def test_several_upstreams_behind_one_address() -> None:
    def script(seen: Seen) -> list[bytes]:
        return [answer({"target": seen.target, "host": seen.header("host")})]

    stated = [
        {"url": "UPSTREAM/chat/v1", "name": "one", "path": "/one", "profile": "openai"},
        {"url": "UPSTREAM/claude", "name": "two", "models": ["claude-*"], "profile": "anthropic"},
    ]
    with proxied(script, upstreams=stated) as running:
        assert running.ask("/one/v1/chat/completions", PLAIN).json["target"] == "/chat/v1/chat/completions"
        assert running.settled().profile == "openai"
        claude = {**PLAIN, "model": "claude-sonnet-4-5", "max_tokens": 9}
        assert running.ask("/v1/messages", claude).json["target"] == "/claude/v1/messages"
        assert (running.settled().upstream, running.settled().profile) == ("two", "anthropic")
        lost = running.ask("/v1/messages", PLAIN)
        assert (lost.status, lost.headers["x-legato-error"]) == (404, "no-upstream")
        assert running.ask("/elsewhere", method="GET").status == 404


def test_profile_and_policy_can_be_named_by_a_request() -> None:
    two = {**PLAIN, "messages": [{"role": "user", "content": text} for text in ("a", "b")]}
    with proxied(
        profile="openai", policies={"tiny": {"window": 60, "max_output": 0, "reserve": 0, "fold": {}}}
    ) as running:
        path = "/v1/chat/completions"
        assert running.ask(path, two).headers["x-legato-changes"] == "none"
        assert running.ask(path, two, x_legato_profile="glm").headers["x-legato-changes"].startswith("ROLE003=")
        assert (
            running.ask(path, two, x_legato_profile="glm", x_legato_policy="off").headers.get("x-legato-changes")
            is None
        )
        long = {**PLAIN, "messages": [{"role": "user", "content": "word " * n} for n in (90, 80, 5)]}
        cut = running.ask(path, long, x_legato_policy="tiny")
        assert int(cut.headers["x-legato-tokens-out"]) <= 60 < int(cut.headers["x-legato-tokens-in"])
        unknown = running.ask(path, two, x_legato_profile="nobody")
        assert unknown.headers["x-legato-failed"].startswith("UnknownProfile")
        assert running.upstream.seen[-1].json == two


@pytest.mark.parametrize(
    ("url", "profile"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://my.openai.azure.com", "azure"),
        ("https://us-east5-aiplatform.googleapis.com", None),
        ("https://aiplatform.googleapis.com", "gemini"),
        ("https://notapi.openai.com.example", None),
        ("http://127.0.0.1:8080", None),
    ],
)
def test_the_profile_is_told_by_the_host(url: str, profile: str | None) -> None:
    assert profile_of(Upstream(url=url)) == profile
    assert profile_of(Upstream(url=url, profile="glm")) == "glm"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no upstream|missing required field"),
        ("upstream = []", "no upstream"),
        ('[[upstream]]\nurl = "ftp://x"', "no http or https URL"),
        ('[[upstream]]\nurl = "http://k:s@x"', "without query, fragment and credentials"),
        ('[[upstream]]\nurl = "http://x"\npath = "v1"', "start with a slash"),
        ('[[upstream]]\nurl = "http://x"\n[[upstream]]\nurl = "http://x"', "names that differ"),
        ('[[upstream]]\nurl = "http://x"\npolicy = "none"', "no policy 'none'"),
        ('policy = "p"\n[[upstream]]\nurl = "http://x"\n[policies.p]\nwindow = "big"', "policy p"),
        ('[[upstream]]\nurl = "http://x"\nwindow = 10', "leaves nothing"),
        ('[[upstream]]\nurl = "http://x"\ncolour = "red"', "colour"),
        ("[[upstream", "legato.toml"),
    ],
)
def test_a_file_that_cannot_work_is_refused_with_its_name(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "legato.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(PolicyError, match=said) as failure:
        load(file)
    assert str(file) in str(failure.value)


def test_an_unknown_profile_is_refused_before_anything_is_served() -> None:
    with pytest.raises(UnknownProfile):
        made({"upstream": [{"url": "http://x", "profile": "nobody"}]})


def test_bedrock_is_governed_where_its_body_is_not_signed() -> None:
    def script(_: Seen) -> list[bytes]:
        return [answer({"output": {}, "usage": {"inputTokens": 5, "outputTokens": 1, "totalTokens": 6}})]

    asked = {"messages": [{"role": "user", "content": [{"text": "a"}]}, {"role": "user", "content": [{"text": "b"}]}]}
    path = "/model/amazon.nova-pro/converse"
    with proxied(script, profile="bedrock") as running:
        assert running.ask(path, asked, authorization="Bearer key").headers["x-legato-changes"].startswith("ROLE003=")
        assert running.settled().reported == 5
        running.ask(path, asked, authorization="AWS4-HMAC-SHA256 Credential=x")
        assert running.upstream.seen[-1].json == asked


def test_an_event_stream_and_its_usage_pass_for_every_content_type_spelling() -> None:
    data = b"".join(events([CHAT], done=True))
    with proxied(says(data, content_type="Text/Event-Stream; charset=utf-8")) as running:
        assert running.ask("/v1/chat/completions", json.dumps(PLAIN).encode()).body == data
        assert running.settled().reported == 12
