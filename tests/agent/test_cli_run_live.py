"""`legato run` with a model behind a loopback server, and tools that really work in a scratch folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from apis import chat_whole
from legato.agent.sessionfile import Finished, Said, Unanswered
from model_server import ModelServer, Stream, Whole
from run_command import PATIENCE, PROGRAM, Terminal, calls, clean, lines_of, run, says, sessions, until

FIX = json.dumps({"path": "a.py", "old": "x = 1", "new": "x = 2"})


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository to work in."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.py").write_text("x = 1\n", encoding="utf-8")
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    return work


def live(server: ModelServer) -> list[str]:
    return ["--provider", "llama.cpp", "--model", "tiny", "--base-url", f"{server.url}/v1", "--window", "32k"]


def test_tools_work_in_the_folder_and_the_answer_comes_out(home: Path, folder: Path) -> None:
    answers = [
        calls(("read_file", '{"path": "a.py"}'), said="I look."),
        calls(("edit_file", FIX)),
        calls(("exec", '{"command": "git status --short"}')),
        says("Done.\nIt is 2 now."),
    ]
    with ModelServer(*answers) as server:
        done = run(home, "Make x 2.", *live(server), "--allow", "git status *", folder=folder)
    assert (done.code, done.out) == (0, "Done.\nIt is 2 now.\n")
    assert (folder / "a.py").read_text(encoding="utf-8") == "x = 2\n"
    for part in ("I look.", "> read_file path=a.py", "> edit_file path=a.py", "?? a.py", "of 26.9k", "llama.cpp"):
        assert part in done.err, part
    assert [asked.path for asked in server.asked] == ["/v1/chat/completions"] * 4
    assert all(asked.body["stream"] for asked in server.asked)
    [session] = sessions(home)
    assert f'go on with: legato run "TASK" --resume {session}' in done.err


def test_without_a_terminal_a_command_runs_only_where_it_was_allowed(home: Path, folder: Path) -> None:
    touch = ("exec", '{"command": "touch made"}')
    with ModelServer(calls(touch), says("I could not.")) as server:
        refused = run(home, "Make it.", *live(server), folder=folder)
    assert refused.code == 0
    assert "nobody to ask" in refused.err
    assert not (folder / "made").exists()
    with ModelServer(calls(touch), says("I did.")) as server:
        assert run(home, "Make it.", *live(server), "--yes", folder=folder).code == 0
    assert (folder / "made").exists()


def test_without_the_web_nothing_is_searched_or_fetched_there_and_a_run_that_goes_on_stays_off_it(
    home: Path, folder: Path
) -> None:
    fetch = ("web_fetch", json.dumps({"url": "http://127.0.0.1:9/"}))
    with ModelServer(calls(fetch), says("I could not.")) as server:
        done = run(home, "Fetch it.", *live(server), "--no-web", folder=folder)
    assert (done.code, done.out) == (0, "I could not.\n")
    assert "There is no tool 'web_fetch'" in done.err
    offered = {tool["function"]["name"] for tool in server.asked[0].body["tools"]}
    assert {"read_file", "exec"} <= offered
    assert not {"web_fetch", "web_search"} & offered
    assert done.err.endswith(" --no-web\n")


def test_json_events_tell_the_same_story_as_the_plain_lines(home: Path, folder: Path) -> None:
    answers = [calls(("read_file", '{"path": "a.py"}')), says("It is 1.")]
    with ModelServer(*answers) as server:
        done = run(home, "What is x?", *live(server), "--json", folder=folder)
    events = [json.loads(line) for line in done.out.splitlines()]
    kinds = [event["type"] for event in events]
    assert done.code == 0
    assert kinds == [
        "session",
        "run_started",
        "before_request",
        "after_request",
        "tool_started",
        "tool_finished",
        "before_request",
        "text",
        "after_request",
        "run_ended",
    ]
    assert events[0]["file"] == str(*sessions(home))
    assert "exec" in events[0]["tools"]
    assert "x = 1" in events[5]["text"]
    assert events[6]["prefix_share"] == 1.0
    assert (events[-1]["stop"], events[-1]["text"], events[-1]["requests"]) == ("completed", "It is 1.", 2)
    assert events[-1]["usage"]["prompt_tokens"] == 22


def test_a_finished_session_takes_the_next_task_and_the_newest_is_that_of_the_folder(
    home: Path, folder: Path, tmp_path: Path
) -> None:
    with ModelServer(says("Here."), says("There."), says("Here again.")) as server:
        options = live(server)
        assert run(home, "First.", *options, folder=folder).code == 0
        assert run(home, "Elsewhere.", *options, folder=tmp_path).code == 0
        finished = run(home, "--resume", *options, folder=folder)
        assert (finished.code, "nothing was interrupted" in finished.err) == (2, True)
        assert run(home, "Second.", "--resume", *options, folder=folder).out == "Here again.\n"
    said = [message["content"] for message in server.asked[-1].body["messages"] if message["role"] != "system"]
    assert said == ["First.", "Here.", "Second."]


def test_a_session_in_which_nothing_was_said_is_not_the_one_to_go_on_with(home: Path, folder: Path) -> None:
    with ModelServer(says("Here."), says("Here again.")) as server:
        assert run(home, "First.", *live(server), folder=folder).code == 0
        [first] = sessions(home)
        empty = first.with_name("9999-01-01T00-00-00.jsonl")
        empty.write_bytes(first.read_bytes().partition(b"\n")[0] + b"\n")
        assert run(home, "Second.", "--resume", *live(server), folder=folder).out == "Here again.\n"
    assert [type(line) for line in lines_of(first)].count(Said) == 2


def test_a_session_knows_its_provider_but_gives_no_key_to_an_address_it_names(home: Path, folder: Path) -> None:
    with ModelServer(says("One."), says("Two.")) as server:
        options = live(server)
        assert run(home, "First.", *options, folder=folder).code == 0
        done = run(home, "Second.", "--resume", folder=folder)
        assert (done.code, server.url in done.err, "--base-url" in done.err) == (2, True, True)
        done = run(home, "Second.", "--resume", "--base-url", f"{server.url}/v1", folder=folder)
        assert (done.code, done.out) == (0, "Two.\n")
    assert server.asked[1].body["model"] == "tiny"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_process_group_leaves_a_session_that_goes_on(
    number: signal.Signals, home: Path, folder: Path
) -> None:
    wait = json.dumps({"command": "touch begun && sleep 600"})
    answers = [calls(("read_file", '{"path": "a.py"}')), calls(("exec", wait)), says("It had begun.")]
    with ModelServer(*answers) as server:
        options = [*live(server), "--yes"]
        process = subprocess.Popen(
            [*PROGRAM, "Wait.", *options],
            cwd=folder,
            env=clean(home),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        until((folder / "begun").exists)
        os.killpg(process.pid, number)
        out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, out) == (128 + number, "")
        assert "Traceback" not in err
        [session] = sessions(home)
        assert f"legato run --resume {session}" in err
        assert [type(line) for line in lines_of(session)].count(Finished) == 1

        done = run(home, "--resume", session, *options, folder=folder)
    assert (done.code, done.out) == (0, "It had begun.\n")
    shown = [m["content"] for m in server.asked[-1].body["messages"] if m["role"] == "tool"]
    assert "x = 1" in shown[0]
    assert "may or may not have run" in shown[1]
    assert [type(line) for line in lines_of(session)].count(Unanswered) == 1


def test_ctrl_c_while_the_model_answers_stops_the_run_and_what_was_asked_is_kept(home: Path, folder: Path) -> None:
    half = Stream(says("I begin\nand go on").events[:1], end="silence")
    with (
        ModelServer(half, says("All of it.")) as server,
        Terminal(home, "Go.", *live(server), folder=folder) as terminal,
    ):
        terminal.wait_for("I begin")
        terminal.type("\x03")
        terminal.wait_for("ended: cancelled")
        terminal.wait_for("go on with: legato run --resume")
        assert terminal.end()[0] == 130
        assert server.hung_up.wait(PATIENCE)
        [session] = sessions(home)
        assert [type(line) for line in lines_of(session)] == [Said]
        assert run(home, "--resume", session, *live(server), folder=folder).out == "All of it.\n"


def test_a_second_ctrl_c_ends_the_program_at_once(home: Path, folder: Path) -> None:
    stubborn = json.dumps({"command": "trap '' TERM; touch begun; while :; do sleep 1; done"})
    with (
        ModelServer(calls(("exec", stubborn))) as server,
        Terminal(home, "Go.", *live(server), "--yes", folder=folder) as terminal,
    ):
        until((folder / "begun").exists)
        terminal.type("\x03\x03")
        code, last = terminal.end()
    assert code == 130
    assert "Traceback" not in last


def test_what_the_provider_answers_instead_of_a_turn_is_said_and_is_no_success(home: Path, folder: Path) -> None:
    broken = Whole({"error": {"message": "no such model\x1b[31m", "type": "invalid_request_error"}}, 404)
    with ModelServer(broken) as server:
        done = run(home, "Go.", *live(server), folder=folder)
    assert (done.code, done.out) == (1, "")
    assert "ended: error: " in done.err
    assert "no such model" in done.err
    assert "\x1b" not in done.err


def test_a_run_that_does_not_come_to_an_answer_says_how_it_ended(home: Path, folder: Path) -> None:
    look = ("list_dir", "{}")
    with ModelServer(calls(look), calls(look), says("That far I came.")) as server:
        done = run(home, "Go.", *live(server), "--max-iterations", "2", folder=folder)
    assert (done.code, done.out) == (1, "That far I came.\n")
    assert 'legato: ended: max_iterations\nlegato: go on with: legato run "TASK" --resume' in done.err


def test_what_is_cut_can_be_read_back_and_every_request_fits(home: Path, folder: Path) -> None:
    (folder / "long.txt").write_text("".join(f"line {nth}, like no other\n" for nth in range(3_000)), encoding="utf-8")
    reads = [calls(("read_file", json.dumps({"path": "long.txt", "start": nth * 200 + 1}))) for nth in range(12)]
    options = ["--window", "12k", "--max-output", "500"]
    with ModelServer(*reads, says("Read.")) as server:
        done = run(home, "Read it.", *live(server), *options, "--json", folder=folder)
    assert done.code == 0
    requests = [event for line in done.out.splitlines() if (event := json.loads(line))["type"] == "before_request"]
    assert all(event["context_share"] <= 1 for event in requests)
    assert any(event["report"]["changes"] for event in requests)
    assert (home / "legato" / "recall").is_dir()
    assert "recall(" in json.dumps(server.asked[-1].body["messages"])


def test_an_answer_that_does_not_stream_is_shown_too(home: Path, folder: Path) -> None:
    with ModelServer(Whole(chat_whole({"content": "All at once."}))) as server:
        done = run(home, "Go.", *live(server), folder=folder)
    assert (done.code, done.out) == (0, "All at once.\n")


def test_the_task_and_the_system_prompt_may_come_from_files(home: Path, folder: Path) -> None:
    (folder / "system.md").write_text("You are terse. – 🙂", encoding="utf-8")
    with ModelServer(says("Yes.")) as server:
        done = run(home, "-", "--system", "@system.md", *live(server), folder=folder, stdin="Is it so?\n")
    assert done.out == "Yes.\n"
    system, task = server.asked[0].body["messages"]
    assert (system["content"], task["content"].strip()) == ("You are terse. – 🙂", "Is it so?")


def test_a_session_that_another_run_is_writing_is_left_alone(home: Path, folder: Path) -> None:
    with (
        ModelServer(Stream(says("I begin\n").events[:1], end="silence")) as server,
        Terminal(home, "Go.", *live(server), folder=folder) as terminal,
    ):
        terminal.wait_for("I begin")
        done = run(home, "--resume", *live(server), folder=folder)
        assert (done.code, done.out) == (2, "")
        assert "another runner is writing this session" in done.err
        terminal.type("\x03")
        assert terminal.end()[0] == 130


def test_a_library_that_is_missing_is_named_with_what_to_install(home: Path, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "openai.py").write_text("raise ModuleNotFoundError(name='openai')\n", encoding="utf-8")
    done = run(home, "Go.", "--provider", "llama.cpp", folder=folder, PYTHONPATH=str(tmp_path))
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith("legato: the agent needs openai: pip install 'legato[agent]'\n")
