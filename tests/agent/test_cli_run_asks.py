"""`legato run` at a terminal: who is asked before a tool runs, and what the answers mean."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from model_server import ModelServer
from run_command import Terminal, calls, run, says

SERVER = Path(__file__).with_name("mcp_server.py")
ASKED = "a = always"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    return work


def live(server: ModelServer) -> list[str]:
    return ["--provider", "llama.cpp", "--base-url", f"{server.url}/v1", "--window", "32k"]


def shell(command: str) -> tuple[str, str]:
    return "exec", json.dumps({"command": command})


def test_yes_runs_the_command_and_no_does_not(home: Path, folder: Path) -> None:
    answers = [calls(shell("echo a >> first")), calls(shell("echo b >> second")), says("So be it.")]
    with ModelServer(*answers) as server, Terminal(home, "Go.", *live(server), folder=folder) as terminal:
        assert "echo a >> first" in terminal.wait_for(ASKED)
        assert not (folder / "first").exists()
        terminal.type("y\n")
        assert "echo b >> second" in terminal.wait_for(ASKED)
        terminal.type("n\n")
        code, last = terminal.end()
    assert (code, "So be it." in last) == (0, True)
    assert (folder / "first").read_text(encoding="utf-8") == "a\n"
    assert not (folder / "second").exists()
    assert "declined" in server.asked[2].body["messages"][-1]["content"]


def test_always_holds_for_the_same_command_and_for_no_other(home: Path, folder: Path) -> None:
    same, other = shell("echo x >> made"), shell("echo y >> made")
    answers = [calls(same), calls(same, same), calls(other), says("Done.")]
    with ModelServer(*answers) as server, Terminal(home, "Go.", *live(server), folder=folder) as terminal:
        terminal.wait_for(ASKED)
        terminal.type("always\n")
        assert "echo y >> made" in terminal.wait_for(ASKED)
        terminal.type("\n")
        assert terminal.end()[0] == 0
    assert (folder / "made").read_text(encoding="utf-8") == "x\n" * 3


def test_what_is_no_answer_is_asked_again_and_the_end_of_input_is_a_no(home: Path, folder: Path) -> None:
    answers = [calls(shell("touch made")), says("Done.")]
    with ModelServer(*answers) as server, Terminal(home, "Go.", *live(server), folder=folder) as terminal:
        terminal.wait_for(ASKED)
        terminal.type("perhaps\n")
        terminal.wait_for(ASKED)
        terminal.type("\x04")
        assert terminal.end()[0] == 0
    assert not (folder / "made").exists()


def test_what_was_typed_before_the_question_is_no_answer_to_it(home: Path, folder: Path) -> None:
    wait = shell("touch waiting; while [ ! -e go ]; do sleep 0.05; done")
    answers = [calls(wait, shell("touch made")), says("Done.")]
    with (
        ModelServer(*answers) as server,
        Terminal(home, "Go.", *live(server), folder=folder) as terminal,
    ):
        terminal.wait_for(ASKED)
        terminal.type("y\n")
        terminal.wait_for("running exec")
        terminal.type("y\n")
        (folder / "go").touch()
        assert "touch made" in terminal.wait_for(ASKED)
        terminal.type("n\n")
        assert terminal.end()[0] == 0
    assert not (folder / "made").exists()


def test_ctrl_c_at_the_question_stops_the_run_and_nothing_was_run(home: Path, folder: Path) -> None:
    with (
        ModelServer(calls(shell("touch made")), says("It did not run.")) as server,
        Terminal(home, "Go.", *live(server), folder=folder) as terminal,
    ):
        terminal.wait_for(ASKED)
        terminal.type("\x03")
        terminal.wait_for("go on with: legato run --resume")
        assert terminal.end()[0] == 130
        assert run(home, "--resume", *live(server), folder=folder).out == "It did not run.\n"
    assert "did not run" in server.asked[1].body["messages"][-1]["content"]
    assert not (folder / "made").exists()


def test_the_whole_command_is_shown_and_none_of_it_steers_the_terminal(home: Path, folder: Path) -> None:
    command = "echo start; \x1b[2Jtouch made # \u202e" + "x" * 3_000 + "\nrm -rf /nowhere"
    answers = [calls(shell(command)), says("Done.")]
    with ModelServer(*answers) as server, Terminal(home, "Go.", *live(server), folder=folder) as terminal:
        shown = terminal.wait_for(ASKED)
        terminal.type("n\n")
        assert terminal.end()[0] == 0
    question = shown[shown.index("? Run this command?") :]
    assert "\x1b[2J" not in shown
    assert "\u202e" not in shown
    assert r"\x1b[2Jtouch made" in question
    assert "x" * 3_000 in "".join(question.split())
    assert "rm -rf /nowhere" in question


def test_tools_of_a_server_are_asked_for_by_name_unless_they_are_allowed(home: Path, folder: Path) -> None:
    server_command = shlex.join([sys.executable, str(SERVER)])
    add = ("add", json.dumps({"first": 2, "second": 3}))
    answers = [calls(add), calls(("add", json.dumps({"first": 4, "second": 5}))), says("Five and nine.")]
    with (
        ModelServer(*answers) as server,
        Terminal(home, "Add.", *live(server), "--mcp", server_command, folder=folder) as terminal,
    ):
        question = terminal.wait_for(ASKED)
        assert "Call add?" in question
        assert "first = 2" in question
        terminal.type("a\n")
        assert terminal.end()[0] == 0
    results = [m["content"] for m in server.asked[2].body["messages"] if m["role"] == "tool"]
    assert results == ["5", "9"]
    with ModelServer(calls(add), says("Five.")) as server:
        done = run(home, "Add.", *live(server), "--mcp", server_command, "--allow", "add", folder=folder)
    assert (done.code, done.out) == (0, "Five.\n")
    assert server.asked[1].body["messages"][-1]["content"] == "5"
