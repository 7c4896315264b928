"""One walker a profile: the walk of its format, with what the single provider is known to refuse.

Where nothing is known about a copy of OpenAI Chat, only pairs and roles are judged. A model's name behind a profile
stands for the family that has rules of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from walker import PRESETS, REASONING, ROLES, faults
from walkers import anthropic, bedrock, gemini, responses

Wire = Mapping[str, Any]
Walker = Callable[[Wire], list[str]]
More = Callable[[Sequence[Wire]], Iterator[str]]

UNJUDGED = ("id ", "call ids repeat", "name ", "content is null", "tool_calls is an empty list", "media in ")
"""Faults of the chat walker that are not known for most copies of that API."""
COPY: dict[str, Any] = {"alternates": False, "user_first": False, "trailing_assistant_ok": True, "may_be_empty": ROLES}


def chat(*judged: str, more: Sequence[More] = (), **habits: Any) -> Walker:
    """A walker for a copy of OpenAI Chat: pairs and roles, and of the `UNJUDGED` faults those that are `judged`."""
    unjudged = tuple(kind for kind in UNJUDGED if kind not in judged)

    def walk(body: Wire) -> list[str]:
        messages = body["messages"]
        told = faults(messages, **{**COPY, **habits})
        found = [fault for fault in told if not fault.partition("] ")[2].startswith(unjudged)]
        return found + [fault for find in more for fault in find(messages)]

    return walk


def preset(name: str) -> Walker:
    return lambda body: faults(body["messages"], **PRESETS[name])


# -- what single providers add -----------------------------------------------------------------------------------------


def one_leading_system(messages: Sequence[Wire]) -> Iterator[str]:
    for at, message in enumerate(messages):
        if at and message["role"] in ("system", "developer"):
            yield f"[{at}] a {message['role']} message"


def leading_systems(messages: Sequence[Wire]) -> Iterator[str]:
    for before, after in pairwise(messages):
        if after["role"] == "system" and before["role"] not in ("system", "developer"):
            yield "a system message after others"


def json_arguments(messages: Sequence[Wire]) -> Iterator[str]:
    for message in messages:
        for call in message.get("tool_calls") or ():
            arguments = call["function"].get("arguments")
            try:
                json.loads(arguments)
            except (ValueError, TypeError):
                yield f"arguments {arguments!r}"


def no_developer(messages: Sequence[Wire]) -> Iterator[str]:
    yield from ("role developer" for message in messages if message["role"] == "developer")


def content_everywhere(messages: Sequence[Wire]) -> Iterator[str]:
    """Null nowhere, not even beside calls; there it may be absent (recorded of xAI)."""
    for at, message in enumerate(messages):
        if message.get("content") is None and ("content" in message or not message.get("tool_calls")):
            yield f"[{at}] content of {message['role']} is null"


def reasoning_everywhere(messages: Sequence[Wire]) -> Iterator[str]:
    for message in messages:
        if message["role"] == "assistant" and not isinstance(message.get("reasoning_content"), str):
            yield "no reasoning_content"


def thoughts_with_calls(messages: Sequence[Wire]) -> Iterator[str]:
    for message in messages:
        if message.get("tool_calls") and not isinstance(message.get("reasoning_content"), str):
            yield "a call without reasoning_content"


def no_empty_assistant(messages: Sequence[Wire]) -> Iterator[str]:
    """Not even beside calls; whether null may stand there is not known."""
    for at, message in enumerate(messages):
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        said = any(part.get("text") or part["type"] != "text" for part in parts)
        if message["role"] == "assistant" and not said and not (content is None and message.get("tool_calls")):
            yield f"[{at}] an empty assistant message"


def strict_turns(messages: Sequence[Wire]) -> Iterator[str]:
    """Texts only, one call a turn; calls and results do not count as turns."""
    yield from (f"content {m['content']!r}" for m in messages if not isinstance(m.get("content", ""), str))
    yield from ("parallel calls" for message in messages if len(message.get("tool_calls") or ()) > 1)
    turns = [m["role"] for m in messages if m["role"] in ("user", "assistant") and not m.get("tool_calls")]
    yield from (f"{after} after {before}" for before, after in pairwise(turns) if before == after)


NINE = r"[a-zA-Z0-9]{9}"
CLAUDE: dict[str, Any] = {
    "ids": r"[a-zA-Z0-9_-]{1,64}",
    "user_first": False,
    "shown": ("image", "document"),
    "signed": True,
    "prefill": True,
}

WALKERS: dict[str, Walker] = {
    "anthropic": anthropic,
    "anthropic:claude-sonnet-4-5": partial(anthropic, prefill=True),
    "anthropic:claude-opus-4-8": partial(anthropic, system_turns=True),
    "azure": preset("openai"),
    "bedrock": bedrock,
    "bedrock:anthropic.claude-sonnet-4-5": partial(bedrock, **CLAUDE),
    "bedrock:amazon.nova-pro": bedrock,
    "bedrock:mistral.mistral-large-2407": partial(bedrock, alone=True, shown=("document",)),
    "bedrock:qwen.qwen3-32b": partial(bedrock, user_first=False, shown=()),
    "bedrock:writer.palmyra-x5": partial(bedrock, alone=True, status=False),
    "cerebras": chat(forbidden_keys=("reasoning_content", "reasoning_details")),
    "cohere": chat("content is null"),
    "copilot": preset("openai"),
    "deepseek": chat(
        "call ids repeat",
        "name ",
        "tool_calls is an empty list",
        name_pattern=r"[a-zA-Z0-9_-]+",
        more=[reasoning_everywhere],
    ),
    "deepseek-responses": partial(responses, contiguous=True, bound=False, names=False),
    "fireworks": chat(forbidden_keys=("reasoning", "reasoning_details")),
    "gemini": gemini,
    "gemini:gemini-2.5-pro": partial(gemini, signed=False, media=False),
    "gemini:gemma-3-27b": partial(gemini, signed=False, media=False, system_field=False),
    "glm": preset("glm"),
    "groq": chat(forbidden_keys=REASONING),
    "hunyuan": chat(more=[one_leading_system]),
    "kimi": chat("id ", more=[thoughts_with_calls, no_empty_assistant]),
    "llama.cpp": chat("content is null", more=[json_arguments]),
    "lm-studio": chat(),
    "minimax": chat("id ", more=[json_arguments, one_leading_system]),
    "mistral": preset("mistral"),
    "nvidia": chat(),
    "ollama": chat("content is null", more=[json_arguments]),
    "openai": preset("openai"),
    "openai-responses": responses,
    "openrouter": chat(),
    "perplexity": chat(alternates=True, user_first=True, more=[leading_systems]),
    "portable": preset("portable"),
    "qwen": chat(arguments_object=True, more=[no_developer, content_everywhere]),
    "sglang": chat(),
    "siliconflow": chat(),
    "strict-template": chat(
        "id ",
        alternates=True,
        user_first=True,
        arguments_object=True,
        id_pattern=NINE,
        more=[one_leading_system, no_developer, content_everywhere, strict_turns],
    ),
    "tgi": chat(),
    "together": chat(),
    "vllm": chat(arguments_object=True),
    "xai": chat("content is null", more=[content_everywhere]),
}
"""By profile. What is left out of a provider's habits is not known, or only warned of."""
