"""Governance runs before every request of the runner, whatever the request is for."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest

from legato import GovernanceError, Policy, WireError
from legato.agent.provider import ProviderError
from legato.agent.providers.scripted import Line, Scripted, says
from legato.agent.result import Result
from legato.agent.runner import AgentRunner
from stage import FORMATS, KEYS, Log, faults, prose, reader, reading, rounds, texts

DOCUMENT = Policy(window=8_192, max_output=1_024)
FRIENDLY = Policy.cache_friendly(window=8_192, max_output=1_024)
BUDGET = 8_192 - 1_024 - 1_024


def play(provider: Scripted, log: Log, task: str = "Read all of it.", **options: Any) -> Result:
    fields: dict[str, Any] = {"tools": [reader(lambda _: 3_000)], "policy": DOCUMENT, "max_iterations": 999, **options}
    with AgentRunner(provider=provider, hooks=[log], **fields) as runner:
        return asyncio.run(runner.run(task))


def judged(provider: Scripted, log: Log, result: Result) -> None:
    """Every body that left is one that was governed: legal, within budget, with the task in it."""
    assert len(provider.bodies) == len(log.requests) == len(result.reports)
    for sent, event, report in zip(provider.bodies, log.requests, result.reports, strict=True):
        assert sent is event.body
        assert report.budget is not None
        assert report.tokens_out <= report.budget <= BUDGET
        assert faults(sent, provider.format) == []
        assert "Read all of it." in json.dumps(sent)


@pytest.mark.parametrize(
    ("policy", "iterations"), [(DOCUMENT, 300), (FRIENDLY, 80)], ids=["document", "cache-friendly"]
)
@pytest.mark.parametrize("form", FORMATS)
def test_each_request_of_a_long_tool_loop_is_governed_legal_and_within_a_small_window(
    form: str, policy: Policy, iterations: int
) -> None:
    chance = random.Random(7)
    turns = [reading(turn, 1 + turn % 3) for turn in range(iterations)]
    sizes = {turn * 10 + nth: chance.randint(2_000, 80_000) for turn in range(iterations) for nth in range(3)}
    provider, log = Scripted(rounds(turns, form), form), Log()
    result = play(provider, log, tools=[reader(sizes.__getitem__)], policy=policy, system="Work.")

    assert (result.stop, result.text, len(provider.bodies)) == ("completed", "done", iterations + 1)
    judged(provider, log, result)
    kept = set(texts(result.transcript))
    read = [turn * 10 + nth for turn in range(iterations) for nth in range(1 + turn % 3)]
    assert all(prose(sizes[part], part) in kept for part in read), "the transcript holds a synthetic edit"


@pytest.mark.parametrize("form", FORMATS)
def test_the_retry_the_continuation_the_smaller_and_the_last_request_are_governed_too(form: str) -> None:
    long = prose(9_000, 1)
    script: list[Line] = [
        *[says("", form, *reading(turn, 2)) for turn in range(4)],
        says("", form),  # nothing: once more
        says(long, form, stop="length"),  # cut off: go on
        ProviderError("prompt is too long: 5200 tokens > 5000 maximum", status=400),  # once, smaller
        says(" and so on", form, *reading(5)),
        says("never mind", form, *reading(6)),  # calls where none may be made
    ]
    provider, log = Scripted(script, form), Log()
    result = play(provider, log, max_iterations=5)

    purposes = ["turn"] * 5 + ["retry", "continuation", "smaller", "final"]
    assert [iteration.purpose for iteration in result.iterations] == purposes
    assert result.stop == "max_iterations"
    judged(provider, log, result)
    assert result.reports[7].tokens_out < result.reports[6].tokens_out


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_found_too_long_is_sent_once_more_and_strictly_smaller(form: str) -> None:
    refusal = ProviderError("This model's maximum context length is 5000 tokens.", status=400)
    script: list[Line] = [*[says("", form, *reading(turn, 3)) for turn in range(3)], refusal, "done"]
    provider, log = Scripted(script, form), Log()
    result = play(provider, log)

    assert (result.stop, len(provider.bodies)) == ("completed", 5)
    before, after = result.reports[3:]
    assert after.counted < before.counted
    assert after.budget is not None
    assert after.budget <= 5_000


def test_a_second_refusal_as_too_long_ends_the_run_with_the_numbers_and_a_remedy() -> None:
    refusal = ProviderError("prompt is too long: 9000 tokens > 3000 maximum", status=400)
    again = ProviderError("prompt is too long: 4000 tokens > 1500 maximum", status=400)
    script: list[Line] = [*[says("", "openai-chat", *reading(turn, 3)) for turn in range(3)], refusal, again, "never"]
    provider, log = Scripted(script), Log()
    result = play(provider, log)

    assert (result.stop, len(provider.bodies)) == ("over_budget", 5)
    assert result.error is not None
    assert f"{result.reports[3].tokens_out:,}" in result.error
    assert f"{result.reports[4].tokens_out:,}" in result.error
    assert "window" in result.error


def test_what_cannot_fit_is_not_sent_and_the_result_says_what_takes_the_room() -> None:
    provider, log = Scripted(["never"]), Log()
    result = play(provider, log, system=prose(60_000, 1))

    assert (result.stop, provider.bodies) == ("over_budget", [])
    assert result.error is not None
    assert "system" in result.error
    assert "raise the window" in result.error
    assert result.transcript == [{"role": "user", "content": "Read all of it."}]


def test_where_governance_raises_the_run_raises_and_nothing_is_sent() -> None:
    provider, log = Scripted(["never"]), Log()
    with pytest.raises(GovernanceError):
        play(provider, log, task="")  # nothing was ever said
    with pytest.raises(WireError, match="content"):
        play(provider, log, task=[{"role": "user", "content": 5}])  # type: ignore[arg-type]
    assert provider.bodies == []


@pytest.mark.parametrize("form", FORMATS)
def test_the_prefix_share_is_whole_while_nothing_is_cut_and_less_where_it_is(form: str) -> None:
    turns = [reading(turn) for turn in range(8)]
    provider, log = Scripted(rounds(turns, form), form), Log()
    roomy = play(provider, log, policy=Policy.cache_friendly(window=100_000, max_output=1_024))
    assert [iteration.prefix_share for iteration in roomy.iterations] == [None] + [1.0] * 8

    provider, log = Scripted(rounds(turns, form), form), Log()
    tight = play(provider, log, policy=Policy.cache_friendly(window=6_000, max_output=1_024))
    key = KEYS[form]
    for before, after, iteration in zip(provider.bodies, provider.bodies[1:], tight.iterations[1:], strict=False):
        grown = after[key][: len(before[key])] == before[key]
        assert iteration.prefix_share is not None
        assert (iteration.prefix_share == 1.0) == grown
    assert any(iteration.prefix_share != 1.0 for iteration in tight.iterations[1:])
