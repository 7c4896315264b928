"""Session files of agents: each is known by what stands in it, read whole, and read around what is broken in it."""

from __future__ import annotations

import contextlib
import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import legato
from legato import wire
from legato.errors import WireError
from legato.transcripts import readers
from legato.transcripts.readers import READERS, recordings
from legato.transcripts.recording import Recording
from sessions import FOUND, LAST, SAMPLES, USAGE, claude_records, inspect_sample, jsonl, openhands_events, zipped
from test_cli import run, write

LINES = [name for name, sample in SAMPLES.items() if sample.lines]
every = pytest.mark.parametrize("name", SAMPLES)


def saved(path: Path, data: bytes, name: str = "session") -> str:
    (path / name).write_bytes(data)
    return str(path / name)


def read(path: Path, data: bytes, name: str = "session") -> Recording:
    (recording,) = (found for found in recordings(saved(path, data, name)) if not found.over)
    return recording


def same(one: Recording, other: Recording) -> bool:
    return (one.messages, one.head, len(one.turns)) == (other.messages, other.head, len(other.turns))


def test_there_is_a_sample_of_every_reader() -> None:
    assert set(SAMPLES) == set(READERS)


@every
@pytest.mark.parametrize("file", ["a", "a.json", "a.jsonl", "a.txt"])
def test_a_format_is_known_by_what_stands_in_the_file(tmp_path: Path, name: str, file: str) -> None:
    recording = read(tmp_path, SAMPLES[name].data, file)
    assert (recording.source, recording.format) == (name, SAMPLES[name].format)


@every
def test_a_session_is_read_whole(tmp_path: Path, name: str) -> None:
    """Two answers, the first with two calls, each answered; every word of it in its place."""
    recording = read(tmp_path, SAMPLES[name].data)
    assert len(recording.messages) == SAMPLES[name].messages
    assert len(recording.lines) == len(recording.messages)
    assert not any(note.damage for note in recording.notes)
    first, last = recording.turns
    transcript = wire.read(recording.payload, recording.format).transcript
    said = [call for message in transcript[first.at : first.end] for call in message.calls]
    assert [call.name for call in said] == ["look", "look"]
    assert last.end == len(recording.messages)
    results = [result for message in transcript[first.end : last.at] for result in message.results]
    assert len(results) == 2
    assert all(result.parts for result in results)
    texts = json.dumps(recording.messages, ensure_ascii=False)
    assert all(json.dumps(found, ensure_ascii=False)[1:-1] in texts for found in (*FOUND.values(), LAST))


@every
def test_a_whole_session_has_no_fault_and_the_command_says_so(tmp_path: Path, name: str) -> None:
    file = saved(tmp_path, SAMPLES[name].data)
    done = run("check", file)
    assert (done.returncode, done.stderr) == (0, "")
    assert "no errors in 1 conversation" in done.stdout


@every
def test_what_a_session_holds_can_be_governed(tmp_path: Path, name: str) -> None:
    done = run("govern", saved(tmp_path, SAMPLES[name].data), "--window", "100k")
    assert done.returncode == 0, done.stderr
    assert legato.check(json.loads(done.stdout), format=SAMPLES[name].format) == []


@every
def test_a_session_is_read_from_a_pipe_as_from_a_file(tmp_path: Path, name: str) -> None:
    done = run("check", "-", stdin=SAMPLES[name].data)
    assert done.returncode == 0
    assert done.stdout == run("check", saved(tmp_path, SAMPLES[name].data)).stdout


def test_times_models_and_usage_come_with_the_answers(tmp_path: Path) -> None:
    turns = read(tmp_path, SAMPLES["claude-code"].data).turns
    assert [(turn.model, turn.usage) for turn in turns] == [("claude-x", USAGE)] * 2
    assert [turn.time for turn in turns] == [1_772_359_201.0, 1_772_359_205.0]
    assert [turn.usage for turn in read(tmp_path, SAMPLES["codex"].data).turns] == [None, USAGE]
    assert read(tmp_path, SAMPLES["pi"].data).turns[0].usage["cacheRead"] == 7
    assert read(tmp_path, SAMPLES["inspect"].data).turns[0].usage == USAGE


