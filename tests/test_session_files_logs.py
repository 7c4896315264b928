"""Logs of requests: a body a line, with or without its response; requests that go on are one conversation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from legato.transcripts.readers import recordings
from legato.transcripts.recording import Recording
from test_cli import write

USAGE = {"prompt_tokens": 7}
HEAD = ("system", "systemInstruction", "instructions", "tools")
ANTHROPIC = {"role": "assistant", "content": [{"type": "text", "text": "yes"}]}
RESPONSES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "openai-chat": (
        {"messages": [{"role": "user", "content": "a?"}], "tools": [], "model": "m"},
        {"choices": [{"message": {"role": "assistant", "content": "yes"}}], "usage": USAGE},
    ),
    "anthropic": (
        {"messages": [{"role": "user", "content": "a?"}], "system": "s", "model": "m"},
        {**ANTHROPIC, "type": "message", "usage": USAGE},
    ),
    "gemini": (
        {"contents": [{"role": "user", "parts": [{"text": "a?"}]}], "systemInstruction": {"parts": [{"text": "s"}]}},
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "yes"}]}}], "usageMetadata": USAGE},
    ),
    "openai-responses": (
        {"input": [{"role": "user", "content": "a?"}], "instructions": "s"},
        {
            "output": [
                {"type": "reasoning", "id": "r", "summary": []},
                {"type": "message", "role": "assistant", "content": []},
            ],
            "usage": USAGE,
        },
    ),
    "bedrock": (
        {"messages": [{"role": "user", "content": [{"text": "a?"}]}], "inferenceConfig": {}},
        {"output": {"message": {"role": "assistant", "content": [{"text": "yes"}]}}, "usage": USAGE},
    ),
}


def read(path: Path, *lines: Any) -> list[Recording]:
    return list(recordings(str(write(path / "log.jsonl", *lines))))


@pytest.mark.parametrize("form", RESPONSES)
def test_the_response_beside_a_request_is_its_answer(tmp_path: Path, form: str) -> None:
    body, response = RESPONSES[form]
    (found,) = read(tmp_path, {"request": body, "response": response, "timestamp": 1_700_000_000})
    (turn,) = found.turns
    assert found.format == form
    assert (turn.at, turn.end, turn.usage, turn.time) == (1, len(found.messages), USAGE, 1_700_000_000.0)
    assert len(found.messages) > 1
    assert found.head == {key: body[key] for key in body if key in HEAD}


def test_requests_that_go_on_are_one_conversation_and_others_are_not(tmp_path: Path) -> None:
    first = [{"role": "user", "content": "a?"}]
    second = [*first, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c?"}]
    other = [{"role": "user", "content": "x?"}]
    third = [*second, {"role": "assistant", "content": "d"}, {"role": "user", "content": "e?"}]
    lines = [
        {"request": {"messages": each}, "usage": {"prompt_tokens": at}}
        for at, each in enumerate([first, other, second, third])
    ]
    alone, whole = sorted(read(tmp_path, *lines), key=lambda found: len(found.messages))
    assert alone.messages == other
    assert whole.messages == third
    assert [(turn.at, turn.usage["prompt_tokens"]) for turn in whole.turns] == [(1, 0), (3, 2), (5, 3)]
    assert [line for (line,) in whole.lines] == [1, 3, 3, 4, 4]


def test_a_history_alone_has_a_turn_for_each_answer(tmp_path: Path) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    items = [
        {"role": "user", "content": "a?"},
        {"type": "reasoning", "id": "r", "summary": []},
        call,
        {"type": "function_call_output", "call_id": "c", "output": "x"},
        {"type": "message", "role": "assistant", "content": "b"},
    ]
    (found,) = read(tmp_path, {"input": items})
    assert [(turn.at, turn.end) for turn in found.turns] == [(1, 3), (4, 5)]


def test_usage_that_a_note_keeps_is_the_turns(tmp_path: Path) -> None:
    noted = {"role": "assistant", "content": "b", "_usage": {"input": 3, "model": "m"}}
    (found,) = read(tmp_path, [{"role": "user", "content": "a?"}, noted])
    assert (found.turns[0].usage, found.turns[0].model) == (noted["_usage"], "m")


def test_a_long_log_is_read_as_it_is_asked_for(tmp_path: Path) -> None:
    file = write(tmp_path / "log.jsonl", *([{"role": "user", "content": f"question {at}"}] for at in range(40)))
    file.write_bytes(file.read_bytes() + b"torn")
    found = recordings(str(file))
    assert [next(found).label for _ in range(20)] == [str(at) for at in range(1, 21)]
