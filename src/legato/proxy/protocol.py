"""HTTP as clients speak it: uvicorn's protocol, with the bounds on headers that it has not."""

from __future__ import annotations

import asyncio
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from legato.proxy import admin
from legato.proxy.config import Limits

TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Parser:
    """A parser that takes up no offer to speak something else than HTTP/1.1 (RFC 9110, 7.8).

    Java's own client makes one with its first request (`Upgrade: h2c`), and httptools reads no body behind it.
    """

    def __init__(self, protocol: Bounded) -> None:
        self._protocol = protocol
        self._parser = self._made()

    def feed_data(self, data: bytes) -> None:
        """Raises `httptools.HttpParserError`."""
        while data:
            try:
                self._parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as offer:
                data = self._protocol.decline() + data[offer.args[0] :]
                self._parser = self._made()

    def get_http_version(self) -> str:
        version: str = self._parser.get_http_version()
        return version

    def get_method(self) -> bytes:
        method: bytes = self._parser.get_method()
        return method

    def should_keep_alive(self) -> bool:
        keeps: bool = self._parser.should_keep_alive()
        return keeps

    def should_upgrade(self) -> bool:
        return False

    @property
    def is_offered(self) -> bool:
        """Whether the request that is read makes one: what httptools takes for its end is that of its head."""
        offered: bool = self._parser.should_upgrade()
        return offered

    def _made(self) -> Any:
        parser = httptools.HttpRequestParser(self._protocol)
        parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does: what follows is not looked at
        return parser


class Bounded(HttpToolsProtocol):
    """HTTP/1.1 whose headers may be neither too long nor too late, and whose feeds end when the server does."""

    _declined = False
    """Whether the headers that come next are those of the request that is under way."""
    _late: asyncio.TimerHandle | None = None
    _reading = True
    """Whether the headers of a request are not complete yet."""
    _size = 0

    @property
    def _limits(self) -> Limits:
        app: Any = self.app
        limits: Limits = app.config.limits
        return limits

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._cycles: list[RequestResponseCycle] = []
        """The requests that are not answered yet, one behind the other."""
        self.parser = self._parser = Parser(self)  # type: ignore[assignment]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)
        for cycle in self._cycles:  # uvicorn tells only the last one, which may wait for its turn
            cycle.disconnected = True
            cycle.message_event.set()

    def data_received(self, data: bytes) -> None:
        if self._reading:
            self._size += len(data)
        super().data_received(data)
        if self._reading and self._size > self._limits.headers and not self.transport.is_closing():
            self._refuse(TOO_LONG)

    def decline(self) -> bytes:
        """The head of a request that only says how the body is framed: it stands for the one that was read."""
        framing = [pair for pair in self.headers if pair[0] in (b"content-length", b"transfer-encoding")]
        self.headers = []  # the request that is under way keeps the old ones
        self._declined = True
        return b"".join([b"POST / HTTP/1.1\r\n", *(b"%s: %s\r\n" % pair for pair in framing), b"\r\n"])

    def on_message_begin(self) -> None:
        if self._declined:
            return
        super().on_message_begin()
        if not self._reading:
            self._size = 0
            self._expect()

    def on_headers_complete(self) -> None:
        if self._declined:
            self._declined = False
            return
        self._reading = False
        self._forget()
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self._limits.headers:
            self._refuse(TOO_LONG)
            return
        try:
            super().on_headers_complete()
        except (httptools.HttpParserInvalidURLError, UnicodeDecodeError):
            self.send_400_response("Invalid HTTP request received.")
            return
        self._cycles = [*(cycle for cycle in self._cycles if not cycle.response_complete), self.cycle]

    def on_body(self, body: bytes) -> None:
        if self.cycle is not None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self.cycle is not None and not self._parser.is_offered:
            super().on_message_complete()

    def shutdown(self) -> None:
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete and cycle.scope["path"] == admin.EVENTS:
            self.transport.close()
        super().shutdown()

    def _expect(self) -> None:
        self._reading = True
        self._late = self.loop.call_later(self._limits.header_seconds, self._refuse, TOO_LATE)

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _refuse(self, answer: bytes) -> None:
        self._forget()
        if not self.transport.is_closing():
            self.transport.write(answer)
            self.transport.close()
