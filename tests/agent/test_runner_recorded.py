"""Recorded sessions played through the runner, with no key and nothing executed."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Any

import pytest

from legato import Policy, WireError
from legato.agent.events import ToolFinished
from legato.agent.providers.recorded import LOST, Recorded
from legato.agent.providers.scripted import Scripted, call, says
from legato.agent.result import Result
from legato.agent.runner import AgentRunner
from legato.messages import Json
from recorded import jsonl
from stage import FORMATS, Log, faults, reader, reading, rounds

POLICY = Policy.cache_friendly(window=8_192, max_output=1_024)


def play(recorded: Recorded, **options: Any) -> tuple[Result, Log]:
    log = Log()
    with recorded.runner(hooks=[log], policy=Policy(), **options) as runner:
        return asyncio.run(runner.run(recorded.task)), log


@pytest.mark.parametrize("form", FORMATS)
def test_a_played_session_comes_to_the_transcript_that_was_recorded(form: str) -> None:
    provider = Scripted(
        [*rounds([reading(0, 3), reading(1, 1)], form), says("more", form, *reading(2, 2)), "end"], form
    )
    with AgentRunner(provider=provider, tools=[reader(lambda _: 2_000)], policy=POLICY) as runner:
        asyncio.run(runner.run("Read."))
        whole = asyncio.run(runner.run("And again.")).transcript
    result, log = play(Recorded(whole, form))
    assert result.transcript == whole
    assert (result.stop, result.text) == ("completed", "end")
    assert len(result.reports) == 5
    assert all(faults(event.body, form) == [] for event in log.requests)


def test_a_played_session_is_governed_as_if_it_were_made_now() -> None:
    turns = [reading(turn, 2) for turn in range(20)]
    provider = Scripted(rounds(turns, "openai-chat"))
    with AgentRunner(provider=provider, tools=[reader(lambda part: 1_000 + part * 40)], max_iterations=99) as runner:
        whole = asyncio.run(runner.run("Read.")).transcript
    recorded, log = Recorded(whole), Log()
    with recorded.runner(policy=POLICY, hooks=[log]) as runner:
        result = asyncio.run(runner.run(recorded.task))
    assert result.transcript == whole
    assert all(report.fits for report in result.reports)
    assert any(report.changes for report in result.reports)
    assert all(faults(event.body, "openai-chat") == [] for event in log.requests)


def test_what_the_recording_does_not_hold_is_said_to_be_lost() -> None:
    items = [{"role": "user", "content": "Go."}, *says("", "openai-chat", call("look", "a", path="x")).items]
    more = [{"role": "user", "content": "And?"}, {"role": "assistant", "content": "done"}]
    result, log = play(Recorded([*items, *more]))
    assert [event.text for event in log.of(ToolFinished)] == [LOST]
    assert result.text == "done"


def test_a_recording_that_ends_before_an_answer_ends_as_an_error_that_says_so() -> None:
    items = [{"role": "user", "content": "Go."}, *says("", "openai-chat", call("look", "a", path="x")).items]
    result, _ = play(Recorded([*items, {"role": "tool", "tool_call_id": "a", "content": "seen"}]), max_iterations=9)
    assert result.stop == "error"
    assert result.error is not None
    assert "recording is over" in result.error


def test_the_recorded_body_gives_the_system_prompt_and_the_tools_as_they_were_defined() -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    error = {"type": "tool_result", "tool_use_id": "a", "content": "no", "is_error": True}
    body = {
        "system": "Be good.",
        "tools": [{"name": "look", "description": "Look.", "input_schema": schema}],
        "messages": [
            {"role": "user", "content": "Go."},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "look", "input": {"wrong": 1}}]},
            {"role": "user", "content": [error]},
            {"role": "assistant", "content": "done"},
        ],
    }
    recorded = Recorded(body)
    result, log = play(recorded)
    assert log.requests[0].body["system"] == "Be good."
    assert log.requests[0].body["tools"] == body["tools"]
    assert result.transcript == body["messages"]


@pytest.mark.parametrize("payload", [5, {"messages": 5}, [{"role": 5}], {"nothing": []}])
def test_what_is_no_recording_is_refused_with_the_place(payload: Json) -> None:
    with pytest.raises(WireError):
        Recorded(payload, "openai-chat")


SESSIONS = [
    "claude-code/openai.jsonl",
    "cline/openai.jsonl",
    "deepagents/openai.jsonl",
    "inspect-ai/samples.jsonl",
    "mini-swe-agent/trajectories.jsonl",
    "openhands-events/rebuilt_openai.jsonl",
    "swe-agent/trajectories.jsonl",
    "tau-bench/gpt-4o-airline.jsonl",
]


@pytest.mark.parametrize("name", SESSIONS)
def test_real_sessions_are_played_to_their_end_and_every_request_is_legal_and_fits(name: str) -> None:
    policy = Policy.cache_friendly(window=12_000, max_output=1_024)
    for record in islice(jsonl(name), 12):
        recorded, log = Recorded(record["messages"], "openai-chat"), Log()
        with recorded.runner(policy=policy, hooks=[log]) as runner:
            result = asyncio.run(runner.run(recorded.task))
        where = f"{name} {record['id']}"
        assert result.stop == "completed" or "recording is over" in str(result.error), (where, result.error)
        turns = [item for item in record["messages"] if item["role"] == "assistant"]
        assert [item for item in result.transcript if item["role"] == "assistant"] == turns, where
        called = [call["id"] for item in turns for call in item.get("tool_calls") or ()]
        answers = [item for item in record["messages"] if item["role"] == "tool"]
        if sorted(called) == sorted(item["tool_call_id"] for item in answers):  # else the recording is damaged itself
            played = [item["content"] for item in result.transcript if item["role"] == "tool"]
            assert played == [item["content"] for item in answers], where
        assert all(report.fits for report in result.reports), where
        assert [fault for event in log.requests for fault in faults(event.body, "openai-chat")] == [], where