def test_a_finding_names_the_line_where_its_message_stands(tmp_path: Path) -> None:
    lines = SAMPLES["claude-code"].data.splitlines(keepends=True)
    file = saved(tmp_path, b"".join(lines[:6] + lines[7:]))
    done = run("check", file, "--json")
    (found,) = json.loads(done.stdout)["findings"]
    assert (done.returncode, found["code"], found["at"], found["line"]) == (1, "PAIR002", 1, 3)


def test_the_question_at_the_end_is_the_users_so_an_answer_there_is_no_fault_of_a_session(tmp_path: Path) -> None:
    file = saved(tmp_path, SAMPLES["pi"].data)
    assert run("check", file, "--profile", "anthropic").returncode == 0
    assert run("check", file, "--profile", "portable").returncode == 0


# -- what is broken ----------------------------------------------------------------------------------------------------

Damage = Callable[[list[bytes]], list[bytes]]
NOTHING_LOST: dict[str, Damage] = {
    "a byte order mark": lambda lines: [b"\xef\xbb\xbf" + lines[0], *lines[1:]],
    "NULs before a line": lambda lines: [*lines[:2], b"\0" * 4096 + lines[2], *lines[3:]],
    "NULs inside a line": lambda lines: [*lines[:2], lines[2][:9] + b"\0\0" + lines[2][9:], *lines[3:]],
    "a line of NULs": lambda lines: [*lines[:2], b"\0" * 512 + b"\n", *lines[2:]],
    "two objects on a line": lambda lines: [*lines[:1], lines[1].rstrip(b"\n") + lines[2], *lines[3:]],
    "a torn line": lambda lines: [*lines[:2], lines[2][:25] + b"\n", *lines[2:]],
    "a torn line that the next one was written after": lambda lines: [*lines[:2], lines[1][:25] + lines[2], *lines[3:]],
    "a torn last line": lambda lines: [*lines, lines[-1][: len(lines[-1]) // 2]],
    "a torn first line": lambda lines: [lines[0][:30] + b"\n", *lines],
}
HARMLESS: dict[str, Damage] = {
    "CRLF": lambda lines: [line.replace(b"\n", b"\r\n") for line in lines],
    "blank lines": lambda lines: [each for line in lines for each in (line, b"\n", b"  \r\n")],
    "no end of the last line": lambda lines: [*lines[:-1], lines[-1].rstrip(b"\n")],
}


@pytest.mark.parametrize("damage", NOTHING_LOST)
@pytest.mark.parametrize("name", LINES)
def test_damage_is_read_around_and_noted_with_its_line(tmp_path: Path, name: str, damage: str) -> None:
    lines = SAMPLES[name].data.splitlines(keepends=True)
    broken = NOTHING_LOST[damage](lines)
    found = read(tmp_path, b"".join(broken))
    assert same(found, read(tmp_path, SAMPLES[name].data))
    wrong = next(at for at, line in enumerate(broken, 1) if line not in lines or broken.index(line) != at - 1)
    assert wrong in [note.line for note in found.notes if note.damage]


@pytest.mark.parametrize("damage", HARMLESS)
@pytest.mark.parametrize("name", LINES)
def test_what_is_no_damage_is_not_called_so(tmp_path: Path, name: str, damage: str) -> None:
    found = read(tmp_path, b"".join(HARMLESS[damage](SAMPLES[name].data.splitlines(keepends=True))))
    assert same(found, read(tmp_path, SAMPLES[name].data))
    assert not any(note.damage for note in found.notes)


def test_damage_is_an_error_for_the_command_too_and_it_says_what_mends_it(tmp_path: Path) -> None:
    file = saved(tmp_path, SAMPLES["nanobot"].data + b'{"role": "us')
    done = run("check", file)
    assert (done.returncode, done.stdout) == (1, "no errors in 1 conversation; 1 damaged place\n")
    assert done.stderr.startswith(f"legato: {file}:7: not JSON: cut off")
    assert "legato fix" in done.stderr
    for form in ("json", "github", "sarif"):
        done = run("check", file, "--format", form)
        assert (done.returncode, f"{file}:7: not JSON: cut off" in done.stdout) == (1, True)


@pytest.mark.parametrize("name", ["mini-swe-agent", "swe-agent", "cline", "cline-history", "inspect"])
def test_a_document_that_was_cut_is_refused_with_its_place(tmp_path: Path, name: str) -> None:
    file = saved(tmp_path, SAMPLES[name].data[: len(SAMPLES[name].data) * 2 // 3])
    done = run("check", file)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"legato: {file}")


@given(data=st.data())
@settings(max_examples=200)
def test_whatever_happened_to_a_file_it_is_read_or_refused(data: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    sample = SAMPLES[data.draw(st.sampled_from(sorted(SAMPLES)))]
    broken = bytearray(sample.data)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(broken)))
        end = min(len(broken), at + data.draw(st.sampled_from([0, 1, 7, 100])))
        broken[at:end] = data.draw(
            st.sampled_from([b"", b"\0", b"\n", b"}", b'"', b"\xff", b'{"role":"user"}', b"1e999", b"[" * 50])
        )
    file = saved(tmp_path_factory.mktemp("any"), bytes(broken))
    with contextlib.suppress(WireError):
        for recording in recordings(file):
            legato.check(recording.payload, format=recording.format)


def test_a_line_that_is_huge_or_nested_too_deeply_spoils_nothing_else(tmp_path: Path) -> None:
    lines = SAMPLES["claude-code"].data.splitlines(keepends=True)
    records = claude_records()
    records[6]["toolUseResult"] = "x" * 12_000_000
    deep = b'{"type":"progress","uuid":"d","data":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    found = read(tmp_path, b"".join([*lines[:2], deep, *lines[2:6], jsonl(records[6]), *lines[7:]]))
    assert same(found, read(tmp_path, SAMPLES["claude-code"].data))
    assert [note.line for note in found.notes if note.damage] == [3]


def test_a_file_of_lines_is_never_held_whole(tmp_path: Path) -> None:
    """Forty megabytes that are not sent are read in a tenth of that."""
    records = claude_records()
    with open(tmp_path / "a.jsonl", "wb") as stream:
        for at in range(400):
            stream.write(jsonl({"type": "progress", "uuid": f"x{at}", "parentUuid": None, "data": "x" * 100_000}))
        for record in records:
            stream.write(jsonl({**record, "toolUseResult": "y" * 100_000}))
    tracemalloc.start()
    try:
        (found,) = recordings(str(tmp_path / "a.jsonl"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(found.messages) == SAMPLES["claude-code"].messages
    assert peak < os.path.getsize(tmp_path / "a.jsonl") / 10


# -- more than one conversation ----------------------------------------------------------------------------------------


def test_each_sample_of_a_log_is_a_conversation_with_its_name(tmp_path: Path) -> None:
    second = {**inspect_sample(), "epoch": 2}
    file = saved(tmp_path, zipped(inspect_sample(), second), "log.eval")
    assert [recording.where for recording in recordings(file)] == [f"{file}#q/1", f"{file}#q/2"]
    assert "2 conversations" in run("check", file).stdout


def test_a_folder_of_events_is_one_conversation(tmp_path: Path) -> None:
    folder = tmp_path / "conversation"
    (folder / "events").mkdir(parents=True)
    for at, event in enumerate(openhands_events()):
        (folder / "events" / f"event-{at:05}-{event['id']}.json").write_text(json.dumps(event))
    (found,) = recordings(str(folder))
    assert same(found, read(tmp_path, SAMPLES["openhands"].data))


def test_a_plain_file_goes_on_being_read_as_it_was(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    file = write(tmp_path / "a.json", messages)
    (found,) = readers.read(str(file))
    assert (found.payload, found.where) == (messages, str(file))
    assert run("check", file).returncode == 1  # a request: portable wants roles to alternate
