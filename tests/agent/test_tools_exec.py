"""Commands: asked about before they run, bounded while they do, and gone with all they started when they are over."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from legato.agent.tool import Output, Tool
from legato.agent.tools import Limits, Toolbox, workspace_tools
from legato.agent.tools.commands import allowed, simple

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the environment of a process")


def toolbox(root: Path, **options: object) -> tuple[Toolbox, dict[str, Tool]]:
    box = workspace_tools(root, **options)  # type: ignore[arg-type]
    return box, {each.name: each for each in box}


def run(root: Path, command: str, **arguments: object) -> Output:
    _, tools = toolbox(root)
    return asyncio.run(tools["exec"].call({"command": command, **arguments}))


def ended(root: Path, command: str) -> Output:
    """What comes of a command whose time is up once it has made the file `ready`: on a slow machine it gets more."""
    for seconds in (0.3, 3, 30):
        output = run(root, command, timeout=seconds)
        if (root / "ready").exists():
            return output
    raise AssertionError("it never began")


def running(word: str) -> list[int]:
    """The processes with that word among their arguments."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError), open(f"/proc/{name}/cmdline", "rb") as stream:
                if word.encode() in stream.read().split(b"\0"):
                    found.append(int(name))
    return found


async def begun(word: str) -> None:
    """Wait until there is a process with that word among its arguments."""
    while not running(word):
        await asyncio.sleep(0.01)


@pytest.fixture
def seconds() -> Iterator[str]:
    """A number of seconds that no other process sleeps."""
    word = f"4321.{os.getpid()}{int.from_bytes(os.urandom(4))}"
    yield word
    assert running(word) == []


# -- what it returns ---------------------------------------------------------------------------------------------------


def test_output_and_errors_come_in_order_with_the_exit_code(tmp_path: Path) -> None:
    assert run(tmp_path, "echo one; echo two >&2; printf three; exit 3") == Output("one\ntwo\nthree\n[exit code 3]")
    assert run(tmp_path, "kill -9 $$").text == "[ended by SIGKILL]"
    assert run(tmp_path, "true").text == "[exit code 0]"
    assert run(tmp_path, "printf '\\xff\\xfe'").text == "\ufffd\ufffd\n[exit code 0]"
    assert run(tmp_path, "cat").text == "[exit code 0]"  # nobody to wait for at the standard input


def test_it_runs_in_the_workspace_or_a_folder_of_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert run(tmp_path, "pwd").text.startswith(f"{os.path.realpath(tmp_path)}\n")
    assert run(tmp_path, "pwd", workdir="sub").text.startswith(f"{os.path.realpath(tmp_path)}/sub\n")
    assert run(tmp_path, "pwd", workdir="..") == Output(".. is outside the workspace", error=True)


def test_no_secret_of_the_environment_reaches_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "MY_PASSWORD", "BASH_ENV", "LD_PRELOAD_"):
        monkeypatch.setenv(name, "the-secret")
    monkeypatch.setenv("PATH", f".::relative:{os.environ['PATH']}")
    monkeypatch.setenv("LC_TIME", "C")
    _, tools = toolbox(tmp_path, env={"EXTRA": "given"})
    text = asyncio.run(tools["exec"].call({"command": "env"})).text
    variables = dict(line.partition("=")[::2] for line in text.splitlines())
    assert "the-secret" not in text
    assert variables["EXTRA"] == "given"
    assert variables["LC_TIME"] == "C"
    assert all(os.path.isabs(folder) for folder in variables["PATH"].split(":"))


# -- limits ------------------------------------------------------------------------------------------------------------


def test_a_command_that_takes_too_long_is_ended_and_what_it_said_is_kept(tmp_path: Path, seconds: str) -> None:
    output = ended(tmp_path, f"echo begun; touch ready; sleep {seconds}")
    assert output.error
    assert re.fullmatch(r"begun\n\[ended: it ran for more than [\d.]+ seconds\]", output.text)


def test_a_command_that_will_not_end_is_killed(tmp_path: Path, seconds: str) -> None:
    output = ended(tmp_path, f"trap '' TERM INT HUP; touch ready; while :; do sleep {seconds}; done")
    assert output.error


