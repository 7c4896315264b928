"""OpenAI Chat Completions, and every server that copies it, through the official `openai` SDK.

The answer's message is kept with all its fields: `reasoning_content`, `reasoning_details` and whatever else a provider
wants to see again. Copies stream tool calls in their own ways: whole, without `index`, all under index 0, with the name
in every piece.
"""

from __future__ import annotations

from typing import Any

from legato.agent.provider import OnText, ProviderError, Reply, Stop
from legato.agent.providers.pieces import fields, join, rows, settled, text
from legato.agent.providers.sdk import PostingProvider, stop_of
from legato.messages import Json
from legato.profiles.overflow import overflow, signs

STOPS: dict[str, Stop] = {
    "stop": "end",
    "eos": "end",  # Together
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "length",
    "model_length": "length",  # Mistral
    "model_context_window_exceeded": "length",  # z.ai
    "content_filter": "refusal",
    "sensitive": "refusal",  # GLM
}
USAGE_OPTION = "stream_options"
OLD_LIMIT, NEW_LIMIT = "max_tokens", "max_completion_tokens"
"""What the output limit is called: OpenAI's reasoning models take the new name only, most copies know the old one."""


class OpenAIChat(PostingProvider):
    """A model behind `/chat/completions`.

    `limit` is the field that holds the output limit, `stream_usage` whether to ask for the usage of a stream; a server
    that refuses either is asked the way it wants from then on. `client` is an `AsyncOpenAI` of yours (Azure, own
    headers); `options` are those of every provider.
    """

    FORMAT, OWN = "openai-chat", "openai"
    SDK, CLIENT, ROOT, PATH = "openai", "AsyncOpenAI", "OpenAIError", "/chat/completions"

    def __init__(self, model: str, *, limit: str = OLD_LIMIT, stream_usage: bool = True, **options: Any) -> None:
        super().__init__(model, **options)
        self._limit = limit
        self._stream_usage = stream_usage

    async def complete(self, body: Json, on_text: OnText | None = None) -> Reply:
        """See `LLMProvider`."""
        while True:
            known = (self._limit, self._stream_usage)
            try:
                return await super().complete(body, on_text)
            except ProviderError as refused:
                self._learn(refused)
                # Another request at the same time may have learnt it first.
                if known == (self._limit, self._stream_usage):
                    raise

    def _learn(self, refused: ProviderError) -> None:
        """Where the server names a field that it does not take, the next requests do without it."""
        said = str(refused.body)
        if refused.status not in (400, 422) or overflow(refused.status, refused.body) is not None:
            return
        if USAGE_OPTION in said:
            self._stream_usage = False
        elif f"Use '{NEW_LIMIT}'" in said:
            self._limit = NEW_LIMIT

    def _request(self, body: Json) -> dict[str, Json]:
        named = {self._limit if key == OLD_LIMIT else key: value for key, value in body.items()}
        return super()._request(named)

    async def _stream(self, body: Json, on_text: OnText) -> Json:
        asked = {USAGE_OPTION: {"include_usage": True}} if self._stream_usage else {}
        return await super()._stream({**asked, **body}, on_text)

    def _answering(self) -> ChatStream:
        return ChatStream()

    def _read(self, answer: dict[str, Json]) -> Reply:
        choice = next(rows(answer.get("choices")), {})
        if answer.get("error") or choice.get("error") or not isinstance(answer.get("choices"), list):
            raise self.unexpected("answers with no completion", answer)
        message = {key: value for key, value in fields(choice.get("message")).items() if value is not None}
        finish = text(choice.get("finish_reason"))
        calls = bool(message.get("tool_calls") or message.get("function_call"))
        says = {key for key, value in message.items() if key != "role" and value not in ("", [], {})}
        if finish in signs().finish_reasons and not says:
            raise self.unexpected("has no room to answer", answer)
        item = {"role": "assistant", "content": None if calls else "", **message}
        stop = "refusal" if message.get("refusal") else stop_of(STOPS, finish, calls)
        return Reply(items=(item,) if says else (), usage=_usage(answer), stop=stop, finish=finish)


def _usage(answer: dict[str, Json]) -> Json:
    """The usage, where the standard or one of the copies has it: Kimi in the choice, Groq in `x_groq`."""
    choice = next(rows(answer.get("choices")), {})
    return answer.get("usage") or choice.get("usage") or fields(answer.get("x_groq")).get("usage")


class ChatStream:
    """The chunks of one streamed completion."""

    def __init__(self) -> None:
        self._message: dict[str, Json] = {}
        self._calls: list[dict[str, Json]] = []
        self._at: dict[int, int] = {}
        self._finish: Json = None
        self._whole: dict[str, Json] = {}

    def add(self, event: dict[str, Json]) -> str:
        usage = _usage(event)
        if usage is not None:
            self._whole["usage"] = usage
        said = ""
        for choice in rows(event.get("choices")):
            if choice.get("index", 0) == 0:
                self._finish = choice.get("finish_reason") or self._finish
                said += self._delta(fields(choice.get("delta")))
        return said

    def answer(self) -> Json:
        if self._finish is None:
            return None
        message = self._message | ({"tool_calls": self._calls} if self._calls else {})
        return {**self._whole, "choices": [{"message": settled(message), "finish_reason": self._finish}]}

    def _delta(self, delta: dict[str, Json]) -> str:
        for key, piece in delta.items():
            if key == "tool_calls":
                for call in rows(piece):
                    self._call(call)
            elif piece is not None:
                self._message[key] = join(self._message.get(key), piece, key)
        said = delta.get("content")
        if isinstance(said, str):
            return said
        return "".join(text(block.get("text")) or "" for block in rows(said))

    def _call(self, piece: dict[str, Json]) -> None:
        """Put a piece of a call to the call it belongs to, or begin a new one."""
        index, rest = piece.get("index"), {key: value for key, value in piece.items() if key != "index"}
        at = self._place(index, rest)
        if at is None:
            at = len(self._calls)
            self._calls.append({"type": "function"})
        if isinstance(index, int):
            self._at[index] = at
        self._calls[at] = join(self._calls[at], rest, "tool_calls")

    def _place(self, index: Json, piece: dict[str, Json]) -> int | None:
        """Which call a piece continues. None: it begins one."""
        name, known = piece.get("id"), [call.get("id") for call in self._calls]
        if isinstance(index, int):
            at = self._at.get(index)
            # Some copies send every call whole and call each of them the first.
            return None if at is not None and name and known[at] and name != known[at] else at
        if name:
            return known.index(name) if name in known else None
        if fields(piece.get("function")).get("name") or not self._calls:
            return None
        return len(self._calls) - 1
