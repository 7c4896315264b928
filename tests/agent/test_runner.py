"""The loop: when the model is asked again, what runs, and how a run ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from legato import Policy, UnknownProfile, WireError
from legato.agent.events import BeforeRequest, RequestFailed, RunEnded, RunStarted, TextDelta, ToolFinished, ToolStarted
from legato.agent.loop import BLANKS, CUTS, FALLBACK, FAULTS
from legato.agent.provider import ProviderError, Reply
from legato.agent.providers.scripted import Line, Scripted, call, says
from legato.agent.result import Result, summed
from legato.agent.runner import AgentRunner
from legato.agent.tool import Output, Tool, tool
from legato.messages import Json
from stage import FORMATS, KEYS, Log, faults, texts

POLICY = Policy(window=32_000, max_output=1_000, counter=len)
CHAT = "openai-chat"


@tool(reads_only=True)
async def look(path: str) -> str:
    """Look at a file."""
    return f"seen {path}"


@tool
async def fail(why: str) -> Output:
    """Fail."""
    return Output(f"failed: {why}", error=True)


def play(
    script: Sequence[Line] | Callable[[Json], Line], *, form: str = CHAT, **options: Any
) -> tuple[Result, Scripted]:
    provider = Scripted(script, form, options.pop("profile", None))
    task = options.pop("task", "Do it.")
    fields: dict[str, Any] = {"policy": POLICY, "tools": [look, fail], **options}
    with AgentRunner(provider=provider, **fields) as runner:
        return asyncio.run(runner.run(task)), provider


def last(provider: Scripted) -> list[str]:
    """Every text of the last request's list."""
    return texts(provider.bodies[-1][KEYS[provider.format]])


# -- answers, blanks, cuts, refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
def test_an_answer_ends_the_run_and_stands_in_the_transcript_as_it_came(form: str) -> None:
    answer = says("the answer", form)
    result, provider = play([answer], form=form)
    assert (result.stop, result.text, result.error) == ("completed", "the answer", None)
    assert result.transcript[-1] is answer.items[0]
    assert len(provider.bodies) == 1


@pytest.mark.parametrize("form", FORMATS)
def test_an_empty_reply_is_asked_for_again_then_without_tools_and_then_the_run_is_empty(form: str) -> None:
    blank = says("", form)
    result, provider = play([blank] * 9, form=form)
    assert (result.stop, result.text, len(provider.bodies)) == ("empty", "", BLANKS + 1)
    assert [iteration.purpose for iteration in result.iterations] == ["turn", "retry", "final"]
    assert "tool_choice" not in provider.bodies[1]
    assert "toolConfig" not in provider.bodies[1]
    assert {"tool_choice", "toolConfig"} & set(provider.bodies[2])
    assert provider.bodies[2]["tools"] == provider.bodies[0]["tools"]
    assert blank.items[0] not in result.transcript


@pytest.mark.parametrize("items", [(), ({"role": "assistant"},), ("text",), ({"content": "no role"},), ({"role": 5},)])
def test_a_malformed_reply_is_asked_for_again_and_never_kept(items: tuple[Json, ...]) -> None:
    result, _ = play([Reply(items=items), "fine"])
    assert (result.stop, result.text) == ("completed", "fine")
    assert [iteration.purpose for iteration in result.iterations] == ["turn", "retry"]
    assert len(result.transcript) == 2


def test_a_half_streamed_call_alone_is_a_malformed_reply() -> None:
    half = Reply(items=({"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": ""}}]},), stop="calls")
    result, _ = play([half, "fine"])
    assert (result.text, len(result.transcript)) == ("fine", 2)


def test_blanks_do_not_add_up_across_tool_work() -> None:
    x, y, z = [says("", CHAT, call("look", "a", path=path)) for path in "xyz"]
    result, _ = play([x, "", y, "", z, "", "ok"])
    assert (result.stop, result.text) == ("completed", "ok")
    assert "final" not in [iteration.purpose for iteration in result.iterations]