def test_a_command_may_tidy_up_before_it_is_killed(
    tmp_path: Path, seconds: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("legato.agent.tools.execution.GRACE", 60.0)
    output = ended(tmp_path, f"trap 'echo tidy; exit' TERM; touch ready; sleep {seconds} & wait")
    assert output.text.startswith("tidy\n")


def test_a_flood_of_output_ends_the_command_and_its_ends_are_kept(tmp_path: Path) -> None:
    _, tools = toolbox(tmp_path, limits=Limits(flood=1 << 20, kept=1_000))
    output = asyncio.run(tools["exec"].call({"command": "echo first; yes", "timeout": 60}))
    assert output.error
    assert output.text.startswith("first\ny\n")
    assert output.text.endswith("y\n[ended: it wrote more than 1,048,576 bytes]")
    assert "bytes of output were not kept" in output.text
    assert len(output.text) < 1_200


@LINUX
@pytest.mark.parametrize(
    "command",
    [
        "sleep {s} & sleep {s}",
        "(sleep {s} & sleep {s} &) ; sleep {s}",
        "setsid sleep {s} & sleep {s}",
        "(setsid setsid nohup sleep {s} >/dev/null 2>&1 &) ; sleep {s}",
        "trap '' TERM; setsid sh -c \"trap '' TERM; sleep {s}; sleep {s}\" & sleep {s}",
        '{python} -c \'import os; os.fork() or os.setsid() or os.execlp("sleep", "sleep", "{s}")\'; sleep {s}',
    ],
)
@pytest.mark.parametrize("how", ["timeout", "cancelled", "cancelled twice", "session"])
def test_grandchildren_end_with_it_however_they_hide(tmp_path: Path, seconds: str, command: str, how: str) -> None:
    command = "echo begun >&2; " + command.format(s=seconds, python=sys.executable)

    async def scenario() -> None:
        box, tools = toolbox(tmp_path)
        if how == "timeout":
            assert (await tools["exec"].call({"command": command, "timeout": 0.5})).error
        elif how == "session":
            async with box:
                await tools["exec"].call({"command": command, "background": True})
                await begun(seconds)
        else:
            task = asyncio.create_task(tools["exec"].call({"command": command}))
            await begun(seconds)
            task.cancel()
            if how == "cancelled twice":
                await asyncio.sleep(0)
                task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(scenario())
    assert running(seconds) == []


@LINUX
def test_what_a_finished_command_left_running_is_ended_and_named(tmp_path: Path, seconds: str) -> None:
    output = run(tmp_path, f"setsid sleep {seconds} & echo done")
    assert output == Output("done\n[exit code 0; what it left running was ended]")


# -- sessions ----------------------------------------------------------------------------------------------------------


def test_a_session_is_talked_to_listed_and_ended(tmp_path: Path, seconds: str) -> None:
    async def scenario() -> None:
        box, tools = toolbox(tmp_path)

        async def call(name: str, **arguments: object) -> str:
            return (await tools[name].call(arguments)).text

        async def answer(text: str) -> str:
            said = await call("write_stdin", session=1, text=text, wait=0)
            while said == "[session 1: running]":
                said = await call("write_stdin", session=1, wait=0.05)
            return said

        async with box:
            assert await call("list_exec_sessions") == "no commands in the background"
            assert (
                await call("exec", command="read a; echo got $a; cat; exit 4", background=True)
                == "[session 1: running]"
            )
            assert await answer("it\n") == "got it\n[session 1: running]"
            assert await call("write_stdin", session=1, wait=0) == "[session 1: running]"
            assert "1  running" in await call("list_exec_sessions")
            assert "bytes unread  read a; echo got $a; cat; exit 4" in await call("list_exec_sessions")
            text = await call("write_stdin", session=1, text="rest", close=True, wait=30)
            assert text == "rest\n[session 1: exit code 4]"
            assert await call("write_stdin", session=1, text="more") == "session 1 reads no more: exit code 4"
            await call("exec", command=f"sleep {seconds}", background=True)
            assert await call("kill_exec_session", session=2) == "[session 2 was ended: ended by SIGTERM]"
            assert await call("kill_exec_session", session=2) == "no session 2; there are: 1"

    asyncio.run(scenario())


def test_a_session_that_does_not_read_does_not_hold_the_agent_up(tmp_path: Path, seconds: str) -> None:
    async def scenario() -> Output:
        box, tools = toolbox(tmp_path)
        async with box:
            await tools["exec"].call({"command": f"sleep {seconds}", "background": True})
            return await tools["write_stdin"].call({"session": 1, "text": "x" * 10_000_000})

    assert asyncio.run(scenario()) == Output("session 1 does not read its standard input", error=True)


def test_no_more_sessions_than_the_limit_run_at_once(tmp_path: Path, seconds: str) -> None:
    async def scenario() -> list[bool]:
        box, tools = toolbox(tmp_path, limits=Limits(sessions=2))
        async with box:
            arguments = {"command": f"sleep {seconds}", "background": True}
            return [(await tools["exec"].call(arguments)).error for _ in range(3)]

    assert asyncio.run(scenario()) == [False, False, True]


# -- who may run -------------------------------------------------------------------------------------------------------

PATTERNS = ["git status", "git log *", "pytest *", "./run"]


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "  git   status ",
        "git log",
        "git log --oneline HEAD~1 -- 'a;b' \"c && d\"",
        "pytest tests/test_a.py::test_b -k 'not slow'",
        "./run",
        "'git' \"status\"",
    ],
)
def test_a_simple_command_that_fits_a_pattern_needs_no_leave(command: str) -> None:
    assert allowed(command, PATTERNS) == shlex.split(command)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "git",
        "git push",
        "git status -v",
        "git -c core.pager=sh status",
        "git status; rm -rf /",
        "git status;rm -rf /",
        "git status && rm x",
        "git status || rm x",
        "git status & rm x",
        "git status | sh",
        "git status > /etc/passwd",
        "git log >(sh)",
        "git log $(rm x)",
        "git log `rm x`",
        'git log "$(rm x)"',
        'git log "`rm x`"',
        "git log $HOME",
        "git log ${x}",
        "git log\nrm x",
        "git log\rrm x",
        "git log '\nrm x'",
        "git log \\\nrm x",
        "git log \\; rm",
        "git log 'unclosed",
        "git log *",
        "git log {a,b}",
        "git log ~",
        "git log # x",
        "git log !x",
        "git log \0",
        "GIT_PAGER=sh git log",
        "env git status",
        "/tmp/git status",
        "git\u00a0status",
        "git\u2028status",
        "(git status)",
        "{ git status; }",
        "git lo\\g",
    ],
)
def test_a_command_that_a_shell_makes_more_of_is_asked_about(command: str) -> None:
    assert allowed(command, PATTERNS) is None


