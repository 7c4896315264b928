"""The ASGI application: who may come in, where a request goes, and what is noted of it."""

from __future__ import annotations

import gc
import hmac
from contextlib import nullcontext
from functools import partial
from time import perf_counter, time

from legato.proxy import admin, headers, logs, routes
from legato.proxy.bodies import Message, Receive, Send
from legato.proxy.config import Config
from legato.proxy.exchange import Exchange, pass_through
from legato.proxy.governing import serve
from legato.proxy.governors import Governors
from legato.proxy.learnt import Learnt
from legato.proxy.metrics import Metrics
from legato.proxy.records import Record, Records
from legato.proxy.refusals import Refusal, answer
from legato.proxy.spans import Spans
from legato.proxy.upstream import Client


class Proxy:
    """The proxy of a configuration, for any ASGI server. What it holds belongs to one event loop.

    `active` and `held` are the requests that are served now, and the bytes of their bodies.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.tokens = config.tokens
        self.client = Client(config.limits, config.ca)
        self.governors = Governors(config)
        self.learnt = Learnt()
        self.records = Records(config.records)
        self.metrics = Metrics()
        self.spans = Spans() if config.spans else None
        self.started = False
        self.active = self.held = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": "legato passes no WebSockets on"})

    async def _live(self, receive: Receive, send: Send) -> None:
        """Starts when the server does, and ends with it."""
        await receive()
        await self.client.open()
        self.governors.open()
        gc.collect()
        gc.freeze()  # what is loaded stays: no collection has to walk through it again
        self.started = True
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.started = False
        self.governors.close()
        await self.client.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, scope: Message, receive: Receive, send: Send) -> None:
        path = scope["raw_path"].decode("latin-1")
        if admin.takes(path):
            await admin.serve(self, path, scope, receive, send)
            return
        began = perf_counter()
        record = self.records.new(time(), scope["method"], path[:500])
        exchange = Exchange(self, scope, receive, send, record)
        self.active += 1
        self.metrics.active.inc()
        try:
            with self.spans.around(record, exchange.headers) if self.spans else nullcontext():
                await self._answer(exchange, scope, path, send)
        finally:
            record.milliseconds = (perf_counter() - began) * 1_000
            try:
                self._finish(exchange)
            finally:
                self.active -= 1
                self.metrics.active.dec()

    async def _answer(self, exchange: Exchange, scope: Message, path: str, send: Send) -> None:
        found = routes.api_of(scope["method"], path, headers.get(exchange.headers, b"authorization"))
        try:
            self._admit(exchange, path)
            await exchange.run(pass_through if found is None else partial(serve, api=found[0], model=found[1]))
        except Refusal as refusal:
            record = exchange.record
            record.status, record.error, record.why = refusal.status, refusal.code, refusal.why
            if not refusal.code.startswith("upstream-"):
                record.outcome = "refused"
            status, start, body = answer(refusal, "openai" if found is None else found[0].errors)
            await send({"type": "http.response.start", "status": status, "headers": start})
            await send({"type": "http.response.body", "body": body})

    def _admit(self, exchange: Exchange, path: str) -> None:
        """Raises `Refusal` for who may not come in, or not now."""
        if not routes.is_safe(path):
            raise Refusal(400, "bad-path", "this path is not passed on")
        if self.active > self.config.limits.concurrent:
            raise Refusal(503, "busy", "too many requests at once")
        if not self.allows(headers.get(exchange.headers, b"x-legato-token")):
            raise Refusal(401, "no-token", "the header x-legato-token must hold a token of this proxy")

    def allows(self, token: bytes) -> bool:
        """Whether a token is one of the operator's, or none is wanted. All are compared, each in constant time."""
        matches = [hmac.compare_digest(token, known) for known in self.tokens]
        return not matches or any(matches)

    def _finish(self, exchange: Exchange) -> None:
        record: Record = exchange.record
        self.records.add(record, exchange.prints, exchange.account.faults if exchange.account is not None else ())
        self.metrics.count(record)
        logs.finished(record)
