"""What cannot be made to fit is refused with the numbers, under every policy: too much is never sent in silence."""

from __future__ import annotations

from typing import Any

import pytest

import legato
from legato import Policy

POLICIES = [Policy, Policy.cache_friendly]
HISTORIES: dict[str, list[Any]] = {
    "a question": [{"role": "user", "content": "q"}],
    "an answer": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
    "a session": [{"role": role, "content": f"{role} {at}"} for at in range(20) for role in ("user", "assistant")],
}


@pytest.mark.parametrize("make", POLICIES)
@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("profile", ["portable", "openai", "mistral", "anthropic"])
def test_a_system_prompt_larger_than_the_budget_is_refused(profile: str, history: str, make: Any) -> None:
    policy = make(window=600, max_output=8, reserve=4)
    messages = [{"role": "system", "content": "word " * 1_000}, *HISTORIES[history]]
    with pytest.raises(legato.OverBudget) as caught:
        legato.govern(messages, profile=profile, policy=policy)
    assert caught.value.needed > caught.value.budget
    with pytest.raises(legato.OverBudget):
        legato.Session(profile, policy).prepare(messages)