@pytest.mark.parametrize("form", FORMATS)
def test_answers_cut_off_at_the_output_limit_are_joined(form: str) -> None:
    parts = ["one, tw", "o, thr", "ee, fo"]
    result, provider = play([*[says(part, form, stop="length") for part in parts], "ur."], form=form)
    assert (result.stop, result.text) == ("completed", "one, two, three, four.")
    assert any("one, two, three, fo" in text for text in last(provider))
    assert all(not faults(body, form) for body in provider.bodies)
    told = [text for text in texts(result.transcript) if "cut off" in text]
    assert told == [], "what nobody said stands in the transcript"


def test_what_is_cut_off_again_and_again_ends_the_run_with_what_there_is() -> None:
    result, provider = play([says("on ", CHAT, stop="length")] * 9)
    assert (result.stop, result.text, len(provider.bodies)) == ("error", "on " * (CUTS + 1), CUTS + 1)
    assert result.error is not None
    assert "max_output" in result.error


def test_a_reply_that_is_all_cut_off_before_a_word_is_continued_not_retried() -> None:
    result, provider = play([says("", CHAT, stop="length"), "short"])
    assert [iteration.purpose for iteration in result.iterations] == ["turn", "continuation"]
    assert result.text == "short"
    assert any("output limit" in text for text in last(provider))


def test_calls_that_were_cut_off_do_not_run_and_what_was_said_before_tool_work_is_no_answer() -> None:
    cut = [says("part ", CHAT, stop="length"), says("I will look", CHAT, call("look", "a", path="x"), stop="length")]
    result, provider = play([*cut, says("", CHAT, call("look", "b", path="y")), "end"])
    assert result.text == "end"
    assert any("It did not run" in text for text in last(provider))
    assert faults(provider.bodies[-1], CHAT) == []
    assert "seen x" not in texts(result.transcript)
    assert "seen y" in texts(result.transcript)


@pytest.mark.parametrize("stop", ["refusal", "other"])
@pytest.mark.parametrize("form", FORMATS)
def test_calls_of_a_turn_that_was_refused_are_not_run(form: str, stop: str) -> None:
    log = Log()
    reply = says("I will not", form, call("look", "a", path="x"), stop=stop)
    result, provider = play([reply, "more"], form=form, hooks=[log])
    assert (result.stop, result.text) == ("completed", "I will not")
    assert not log.of(ToolStarted)
    assert len(provider.bodies) == 1


def test_a_refusal_without_a_word_is_not_asked_again() -> None:
    result, provider = play([says("", CHAT, stop="refusal", finish="content_filter"), "more"])
    assert (result.stop, len(provider.bodies)) == ("empty", 1)
    assert result.error is not None
    assert "content_filter" in result.error


def test_a_provider_error_ends_the_run_and_leaves_nothing_in_the_transcript() -> None:
    log = Log()
    result, _ = play([ProviderError("upstream is on fire", status=500, retryable=True)], hooks=[log])
    assert (result.stop, result.error) == ("error", "upstream is on fire")
    assert result.transcript == [{"role": "user", "content": "Do it."}]
    assert [event.overflow for event in log.of(RequestFailed)] == [False]


# -- rounds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("final", "text"),
    [
        ("so far: x", "so far: x"),
        (says("", CHAT), FALLBACK.format(2)),
        (says("", CHAT, call("look", "z", path="z")), FALLBACK.format(2)),
        (ProviderError("down", status=503), FALLBACK.format(2)),
    ],
)
def test_after_the_last_round_one_answer_without_tools_is_asked_for(final: Line, text: str) -> None:
    work = [says("", CHAT, call("look", f"c{at}", path=str(at))) for at in range(2)]
    result, provider = play([*work, final, "never"], max_iterations=2)
    assert (result.stop, result.text, len(provider.bodies)) == ("max_iterations", text, 3)
    assert provider.bodies[2]["tool_choice"] == "none"
    assert "seen z" not in texts(result.transcript)


