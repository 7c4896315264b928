"""Session files: append-only, one writer, whole lines, and nothing lost when the disk is full."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from legato import Policy
from legato.agent.history import History
from legato.agent.provider import Reply
from legato.agent.providers.scripted import Scripted, call, says
from legato.agent.runner import AgentRunner
from legato.agent.sessionfile import Finished, Header, Line, Replied, Said, SessionFile, SessionFileError, Started
from legato.agent.tool import tool
from stage import FORMATS

HEADER = Header(format="openai-chat", profile="portable")
POLICY = Policy(window=32_000, max_output=1_000, counter=len)
SAID = Said([{"role": "user", "content": "Hi 你好 \ud800 \u2028"}])


@tool(reads_only=True)
async def look(path: str) -> str:
    """Look."""
    return f"seen {path}"


def lines_of(path: Path) -> tuple[Any, ...]:
    file = SessionFile(path, HEADER)
    file.close()
    return file.lines


def played(path: Path, script: list[Any], task: str, form: str = "openai-chat") -> tuple[list[Any], Scripted]:
    provider = Scripted(script, form)
    with AgentRunner(provider=provider, tools=[look], policy=POLICY, session=path) as runner:
        return asyncio.run(runner.run(task)).transcript, provider


@pytest.mark.parametrize("form", FORMATS)
def test_a_session_goes_on_where_it_was(form: str, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    calls = [call("look", "a", path="x"), call("look", "b", path="y")]
    first, _ = played(path, [says("", form, *calls), "one"], "Go.", form)
    second, provider = played(path, ["two"], "More.", form)
    assert second[: len(first)] == first
    alone, _ = played(tmp_path / "t.jsonl", [says("", form, *calls), "one"], "Go.", form)
    assert alone == first
    key = next(key for key in ("messages", "input", "contents") if key in provider.bodies[0])
    assert len(provider.bodies[0][key]) == len(first) + 1
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_was_learnt_of_the_provider_is_resumed_with_the_same_model_only(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    usage = {"prompt_tokens": 9_000}
    policy = Policy(window=32_000, max_output=1_000)

    def run(task: str, profile: str) -> float:
        provider = Scripted([says("ok", "openai-chat", usage=usage)], profile=profile)
        with AgentRunner(provider=provider, policy=policy, session=path) as runner:
            return asyncio.run(runner.run(task)).reports[0].factor

    assert run("word " * 5_000, "portable") == 1.0
    assert run("again", "portable") > 1.0
    assert run("again", "openai") == 1.0


def test_what_another_model_said_is_noted_for_governance_and_stays_raw_in_the_transcript(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    thought = {"type": "thinking", "thinking": "Two and two.", "signature": "EqQBCkYIBxgC"}
    models = ["anthropic:claude-sonnet-4-5", "anthropic:claude-opus-4-5", "anthropic:claude-sonnet-4-5"]
    for nth, profile in enumerate(models):
        answer = {"role": "assistant", "content": [thought, {"type": "text", "text": f"answer {nth}"}]}
        provider = Scripted([Reply(items=(answer,))], "anthropic", profile)
        with AgentRunner(provider=provider, policy=POLICY, session=path) as runner:
            asyncio.run(runner.run("Go."))
            assert "_origin" not in json.dumps([runner.transcript, provider.bodies])
    file = SessionFile(path, HEADER)
    file.close()
    for profile, foreign in ((models[0], [1]), (models[1], [0, 2]), ("", [])):
        items = History("anthropic", file, profile).shown
        noted = {nth: items[2 * nth + 1]["_origin"] for nth in range(3) if "_origin" in items[2 * nth + 1]}
        assert noted == {nth: {"provider": "anthropic", "model": models[nth].partition(":")[2]} for nth in foreign}


def test_every_line_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    reply = Replied([{"role": "assistant"}], {"a": 1}, [{"x": float("inf")}])
    written: list[Line] = [SAID, reply, Started([0, 1]), Finished(1, 10**30)]
    file = SessionFile(path, HEADER)
    for line in written:
        file.append(line)
    file.close()
    assert lines_of(path) == tuple(written)
    with pytest.raises(SessionFileError, match="is closed"):
        file.append(SAID)


def test_a_second_writer_is_refused_until_the_first_is_done(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with AgentRunner(provider=Scripted([]), session=path):
        with pytest.raises(SessionFileError, match="another runner is writing"):
            AgentRunner(provider=Scripted([]), session=path)
        code = f"from legato.agent.sessionfile import *; SessionFile({str(path)!r}, Header(format='a', profile='b'))"
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert "another runner is writing" in other.stderr
    AgentRunner(provider=Scripted([]), session=path).close()


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_torn_anywhere_resumes_with_every_whole_line_and_keeps_the_torn_one(form: str, tmp_path: Path) -> None:
    whole = tmp_path / "whole.jsonl"
    played(whole, [says("", form, call("look", "a", path="é")), "one"], "Go.", form)
    data = whole.read_bytes()
    seams = [at + step for at, byte in enumerate(data) if byte == ord("\n") for step in (0, 1, 2)]
    for end in sorted({*range(0, len(data), 13), *range(25), *seams[:-2]}):
        path = tmp_path / f"{end}.jsonl"
        path.write_bytes(data[:end])
        with AgentRunner(provider=Scripted([], form), session=path) as runner:
            said = runner.transcript
        aside = Path(f"{path}.torn")
        tail = data[:end].rpartition(b"\n")[2]
        is_whole = data[end : end + 1] == b"\n" and bool(tail)
        assert aside.exists() == (bool(tail) and not is_whole)
        if aside.exists():
            assert aside.read_bytes() == tail + b"\n"
        kept = data[: end + 1] if is_whole else data[: end - len(tail)]
        assert path.read_bytes().startswith(kept)
        assert path.read_bytes().count(b"\n") == max(kept.count(b"\n"), 1)
        assert len(said) == sum(json.loads(line)["type"] in ("said", "reply", "finished") for line in kept.splitlines())


def test_a_last_line_of_zeros_is_torn_and_the_runner_says_so(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    played(path, ["one"], "Go.")
    with path.open("ab") as file:
        file.write(b"\0" * 100 + b"\n")
    notes: list[str] = []
    with AgentRunner(
        provider=Scripted(["two"]), session=path, hooks=[lambda event: notes.extend(getattr(event, "notes", ()))]
    ) as runner:
        result = asyncio.run(runner.run("More."))
    assert result.text == "two"
    assert notes == [f"{path}: the last line was torn; its 101 bytes are kept in {path}.torn"]


@pytest.mark.parametrize(
    "content",
    [
        b"My notes\nof today",
        b"My notes",
        b'{"role": "user"}\n',
        b"[]\n[]\n",
        b'{"type": "session", "version": 2, "format": "gemini", "profile": "gemini"}\n',
        b"\n\n",
    ],
)
def test_a_file_that_is_no_session_is_left_alone(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(SessionFileError, match=r"notes\.txt"):
        AgentRunner(provider=Scripted([]), session=path)
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["notes.txt"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{nonsense", ":3: is no JSON"),
        (b'{"type": "dance"}', ":3: is no line of a session"),
        (b'{"type": "said"}', ":3: is no line of a session"),
        (b'{"type": "said", "items": [{"role": 5}]}', r":3: messages\[0\].role"),
        (b'{"type": "finished", "call": 3, "item": {}}', ":3: a result of a call that its turn does not make"),
    ],
)
def test_a_damaged_line_before_the_last_is_named_and_left_alone(line: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    played(path, ["one"], "Go.")
    lines = path.read_bytes().splitlines(keepends=True)
    damaged = b"".join([*lines[:2], line + b"\n", *lines[2:]])
    path.write_bytes(damaged)
    with pytest.raises(SessionFileError, match=problem):
        AgentRunner(provider=Scripted([]), session=path)
    assert path.read_bytes() == damaged


def test_a_session_of_another_format_is_refused_with_the_way_to_move_it(tmp_path: Path) -> None:
    played(tmp_path / "s.jsonl", ["one"], "Go.")
    with pytest.raises(SessionFileError, match="to='gemini'"):
        AgentRunner(provider=Scripted([], "gemini"), session=tmp_path / "s.jsonl")


@pytest.mark.parametrize("name", [".", "missing/s.jsonl", "fifo"])
def test_a_path_that_cannot_be_a_session_is_named(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(SessionFileError, match=str(tmp_path)):
        AgentRunner(provider=Scripted([]), session=tmp_path / name)


FULL = """
import asyncio, resource, sys
sys.path.insert(0, {stage!r})
from legato import Policy
from legato.agent.providers.scripted import Scripted, call, says
from legato.agent.runner import AgentRunner
from legato.agent.sessionfile import SessionFileError
from legato.agent.tool import tool

