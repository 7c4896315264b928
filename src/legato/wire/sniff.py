"""Which wire format a body or a bare list is of, told by its structure alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from legato.errors import WireError
from legato.messages import Fields, Json
from legato.wire import shape

CHAT, RESPONSES, ANTHROPIC, GEMINI, BEDROCK = "openai-chat", "openai-responses", "anthropic", "gemini", "bedrock"

HEADS = {
    "anthropic_version": ANTHROPIC,
    "inferenceConfig": BEDROCK,
    "toolConfig": BEDROCK,
    "additionalModelRequestFields": BEDROCK,
    "functions": CHAT,
    "response_format": CHAT,
    "max_completion_tokens": CHAT,
    "stream_options": CHAT,
    "parallel_tool_calls": CHAT,
}
"""Fields of a body with `messages` that only one format has."""

ANTHROPIC_BLOCKS = ("tool_use", "tool_result", "redacted_thinking", "server_tool_use", "mcp_tool_use", "search_result")
BLOCKS = {
    **dict.fromkeys(("input_text", "output_text", "input_image", "input_file", "summary_text"), RESPONSES),
    **dict.fromkeys((*ANTHROPIC_BLOCKS, "container_upload", "tool_addition", "compaction"), ANTHROPIC),
    **dict.fromkeys(("image_url", "video_url", "document_url", "file"), CHAT),
}
"""Types of blocks inside a message's content that only one format has."""

KEYED = frozenset(("text", "image", "document", "video", "audio", "toolUse", "toolResult")) | frozenset(
    ("reasoningContent", "guardContent", "cachePoint", "citationsContent", "searchResult")
)
"""What the only key of a Bedrock block is."""

MESSAGE_FIELDS = frozenset(("tool_calls", "tool_call_id", "function_call", "reasoning_content", "reasoning_details"))
"""Fields of a message that only OpenAI Chat and its copies have."""

DATED = re.compile(r"_20\d{6}$")
"""How the type of a tool ends that Anthropic defines, such as `bash_20250124`."""


def sniff(payload: Json) -> str:
    """The format of a request body or of its bare list of messages, contents or items.

    One of `openai-chat`, `openai-responses`, `anthropic`, `gemini` and `bedrock`. What several formats would write the
    same way, such as plain role and content, is `openai-chat`. Raises `WireError` if it is none of them.
    """
    return evidence(payload) or CHAT


def evidence(payload: Json) -> str | None:
    """The format that the structure proves, or None where several would write it the same way. Raises as `sniff`."""
    if isinstance(payload, (list, tuple)):
        return _of_items(payload)
    if not isinstance(payload, Mapping):
        raise WireError("", f"what is governed must be a list of messages or a request body, not {shape.kind(payload)}")
    body = shape.fields(payload, "")
    if "messages" in body:
        return _of_head(body) or _of_items(shape.items(body["messages"], "messages")) or _of_limits(body)
    if "contents" in body:
        return GEMINI
    if isinstance(body.get("input"), (str, list, tuple)):
        return RESPONSES
    raise WireError("", "is no request: it has no messages, contents or input")


def _of_head(body: Fields) -> str | None:
    for key in body:
        if key in HEADS:
            return HEADS[key]
    system = body.get("system")
    if isinstance(system, str):
        return ANTHROPIC
    if isinstance(system, list) and system and isinstance(system[0], dict):
        return ANTHROPIC if "type" in system[0] else BEDROCK
    choice = body.get("tool_choice")
    if choice is not None:
        return ANTHROPIC if isinstance(choice, dict) and choice.get("type") in ("auto", "any", "tool", "none") else CHAT
    tools = body.get("tools")
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict):
            if "function" in tool:
                return CHAT
            if "input_schema" in tool or DATED.search(str(tool.get("type"))):
                return ANTHROPIC
    return None


def _of_items(items: Iterable[Json]) -> str | None:
    for item in items:
        if isinstance(item, dict):
            found = _of_item(item)
            if found is not None:
                return found
    return None


def _of_item(item: Fields) -> str | None:
    if "parts" in item:
        return GEMINI
    if item.get("role") in ("tool", "function") or not MESSAGE_FIELDS.isdisjoint(item):
        return CHAT
    kind, content = item.get("type"), item.get("content")
    if isinstance(kind, str) and kind != "message":
        return RESPONSES
    if kind == "message" and isinstance(content, str):
        return RESPONSES
    if isinstance(content, list):
        for block in content:
            found = _of_block(block)
            if found is not None:
                return found
    return None


def _of_block(block: Json) -> str | None:
    if not isinstance(block, dict):
        return None
    kind = block.get("type")
    if kind is None:
        return BEDROCK if len(block) == 1 and not KEYED.isdisjoint(block) else None
    if kind == "thinking":
        return ANTHROPIC if isinstance(block.get("thinking"), str) else CHAT
    if kind in ("image", "document") and isinstance(block.get("source"), dict):
        return ANTHROPIC
    return BLOCKS.get(kind) if isinstance(kind, str) else None


def _of_limits(body: Fields) -> str | None:
    """The last hints: some copies of OpenAI Chat have a `thinking` too, but no budget in it."""
    thinking = body.get("thinking")
    budgeted = isinstance(thinking, dict) and ("budget_tokens" in thinking or thinking.get("type") == "adaptive")
    return ANTHROPIC if budgeted or "stop_sequences" in body or "mcp_servers" in body else None