@pytest.mark.parametrize(
    ("form", "field", "forced", "none"),
    [
        ("openai-chat", "tool_choice", "required", "none"),
        ("openai-responses", "tool_choice", "required", "none"),
        ("anthropic", "tool_choice", {"type": "any"}, {"type": "none"}),
        (
            "gemini",
            "toolConfig",
            {"functionCallingConfig": {"mode": "ANY"}},
            {"functionCallingConfig": {"mode": "NONE"}},
        ),
    ],
)
def test_no_option_forces_a_call_where_none_may_be_made(form: str, field: str, forced: Json, none: Json) -> None:
    work = says("", form, call("look", "c", path="x"))
    _, provider = play([work, "so far"], form=form, max_iterations=1, options={field: forced})
    assert [body[field] for body in provider.bodies] == [forced, none]
    assert provider.bodies[1]["tools"] == provider.bodies[0]["tools"]


def test_a_tool_error_is_told_to_the_model_unless_the_run_is_to_stop_at_it() -> None:
    script: list[Line] = [says("", CHAT, call("look", "a", path="x"), call("fail", "b", why="y")), "I see"]
    result, _ = play(script)
    assert (result.stop, result.text) == ("completed", "I see")
    result, provider = play(script, stop_on_tool_error=True)
    assert (result.stop, result.error, len(provider.bodies)) == ("tool_error", "failed: y", 1)
    assert [item["role"] for item in result.transcript] == ["user", "assistant", "tool", "tool"]
    assert [item["content"] for item in result.transcript[2:]] == ["seen x", "failed: y"]


# -- what is said meanwhile --------------------------------------------------------------------------------------------


def saying(words: Json, at: int) -> tuple[list[Any], Callable[[AgentRunner], None]]:
    """A hook that says something when the request of this number was answered, and what binds it to a runner."""
    runners: list[AgentRunner] = []

    def hook(event: Any) -> None:
        if isinstance(event, BeforeRequest) and event.iteration.number == at:
            runners[0].say(words)

    return [hook], runners.append


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("at", [1, 2])
def test_what_is_said_meanwhile_comes_after_the_tools_or_after_the_answer(form: str, at: int) -> None:
    hooks, bind = saying("And the other one?", at)
    provider = Scripted([says("", form, call("look", "a", path="x")), "first", "second"], form)
    with AgentRunner(provider=provider, tools=[look], policy=POLICY, hooks=hooks) as runner:
        bind(runner)
        result = asyncio.run(runner.run("Do it."))
    said = texts(result.transcript)
    assert said.index("seen x") < said.index("And the other one?")
    assert (at == 2) == ("first" in said[: said.index("And the other one?")])
    assert (result.stop, result.text) == ("completed", "first" if at == 1 else "second")
    assert all(not faults(body, form) for body in provider.bodies)


def test_what_is_said_after_an_error_is_answered() -> None:
    hooks, bind = saying("Try again.", 1)
    provider = Scripted([ProviderError("down", status=500), "up"])
    with AgentRunner(provider=provider, policy=POLICY, hooks=hooks) as runner:
        bind(runner)
        result = asyncio.run(runner.run("Do it."))
    assert (result.stop, result.text) == ("completed", "up")


def test_an_image_and_a_text_said_meanwhile_are_both_sent() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    hooks, bind = saying([{"role": "user", "content": [image]}, {"role": "user", "content": "What is it?"}], 1)
    provider = Scripted(["first", "second"])
    with AgentRunner(provider=provider, policy=POLICY, hooks=hooks) as runner:
        bind(runner)
        runner.say("   ")
        asyncio.run(runner.run("Do it."))
    sent = json.dumps(provider.bodies[-1])
    assert "iVBORw0KGgo=" in sent
    assert "What is it?" in sent