PIECES = [
    "a",
    "b-1",
    "=",
    "'a b'",
    '"c d"',
    "''",
    '"\'"',
    "x~y",
    "~",
    "#",
    "é",
    "\u00a0",
    "a",
    " ",
    " ",
    "\t",
    "'",
    '"',
]
ODD = ["$x", "\\", ";", "&", "|", "<a", "*", "?", "[ab]", "{a,b}", "`", "!", "\n", "(", ")"]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much])
@example("a\u0085b")
@example("a'b'\"c\"~#")
@given(command=st.lists(st.sampled_from(PIECES) | st.sampled_from(PIECES + ODD), min_size=1, max_size=8).map("".join))
def test_a_simple_command_is_the_same_words_to_a_shell(tmp_path: Path, command: str) -> None:
    words = simple(command)
    assume(words)
    shell = subprocess.run(
        ["/bin/sh", "-c", f"printf '%s\\0' {command}"], cwd=tmp_path, stdout=subprocess.PIPE, check=True
    )
    assert shell.stdout.decode().split("\0")[:-1] == words


def test_an_allowed_command_runs_without_a_shell(tmp_path: Path) -> None:
    _, tools = toolbox(tmp_path, allow=["echo *"])
    assert asyncio.run(tools["exec"].call({"command": "echo 'a b' '$HOME' ';'"})).text == "a b $HOME ;\n[exit code 0]"
    _, tools = toolbox(tmp_path, allow=["nosuchprogram *"])
    assert asyncio.run(tools["exec"].call({"command": "nosuchprogram x"})) == Output(
        "nosuchprogram: not found", error=True
    )


def test_the_question_shows_what_will_run_and_cannot_be_forged(tmp_path: Path) -> None:
    _, tools = toolbox(tmp_path, allow=["git status"])
    question = tools["exec"].question
    assert question({"command": "git status"}) is None
    assert question({"command": "rm x", "workdir": "sub"}) == "Run this command in sub?\nrm x"
    assert question({"command": "rm x\x1b[2K\rls \u202e", "background": True}) == (
        "Run this command in the background?\nrm x\\x1b[2K\\rls \\u202e"
    )
    assert tools["write_stdin"].question({"session": 1, "text": "rm x\n"}) == "Send this to session 1?\nrm x\n"
    assert tools["write_stdin"].question({"session": 1}) is None
    _, tools = toolbox(tmp_path, ask=False)
    assert tools["exec"].question({"command": "rm x"}) is None
