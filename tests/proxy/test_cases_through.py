"""Every case of the case log, through the proxy to an upstream that enforces its provider's rule: it accepts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from case_log import FILES, Case, errors, load, spent
from legato import profiles
from loopback import Seen, answer, proxied
from providers import WALKERS

PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/{model}:generateContent",
}
OWN = {"openai-chat": "portable", "openai-responses": "openai-responses", "anthropic": "anthropic"}
"""Whose walker judges a case that is in another API's format than its provider's own."""
UNREPAIRABLE = {"023", "031"}
"""Nothing is left to send: the original goes on, and the provider's own error comes back."""
OTHER_MODELS = {"011", "043"}
"""Of models that do not think: their provider's walker wants reasoning back."""


def refusals(case: Case, body: Any) -> list[str]:
    """What the provider of a case refuses in a body: a walk that shares no code with legato, its rules, its window."""
    own = profiles.get(case.profile).format == case.format and case.number not in OTHER_MODELS
    found = WALKERS[case.profile if own else OWN[case.format]](body)
    if case.window is not None:
        items = next(body[key] for key in ("messages", "input", "contents") if key in body)
        asked = body.get("max_tokens", 0)
        if spent(items, body.get("tools")) + asked > case.window:
            found.append(f"maximum context length is {case.window} tokens")
    return found


def enforcing(case: Case) -> Any:
    def script(seen: Seen) -> list[bytes]:
        found = refusals(case, seen.json)
        if found:
            return [answer({"error": {"message": found[0], "type": "invalid_request_error"}}, 400)]
        return [answer({"id": "ok"})]

    return script


@pytest.fixture(params=sorted(FILES))
def case(request: pytest.FixtureRequest) -> Case:
    return load(request.param)


def test_the_upstream_accepts_every_case(case: Case) -> None:
    policy = {"reserve": 0, "fold": {}}
    path = PATHS[case.format].format(model=case.request.get("model", "gemini-3-pro"))
    fields = {"profile": case.profile, "window": case.window} if case.window else {"profile": case.profile}
    body = json.dumps(case.request).encode()
    with proxied(enforcing(case), policies={"exact": policy}, policy="exact", **fields) as running:
        reply = running.ask(path, body)
        seen = running.upstream.seen
        assert len(seen) == 1
        if case.number in UNREPAIRABLE:
            assert reply.headers["x-legato-failed"].startswith("Unrepairable")
            assert seen[0].body == body
            assert reply.status == (400 if refusals(case, case.request) else 200)
            return
        assert reply.status == 200, reply.body
        assert errors(case, seen[0].json) == []
        assert (seen[0].body == body) == (reply.headers["x-legato-changes"] == "none")


def test_most_cases_are_refused_without_the_proxy() -> None:
    refused = {number for number in FILES if refusals(load(number), load(number).request)}
    assert len(refused) >= 40
    assert "043" not in refused