def test_half_an_answer_is_forgotten_when_something_else_is_asked_meanwhile() -> None:
    hooks, bind = saying("Stop. What is 2 + 2?", 1)
    provider = Scripted([says("a long st", CHAT, stop="length"), "4"])
    with AgentRunner(provider=provider, policy=POLICY, hooks=hooks) as runner:
        bind(runner)
        result = asyncio.run(runner.run("Tell a story."))
    assert result.text == "4"


# -- what the runner is given ------------------------------------------------------------------------------------------


def test_a_conversation_goes_on_from_run_to_run_and_each_result_has_its_own_requests() -> None:
    provider = Scripted(["one", "two"])
    with AgentRunner(provider=provider, policy=POLICY) as runner:
        first, second = runner.run_sync("a"), runner.run_sync([{"role": "user", "content": "b"}])
    assert [len(first.reports), len(second.reports)] == [1, 1]
    assert [item["content"] for item in second.transcript] == ["a", "one", "b", "two"]
    assert [item["content"] for item in provider.bodies[1]["messages"]] == ["a", "one", "b"]


def test_usage_is_summed_field_by_field() -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "details": {"cached": 4}, "tier": "x", "none": None}
    replies = [says("", CHAT, call("look", "a", path="x"), usage=usage), says("done", CHAT, usage=usage)]
    result, _ = play(replies)
    assert result.usage == {
        "prompt_tokens": 20,
        "completion_tokens": 4,
        "details": {"cached": 8},
        "tier": "x",
        "none": None,
    }
    assert summed({"a": 1, "b": {"c": 1}}, {"a": True, "b": 5, "d": [1]}) == {"a": True, "b": 5, "d": [1]}
    assert summed({"a": 1}, None) == {"a": 1}


def test_what_the_provider_reports_corrects_the_next_request() -> None:
    policy = Policy(window=32_000, max_output=1_000)
    usage = {"prompt_tokens": 9_000}
    replies = [says("", CHAT, call("look", "a", path="x"), usage=usage), says("done", CHAT, usage=usage)]
    result, _ = play(replies, policy=policy, task="word " * 5_000)
    assert result.reports[1].factor > result.reports[0].factor


def test_names_that_were_sent_otherwise_come_back_as_the_caller_knows_them() -> None:
    @tool
    async def odd() -> str:
        """Say it."""
        return "odd indeed"

    named = Tool("my.odd tool", "Say it.", odd.parameters, odd.run)
    sent: list[str] = []

    def script(body: Json) -> Line:
        sent.append(body["tools"][0]["function"]["name"])
        return "done" if len(sent) > 1 else says("", CHAT, call(sent[0], "abcdefghi"))

    result, provider = play(script, profile="mistral", tools=[named])
    assert sent[0] != "my.odd tool"
    assert result.stop == "completed"
    assert result.transcript[1]["tool_calls"][0]["function"]["name"] == "my.odd tool"
    assert result.transcript[2]["content"] == "odd indeed"
    assert provider.bodies[1]["messages"][1]["tool_calls"][0]["function"]["name"] == sent[0]


def test_ids_that_were_sent_otherwise_come_back_as_the_caller_knows_them() -> None:
    history: list[Json] = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "tool_calls": [call_item("call_of_another_provider", "look")]},
        {"role": "tool", "tool_call_id": "call_of_another_provider", "content": "seen"},
    ]

    def script(body: Json) -> Line:
        ids = [each["id"] for message in body["messages"] for each in message.get("tool_calls") or ()]
        return says("", CHAT, call("look", ids[0], path="again")) if len(ids) == 1 else "done"

    result, provider = play(script, profile="mistral", task=history)
    assert result.transcript[3]["tool_calls"][0]["id"] == "call_of_another_provider"
    assert result.transcript[4]["tool_call_id"] == "call_of_another_provider"
    sent = [each["id"] for message in provider.bodies[1]["messages"] for each in message.get("tool_calls") or ()]
    assert [len(call_id) for call_id in sent] == [9, 9]


def call_item(call_id: str, name: str) -> Json:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": '{"path": "x"}'}}


