"""Interrupted at any point, a session goes on: what was finished is kept, what was lost is said to be lost."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from legato import Policy
from legato.agent import turn
from legato.agent.events import Event, RunEnded, TextDelta, ToolFinished, ToolStarted
from legato.agent.history import NEVER, PERHAPS, History
from legato.agent.providers.scripted import Scripted, call, says
from legato.agent.runner import AgentRunner
from legato.agent.sessionfile import Finished, Header, Replied, SessionFile, Unanswered
from legato.agent.tool import Output, Tool
from legato.wire import shape
from stage import FORMATS, KEYS, PROFILES, Log, faults, texts

KILLS = int(os.environ.get("LEGATO_KILLS", "25"))
SEED = int(os.environ.get("LEGATO_SEED", "1"))
HERE = Path(__file__).parent
OBJECT = {"type": "object"}
POLICY = Policy(window=32_000, max_output=1_000, counter=len)


@pytest.mark.parametrize("form", ["openai-chat", "anthropic"])
def test_killed_at_random_moments_a_session_resumes_and_nothing_finished_is_lost_or_done_twice(
    form: str, tmp_path: Path
) -> None:
    program = [sys.executable, str(HERE / "crashing.py"), str(tmp_path), form, str(KILLS), str(SEED)]
    path = os.pathsep.join(filter(None, [str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(program, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"seed {SEED}: {done.stdout}{done.stderr}"

    effects = Counter((tmp_path / "effects").read_text().split())
    announced = set((tmp_path / "known").read_text().split())
    file = SessionFile(tmp_path / "s.jsonl", Header(format=form, profile=""))
    file.close()
    fates: dict[str, str] = {}
    waiting: dict[int, str] = {}
    for line in file.lines:
        if isinstance(line, Replied):
            assert waiting == {}, "a turn was answered before every call before it had a result"
            calls = turn.calls_of(turn.read(line.items, form))
            waiting = {nth: shape.as_object(made)["key"] for nth, made in enumerate(calls)}
        elif isinstance(line, Finished):
            fates[waiting.pop(line.call)] = "done"
        elif isinstance(line, Unanswered):
            lost = [text for text in texts(line.items) if text in (PERHAPS, NEVER)]
            fates.update({key: text for (_, key), text in zip(sorted(waiting.items()), lost, strict=True)})
            waiting = {}
    assert waiting == {}
    assert effects.keys() <= fates.keys()
    for key, fate in fates.items():
        allowed = {"done": (1,), PERHAPS: (0, 1), NEVER: (0,)}[fate]
        assert effects[key] in allowed, (key, fate, effects[key])
    assert announced <= {key for key, fate in fates.items() if fate == "done"}
    assert set(fates.values()) == {"done", PERHAPS, NEVER}, "the kills were all of one kind"
    assert len(announced) > KILLS, "hardly anything was done"


# -- cancelled at every step of the event loop -------------------------------------------------------------------------


class Ledger:
    """Tools that write down what they did."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.tools = [
            Tool("read", "Read.", OBJECT, self.act, reads_only=True),
            Tool("write", "Write.", OBJECT, self.act),
            Tool("ask", "Ask first.", OBJECT, self.act, asks=lambda _: "May I?"),
        ]

    async def act(self, key: str) -> Output:
        for _ in range(1 + int(key[-1])):
            await asyncio.sleep(0)
        self.done.append(key)
        await asyncio.sleep(0)
        return Output(f"did {key}")


async def approve(*_: object) -> bool:
    await asyncio.sleep(0)
    return True


def script(form: str, first: int) -> list[Any]:
    """Two turns of calls and an answer, from a turn on."""
    kinds = ("read", "read", "write", "ask")
    work = [
        says("so I call", form, *[call(kind, f"c{nth}", key=f"{at}.{nth}") for nth, kind in enumerate(kinds)])
        for at in range(2)
    ]
    return [*work[first:], "all done now"]


async def interrupted(form: str, path: Path | None, step: int, how: str) -> tuple[Ledger, list[Any], bool]:
    """A run cancelled after so many steps; what was done, the transcript, and whether it had ended before that."""
    ledger = Ledger()
    with AgentRunner(
        provider=Scripted(script(form, 0), form), tools=ledger.tools, policy=POLICY, session=path, approve=approve
    ) as runner:
        task = asyncio.ensure_future(runner.run("Go."))
        for _ in range(step):
            await asyncio.sleep(0)
        if how == "task":
            task.cancel()
            [outcome] = await asyncio.gather(task, return_exceptions=True)
            if isinstance(outcome, asyncio.CancelledError):
                return ledger, runner.transcript, False
            assert not isinstance(outcome, BaseException), outcome
            return ledger, runner.transcript, True
        runner.cancel()
        result = await task
        assert result.transcript == runner.transcript
        assert result.stop in ("completed", "cancelled")
        return ledger, result.transcript, result.stop == "completed"


def finish(form: str, path: Path, ledger: Ledger) -> tuple[Scripted, list[Any], list[Any]]:
    """The session resumed and brought to its end: its provider, its transcript, and what the model was shown."""
    file = SessionFile(path, Header(format=form, profile=PROFILES[form]))
    first = sum("so I call" in texts(item) for item in History(form, file).transcript)
    file.close()
    provider = Scripted(script(form, first), form)
    with AgentRunner(provider=provider, tools=ledger.tools, policy=POLICY, session=path, approve=approve) as runner:
        result = asyncio.run(runner.run("" if runner.transcript else "Go."))
        assert (result.stop, result.text) == ("completed", "all done now")
        return provider, result.transcript, provider.bodies[-1][KEYS[form]]


