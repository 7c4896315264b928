"""Whatever the model does, the run ends, every request is legal and fits, and the session file tells the same story."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from legato import Policy
from legato.agent.history import History
from legato.agent.loop import FALLBACK
from legato.agent.provider import ProviderError, Reply
from legato.agent.providers.scripted import Line, Scripted, call, says
from legato.agent.runner import AgentRunner
from legato.agent.sessionfile import Header, SessionFile
from legato.agent.tool import Output, Tool
from legato.messages import ToolCall
from stage import FORMATS, PROFILES, Log, faults, prose, texts

OBJECT = {"type": "object"}
POLICIES = [
    Policy(window=6_000, max_output=500, counter=lambda text: len(text) // 4 + 1),
    Policy.cache_friendly(window=6_000, max_output=500, counter=lambda text: len(text) // 4 + 1),
]
ENDINGS = ["completed", "max_iterations", "tool_error", "error", "empty", "over_budget"]
TOLD = ["No tool can be called for the next reply", "Your answer was cut off", "Your reply reached", "[No result: "]


async def act(size: int = 0, bad: bool = False) -> Output:
    await asyncio.sleep(0)
    return Output(prose(size, size), error=bad)


TOOLS = [Tool("read_file", "Read.", OBJECT, act, reads_only=True), Tool("write", "Write.", OBJECT, act)]

names = st.sampled_from(["read_file", "read_file", "write", "reed_file", ""])
sizes = st.sampled_from([0, 10, 3_000, 30_000])
calls = st.builds(
    lambda name, size, bad, call_id: call(name, call_id, size=size, bad=bad),
    names,
    sizes,
    st.booleans(),
    st.sampled_from(["a", "b", "call_0", "an id with spaces", ""]),
)
broken = st.builds(ToolCall, st.just("z"), names, st.sampled_from([None, "", "{", "[1]", '"x"']))
stops = st.sampled_from(["end", "calls", "calls", "calls", "length", "refusal", "other"])
words = st.sampled_from(["", "", " \n", "some words", "你好 \ud800", prose(9_000, 3)])


@st.composite
def lines(draw: st.DrawFn, form: str) -> Line:
    kind = draw(st.integers(0, 12))
    if kind == 0:
        return ProviderError("prompt is too long: 5000 tokens > 4000 maximum", status=400)
    if kind == 1:
        return ProviderError("overloaded", status=529, retryable=True)
    if kind == 2:
        return Reply(items=draw(st.sampled_from([(), ("x",), ({"role": 7},), ({"role": "assistant", "content": 1},)])))
    made = draw(
        st.lists(
            calls if form in ("anthropic", "gemini") else calls | broken, min_size=draw(st.integers(0, 1)), max_size=3
        )
    )
    usage = draw(st.sampled_from([None, {"prompt_tokens": 3_000}, {"input_tokens": 100}, {"promptTokenCount": 9_000}]))
    return says(draw(words), form, *made, stop=draw(stops), usage=usage)


@settings(max_examples=60)
@given(st.data())
def test_any_script_ends_legally_within_budget_and_as_the_session_file_tells(data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(FORMATS))
    scripts = data.draw(st.lists(st.lists(lines(form), min_size=3, max_size=14), min_size=1, max_size=3))
    policy = data.draw(st.sampled_from(POLICIES))
    strict = data.draw(st.booleans())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.jsonl"
        before: list[Any] = []
        for nth, script in enumerate(scripts):
            log, provider = Log(), Scripted(script, form)
            with AgentRunner(
                provider=provider,
                tools=TOOLS,
                policy=policy,
                session=path,
                max_iterations=5,
                stop_on_tool_error=strict,
                hooks=[log],
            ) as runner:
                result = asyncio.run(runner.run(f"Task number {nth}."))
                assert result.transcript == runner.transcript
            assert result.stop in ENDINGS
            assert (result.error is None) == (result.stop in ("completed", "max_iterations")) or result.error
            assert result.stop != "completed" or result.text.strip()
            assert len(provider.bodies) <= len(script) + 3
            judge(form, nth, provider, log)
            assert result.transcript[: len(before)] == before
            assert not [text for text in texts(result.transcript) if text.startswith(tuple(TOLD)) or text == FALLBACK]
            before = result.transcript
            file = SessionFile(path, Header(format=form, profile=PROFILES[form]))
            assert History(form, file).transcript == before
            file.close()


def judge(form: str, nth: int, provider: Scripted, log: Log) -> None:
    assert [event.body for event in log.requests] == provider.bodies
    for event in log.requests:
        report = event.iteration.report
        assert report.fits
        assert faults(event.body, form) == []
        assert any(f"Task number {nth}." in text for text in texts(event.body)), "the task was lost"
