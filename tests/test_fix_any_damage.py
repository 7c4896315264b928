"""Whatever is done to the lines of a session file: it is repaired to one that is clean, or refused, and says why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legato.errors import WireError
from legato.transcripts.readers import READERS
from legato.transcripts.repair import Repair, repair
from legato.transcripts.source import Source
from sessions import SAMPLES, jsonl

NAMES = ["claude-code", "codex", "nanobot", "pi", "gemini-cli", "message-lines"]
IDS = {"claude-code": ("uuid", "parentUuid"), "pi": ("id", "parentId")}
TURNS = 3


def longer(name: str) -> list[bytes]:
    """The session so many times over, as one: ids differ, and each goes on where the one before it ended."""
    lines = SAMPLES[name].data.splitlines(keepends=True)
    head = {"claude-code": 1, "codex": 2, "nanobot": 1, "pi": 1, "gemini-cli": 1, "message-lines": 1}[name]
    found = lines[:head]
    end: str | None = None
    for turn in range(TURNS):
        for line in lines[head:]:
            value = json.loads(line)
            if name in IDS:
                key, above = IDS[name]
                value[above] = end
                end = value[key] = f"{value[key]}-{turn}"
            elif name == "gemini-cli":
                value["id"] += f"-{turn}"
            if name == "claude-code" and "id" in value["message"]:
                value["message"]["id"] += f"-{turn}"
            found.append(jsonl(value))
    return found


def operations(count: int) -> st.SearchStrategy[list[tuple[str, int]]]:
    kinds = st.sampled_from(["drop", "twice", "swap", "tear", "weld", "NUL", "cut", "number", "last"])
    return st.lists(st.tuples(kinds, st.integers(0, count - 1)), min_size=1, max_size=5)


def damaged(lines: list[bytes], kind: str, at: int) -> list[bytes]:
    at %= max(1, len(lines) - 1)
    line = lines[at]
    match kind:
        case "drop":
            new = [b""]
        case "twice":
            new = [line, line]
        case "swap":
            return [*lines[:at], *lines[at : at + 2][::-1], *lines[at + 2 :]]
        case "tear":
            new = [line[: len(line) // 2] + b"\n"]
        case "cut":
            new = [line[: len(line) // 3]]
        case "weld":
            new = [line.rstrip(b"\n")]
        case "NUL":
            new = [b"\0" * 64 + line]
        case "number":
            new = [line, b"42\n"]
        case _:
            return lines[: at + 1]
    return [*lines[:at], *new, *lines[at + 1 :]]


def repaired(file: Path) -> tuple[Repair, bytes]:
    with Source(str(file)) as source:
        found = repair(source, None)
        return found, b"".join(found.pieces()) if found.remarks else file.read_bytes()


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=60)
def test_it_is_clean_afterwards_and_what_was_whole_is_what_it_was(
    name: str, data: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines = longer(name)
    for kind, at in data.draw(operations(len(lines))):
        lines = damaged(lines, kind, at)
    file = tmp_path_factory.mktemp("fix") / "session"
    file.write_bytes(b"".join(lines))
    try:
        first, new = repaired(file)
    except WireError as problem:
        refused = str(problem)
        assert str(file) in refused
        return
    if not first.remarks:
        return
    file.write_bytes(new)
    if len(new.strip().splitlines()) < 2:
        return  # a single message is not told from any other object
    second, same = repaired(file)
    assert second.remarks == (), [remark.text for remark in second.remarks]
    assert same == new
    known = {json.dumps(json.loads(line)) for line in longer(name)}
    for line in filter(None, new.splitlines()):
        value = json.loads(line)
        if json.dumps(value) in known:
            assert any(line in old for old in lines), "a whole line is written in other words"
    if name in IDS:
        key, _ = IDS[name]
        ids = [
            value[key]
            for value in map(json.loads, filter(None, new.splitlines()))
            if isinstance(value, dict) and key in value
        ]
        assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("name", NAMES)
def test_the_long_session_of_these_tests_is_clean(tmp_path: Path, name: str) -> None:
    file = tmp_path / "session"
    file.write_bytes(b"".join(longer(name)))
    found, _ = repaired(file)
    assert (found.kind, found.remarks) == (READERS[name].title, ())
