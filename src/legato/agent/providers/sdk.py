"""What the official SDKs have in common: a client that outlives one request, and errors that become `ProviderError`.

The SDKs of OpenAI and Anthropic share one design. Both send a body as it is through `client.post(…, cast_to=object)`,
their documented way to call what has no method, and hand back plain JSON: nothing is lost on the way, whatever fields
the SDK of the day knows. Retries, back-off, `retry-after` and time limits are the SDK's.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import attrgetter
from types import TracebackType
from typing import Any, Protocol, Self
from urllib.parse import urlsplit

from legato.agent.extra import need
from legato.agent.provider import OnText, ProviderError, Reply, Stop
from legato.agent.providers.refusals import body_of, message_of, parsed, passes, server_of, transport_errors
from legato.messages import Json
from legato.profiles.overflow import overflow

END = object()
UNREADABLE = (json.JSONDecodeError, UnicodeDecodeError, RecursionError)
"""What an answer raises that is no JSON, or nested beyond all reason."""


class Answering(Protocol):
    """Puts the events of a stream together to the answer that would have come without one."""

    def add(self, event: dict[str, Json]) -> str:
        """Take in one event; returns what of it is the answer's text."""
        ...

    def answer(self) -> Json:
        """The whole answer, or None if the stream ended before it was complete."""
        ...


class SdkProvider(ABC):
    """A provider that keeps its SDK's client, and with it the connections, until `aclose`.

    A client belongs to the event loop it was first used in; in another one a new client is opened. A `client` of the
    caller's (with headers of its own, or for another cloud) is used everywhere and never closed; else one is made of
    the other arguments, what is None being the SDK's own default.

    A subclass names its wire format, the provider whose profile it goes by unless told another, the SDK's module, and
    in it the root of its exceptions.
    """

    FORMAT = ""
    OWN = ""
    SDK = ""
    ROOT = ""

    def __init__(
        self,
        model: str,
        *,
        profile: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        max_retries: int | None = None,
        timeout: float | None = None,
        client: Any = None,
    ) -> None:
        self.model = model
        self.profile = profile or f"{self.OWN}:{model}"
        self.format = self.FORMAT
        if base_url is not None and not _is_address(base_url):
            raise ProviderError(f"{self.profile}: {base_url!r} is no address such as http://127.0.0.1:8080/v1")
        options = {"base_url": base_url, "api_key": api_key, "max_retries": max_retries, "timeout": timeout}
        self._options: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        self._sdk = need(self.SDK)
        self._root: type[Exception] = attrgetter(self.ROOT)(self._sdk)
        self._given = client
        self._opened: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def complete(self, body: Json, on_text: OnText | None = None) -> Reply:
        """See `LLMProvider`."""
        answer = await (self._ask(body) if on_text is None else self._stream(body, on_text))
        if not isinstance(answer, dict):
            raise self.unexpected("answers with something that is no JSON object", answer)
        return self._read(answer)

    async def aclose(self) -> None:
        """Close the connections. A later request opens new ones."""
        client, self._opened = self._opened, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await self._close(client)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def unexpected(self, problem: str, body: object) -> ProviderError:
        """What came with status 200 and is no answer."""
        said = f"{self.profile} {problem}: {message_of(body)}"
        return ProviderError(said, status=200, body=body, retryable=passes(200, body))

    def cut(self) -> ProviderError:
        """A stream that ended before the model said why it stopped."""
        return ProviderError(f"{self.profile}: the answer was cut off", status=200, retryable=True)

    def _client(self) -> Any:
        """The client of this event loop."""
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        if self._opened is None or self._loop is not loop:
            with self._reported():
                self._opened, self._loop = self._open(), loop
        return self._opened

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """What an SDK raises becomes a `ProviderError`."""
        try:
            yield
        except self._root as error:
            raise self._refusal(error) from error
        except transport_errors() as error:
            raise self._unanswered(error) from error
        except (ValueError, TypeError, RecursionError) as error:
            # JSON or UTF-8 that is none: in what came, else in what should have been sent.
            came = any(isinstance(each, UNREADABLE) for each in (error, error.__cause__))
            said = f"{self.profile}: {'the answer cannot be read' if came else 'cannot be asked'}: {message_of(error)}"
            raise ProviderError(said, status=200 if came else None, retryable=came) from error

    def _refusal(self, error: Exception) -> ProviderError:
        status, body = self._answered(error)
        if status is None:
            sent = hasattr(error, "request")
            return self._unanswered(error) if sent else ProviderError(f"{self.profile}: {message_of(error)}")
        retryable = passes(status, body)
        said = message_of(error if body is None or body == "" else body)
        return ProviderError(f"{self.profile} answers {status}: {said}", status=status, body=body, retryable=retryable)

    def _unanswered(self, error: Exception) -> ProviderError:
        """The server was not reached, or fell silent: where it should be, and what the system says of it."""
        deepest = error.__cause__ if str(error.__cause__ or "") else error
        said = f"{self.profile}: the connection{server_of(error)} failed: {message_of(deepest)}"
        return ProviderError(said, retryable=True)

    # What each SDK does in its own way.

    def _answered(self, error: Exception) -> tuple[int | None, Json]:
        """Status and body of the answer behind one of its exceptions; (None, None) if none came."""
        return body_of(error)

    @abstractmethod
    def _open(self) -> Any: ...

    async def _close(self, client: Any) -> None:
        await client.close()

    @abstractmethod
    async def _ask(self, body: Json) -> Json: ...

    @abstractmethod
    async def _stream(self, body: Json, on_text: OnText) -> Json: ...

    @abstractmethod
    def _read(self, answer: dict[str, Json]) -> Reply: ...


