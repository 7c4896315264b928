"""`legato replay` as a person or a program uses it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from legato.cli import main
from legato.cli import replay as command
from legato.replay import live
from legato.replay.policies import DEFAULT, choose
from legato.replay.stage import Stage
from stories import random_story


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "session.json"
    path.write_text(json.dumps(random_story(5, 12).messages), encoding="utf-8")
    return str(path)


def test_the_table_has_a_row_a_policy_and_its_sums(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", file, "--window", "4k", "--max-output", "500"]) == 0
    out = capsys.readouterr().out
    lines = [line.split() for line in out.splitlines()]
    names = [line[0] for line in lines if line and line[0] in DEFAULT]
    assert names == list(DEFAULT)
    assert "13 requests, window 4,000" in out
    assert "\x1b" not in out


def test_the_named_policies_alone_are_compared(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["replay", file, "--policy", "none,cache-friendly", "--policy", "sliding-window", "--window", "4k"]) == 0
    )
    rows = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.split()]
    assert [name for name in rows if name in DEFAULT] == ["none", "cache-friendly", "sliding-window"]


def test_the_json_is_that_of_each_recording(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", file, file, "--json", "--policy", "none", "--window", "4k"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert [len(each["requests"]) for each in written["replays"]] == [13, 13]
    assert all(each["version"] == 1 for each in written["replays"])


def test_the_optimum_is_shown_where_it_is_asked_for(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["replay", file, "--optimum", "--policy", "cache-friendly", "--window", "4k", "--max-output", "500"]) == 0
    )
    assert "the least cost that keeps as much (" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--policy", "nonsense"], "no policy 'nonsense'"),
        (["--window", "1000"], "leaves nothing"),
        (["--profile", "nonsense"], "nonsense"),
    ],
)
def test_what_cannot_be_played_is_said_in_a_line(
    file: str, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", file, *arguments]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("text", ["", "not json", "[]", '[{"role": "user", "content": "Hi."}]', "[[[[", "\x00"])
def test_a_file_without_a_request_is_refused_with_its_name(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "odd.json"
    path.write_text(text, encoding="utf-8")
    assert main(["replay", str(path)]) == 2
    assert "odd.json" in capsys.readouterr().err


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "/no/such/file"]) == 2
    assert "/no/such/file" in capsys.readouterr().err


def test_live_does_not_wait_and_shows_some_requests_where_the_output_is_no_terminal(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def sleep(_: float) -> None:
        raise AssertionError("it waits, and nobody looks")

    monkeypatch.setattr(command, "sleep", sleep)
    assert main(["replay", file, "--live", "--window", "4k", "--max-output", "500"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert all(each in out for each in ("request 13 of 13", "sliding-window", "cache-friendly"))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_live_draws_each_frame_over_the_one_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(command, "sleep", slept.append)
    stage = Stage.of(random_story(5, 12), 4_000, 500)
    stream = Terminal()
    command._moving(live.frames(stage, choose(["cache-friendly"]), lambda _, text: text), 13, stream)
    out = stream.getvalue()
    assert out.count("\x1b[3A") == 12, "three lines a frame, and nothing is above the first"
    assert len(slept) == 13
    assert max(slept) <= command.SLOWEST


@pytest.mark.parametrize("columns", [72, 80, 120, 300])
def test_no_line_is_longer_than_the_terminal_is_wide(columns: int) -> None:
    stage = Stage.of(random_story(5, 12), 4_000, 500)
    choices = choose(["sliding-window", "protect-newest-40k"])
    lines = [line for frame in live.frames(stage, choices, lambda _, text: text, columns) for line in frame.lines]
    assert max(map(len, lines)) <= columns


def test_signs_stand_for_blocks_where_the_output_has_none() -> None:
    stage = Stage.of(random_story(5, 12), 4_000, 500)
    frames = live.frames(stage, choose(["cache-friendly"]), lambda _, text: text, cells=live.SIGNS)
    assert all(line.isascii() for frame in frames for line in frame.lines)


def test_the_gauge_is_as_wide_whatever_stands_in_it() -> None:
    stage = Stage.of(random_story(5, 12), 4_000, 500)
    frames: list[Any] = list(live.frames(stage, choose(["none", "cache-friendly"]), lambda _, text: text))
    assert [frame.last for frame in frames] == [False] * 12 + [True]
    assert any(frame.event for frame in frames)
    starts = {line.index("evidence") for frame in frames for line in frame.lines if "evidence" in line}
    assert len(starts) == 1