def test_reasoning_reaches_the_second_request() -> None:
    thought = {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [call_item("a", "look")]}
    _, provider = play([Reply(items=(thought,), stop="calls"), "done"], profile="deepseek")
    assert provider.bodies[1]["messages"][1]["reasoning_content"] == "hm"
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "tool_use", "id": "a", "name": "look", "input": {"path": "x"}},
    ]
    reply = Reply(items=({"role": "assistant", "content": blocks},), stop="calls")
    _, provider = play([reply, "done"], form="anthropic")
    assert provider.bodies[1]["messages"][1]["content"] == blocks


def test_options_stand_in_the_body_and_the_limit_of_output_is_the_policys() -> None:
    _, provider = play(["a"], form="gemini", options={"generationConfig": {"temperature": 0}})
    assert provider.bodies[0]["generationConfig"] == {"maxOutputTokens": 1_000, "temperature": 0}
    _, provider = play(["a"], options={"max_completion_tokens": 77})
    assert (provider.bodies[0]["max_completion_tokens"], "max_tokens" in provider.bodies[0]) == (77, False)
    result, provider = play(["a"], policy=Policy(window=8_000))
    assert (provider.bodies[0]["max_tokens"], result.reports[0].budget) == (2_000, 8_000 - 2_000 - 1_024)


def test_what_cannot_work_is_refused_when_the_runner_is_made() -> None:
    with pytest.raises(ValueError, match="two tools of one name among look, look"):
        AgentRunner(provider=Scripted([]), tools=[look, look])
    with pytest.raises(UnknownProfile):
        AgentRunner(provider=Scripted([], CHAT, "nobody"))
    with AgentRunner(provider=Scripted([])) as runner, pytest.raises(WireError):
        runner.say([{"role": None}])


# -- events ------------------------------------------------------------------------------------------------------------


def test_events_come_in_order_and_are_json() -> None:
    log = Log()
    play([says("I look", CHAT, call("look", "a", path="x")), "done"], hooks=[log])
    kinds = [type(event).__name__ for event in log.events if not isinstance(event, TextDelta)]
    turn = ["BeforeRequest", "AfterRequest"]
    assert kinds == ["RunStarted", *turn, "ToolStarted", "ToolFinished", *turn, "RunEnded"]
    assert "".join(event.text for event in log.of(TextDelta)) == "I look done "
    written = [json.loads(json.dumps(event.to_dict())) for event in log.events]
    assert written[0] == {
        "type": "run_started",
        "profile": "portable",
        "said": [{"role": "user", "content": "Do it."}],
        "notes": [],
    }
    assert 0 < written[1]["context_share"] < 1
    assert log.requests[0].iteration.prefix_share is None
    assert isinstance(log.events[0], RunStarted)
    assert log.of(ToolFinished)[0].text == "seen x"


def test_a_run_that_raises_has_an_end_too() -> None:
    log = Log()

    def broken(event: Any) -> None:
        if isinstance(event, ToolStarted):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        play([says("", CHAT, call("look", "a", path="x"))], hooks=[log, broken])
    [ended] = log.of(RunEnded)
    assert (ended.result.stop, len(ended.result.transcript)) == ("error", 2)


def test_two_runs_at_once_are_refused() -> None:
    async def twice() -> None:
        with AgentRunner(provider=Scripted(["a", "b"]), policy=POLICY) as runner:
            await asyncio.gather(runner.run("a"), runner.run("b"))

    with pytest.raises(RuntimeError, match="at work"):
        asyncio.run(twice())


def test_an_answer_that_was_cut_off_on_its_way_is_asked_for_again() -> None:
    cut = ProviderError("the answer was cut off", status=200, retryable=True)
    result, provider = play([*[cut] * FAULTS, "done"])
    assert (result.stop, result.text) == ("completed", "done")
    assert len(provider.bodies) == FAULTS + 1
    result, provider = play([*[cut] * (FAULTS + 1), "done"])
    assert (result.stop, result.error) == ("error", "the answer was cut off")
