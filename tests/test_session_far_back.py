"""What is appended may change what is right far before it: a session then answers as `govern` does."""

from __future__ import annotations

from typing import Any

import pytest

import legato


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}


SEARCH = said("assistant", "")
SEARCH["content"] = [{"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}]

HISTORIES: dict[str, tuple[str, list[Any]]] = {
    "the first user message": ("vllm:qwen3-32b", [said("assistant", "hi"), said("user", "q")]),
    "a user message behind the system's": ("glm", [said("system", "s"), said("user", "q"), said("assistant", "a")]),
    "a server tool in flight that a user talks over": (
        "anthropic:claude-opus-4-8",
        [said("user", "q"), SEARCH, said("user", "a"), said("user", "b"), said("assistant", "x"), said("user", "c")],
    ),
}


@pytest.mark.parametrize("case", HISTORIES)
def test_a_session_answers_as_govern_does_where_the_past_hangs_on_what_comes(case: str) -> None:
    profile, messages = HISTORIES[case]
    for start in range(1, len(messages)):
        session = legato.Session(profile)
        for end in range(start, len(messages) + 1):
            sent, whole = session.prepare(messages[:end]), legato.govern(messages[:end], profile=profile)
            assert sent.messages == whole.messages, (start, end)
            assert sent.report.to_dict(contents=True) == whole.report.to_dict(contents=True)
