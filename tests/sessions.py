"""A small session in the form of every agent whose files are read: a question, two calls, their results, an answer."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

ASKED = "Which of a.txt and b.txt is longer? – naïve 🙂"
SAID = "I look at both."
LAST = "a.txt is longer."
FOUND = {"a.txt": "one\ntwo", "b.txt": "one"}
TIMES = [f"2026-03-01T10:00:0{second}.000Z" for second in range(6)]
ARGUMENTS = [{"path": path} for path in FOUND]
USAGE = {"input_tokens": 100, "output_tokens": 20}


@dataclass(frozen=True)
class Sample:
    """A session file, and how many messages it is read as.

    `result` and `call` are the records that hold the second result and the second call, counted from 0, where they are
    records of their own. `writable`: `fix` can repair it. `container`: the field of the list of records, in a document.
    """

    name: str
    format: str
    data: bytes
    messages: int
    lines: bool = True
    writable: bool = True
    result: int = -1
    call: int = -1
    container: str | None = None


def jsonl(*records: Any) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n" for record in records).encode()


def document(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=2).encode()


def chat(*, text: bool = True, **more: Any) -> list[dict[str, Any]]:
    """The session as OpenAI Chat messages, each with what else the agent keeps in it."""
    calls = [
        {
            "id": f"call_{at}",
            "type": "function",
            "function": {"name": "look", "arguments": json.dumps(arguments) if text else arguments},
        }
        for at, arguments in enumerate(ARGUMENTS)
    ]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": ASKED},
        {"role": "assistant", "content": SAID, "tool_calls": calls},
        *({"role": "tool", "tool_call_id": f"call_{at}", "content": found} for at, found in enumerate(FOUND.values())),
        {"role": "assistant", "content": LAST},
    ]
    return [{**message, **more} for message in messages]


def claude_records() -> list[dict[str, Any]]:
    """Claude Code: the answer with two calls is two lines of one `message.id`, and so are the two results."""
    blocks: list[tuple[str, Any]] = [
        ("user", ASKED),
        ("assistant", [{"type": "text", "text": SAID}]),
        ("assistant", [{"type": "tool_use", "id": "toolu_0", "name": "look", "input": ARGUMENTS[0]}]),
        ("assistant", [{"type": "tool_use", "id": "toolu_1", "name": "look", "input": ARGUMENTS[1]}]),
        ("user", [{"type": "tool_result", "tool_use_id": "toolu_0", "content": FOUND["a.txt"]}]),
        ("user", [{"type": "tool_result", "tool_use_id": "toolu_1", "content": FOUND["b.txt"]}]),
        ("assistant", [{"type": "text", "text": LAST}]),
    ]
    records: list[dict[str, Any]] = [{"type": "summary", "summary": "Longer files", "leafUuid": "u6"}]
    for at, (role, content) in enumerate(blocks):
        message: dict[str, Any] = {"role": role, "content": content}
        if role == "assistant":
            known = "msg_0" if at < 4 else "msg_1"
            message = {
                "id": known,
                "type": "message",
                **message,
                "model": "claude-x",
                "usage": USAGE,
                "stop_reason": None,
            }
        records.append(
            {
                "parentUuid": f"u{at - 1}" if at else None,
                "isSidechain": False,
                "sessionId": "s1",
                "version": "2.0.0",
                "type": role,
                "message": message,
                "uuid": f"u{at}",
                "timestamp": TIMES[min(at, 5)],
                "future": {"kept": [1.50, 1e3, "\u2028"]},
            }
        )
    return records


def codex_records() -> list[dict[str, Any]]:
    def text(role: str, words: str) -> dict[str, Any]:
        kind = "output_text" if role == "assistant" else "input_text"
        return {"type": "message", "role": role, "content": [{"type": kind, "text": words}]}

    calls = [
        {"type": "function_call", "name": "look", "arguments": json.dumps(arguments), "call_id": f"call_{at}"}
        for at, arguments in enumerate(ARGUMENTS)
    ]
    outputs = [
        {"type": "function_call_output", "call_id": f"call_{at}", "output": found}
        for at, found in enumerate(FOUND.values())
    ]
    items = [text("user", ASKED), text("assistant", SAID), *calls, *outputs, text("assistant", LAST)]
    meta = {"id": "r1", "cwd": "/w", "cli_version": "1", "instructions": "You help.", "git": {"branch": "main"}}
    return [
        {"timestamp": TIMES[0], "type": "session_meta", "payload": meta},
        {"timestamp": TIMES[0], "type": "turn_context", "payload": {"cwd": "/w", "model": "gpt-x"}},
        *({"timestamp": TIMES[1], "type": "response_item", "payload": item} for item in items),
        {
            "timestamp": TIMES[2],
            "type": "event_msg",
            "payload": {"type": "token_count", "info": {"last_token_usage": USAGE}},
        },
    ]


def nanobot_records() -> list[dict[str, Any]]:
    meta = {"_type": "metadata", "key": "cli:1", "created_at": TIMES[0], "metadata": {}, "last_consolidated": 5}
    return [meta, *({**message, "timestamp": TIMES[1], "_channel": "cli"} for message in chat()[1:])]


def pi_records(version: int = 3) -> list[dict[str, Any]]:
    calls = [
        {"type": "toolCall", "id": f"toolu_{at}", "name": "look", "arguments": arguments}
        for at, arguments in enumerate(ARGUMENTS)
    ]
    told = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-x"}
    used = {"usage": {"input": 5, "output": 2, "cacheRead": 7, "cacheWrite": 1}, "timestamp": 1_772_000_000_000}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": ASKED}]},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": SAID}, *calls],
            **told,
            **used,
            "stopReason": "toolUse",
        },
        *(
            {
                "role": "toolResult",
                "toolCallId": f"toolu_{at}",
                "toolName": "look",
                "content": [{"type": "text", "text": found}],
                "isError": False,
                "details": {"took": 0.10},
            }
            for at, found in enumerate(FOUND.values())
        ),
        {"role": "assistant", "content": [{"type": "text", "text": LAST}], **told, **used, "stopReason": "stop"},
    ]
    head = {"type": "session", "version": version, "id": "p1", "timestamp": TIMES[0], "cwd": "/w"}
    entries: list[dict[str, Any]] = [
        {"type": "message", "timestamp": TIMES[1], "message": message} for message in messages
    ]
    if version > 1:
        for at, entry in enumerate(entries):
            entry.update(id=f"e{at}", parentId=f"e{at - 1}" if at else None)
    return [head, *entries]


def gemini_records() -> list[dict[str, Any]]:
    calls = [
        {
            "id": f"look-{at}",
            "name": "look",
            "args": arguments,
            "status": "success",
            "result": [{"functionResponse": {"id": f"look-{at}", "name": "look", "response": {"output": found}}}],
        }
        for at, (arguments, found) in enumerate(zip(ARGUMENTS, FOUND.values(), strict=True))
    ]
    tokens = {"input": 10, "output": 3, "cached": 0, "total": 13}
    return [
        {"sessionId": "g1", "projectHash": "h", "startTime": TIMES[0], "lastUpdated": TIMES[0], "kind": "main"},
        {"id": "m0", "timestamp": TIMES[0], "type": "user", "content": [{"text": ASKED}]},
        {
            "id": "m1",
            "timestamp": TIMES[1],
            "type": "gemini",
            "content": SAID,
            "thoughts": [],
            "toolCalls": calls,
            "tokens": tokens,
        },
        {"id": "m2", "timestamp": TIMES[2], "type": "info", "content": "shown only"},
        {"id": "m3", "timestamp": TIMES[3], "type": "gemini", "content": LAST, "tokens": tokens, "model": "gemini-x"},
    ]


def openhands_events() -> list[dict[str, Any]]:
    def action(at: int) -> dict[str, Any]:
        call = {"id": f"call_{at}", "name": "look", "arguments": json.dumps(ARGUMENTS[at])}
        thought = [{"type": "text", "text": SAID}] if at == 0 else []
        return {
            "kind": "ActionEvent",
            "thought": thought,
            "tool_call": call,
            "tool_call_id": call["id"],
            "llm_response_id": "r0",
        }

    def outcome(at: int, found: str) -> dict[str, Any]:
        observation = {"content": [{"type": "text", "text": found}]}
        return {
            "kind": "ObservationEvent",
            "tool_call_id": f"call_{at}",
            "observation": observation,
            "action_id": f"v{at + 2}",
        }

    def message(role: str, text: str) -> dict[str, Any]:
        said = {"role": role, "content": [{"type": "text", "text": text}]}
        return {
            "kind": "MessageEvent",
            "llm_message": said,
            **({"llm_response_id": "r1"} if role == "assistant" else {}),
        }

    system = {"kind": "SystemPromptEvent", "system_prompt": {"type": "text", "text": "You help."}, "tools": []}
    found = [outcome(at, text) for at, text in enumerate(FOUND.values())]
    events = [system, message("user", ASKED), action(0), action(1), *found, message("assistant", LAST)]
    return [{"id": f"v{at}", "timestamp": TIMES[0], "source": "agent", **event} for at, event in enumerate(events)]


def cline_messages(**more: Any) -> list[dict[str, Any]]:
    calls = [
        {"type": "tool_use", "id": f"toolu_{at}", "name": "look", "input": arguments}
        for at, arguments in enumerate(ARGUMENTS)
    ]
    results = [
        {"type": "tool_result", "tool_use_id": f"toolu_{at}", "content": found}
        for at, found in enumerate(FOUND.values())
    ]
    turns: list[tuple[str, Any]] = [
        ("user", [{"type": "text", "text": ASKED}]),
        ("assistant", [{"type": "text", "text": SAID}, *calls]),
        ("user", results),
        ("assistant", [{"type": "text", "text": LAST}]),
    ]
    return [
        {"role": role, "content": content, "ts": 1_772_000_000_000 + at, **more}
        for at, (role, content) in enumerate(turns)
    ]


def inspect_sample() -> dict[str, Any]:
    messages = chat(text=False)
    for at, message in enumerate(messages):
        message["id"] = f"i{at}"
        for call in message.get("tool_calls", ()):
            call.update(call.pop("function"))
            call["function"] = call.pop("name")
    messages[3]["content"] = "attachment://abc"
    output = {"model": "m", "choices": [{"message": messages[2]}], "usage": USAGE}
    events = [{"event": "model", "timestamp": TIMES[1], "output": output}]
    return {"id": "q", "epoch": 1, "messages": messages, "events": events, "attachments": {"abc": FOUND["a.txt"]}}


def zipped(*samples: Any) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", "{}")
        for at, sample in enumerate(samples):
            archive.writestr(f"samples/{at}_epoch_1.json", json.dumps(sample))
    return stream.getvalue()


def trajectory() -> dict[str, Any]:
    history = [{**message, "agent": "main", "message_type": "x"} for message in chat()]
    for message in history:
        if message["role"] == "tool":
            message["tool_call_ids"] = [message.pop("tool_call_id")]
    return {"trajectory": [], "history": history, "info": {"exit_status": "submitted"}}


def mini_trajectory() -> dict[str, Any]:
    messages = [*chat(extra={"cost": 0.10}), {"role": "exit", "content": "done", "extra": {}}]
    return {"info": {"exit_status": "x"}, "messages": messages, "trajectory_format": "mini-swe-agent-1.1"}


def mini_responses() -> dict[str, Any]:
    items = [record["payload"] for record in codex_records() if record["type"] == "response_item"]
    first, last = (
        {"object": "response", "output": said, "usage": USAGE, "extra": {}} for said in (items[1:4], items[6:])
    )
    messages = [chat()[0], items[0], first, *({**item, "extra": {}} for item in items[4:6]), last, {"role": "exit"}]
    return {**mini_trajectory(), "messages": messages}


def _samples() -> Sequence[Sample]:
    session = {"version": 1, "sessionId": "c1", "messages": cline_messages(), "system_prompt": "You help."}
    return (
        Sample("claude-code", "anthropic", jsonl(*claude_records()), 4, result=6, call=4),
        Sample("codex", "openai-responses", jsonl(*codex_records()), 7, result=7, call=5),
        Sample("nanobot", "openai-chat", jsonl(*nanobot_records()), 5, result=4, call=2),
        Sample("pi", "anthropic", jsonl(*pi_records()), 4, result=4, call=2),
        Sample("gemini-cli", "gemini", jsonl(*gemini_records()), 4),
        Sample("openhands", "openai-chat", jsonl(*openhands_events()), 6, writable=False, result=5, call=3),
        Sample("message-lines", "openai-chat", jsonl(*chat()), 6, result=4, call=2),
        Sample("mini-swe-agent", "openai-chat", document(mini_trajectory()), 6, False, True, 4, 2, "messages"),
        Sample(
            "mini-swe-agent-responses",
            "openai-responses",
            document(mini_responses()),
            8,
            False,
            False,
            4,
            container="messages",
        ),
        Sample("swe-agent", "openai-chat", document(trajectory()), 6, False, False, 4, 2, "history"),
        Sample("cline", "anthropic", document(session), 4, False, False, 2, 1, "messages"),
        Sample("cline-history", "anthropic", document(cline_messages()), 4, False, True, 2, 1, ""),
        Sample("inspect", "openai-chat", zipped(inspect_sample()), 6, False, False),
    )


SAMPLES = {sample.name: sample for sample in _samples()}
