"""`legato run --recorded`, with no key and no network; and what is no way to call `legato run`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from legato.agent.providers.recorded import LOST
from legato.agent.providers.scripted import call, says
from legato.transcripts import readers
from recorded import needs_transcripts
from run_command import PATIENCE, PROGRAM, clean, run, sessions

NO_NETWORK: dict[str, Any] = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
WORDS = "a line of the file that is like every other line of it\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "data"


def conversation(rounds: int = 3, name: str = "notes", lines: int = 200) -> list[dict[str, Any]]:
    """A question, so many files that are read, an answer."""
    items: list[dict[str, Any]] = [{"role": "user", "content": f"What do the {name} say?"}]
    for nth in range(rounds):
        items += says(f"I read file {nth}.", "openai-chat", call("read_file", f"c{nth}", path=f"{nth}.txt")).items
        items.append({"role": "tool", "tool_call_id": f"c{nth}", "content": f"{name} {nth}\n" + WORDS * lines})
    return [*items, {"role": "assistant", "content": f"The {name} say\nnothing new."}]


def write(path: Path, *values: Any) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return path


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


# -- recordings --------------------------------------------------------------------------------------------------------


def test_a_recording_is_played_to_its_answer_with_no_key(home: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", conversation())
    done = run(home, "--recorded", file, **NO_NETWORK)
    assert (done.code, done.out) == (0, "The notes say\nnothing new.\n")
    for part in ("< What do the notes say?", "I read file 1.", "> read_file path=2.txt", "… 195 more lines …"):
        assert part in done.err, part
    assert sessions(home) == []


def test_every_request_of_a_recording_is_governed_within_the_window(home: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", conversation(rounds=30, lines=50))
    options = ["--window", "12k", "--max-output", "1k"]
    done = run(home, "--recorded", file, *options, "--json")
    requests = [event for event in events(done.out) if event["type"] == "before_request"]
    assert len(requests) == 31
    assert all(event["report"]["fits"] for event in requests)
    cuts = sum(event["prefix_share"] not in (None, 1.0) for event in requests)
    assert 0 < cuts < 10
    said = run(home, "--recorded", file, *options).err
    assert said.count("tokens are left out now") == cuts
    document = run(home, "--recorded", file, *options, "--policy", "document").err
    assert document.count("tokens are left out now") > 15


def test_a_body_a_jsonl_and_a_session_file_can_be_played(home: Path, tmp_path: Path) -> None:
    body = {"model": "some-model", "messages": conversation(name="body")}
    assert run(home, "--recorded", write(tmp_path / "body.json", body)).out == "The body say\nnothing new.\n"
    many = write(tmp_path / "many.jsonl", *[conversation(name=f"notes of {nth}") for nth in (1, 2, 3)])
    assert run(home, "--recorded", many).out.startswith("The notes of 1 say")
    assert run(home, "--recorded", f"{many}#3").out.startswith("The notes of 3 say")
    missing = run(home, "--recorded", f"{many}#4")
    assert (missing.code, missing.err) == (2, f"legato: {many}: holds no conversation 4, but 3\n")


def test_what_was_said_later_is_shown_where_it_was_said(home: Path, tmp_path: Path) -> None:
    later = [*conversation(), {"role": "user", "content": "Are you sure?"}, {"role": "assistant", "content": "I am."}]
    done = run(home, "--recorded", write(tmp_path / "a.json", later))
    assert (done.code, done.out) == (0, "I am.\n")
    assert done.err.index("nothing new.") < done.err.index("< Are you sure?")


def test_a_recording_that_ends_without_an_answer_is_played_to_its_end(home: Path, tmp_path: Path) -> None:
    done = run(home, "--recorded", write(tmp_path / "a.json", conversation()[:-1]))
    assert (done.code, done.out) == (0, "")
    assert done.err.endswith("legato: the recording ends before the model has answered\n")
    lost = run(home, "--recorded", write(tmp_path / "b.json", conversation()[:-2]))
    assert (lost.code, LOST in lost.err) == (0, True)


def test_a_recording_can_be_played_under_other_rules_and_written_as_a_session(home: Path, tmp_path: Path) -> None:
    file, session = write(tmp_path / "a.json", conversation()), tmp_path / "s.jsonl"
    done = run(home, "--recorded", file, "--provider", "openai", "--model", "gpt-4o", "--session", session, "--json")
    first, *_, last = events(done.out)
    assert (first["profile"], first["file"], last["stop"]) == ("openai:gpt-4o", str(session), "completed")
    assert next(event for event in events(done.out) if event["type"] == "before_request")["report"]["budget"] > 100_000
    again = run(home, "--recorded", file, "--session", session)
    assert (again.code, "is there already" in again.err) == (2, True)


@pytest.mark.parametrize(
    "name",
    [
        "claude-code/sample_session.jsonl",
        "cline/session.messages.json",
        "swe-agent/trajectories.jsonl#3",
        "pi-mono/native/large-session.jsonl",
        "openhands-events/multi_swe_bench.jsonl#ponylang__ponyc-4588",
    ],
)
def test_real_sessions_play_to_their_end_and_every_request_fits(home: Path, name: str) -> None:
    file, _, label = name.partition("#")
    path = needs_transcripts(file)
    done = run(home, "--recorded", f"{path}#{label}" if label else path, "--window", "32k", "--json")
    found = events(done.out)
    assert done.code == 0
    requests = [event for event in found if event["type"] == "before_request"]
    assert all(event["report"]["fits"] for event in requests)
    recordings = {recording.label: recording for recording in readers.recordings(str(path))}
    turns = (recordings.get(label) or next(iter(recordings.values()))).turns
    assert len(requests) >= len(turns) // 2


def test_a_reader_that_goes_away_ends_it_without_a_word(home: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", conversation(rounds=200))
    with subprocess.Popen(
        [*PROGRAM, "--recorded", str(file), "--json"],
        env=clean(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert b'"session"' in process.stdout.readline()
        process.stdout.close()
        assert process.wait(PATIENCE) == 141
        assert b"Traceback" not in process.stderr.read()


def test_a_stream_that_is_closed_is_no_trouble_unless_the_task_should_come_from_it(home: Path, tmp_path: Path) -> None:
    def closed(stream: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["sh", "-c", f'exec "$@" {stream}', "sh", *PROGRAM, *arguments]
        return subprocess.run(command, env=clean(home), capture_output=True, text=True, timeout=PATIENCE, check=False)

    file = write(tmp_path / "a.json", conversation())
    for stream in ("<&-", "2>&-"):
        assert closed(stream, "--recorded", str(file)).stdout == "The notes say\nnothing new.\n"
    done = closed("<&-", "-", "--provider", "llama.cpp")
    assert (done.returncode, done.stderr) == (2, "legato: the standard input is closed\n")


# -- wrong input -------------------------------------------------------------------------------------------------------

TASK = ["Go.", "--provider", "llama.cpp"]
SERVER = ["--base-url", "http://127.0.0.1:9/v1"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "what is to be done?"),
        (["Go."], "which provider?"),
        (["Go.", "--provider", "no-such"], "no-such"),
        (["Go.", "--provider", "openai"], "which model of openai?"),
        (["Go.", "--base-url", "http://127.0.0.1:9/v1"], "which model of http://127.0.0.1:9/v1? --model NAME"),
        (["Go.", "--provider", "openai", "--model", "gpt-5"], "OPENAI_API_KEY"),
        (["Go.", "--provider", "vllm", "--model", "m", "--base-url", "ftp://x"], "no address"),
        (["Go.", "--provider", "vllm", "--model", "m", "--base-url", "http://"], "no address"),
        ([" ", "--provider", "llama.cpp"], "the task is empty"),
        ([*TASK, "--workspace", "nowhere"], "nowhere: No such file or directory"),
        ([*TASK, "--workspace", "a.txt"], "a.txt"),
        ([*TASK, "--policy", "frugal"], "no policy 'frugal'"),
        ([*TASK, "--window", "2k", "--max-output", "2k"], "leaves nothing"),
        ([*TASK, "--system", "@nowhere.md"], "nowhere.md: No such file or directory"),
        ([*TASK, "--system", "@latin.md"], "latin.md:1:4: not UTF-8"),
        ([*TASK, "--session", "nowhere/s.jsonl"], "nowhere/s.jsonl: No such file or directory"),
        ([*TASK, "--session", "a.txt"], "a.txt: is there already"),
        ([*TASK, "--resume", "a.txt"], "a.txt: is no session file"),
        ([*TASK, "--resume", "gone.jsonl"], "gone.jsonl: No such file or directory"),
        ([*TASK, "--resume"], "no session of"),
        (["--resume", "Go on."], "a task goes before --resume"),
        ([*TASK, "--session", "s.jsonl", "--resume"], "not allowed with"),
        ([*TASK, "--allow", "echo 'a"], "--allow"),
        ([*TASK, "--max-iterations", "0"], "not a number of rounds"),
        ([*TASK, "--window", "many"], "not a number of tokens"),
        ([*TASK, "--mcp", "/no/such/server"], "--mcp /no/such/server: No such file or directory"),
        ([*TASK, "--mcp", "echo hello"], "--mcp echo hello: "),
        ([*TASK, "--mcp", "http://127.0.0.1:9/mcp"], "--mcp http://127.0.0.1:9/mcp: "),
        (["Go.", "--recorded", "a.json"], "TASK: not with --recorded"),
        (["--recorded", "a.txt"], "a.txt:1:1: not JSON"),
        (["--recorded", "gone.json"], "gone.json: No such file or directory"),
        (["--recorded", "."], "a folder"),
        (["--recorded", "empty.json"], "nothing to play"),
        (["--recorded", "a.json", "--model", "m"], "--model needs --provider"),
        (["--recorded", "a.json", "--provider", "no-such"], "no-such"),
        (["--recorded", "a.json", "--session", "nowhere/s.jsonl"], "nowhere/s.jsonl: No such file or directory"),
    ],
)
def test_wrong_input_is_a_line_and_exit_code_2(arguments: list[str], said: str, home: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("no JSON\n", encoding="utf-8")
    (tmp_path / "latin.md").write_bytes(b"caf\xe9")
    write(tmp_path / "a.json", conversation())
    write(tmp_path / "empty.json", [])
    done = run(home, *arguments, folder=tmp_path, **NO_NETWORK)
    assert (done.code, done.out) == (2, "")
    *usage, last = done.err.splitlines()
    assert said in last
    assert all(line.startswith(("usage:", "  ")) for line in usage), done.err
    assert [path for path in sessions(home) if path.stat().st_size] == []


def test_a_server_that_does_not_answer_is_said_so(home: Path, tmp_path: Path) -> None:
    done = run(home, *TASK, *SERVER, folder=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert "ended: error: " in done.err
