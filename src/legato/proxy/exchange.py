"""One request and its client: what both ways of serving it share, and the way that changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from legato.proxy import bodies, headers, routes
from legato.proxy.account import Account
from legato.proxy.bodies import Message, Receive, Send
from legato.proxy.config import Upstream
from legato.proxy.core import Decision, Prints
from legato.proxy.records import Record
from legato.proxy.refusals import Refusal
from legato.proxy.stream import Renamer, Tap
from legato.proxy.upstream import Answer, UpstreamError

if TYPE_CHECKING:
    from legato.proxy.app import Proxy

GONE = 499
"""The status, in records, of a request whose client went away: nobody is told."""


class Exchange:
    """A request on its way. What happened to it stands in `record`, what was done to it in `account`."""

    def __init__(self, proxy: Proxy, scope: Message, receive: Receive, send: Send, record: Record) -> None:
        self.proxy = proxy
        self.config = proxy.config
        self.headers: headers.Headers = scope["headers"]
        self.path: str = scope["raw_path"].decode("latin-1")
        self.query: bytes = scope["query_string"]
        self.record = record
        self.account: Account | None = None
        self.prints: Prints = ()
        self._began = perf_counter()
        self._receive = receive
        self._send = send
        self._task = asyncio.current_task()
        self._watching: asyncio.Task[None] | None = None
        self._held = 0
        self._complete = self._gone = self._slow = False

    async def run(self, serve: Callable[[Exchange], Awaitable[None]]) -> None:
        """Has it served. A client that leaves ends that. Raises `Refusal` while nothing was answered yet."""
        try:
            await serve(self)
        except bodies.ClientGone:
            self._left()
        except UpstreamError as problem:
            self._explain(problem)
        except asyncio.CancelledError:
            if not self._gone or self._task is None:
                raise
            self._task.uncancel()
            self._left()
        finally:
            if self._watching is not None:
                self._watching.cancel()
            self.release()

    # --- the request

    def choose(self, model: str) -> tuple[Upstream, str]:
        """The upstream, and the URL there. Raises `Refusal` where no upstream takes it."""
        chosen = routes.choose(self.config.upstream, self.path, model)
        if chosen is None:
            asked = f"the model {model[:100]!r} at " if model else ""
            raise Refusal(404, "no-upstream", f"no upstream takes {asked}{self.path[:200]}")
        upstream, rest = chosen
        self.record.upstream = upstream.label
        return upstream, routes.target(upstream, rest, self.query)

    async def read(self) -> bytes:
        """The whole body. Raises `Refusal` where it is too large, too slow, or one too many, and `ClientGone`."""
        limits = self.config.limits
        too_large = Refusal(413, "body-too-large", f"the body is larger than {limits.body:,} bytes")
        stated = headers.get(self.headers, b"content-length")
        if stated.isdigit() and int(stated) > limits.body:
            raise too_large
        try:
            raw = await bodies.read(self._receive, limits.body, limits.read_seconds, self._hold)
        except bodies.TooLarge:
            raise too_large from None
        except TimeoutError:
            raise Refusal(408, "body-too-slow", "the body did not come in time") from None
        self.record.bytes_in = len(raw)
        self.watch()
        return raw

    def release(self) -> None:
        """The body is not needed any more."""
        self.proxy.held -= self._held
        self._held = 0

    def watch(self) -> None:
        """From now on, the body being read, a client that goes away ends all that is done for it."""
        if self._watching is None:
            self._watching = asyncio.create_task(self._wait_for_end())

    async def passing(self) -> AsyncIterator[bytes]:
        """The body as it comes in."""
        try:
            async for piece in bodies.pass_on(self._receive, self.config.limits.read_seconds):
                self.record.bytes_in += len(piece)
                yield piece
        except bodies.ClientGone:
            self._gone = True
            raise
        except TimeoutError:
            self._slow = True
            raise
        self.watch()

    # --- the answer

    async def relay(
        self, answer: Answer, added: Sequence[tuple[str, str]] = (), decision: Decision | None = None
    ) -> None:
        """The answer passes as it comes, and is read on the way. Where it is cut, so is the client's."""
        record = self.record
        kind, encoding = answer.header("content-type"), answer.header("content-encoding")
        renamer = None
        if decision is not None and (decision.ids or decision.tool_names):
            renamer = Renamer(kind, encoding, decision.ids, decision.tool_names)
            renamer = renamer if renamer.works else None
        tap = None if decision is None else Tap(kind, encoding)
        record.status = answer.status
        record.stream = record.stream or "text/event-stream" in kind
        record.first_byte = (perf_counter() - self._began) * 1_000
        start = headers.returned(answer.headers, added, rewritten=renamer is not None)
        try:
            await self._send({"type": "http.response.start", "status": answer.status, "headers": start})
            async for piece in answer.pieces():
                passing = piece if renamer is None else renamer.feed(piece)
                if passing:
                    async with asyncio.timeout(self.config.limits.client_seconds):
                        await self._send({"type": "http.response.body", "body": passing, "more_body": True})
                if tap is not None:
                    tap.feed(piece)
            self._complete = True
            await self._send({"type": "http.response.body", "body": b"" if renamer is None else renamer.end()})
        except (UpstreamError, bodies.Unreadable) as problem:
            # Only a connection that breaks off can tell the client that what it has is not the whole answer.
            record.error = "answer-unreadable"
            if isinstance(problem, UpstreamError):
                record.error, record.why = problem.code, problem.why
        except TimeoutError:
            record.error = "client-slow"
        finally:
            record.reported = None if tap is None else tap.end()
            answer.close()

    def _hold(self, size: int) -> None:
        self._held += size
        self.proxy.held += size
        if self.proxy.held > self.config.limits.memory:
            raise Refusal(503, "busy", "too many large requests at once")

    async def _wait_for_end(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not self._complete and self._task is not None:
            self._gone = True
            self._task.cancel()

    def _left(self) -> None:
        self.record.status, self.record.outcome = GONE, "gone"

    def _explain(self, problem: UpstreamError) -> None:
        """Why there is no answer. Raises `Refusal`, unless it was the client that left while its body passed."""
        if self._gone:
            self._left()
        elif self._slow:
            raise Refusal(408, "body-too-slow", "the body did not come in time")
        else:
            raise Refusal(problem.status, problem.code, problem.message, problem.why)


async def pass_through(exchange: Exchange) -> None:
    """A request that is not ours to govern: on it goes, as it comes in."""
    record = exchange.record
    _, url = exchange.choose("")
    length = headers.get(exchange.headers, b"content-length")
    has_body = length not in (b"", b"0") or headers.get(exchange.headers, b"transfer-encoding") != b""
    if not has_body:
        exchange.watch()
    body = exchange.passing() if has_body else None
    sent = headers.forwarded(exchange.headers)
    await exchange.relay(await exchange.proxy.client.send(record.method, url, sent, body))
    record.bytes_out = record.bytes_in