@pytest.mark.parametrize(("form", "how"), [*[(form, "task") for form in FORMATS], ("openai-chat", "runner")])
def test_cancelled_at_any_step_a_session_resumes_with_all_that_was_finished(
    form: str, how: str, tmp_path: Path
) -> None:
    stages = set()
    for step in range(1, 200):
        path = tmp_path / f"{step}.jsonl"
        ledger, before, ended = asyncio.run(interrupted(form, path, step, how))
        if ended:
            break
        provider, after, shown = finish(form, path, ledger)
        assert after[: len(before)] == before or texts(after)[: len(texts(before))] == texts(before)
        assert all(not faults(body, form) for body in provider.bodies)
        counted = Counter(ledger.done)
        assert set(counted.values()) <= {1}, "done twice"
        results = [text.removeprefix("did ") for text in texts(after) if text.startswith("did ")]
        lost = [text for text in texts(shown) if text in (PERHAPS, NEVER)]
        assert len(results) + len(lost) == 8
        assert set(results) <= set(counted)
        assert len(set(counted) - set(results)) <= lost.count(PERHAPS)
        assert not [text for text in texts(after) if text in (PERHAPS, NEVER)], "a synthetic result was saved"
        stages.add((len(results), lost.count(PERHAPS), lost.count(NEVER)))
    else:
        pytest.fail("the run never ended")
    assert len(stages) > 6, "the interrupts were all of one kind"
    assert {perhaps for _, perhaps, _ in stages} == {0, 1, 2}


@pytest.mark.parametrize("form", FORMATS)
def test_a_run_cancelled_in_memory_goes_on_in_memory(form: str) -> None:
    async def main() -> None:
        ledger = Ledger()
        provider = Scripted(script(form, 0), form)

        def hook(event: Event) -> None:
            if isinstance(event, ToolFinished) and event.nth == 0 and event.request == 1:
                runner.cancel()

        runner = AgentRunner(provider=provider, tools=ledger.tools, policy=POLICY, hooks=[hook], approve=approve)
        first = await runner.run("Go.")
        assert (first.stop, first.error) == ("cancelled", "cancelled")
        second = await runner.run("What became of it?")
        assert second.stop == "completed"
        assert texts(second.transcript)[: len(texts(first.transcript))] == texts(first.transcript)
        shown = texts(provider.bodies[1][KEYS[form]])
        assert NEVER in shown
        assert shown.index(NEVER) < shown.index("What became of it?")
        assert faults(provider.bodies[1], form) == []

    asyncio.run(main())


def test_a_cancelled_stream_leaves_no_half_turn_and_its_end_is_announced(tmp_path: Path) -> None:
    log = Log()

    def hook(event: Event) -> None:
        if isinstance(event, TextDelta):
            runner.cancel()

    runner = AgentRunner(
        provider=Scripted(["a long answer"]), policy=POLICY, session=tmp_path / "s.jsonl", hooks=[log, hook]
    )
    with runner:
        result = asyncio.run(runner.run("Go."))
    assert (result.stop, len(result.transcript)) == ("cancelled", 1)
    assert [event.result for event in log.of(RunEnded)] == [result]


def test_cancelling_what_does_not_run_does_nothing() -> None:
    with AgentRunner(provider=Scripted(["a"]), policy=POLICY, hooks=[lambda _: runner.cancel()]) as runner:
        assert asyncio.run(runner.run("Go.")).stop == "cancelled"
        runner.cancel()


def test_a_timeout_from_outside_is_passed_on() -> None:
    async def forever(key: str) -> Output:
        await asyncio.Event().wait()
        return Output(key)

    async def main() -> None:
        provider = Scripted([says("", "openai-chat", call("wait", "c", key="x"))])
        log = Log()
        tools = [Tool("wait", "Wait.", OBJECT, forever)]
        with AgentRunner(provider=provider, tools=tools, policy=POLICY, hooks=[log]) as runner:
            work = asyncio.ensure_future(runner.run("Go."))
            while not log.of(ToolStarted):
                await asyncio.sleep(0)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(work, 0.01)
        assert log.of(RunEnded)[0].result.stop == "cancelled"

    asyncio.run(main())


CONTROL_C = """
import asyncio, sys
sys.path.insert(0, {stage!r})
from legato.agent.providers.scripted import Scripted, call, says
from legato.agent.runner import AgentRunner
from legato.agent.tool import Output, Tool
async def wait(key):
    print("waiting", flush=True)
    await asyncio.Event().wait()
provider = Scripted([says("", "openai-chat", call("wait", "c", key="x"))])
tools = [Tool("wait", "Wait.", {{"type": "object"}}, wait)]
show = lambda event: print(type(event).__name__)
runner = AgentRunner(provider=provider, tools=tools, session={path!r}, hooks=[show])
try:
    runner.run_sync("Go.")
except KeyboardInterrupt:
    print("interrupted")
runner.close()
"""


def test_control_c_leaves_a_session_that_resumes(tmp_path: Path) -> None:
    code = CONTROL_C.format(stage=str(HERE), path=str(tmp_path / "s.jsonl"))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while "waiting" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        said = process.stdout.read()
    assert said.split() == ["RunEnded", "interrupted"]
    provider = Scripted(["I see"])
    with AgentRunner(provider=provider, policy=POLICY, session=tmp_path / "s.jsonl") as runner:
        result = asyncio.run(runner.run())
    assert result.text == "I see"
    assert PERHAPS in texts(provider.bodies)
    assert PERHAPS not in texts(result.transcript)
