"""Anthropic Messages, and the servers that copy it, through the official `anthropic` SDK.

Blocks are kept as they came: thinking with its signature, redacted thinking, calls and results of the provider's own
tools, citations. Arguments that do not parse stand as text under `input`: `govern` makes them an object before they are
sent back.
"""

from __future__ import annotations

import json

from legato.agent.provider import Reply, Stop
from legato.agent.providers.pieces import fields, join, rows, settled, text
from legato.agent.providers.sdk import PostingProvider, stop_of
from legato.messages import Json
from legato.policy import DEFAULT_OUTPUT
from legato.profiles.overflow import signs

STOPS: dict[str, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}

MARKER = "cache_control"
EPHEMERAL = {"type": "ephemeral"}
MARKABLE = ("text", "image", "document", "tool_use", "tool_result")


class Anthropic(PostingProvider):
    """A model behind `/v1/messages`.

    The API wants an output limit: where the body names none, what `govern` reserves for one is asked. It caches only
    what is marked: a body without any marker gets one after its system text and one on its newest block. `client` is an
    `AsyncAnthropic` of yours (Bedrock, Vertex, own headers).
    """

    FORMAT = OWN = SDK = "anthropic"
    CLIENT, ROOT, PATH = "AsyncAnthropic", "AnthropicError", "/v1/messages"

    def _request(self, body: Json) -> dict[str, Json]:
        return {"max_tokens": DEFAULT_OUTPUT, **super()._request(cached(body))}

    def _answering(self) -> MessageStream:
        return MessageStream()

    def _read(self, answer: dict[str, Json]) -> Reply:
        content = answer.get("content")
        if answer.get("type") == "error" or answer.get("error") or not isinstance(content, list):
            raise self.unexpected("answers with no message", answer)
        finish = text(answer.get("stop_reason"))
        if not content and finish in signs().finish_reasons:
            raise self.unexpected("has no room to answer", answer)
        calls = any(block.get("type") == "tool_use" for block in rows(content))
        items = ({"role": "assistant", "content": content},) if content else ()
        return Reply(items=items, usage=answer.get("usage"), stop=stop_of(STOPS, finish, calls), finish=finish)


def cached(body: Json) -> Json:
    """The body with markers for the provider's prompt cache: itself where the caller has set any.

    The newest block ends what the next request begins with; the system text and the tools before it are shared by more.
    Thinking cannot be marked. Source: Anthropic, "Prompt caching", 2026-12-01.
    """
    if MARKER in json.dumps(body):
        return body
    new = dict(body)
    system = body.get("system")
    blocks = [{"type": "text", "text": system}] if isinstance(system, str) and system.strip() else system
    if isinstance(blocks, list) and blocks:
        new["system"] = [*blocks[:-1], {**blocks[-1], MARKER: EPHEMERAL}]
    messages = body["messages"]
    last = messages[-1] if messages else {}
    content = last.get("content")
    if isinstance(content, str) and content.strip():
        content = [{"type": "text", "text": content}]
    if isinstance(content, list) and content and content[-1].get("type") in MARKABLE:
        new["messages"] = [*messages[:-1], {**last, "content": [*content[:-1], {**content[-1], MARKER: EPHEMERAL}]}]
    return new


class MessageStream:
    """The events of one streamed message."""

    def __init__(self) -> None:
        self._message: dict[str, Json] = {}
        self._blocks: dict[Json, dict[str, Json]] = {}
        self._arguments: dict[Json, list[str]] = {}
        self._usage: dict[str, Json] = {}

    def add(self, event: dict[str, Json]) -> str:
        kind, index = event.get("type"), event.get("index")
        if kind == "message_start":
            self._message = dict(fields(event.get("message")))
            self._count(self._message.get("usage"))
        elif kind == "content_block_start":
            self._blocks[index] = dict(fields(event.get("content_block")))
            return text(self._blocks[index].get("text")) or ""
        elif kind == "content_block_delta":
            return self._grow(index, fields(event.get("delta")))
        elif kind == "message_delta":
            self._message.update(fields(event.get("delta")))
            self._count(event.get("usage"))
        return ""

    def answer(self) -> Json:
        if self._message.get("stop_reason") is None:
            return None
        for index, arguments in self._arguments.items():
            self._blocks[index]["input"] = _object("".join(arguments))
        return {**self._message, "content": settled(list(self._blocks.values())), "usage": self._usage or None}

    def _grow(self, index: Json, delta: dict[str, Json]) -> str:
        block = self._blocks.setdefault(index, {})
        for key, piece in delta.items():
            if key == "partial_json":
                self._arguments.setdefault(index, []).append(text(piece) or "")
            elif key == "citation":
                block["citations"] = [*(block.get("citations") or []), piece]
            elif key != "type":
                block[key] = join(block.get(key), piece, key)
        return text(delta.get("text")) or ""

    def _count(self, usage: Json) -> None:
        self._usage |= {key: value for key, value in fields(usage).items() if value is not None}


def _object(arguments: str) -> Json:
    """The arguments of a call, or their text if they are no JSON. A call without arguments streams none."""
    if not arguments.strip():
        return {}
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