@tool
async def grow(n: int) -> str:
    "Grow."
    return "x" * 1_000

turns = [says("", "openai-chat", call("grow", f"c{{n}}", n=n)) for n in range(99)]
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, resource.RLIM_INFINITY))
with AgentRunner(provider=Scripted(turns), tools=[grow], policy=Policy(window=99_000), session={path!r}) as runner:
    try:
        asyncio.run(runner.run("Grow."))
    except SessionFileError as error:
        print(error)
    in_memory = runner.transcript
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
with AgentRunner(provider=Scripted(["done"]), tools=[grow], policy=Policy(window=99_000), session={path!r}) as runner:
    assert runner.transcript == in_memory, (len(runner.transcript), len(in_memory))
    print(asyncio.run(runner.run("Go on.")).text, len(in_memory))
"""


@pytest.mark.parametrize("limit", [300, 2_000, 5_000, 5_100, 5_200, 5_300, 5_400, 6_000])
def test_a_full_disk_is_named_and_the_file_holds_all_that_was_known(limit: int, tmp_path: Path) -> None:
    code = FULL.format(stage=str(Path(__file__).parent), limit=limit, path=str(tmp_path / "s.jsonl"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    problem, end = done.stdout.splitlines()
    assert "s.jsonl: cannot be written: File too large" in problem
    assert end.split()[0] == "done"
    assert not (tmp_path / "s.jsonl.torn").exists()
