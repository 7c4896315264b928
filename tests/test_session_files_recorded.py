"""The recorded sessions beside the repository, read; how much stands in them is counted here in another way."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any

import pytest

from legato.transcripts.readers import recordings
from recorded import jsonl, needs_transcripts

FOLDER = needs_transcripts()
CLAUDE = sorted(path.name for path in (FOLDER / "claude-code").glob("*.jsonl") if path.name != "openai.jsonl")
PI = sorted(path.name for path in (FOLDER / "pi-mono" / "native").glob("*.jsonl"))
PLAIN = sorted(
    str(path.relative_to(FOLDER))
    for path in FOLDER.glob("*/*.jsonl")
    if path.parent.name not in ("claude-code", "provider-requests", "openhands-events", "openhands-sdk")
)


def bodies(name: str) -> list[Any]:
    return list(jsonl(name))


@pytest.mark.parametrize("name", CLAUDE)
def test_claude_code(name: str) -> None:
    """None of these files has branches: every line with a message in it is sent, and no answer is split."""
    lines = [value for value in bodies(f"claude-code/{name}") if isinstance(value, dict)]
    said = [line["message"] for line in lines if isinstance(line.get("message"), dict) and "content" in line["message"]]
    (found,) = recordings(str(FOLDER / "claude-code" / name))
    assert len(found.turns) == sum(message["role"] == "assistant" for message in said)
    assert len(found.messages) == len(said)
    assert [message["content"] for message in found.messages] == [message["content"] for message in said]


def test_the_claude_code_sessions_say_what_their_openai_form_says() -> None:
    for body in bodies("claude-code/openai.jsonl"):
        (found,) = recordings(str(FOLDER / "claude-code" / body["id"]))
        asked = [message["content"] for message in body["messages"] if message["role"] == "user" and message["content"]]
        texts = json.dumps(found.messages, ensure_ascii=False)
        assert all(json.dumps(text, ensure_ascii=False)[1:-1] in texts for text in asked if isinstance(text, str))


@pytest.mark.parametrize("name", PI)
def test_pi(name: str) -> None:
    """Every answer is a turn; the messages are those that were not stopped, runs of results being one, and a summary
    for each compaction, which is followed by what it keeps: entries are counted, the first line too."""
    entries = bodies(f"pi-mono/native/{name}")
    compactions = [(at, entry) for at, entry in enumerate(entries) if entry["type"] == "compaction"]
    messages = [entry["message"] for entry in entries if entry["type"] == "message"]
    kept = [entry for entry in entries if entry["type"] in ("message", "compaction")]
    sent = [each.get("message", {"role": "summary"}) for each in kept]
    sent = [message for message in sent if message.get("stopReason") not in ("aborted", "error")]
    runs = [
        key
        for key, run in groupby(sent, lambda message: message["role"])
        for _ in ([0] if key == "toolResult" else run)
    ]
    found = list(recordings(str(FOLDER / "pi-mono" / "native" / name)))
    assert len(found) == 1 + len(compactions)
    for each, (_, entry) in zip(found[1:], compactions, strict=True):
        assert each.lines[1] == (entry["firstKeptEntryIndex"] + 1,)
    assert sum(len(each.turns) for each in found) == sum(message["role"] == "assistant" for message in messages)
    since = [0, *(at + 1 for at, _ in compactions)]
    assert sum(line[0] >= start for each, start in zip(found, since, strict=True) for line in each.lines) == len(runs)
    recorded = [message["usage"] for message in messages if message["role"] == "assistant"]
    assert [turn.usage for each in found for turn in each.turns] == recorded
    assert [each.over for each in found] == [True] * (len(found) - 1) + [False]


def test_cline() -> None:
    whole = json.loads((FOLDER / "cline" / "session.messages.json").read_text(encoding="utf-8"))
    (found,) = recordings(str(FOLDER / "cline" / "session.messages.json"))
    assert len(found.messages) == len(whole["messages"]) == 32
    assert [turn.usage for turn in found.turns] == [
        message["metrics"] for message in whole["messages"] if "metrics" in message
    ]
    assert found.head == {"system": whole["system_prompt"]}


@pytest.mark.parametrize("name", ["multi_swe_bench.jsonl", "runtime_trajs.jsonl"])
def test_openhands_against_the_messages_made_of_the_same_events(name: str) -> None:
    """The other reading leaves out the system prompt, what the user recalls, and the finish at the end."""
    rebuilt = {body["id"]: body["messages"] for body in bodies("openhands-events/rebuilt_openai.jsonl")}
    for found in recordings(str(FOLDER / "openhands-events" / name)):
        wanted = rebuilt[found.label]
        results = [message["tool_call_id"] for message in wanted if message["role"] == "tool"]
        assert [message["tool_call_id"] for message in found.messages if message["role"] == "tool"] == results
        calls = [call["id"] for message in wanted for call in message.get("tool_calls") or ()]
        assert [call["id"] for message in found.messages for call in message.get("tool_calls") or ()][
            : len(calls)
        ] == calls
        asked = [message["content"] for message in wanted if message["role"] == "user"]
        assert [message["content"] for message in found.messages if message["role"] == "user"] == asked


@pytest.mark.parametrize("name", PLAIN)
def test_a_file_of_conversations_is_each_of_them(name: str) -> None:
    wanted = [body["messages"] if isinstance(body, dict) else body for body in bodies(name)]
    found = list(recordings(str(FOLDER / name)))
    assert [each.messages for each in found] == wanted
    assert sum(len(each.turns) for each in found) == sum(
        message["role"] == "assistant" for messages in wanted for message in messages
    )


@pytest.mark.parametrize("name", ["openai-chat", "anthropic", "gemini", "openai-responses", "bedrock"])
def test_every_usage_of_a_request_log_is_at_some_turn(name: str) -> None:
    file = next((FOLDER / "provider-requests").glob(f"{name}*.jsonl"))
    lines = bodies(f"provider-requests/{file.name}")
    found = list(recordings(str(file)))
    assert len(found) <= len(lines)
    known = [json.dumps(turn.usage) for each in found for turn in each.turns if turn.usage is not None]
    told = [json.dumps(line["usage"]) for line in lines if line["usage"] is not None]
    assert not set(known) - set(told)
    assert len(known) >= len(told) * 0.9


def test_the_requests_of_one_task_are_one_conversation() -> None:
    found = list(recordings(str(FOLDER / "openhands-sdk" / "requests.jsonl")))
    assert len(found) == 2
    assert all(turn.usage["prompt_tokens"] for each in found for turn in each.turns)