class PostingProvider(SdkProvider):
    """A provider over an SDK of the design that OpenAI's and Anthropic's share.

    A subclass names the SDK's asynchronous client besides, and the path that is posted to.
    """

    CLIENT = ""
    PATH = ""

    def _open(self) -> Any:
        transport = self._sdk.DefaultAsyncHttpxClient(event_hooks={"response": [never_retry_overflow]})
        return getattr(self._sdk, self.CLIENT)(http_client=transport, **self._options)

    async def _ask(self, body: Json) -> Json:
        with self._reported():
            return await self._client().post(self.PATH, body=self._request(body), cast_to=object)

    async def _stream(self, body: Json, on_text: OnText) -> Json:
        request = self._request(body) | {"stream": True}
        streams = self._sdk.AsyncStream[object]
        with self._reported():
            stream = await self._client().post(self.PATH, body=request, cast_to=object, stream=True, stream_cls=streams)
        async with stream:
            if _is_whole(stream.response):
                with self._reported():
                    return parsed(await stream.response.aread())
            return await self._gather(stream, on_text)

    async def _gather(self, stream: Any, on_text: OnText) -> Json:
        answering = self._answering()
        while True:
            with self._reported():
                event = await anext(stream, END)
            if event is END:
                break
            if not isinstance(event, dict):
                raise self.unexpected("streams something that is no JSON object", event)
            if "error" in (event.get("type"), event.get("object")):
                raise self.unexpected("breaks off its stream", event)
            text = answering.add(event)
            if text:
                on_text(text)
        answer = answering.answer()
        if answer is None:
            raise self.cut()
        return answer

    def _request(self, body: Json) -> dict[str, Json]:
        """The governed body, with the model and what this API needs besides."""
        return {"model": self.model, **body}

    @abstractmethod
    def _answering(self) -> Answering: ...


def stop_of(stops: Mapping[str, Stop], finish: str | None, calls: bool) -> Stop:
    """Why the model stopped, by the provider's word for it. Some say "stop" beside calls."""
    stop = ("calls" if calls else "other") if finish is None else stops.get(finish, "other")
    if stop == "calls" and not calls:
        return "other"
    return "calls" if stop == "end" and calls else stop


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port beyond all ports, half a bracket
        return False


def _is_whole(response: Any) -> bool:
    """Whether a server that was asked for a stream answers with one document instead."""
    kind = response.headers.get("content-type", "").lower()
    return any(name in kind for name in ("json", "html", "xml"))


async def never_retry_overflow(response: Any) -> None:
    """A response hook: tells the SDK not to retry what says "too long", whatever its status. Waiting cures nothing."""
    if response.status_code >= 400:
        await response.aread()
        if overflow(response.status_code, response.content) is not None:
            response.headers["x-should-retry"] = "false"
