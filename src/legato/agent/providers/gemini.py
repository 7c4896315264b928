"""Google Gemini, through the official `google-genai` SDK.

The SDK's methods take typed values, lose what their version does not know, and follow up calls by themselves. So a
body goes through the layer under them, which sends JSON and hands JSON back: a part keeps its `thoughtSignature` and
its place, and so does every field that a newer API adds. Keys, retries and Vertex addresses are the SDK's all the same.
"""

from __future__ import annotations

from typing import Any

from legato.agent.provider import OnText, Reply, Stop
from legato.agent.providers.pieces import fields, join, rows, settled, text
from legato.agent.providers.refusals import http_library, parsed
from legato.agent.providers.sdk import END, SdkProvider, stop_of
from legato.messages import Json

REFUSALS = (
    "SAFETY",
    "RECITATION",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
)
STOPS: dict[str, Stop] = {"STOP": "end", "MAX_TOKENS": "length", **dict.fromkeys(REFUSALS, "refusal")}
ATTEMPTS, TIMEOUT = 3, 600.0
"""How often a request is sent at most, and the seconds a server may be silent: what the other SDKs do by themselves."""


class Gemini(SdkProvider):
    """A model behind `generateContent`.

    `client` is a `google.genai.Client` of yours (Vertex, own headers).
    """

    FORMAT = OWN = "gemini"
    SDK, ROOT = "google.genai", "errors.APIError"

    _connections: Any = None

    def _open(self) -> Any:
        # Else the SDK goes by aiohttp wherever that happens to be installed.
        self._connections = http_library().AsyncClient(follow_redirects=True)
        given = self._options
        options = {
            "retry_options": {"attempts": given.get("max_retries", ATTEMPTS - 1) + 1},
            "timeout": int(given.get("timeout", TIMEOUT) * 1000),
            "base_url": given.get("base_url"),
            "httpx_async_client": self._connections,
        }
        return self._sdk.Client(api_key=given.get("api_key"), http_options=options)

    async def _close(self, client: Any) -> None:
        await self._connections.aclose()
        await client.aio.aclose()
        client.close()

    def _answered(self, error: Any) -> tuple[int | None, Json]:
        return error.code, error.details

    async def _ask(self, body: Json) -> Json:
        layer = self._layer()
        with self._reported():
            answer = await layer.async_request("post", self._path("generateContent"), _sent(body))
        return parsed(answer.body)

    async def _stream(self, body: Json, on_text: OnText) -> Json:
        whole, layer = ContentStream(), self._layer()
        with self._reported():
            request = layer._build_request("post", self._path("streamGenerateContent?alt=sse"), _sent(body))
            response = await layer._async_request(request, stream=True)
        events = response.async_segments()
        try:
            while True:
                with self._reported():
                    event: Json = await anext(events, END)
                if event is END:
                    break
                if not isinstance(event, dict) or event.get("error"):
                    raise self.unexpected("breaks off its stream", event)
                said = whole.add(event)
                if said:
                    on_text(said)
        finally:
            await _hang_up(response.response_stream)
        answer = whole.answer()
        if answer is None:
            raise self.cut()
        return answer

    def _layer(self) -> Any:
        """The SDK's own HTTP client: JSON in, JSON out. Only here can a stream be left before its end."""
        return self._client()._api_client

    def _path(self, method: str) -> str:
        home = "publishers/google/models" if self._client().vertexai else "models"
        return f"{self.model if '/' in self.model else f'{home}/{self.model}'}:{method}"

    def _read(self, answer: dict[str, Json]) -> Reply:
        blocked = text(fields(answer.get("promptFeedback")).get("blockReason"))
        if answer.get("error") or not (blocked or "candidates" in answer):
            raise self.unexpected("answers with no candidate", answer)
        candidate = next(rows(answer.get("candidates")), {})
        parts = list(rows(fields(candidate.get("content")).get("parts")))
        finish = blocked or text(candidate.get("finishReason"))
        calls = any("functionCall" in part for part in parts)
        stop = "refusal" if blocked else stop_of(STOPS, finish, calls)
        items = ({"role": "model", "parts": parts},) if parts else ()
        return Reply(items=items, usage=answer.get("usageMetadata"), stop=stop, finish=finish)


def _sent(body: Json) -> dict[str, Json]:
    """The body that is sent: its model stands in the address. A copy, as the SDK takes keys out of what it is given."""
    return {key: value for key, value in body.items() if key != "model"}


async def _hang_up(response: Any) -> None:
    """Close a response of whichever HTTP library it is of."""
    if hasattr(response, "aclose"):
        await response.aclose()
    else:
        response.close()


class ContentStream:
    """The chunks of one streamed answer, each with the parts that came since the last."""

    def __init__(self) -> None:
        self._parts: list[Json] = []
        self._finish: Json = None
        self._last: dict[str, Json] = {}

    def add(self, event: dict[str, Json]) -> str:
        self._last |= {key: value for key, value in event.items() if key != "candidates"}
        said = ""
        for candidate in rows(event.get("candidates")):
            if candidate.get("index", 0) == 0:
                self._finish = candidate.get("finishReason") or self._finish
                for part in rows(fields(candidate.get("content")).get("parts")):
                    said += "" if part.get("thought") else text(part.get("text")) or ""
                    self._append(part)
        return said

    def answer(self) -> Json:
        if self._finish is None and not fields(self._last.get("promptFeedback")).get("blockReason"):
            return None
        candidate = {"content": {"role": "model", "parts": settled(self._parts)}, "finishReason": self._finish}
        return {**self._last, "candidates": [candidate]}

    def _append(self, part: dict[str, Json]) -> None:
        """Text grows while it is nothing but text. A signature belongs to its own part, even to an empty one."""
        last = self._parts[-1] if self._parts else {}
        if _is_plain(last) and _is_plain(part) and last.get("thought") == part.get("thought"):
            self._parts[-1] = last | {"text": join(last["text"], part["text"])}
        else:
            self._parts.append(part)


def _is_plain(part: dict[str, Json]) -> bool:
    return "text" in part and part.keys() <= {"text", "thought"}
