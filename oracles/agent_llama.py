"""An agent's loop against a real llama.cpp server, through the official SDKs: `make oracles`.

One conversation grows by a damaged piece of history an iteration, and by what the model answers to it; each request is
governed by one `Session`, which learns from the reported usage. The server has a real chat template and a real limit,
and no request may be refused. The model is `tiny_model`, whose answers are noise: they are sent back with the rest.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import legato
import tiny_model
from damage import damaged_history
from histories import TOOLS
from legato.agent.provider import ProviderError, Reply
from legato.agent.providers.anthropic import Anthropic
from legato.agent.providers.openai_chat import OpenAIChat
from legato.agent.providers.openai_responses import OpenAIResponses
from llama_server import PROFILES, Server
from tables import conclude, say, table
from templates import fetch
from written import KEYS, Style, fields_of, write

ITERATIONS = 200
WINDOW, OUTPUT = 6_144, 8
"""Tokens of context, and of an answer."""
RAW = 20
"""Every so many iterations the conversation is also sent as it is."""
TEMPLATES = ("mistralai-Mistral-Nemo-Instruct-2407", "Qwen3.5-4B")
"""One that wants strict turns and ids of nine letters, one that wants its system text first and a question."""
POLICIES: tuple[tuple[str, Callable[..., legato.Policy]], ...] = (
    ("the document's", legato.Policy),
    ("cache-friendly", legato.Policy.cache_friendly),
)
"""They take turns: each is met by each of the server's APIs."""


class Shape(NamedTuple):
    """One of the server's APIs: its wire format, the class that speaks it, what stands behind the address."""

    form: str
    provider: Callable[..., Any]
    base: str


SHAPES = (
    Shape("openai-chat", OpenAIChat, "/v1"),
    Shape("anthropic", Anthropic, ""),
    Shape("openai-responses", OpenAIResponses, "/v1"),
)


def bytes_of(text: str) -> int:
    """What the server counts: a token of the tiny model is a byte."""
    return len(text.encode("utf-8", "surrogatepass"))


class Conversation:
    """A growing history in one format, governed for one template."""

    def __init__(self, shape: Shape, profile: str, policy: legato.Policy) -> None:
        self.form = shape.form
        self.items: list[Any] = []
        self.session = legato.Session(profile, policy, format=shape.form)
        self.tally: Counter[str] = Counter()
        limit = "max_output_tokens" if shape.form == "openai-responses" else "max_tokens"
        self._head = {**fields_of(TOOLS, shape.form), limit: OUTPUT}

    def body(self) -> dict[str, Any]:
        return {**self._head, KEYS[self.form]: self.items}

    def grow(self, seed: int) -> None:
        """By a piece of a history, after accidents. System text is never snipped, so only the first piece has any."""
        piece = [message for message in damaged_history(seed) if not self.items or message["role"] != "system"]
        for message in piece:  # the model has no eyes
            if isinstance(message.get("content"), list):
                message["content"] = [part for part in message["content"] if part["type"] == "text"]
        self.items += write(piece, self.form, Style(signed=False)).items

    async def ask(self, provider: Any, streaming: bool) -> Reply:
        seen: list[str] = []
        governed = self.session.prepare(self.body())
        reply: Reply = await provider.complete(governed.body, seen.append if streaming else None)
        self.session.observe(reply.usage)
        self.items += reply.items
        self.tally["answered"] += 1
        self.tally["streamed"] += streaming
        self.tally["changes"] += len(governed.report.changes)
        self.tally["fullest"] = max(self.tally["fullest"], prompt_tokens(reply))
        return reply


def prompt_tokens(reply: Reply) -> int:
    usage = reply.usage or {}
    cached = int(usage.get("cache_read_input_tokens") or 0)
    return int(usage.get("prompt_tokens") or usage.get("input_tokens") or 0) + cached


async def converse(server: Server, shape: Shape, conversation: Conversation, name: str, failures: list[str]) -> None:
    """All the iterations of one conversation, every other one streamed."""
    address = server.running.listening_address + shape.base
    model, once = (shape.provider("tiny", base_url=address, api_key="none", max_retries=retries) for retries in (2, 0))
    async with model, once:
        for at in range(ITERATIONS):
            conversation.grow(at)
            try:
                reply = await conversation.ask(model, streaming=bool(at % 2))
            except legato.GovernanceError as error:
                conversation.tally["refused"] += 1
                failures.append(f"{name}, iteration {at}: {error}")
                continue
            if reply.usage is None or reply.stop not in ("end", "length"):
                failures.append(f"{name}, iteration {at}: {reply}")
            if at % RAW == RAW - 1:
                await raw(once, conversation, failures)


async def raw(model: Any, conversation: Conversation, failures: list[str]) -> None:
    """The same conversation ungoverned: it is refused, or nothing was proved."""
    try:
        await model.complete(conversation.body())
    except ProviderError as error:
        conversation.tally["ungoverned, refused"] += 1
        if error.status is None:
            failures.append(f"the server did not refuse, it broke: {error}")
    else:
        failures.append("the server takes the conversation ungoverned")


def added(server: Server) -> int:
    """The tokens that a template adds to a lone question and the JSON of the tools."""
    question = {"role": "user", "content": "hello"}
    usage = server.ask([question], TOOLS).body["usage"]
    return max(int(usage["prompt_tokens"]) - bytes_of(str(question["content"])), 0)


def main() -> int:
    failures: list[str] = []
    rows = []
    sources = {path.stem: path.read_text(encoding="utf-8") for path in sorted(fetch().glob("*/*.jinja"))}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tiny.gguf"
        tiny_model.write(file)
        for at, template in enumerate(TEMPLATES):
            room = added(Server(file, sources[template], tiny_model.CONTEXT))
            server = Server(file, sources[template], WINDOW + room)
            for turn, shape in enumerate(SHAPES, at):
                title, policy = POLICIES[turn % 2]
                reserve = legato.Policy().reserve + room
                limits = policy(window=WINDOW + room, max_output=OUTPUT, reserve=reserve, counter=bytes_of)
                conversation = Conversation(shape, PROFILES[template], limits)
                asyncio.run(converse(server, shape, conversation, f"{template}, {shape.form}", failures))
                tally = conversation.tally
                filled = 100 * tally["fullest"] // (WINDOW + room)
                counts = [tally[key] for key in ("answered", "streamed", "refused", "ungoverned, refused", "changes")]
                rows.append((f"{template}, {shape.form}, {title} policy", *counts, filled))
    say(f"An agent's loop of {ITERATIONS} iterations through the official SDKs, {WINDOW:,} tokens of context")
    columns = ("template, API, policy", "answered", "streamed", "refused", "refused raw", "changes", "fullest, %")
    say(table(columns, rows))
    say()
    return conclude(failures)


if __name__ == "__main__":
    sys.exit(main())
