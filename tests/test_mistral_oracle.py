"""An oracle nobody here wrote: mistral-common's validators, in serving mode, take everything governed for Mistral."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mistral_common.exceptions import MistralCommonException
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.protocol.instruct.validator import ValidationMode, get_validator
from mistral_common.tokens.tokenizers.base import TokenizerVersion

import legato
from accidents import History, Wire
from histories import clean_histories, histories
from recorded import jsonl
from walker import PRESETS, faults

NEWEST = ("v7", "v11", "v13", "v15")


def refusal(messages: History, version: str) -> str | None:
    """Why the validator of that tokenizer version would not serve the list, or None."""
    validator = get_validator(TokenizerVersion(version), ValidationMode.serving)
    prefix = bool(messages and messages[-1]["role"] == "assistant" and messages[-1].get("prefix"))
    try:
        request = ChatCompletionRequest.from_openai(messages=messages, continue_final_message=prefix, model="any")
        validator.validate_request(request)
    except (MistralCommonException, ValueError, KeyError, TypeError) as error:
        return f"{version}: {type(error).__name__}: {error}"
    return None


def refusals(messages: History, versions: tuple[str, ...] = NEWEST) -> list[str]:
    return [found for version in versions if (found := refusal(messages, version))]


def policy(budget: int | None) -> legato.Policy:
    return legato.Policy() if budget is None else legato.Policy(window=budget + 12, max_output=8, reserve=4)


def recorded(name: str, most: int) -> list[History]:
    """The first conversations of a recorded file."""
    return [line["messages"] for line in islice(jsonl(f"{name}.jsonl"), most)]


# -- the oracle itself -------------------------------------------------------------------------------------------------

USER: Wire = {"role": "user", "content": "weather?"}
RESULT: Wire = {"role": "tool", "tool_call_id": "abcDEF123", "content": "4 C"}


def _turn(*ids: str, **changes: Any) -> Wire:
    calls = [{"id": i, "type": "function", "function": {"name": "weather", "arguments": "{}"} | changes} for i in ids]
    return {"role": "assistant", "content": "", "tool_calls": calls}


TURN = _turn("abcDEF123")
DAMAGED: dict[str, History] = {
    "nothing": [],
    "a call without a result": [USER, TURN, USER],
    "a call without a result at the end": [USER, TURN],
    "one of two results": [USER, _turn("abcDEF123", "abcDEF124"), RESULT],
    "an orphan result": [USER, RESULT],
    "a result twice": [USER, TURN, RESULT, RESULT],
    "two calls of one id": [USER, _turn("abcDEF123", "abcDEF123"), RESULT, RESULT],
    "a user between call and result": [USER, TURN, USER, RESULT],
    "ends with assistant": [USER, {"role": "assistant", "content": "4 C"}],
    "a system after assistant": [USER, {"role": "assistant", "content": "x"}, {"role": "system", "content": "y"}, USER],
    "a call at the very start": [TURN, RESULT],
    "a name with a dot": [USER, _turn("abcDEF123", name="get.weather"), RESULT],
    "a user without content": [{"role": "user", "content": None}],
    "an image in a system message": [{"role": "system", "content": [{"type": "image_url", "image_url": "x"}]}, USER],
}


@pytest.mark.parametrize("messages", DAMAGED.values(), ids=DAMAGED)
def test_the_oracle_and_the_walker_refuse_known_damage(messages: History) -> None:
    assert refusal(messages, "v11")
    assert faults(messages, **PRESETS["mistral"])


@given(clean_histories())
def test_the_oracle_and_the_walker_take_a_clean_history(messages: History) -> None:
    assert refusals(messages) == []
    assert [found for preset in PRESETS for found in faults(messages, **PRESETS[preset])] == []


@given(histories())
def test_what_the_walker_takes_the_oracle_takes(messages: History) -> None:
    if not faults(messages, **PRESETS["mistral"]):
        assert refusals(messages) == []


# -- what is governed --------------------------------------------------------------------------------------------------


@given(histories(), st.one_of(st.none(), st.integers(100, 4_000)))
def test_damaged_histories_governed_for_mistral_are_served(messages: History, budget: int | None) -> None:
    try:
        governed = legato.govern(messages, profile="mistral", policy=policy(budget))
    except (legato.OverBudget, legato.Unrepairable):
        return
    assert refusals(governed.messages) == []


@given(histories(), st.one_of(st.none(), st.integers(100, 4_000)))
def test_damaged_histories_governed_for_the_v3_tokenizer_are_served(messages: History, budget: int | None) -> None:
    try:
        governed = legato.govern(messages, profile="mistral:v3", policy=policy(budget))
    except (legato.OverBudget, legato.Unrepairable):
        return
    assert refusals(governed.messages, ("v3",)) == []


@pytest.mark.parametrize("budget", [None, 2_500])
@pytest.mark.parametrize("name", ["tau-bench/gpt-4o-airline", "mini-swe-agent/trajectories", "mistral-common/samples"])
def test_recorded_conversations_governed_for_mistral_are_served(name: str, budget: int | None) -> None:
    for messages in recorded(name, most=50):
        governed = legato.govern(messages, profile="mistral", policy=policy(budget))
        assert refusals(governed.messages) == []
        assert faults(governed.messages, **PRESETS["mistral"]) == []
