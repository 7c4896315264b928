"""An upstream that finds a request too long gets exactly one smaller one; if that fails, the first error comes back."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest

from loopback import CHAT, Seen, answer, proxied

PATH = "/v1/chat/completions"


def history(turns: int, words: int = 60) -> Any:
    messages: list[Any] = [{"role": "system", "content": "Be brief."}]
    for turn in range(turns):
        messages.append({"role": "user", "content": f"question {turn} " + f"word{turn} " * words})
        messages.append({"role": "assistant", "content": f"answer {turn} " + f"said{turn} " * words})
    return {"model": "some-model", "messages": [*messages, {"role": "user", "content": "and now?"}]}


def size(seen: Seen) -> int:
    """Tokens as this upstream counts: words."""
    return sum(2 * len(str(message["content"]).split()) for message in seen.json["messages"])


def refusing(limit: int, said: Callable[[int], Any], status: int = 400, **headers: str) -> Any:
    """An upstream with a window, and what it says of too long a request."""

    def script(seen: Seen) -> list[bytes]:
        used = size(seen)
        return [answer(said(used), status, **headers) if used > limit else answer(CHAT)]

    return script


def openai_error(limit: int) -> Callable[[int], Any]:
    return lambda used: {
        "error": {
            "message": f"This model's maximum context length is {limit} tokens. However, your messages resulted in "
            f"{used} tokens. Please reduce the length of the messages.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }
    }


@pytest.mark.parametrize("profile", ["portable", "vllm", "openai:gpt-4o"])
def test_an_error_with_numbers_leads_to_a_request_that_fits(profile: str) -> None:
    body = history(20)
    with proxied(refusing(3_000, openai_error(3_000)), profile=profile) as running:
        found = running.ask(PATH, body)
        assert (found.status, found.json) == (200, CHAT)
        assert found.headers["x-legato-retried"] == "1"
        first, second = running.upstream.seen
        assert first.json == body
        assert size(second) <= 3_000
        assert second.json["messages"][0] == body["messages"][0]
        assert second.json["messages"][-1] == body["messages"][-1]
        record = running.settled()
        assert (record.retried, record.outcome, record.status) == (True, "governed", 200)
        assert record.tokens_out < record.tokens_in


def test_what_a_refusal_taught_holds_for_the_next_request() -> None:
    with proxied(refusing(3_000, openai_error(3_000))) as running:
        assert running.ask(PATH, history(20)).status == 200
        again = running.ask(PATH, history(21))
        assert again.status == 200
        assert "x-legato-retried" not in again.headers
        assert len(running.upstream.seen) == 3
        other = running.ask(PATH, {**history(20), "model": "another"})
        assert other.headers["x-legato-retried"] == "1"


def test_without_numbers_the_retry_aims_at_three_quarters_and_teaches_nothing_lasting() -> None:
    said = {"error": {"message": "prompt is too long", "type": "invalid_request_error"}}
    with proxied(refusing(4_000, lambda _: said)) as running:
        found = running.ask(PATH, history(20))
        assert found.status == 200
        first, second = running.upstream.seen
        assert 0.4 < size(second) / size(first) <= 0.78
        short = running.ask(PATH, history(10))
        assert short.headers["x-legato-changes"] == "none"


@pytest.mark.parametrize("compressed", [False, True])
def test_if_the_smaller_one_fails_too_the_first_error_comes_back_as_it_was(compressed: bool) -> None:
    said = json.dumps(openai_error(3_000)(9_999), indent=3).encode()
    body = gzip.compress(said) if compressed else said
    named = {"content_encoding": "gzip"} if compressed else {}
    numbers = iter(range(9))
    with proxied(lambda _: [answer(body, 400, x_request_id=f"r{next(numbers)}", **named)]) as running:
        found = running.ask(PATH, history(20))
        assert (found.status, found.body, found.headers["x-request-id"]) == (400, body, "r0")
        assert len(running.upstream.seen) == 2
        assert running.settled().retried


def test_what_cannot_be_made_smaller_is_not_tried_again() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    with proxied(refusing(0, openai_error(0))) as running:
        assert running.ask(PATH, body).status == 400
        assert len(running.upstream.seen) == 1


def test_too_much_output_asked_for_is_cured_by_asking_for_less() -> None:
    def script(seen: Seen) -> list[bytes]:
        asked = seen.json["max_tokens"]
        if 5_000 + asked <= 8_192:
            return [answer(CHAT)]
        said = (
            f"This model's maximum context length is 8192 tokens. However, you requested {5_000 + asked} tokens "
            f"(5000 in the messages, {asked} in the completion). Please reduce the length of the messages."
        )
        return [answer({"error": {"message": said, "type": "invalid_request_error"}}, 400)]

    body = {**history(20), "max_tokens": 6_000}
    with proxied(script) as running:
        found = running.ask(PATH, body)
        assert found.status == 200
        assert running.upstream.seen[1].json == {**body, "max_tokens": 3_192}


def test_a_body_that_is_too_large_in_bytes_is_made_smaller() -> None:
    def script(seen: Seen) -> list[bytes]:
        return [answer({"error": "request entity too large"}, 413) if len(seen.body) > 15_000 else answer(CHAT)]

    with proxied(script) as running:
        assert running.ask(PATH, history(20)).status == 200
        assert [len(seen.body) > 15_000 for seen in running.upstream.seen] == [True, False]


def test_a_request_that_is_not_governed_is_never_tried_again() -> None:
    with proxied(refusing(3_000, openai_error(3_000)), policy="off") as running:
        assert running.ask(PATH, history(20)).status == 400
    with proxied(refusing(3_000, openai_error(3_000))) as running:
        assert running.ask(PATH, history(20), x_legato_profile="nobody").status == 400
        assert len(running.upstream.seen) == 1


def test_usage_corrects_the_next_count() -> None:
    usage = {"prompt_tokens": 24_000, "completion_tokens": 1, "total_tokens": 24_001}
    body = history(60)
    with proxied(lambda _: [answer({**CHAT, "usage": usage})], profile="openai", calibrate=True) as running:
        first = int(running.ask(PATH, body).headers["x-legato-tokens-in"])
        second = int(running.ask(PATH, body).headers["x-legato-tokens-in"])
        assert first < 16_000
        assert second > first * 1.3
    with proxied(lambda _: [answer({**CHAT, "usage": usage})], profile="openai", calibrate=False) as running:
        counts = {running.ask(PATH, body).headers["x-legato-tokens-in"] for _ in range(2)}
        assert counts == {str(first)}


def test_what_the_provider_adds_itself_teaches_nothing() -> None:
    usage = {"input_tokens": 90_000, "output_tokens": 1}
    asked = {"model": "gpt-5", "input": [{"role": "user", "content": "word " * 2_000}]}
    with proxied(lambda _: [answer({"id": "resp_2", "usage": usage})], profile="openai-responses") as running:
        before = running.ask("/v1/responses", {**asked, "previous_response_id": "resp_1"})
        after = running.ask("/v1/responses", asked)
        assert before.headers["x-legato-tokens-in"] == after.headers["x-legato-tokens-in"]
        assert running.settled().reported == 90_000
