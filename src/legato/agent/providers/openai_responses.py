"""OpenAI Responses, through the official `openai` SDK.

The output items of an answer are the input items of the next request: reasoning with its `encrypted_content`, calls of
the provider's own tools, and what else there is. legato sends the whole history itself, so the server need not store.
"""

from __future__ import annotations

from typing import Any

from legato.agent.provider import Reply, Stop
from legato.agent.providers.pieces import fields, rows, text
from legato.agent.providers.sdk import PostingProvider
from legato.messages import Json

ENCRYPTED = "reasoning.encrypted_content"
ENDS = ("response.completed", "response.incomplete", "response.failed")
CALLS = ("function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call", "computer_call")
"""Items that want an output from us."""
INCOMPLETE: dict[str, Stop] = {"max_output_tokens": "length", "content_filter": "refusal"}
TEXT_EVENTS = ("response.output_text.delta", "response.refusal.delta")


class OpenAIResponses(PostingProvider):
    """A model behind `/responses`.

    `store`: whether the server keeps the answers, where the body does not say. Where it does not, reasoning is asked
    for in its encrypted form, else it could not be sent back. `client` is an `AsyncOpenAI` of yours; `options` are
    those of every provider.
    """

    FORMAT = OWN = "openai-responses"
    SDK, CLIENT, ROOT, PATH = "openai", "AsyncOpenAI", "OpenAIError", "/responses"

    def __init__(self, model: str, *, store: bool = False, **options: Any) -> None:
        super().__init__(model, **options)
        self._store = store

    def _request(self, body: Json) -> dict[str, Json]:
        request = {"store": self._store, **super()._request(body)}
        include = request.get("include") or []
        if request["store"] is False and ENCRYPTED not in include:
            request["include"] = [*include, ENCRYPTED]
        return request

    def _answering(self) -> ResponseStream:
        return ResponseStream()

    def _read(self, answer: dict[str, Json]) -> Reply:
        output, status = answer.get("output"), text(answer.get("status"))
        if answer.get("error") or status == "failed" or not isinstance(output, list):
            raise self.unexpected("answers with no response", answer)
        items = tuple(rows(output))
        reason = text(fields(answer.get("incomplete_details")).get("reason"))
        return Reply(items=items, usage=answer.get("usage"), stop=_stop(status, reason, items), finish=reason or status)


def _stop(status: str | None, reason: str | None, items: tuple[dict[str, Json], ...]) -> Stop:
    if status == "incomplete":
        return INCOMPLETE.get(reason or "", "other")
    if any(item.get("type") in CALLS for item in items):
        return "calls"
    if any(block.get("type") == "refusal" for item in items for block in rows(item.get("content"))):
        return "refusal"
    return "end" if status in (None, "completed") else "other"


class ResponseStream:
    """The events of one streamed response. Its last event holds it whole."""

    def __init__(self) -> None:
        self._items: list[Json] = []
        self._whole: dict[str, Json] | None = None

    def add(self, event: dict[str, Json]) -> str:
        kind = event.get("type")
        if kind in ENDS:
            self._whole = fields(event.get("response"))
        elif kind == "response.output_item.done":
            self._items.append(event.get("item"))
        return (text(event.get("delta")) or "") if kind in TEXT_EVENTS else ""

    def answer(self) -> Json:
        if self._whole is None:
            return None
        # Some servers leave the last event's list empty.
        return {**self._whole, "output": self._whole.get("output") or self._items}
