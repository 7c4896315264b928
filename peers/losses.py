"""What a repair may not lose: what the user said, and a real result that some call asks for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from accidents import History, Wire
from texts import said, strings


def lost_user_texts(history: History, sent: Sequence[Wire]) -> list[str]:
    texts = [text for message in history if message["role"] == "user" for text in said(message)]
    kept = "\n".join(strings(list(sent)))
    return [text for text in texts if text not in kept]


def lost_results(history: History, sent: Sequence[Wire]) -> list[str]:
    """The arguments of calls that had a real result, and have none of theirs now.

    A result is asked for by the newest call of its id before it. Every call has arguments of its own, so that a call is
    found again under any id.
    """
    answers = _answers(sent)
    return [call for call, real in _answers(history).items() if not any(text in answers.get(call, "") for text in real)]


def _answers(messages: Sequence[Wire]) -> dict[str, list[str]]:
    """By the arguments of a call: the texts of its results, of either wire format."""
    newest: dict[Any, str] = {}
    found: dict[str, list[str]] = {}
    for kind, call_id, value in _events(messages):
        if kind == "call":
            newest[call_id] = value
        elif call_id in newest:
            found.setdefault(newest[call_id], []).append(value)
    return found


def _events(messages: Sequence[Wire]) -> Iterator[tuple[str, Any, str]]:
    """Calls with their arguments and results with their text, in order."""
    for message in messages:
        for call in message.get("tool_calls") or ():
            yield "call", call.get("id"), json.loads(call["function"]["arguments"])["path"]
        if message["role"] == "tool":
            yield "result", message.get("tool_call_id"), "\n".join(said(message))
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            if block.get("type") == "tool_use":
                yield "call", block.get("id"), block["input"]["path"]
            elif block.get("type") == "tool_result":
                yield "result", block.get("tool_use_id"), "\n".join(said(block))
