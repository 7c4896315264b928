"""Media that a provider does not take in a result are shown in a user message, which is not what the user asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import legato
from legato import Policy

TASK = "Find the button that logs me out."
PIXEL = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
POLICIES: dict[str, Callable[..., Policy]] = {"document": Policy, "cache-friendly": Policy.cache_friendly}
PROFILES = ("openai", "mistral", "bedrock:qwen.qwen3")


def screenshots(count: int) -> list[Any]:
    """A task, and so many screenshots as results."""
    image = {"type": "image_url", "image_url": {"url": PIXEL}}
    messages: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": TASK}]
    for at in range(count):
        function = {"name": "screenshot", "arguments": "{}"}
        call = {"id": f"c{at:08}", "type": "function", "function": function}
        text = {"type": "text", "text": f"shot {at} " * 60}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": [text, image]})
    return messages


def governed(messages: list[Any], profile: str, policy: Policy) -> legato.Governed:
    if profile.startswith("bedrock"):
        return legato.govern(messages, format="openai-chat", to="bedrock", profile=profile, policy=policy)
    return legato.govern(messages, profile=profile, policy=policy)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("policy", POLICIES)
def test_screenshots_in_results_do_not_push_the_task_out(policy: str, profile: str) -> None:
    made = POLICIES[policy](window=2_500, max_output=8, reserve=4)
    sent = governed(screenshots(20), profile, made)
    assert sent.report.budget is not None
    assert sent.report.tokens_out <= sent.report.budget < sent.report.tokens_in
    assert TASK in str(sent.messages)
    assert PIXEL.partition(",")[2] in str(sent.messages)
    assert not [found for found in legato.check(sent.body, profile) if found.severity == "error"]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("policy", POLICIES)
def test_what_the_user_asks_among_screenshots_stays(policy: str, profile: str) -> None:
    messages = screenshots(20)
    messages.insert(20, {"role": "user", "content": "The blue one."})
    made = POLICIES[policy](window=2_500, max_output=8, reserve=4)
    assert "The blue one." in str(governed(messages, profile, made).messages)


def test_an_image_is_dropped_with_the_result_it_was_moved_out_of() -> None:
    sent = governed(screenshots(20), "openai", Policy(window=1_500, max_output=8, reserve=4)).messages
    kept = [message for message in sent if message["role"] == "tool"]
    assert 0 < len(kept) < 20
    assert str(sent).count(PIXEL) == len(kept)


def test_an_image_that_the_user_sends_is_what_he_asks() -> None:
    image = {"type": "image_url", "image_url": {"url": PIXEL}}
    messages = screenshots(20)
    messages.insert(20, {"role": "user", "content": [image]})
    sent = governed(messages, "openai", Policy(window=1_500, max_output=8, reserve=4)).messages
    assert messages[20] in sent
