"""The server that runs the proxy: uvicorn, with the bounds on headers that it has not."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from contextlib import suppress
from typing import Any

try:
    import resource
except ImportError:  # not on Windows, which has no such limit either
    resource = None  # type: ignore[assignment]

import httptools
import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.supervisors import Multiprocess

from legato.proxy import admin, logs
from legato.proxy.app import Proxy
from legato.proxy.config import Config, Limits

CONFIG = "LEGATO_PROXY_CONFIG"
"""The variable in which workers find their configuration, as JSON."""
BACKLOG = 2_048
"""Connections that wait until they are taken: nobody is turned away while the server starts."""
IDLE = 75
"""Seconds for which a connection without requests is kept: longer than what stands in front of it keeps one."""

TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Bounded(HttpToolsProtocol):
    """HTTP/1.1 whose headers may be neither too long nor too late, and whose feeds end when the server does."""

    _late: asyncio.TimerHandle | None = None
    _reading = True
    """Whether the headers of a request are not complete yet."""
    _size = 0

    @property
    def _limits(self) -> Limits:
        app: Any = self.app
        limits: Limits = app.config.limits
        return limits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._reading:
            self._size += len(data)
        super().data_received(data)
        if self._reading and self._size > self._limits.headers and not self.transport.is_closing():
            self._refuse(TOO_LONG)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if not self._reading:
            self._size = 0
            self._expect()

    def on_headers_complete(self) -> None:
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

    def on_body(self, body: bytes) -> None:
        if self.cycle is not None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self.cycle is not None:
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


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound; port 0 takes a free one. Raises `OSError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError:
        listening.close()
        raise
    listening.set_inheritable(True)
    listening.listen(BACKLOG)
    return listening


def settings(config: Config, app: Any) -> uvicorn.Config:
    """How uvicorn is to run the application, or the factory that is named."""
    return uvicorn.Config(
        app,
        factory=isinstance(app, str),
        http=Bounded,
        ws="none",
        interface="asgi3",
        lifespan="on",
        backlog=BACKLOG,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=config.shutdown_seconds,
        workers=config.workers,
    )


def run(config: Config, listening: socket.socket) -> None:
    """Serves until it is told to stop, then lets the streams that are under way end."""
    logs.set_up()
    _allow_connections()
    host, port = listening.getsockname()[:2]
    logs.say(
        "listening", host=host, port=port, workers=config.workers, upstreams=[each.label for each in config.upstream]
    )
    if not config.is_local and not config.tokens:
        logs.say("open", logging.WARNING, why="other machines can reach this proxy, and tokens_env is not set")
    signal.signal(signal.SIGTERM, _stopped)
    if config.workers == 1:
        uvicorn.Server(settings(config, Proxy(config))).run(sockets=[listening])
        return
    os.environ[CONFIG] = msgspec.json.encode(config).decode()
    Multiprocess(settings(config, f"{__name__}:worker"), sockets=[listening]).run()


def _allow_connections() -> None:
    """As many open connections as this process may ask for: each request has two."""
    if resource is None:
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _stopped(*_: object) -> None:
    """What the signal to stop comes to when all is done: uvicorn raises it again then."""
    raise SystemExit(0)


def worker() -> Proxy:
    """The application of one worker, from the configuration in its environment."""
    logs.set_up()
    return Proxy(msgspec.json.decode(os.environ[CONFIG], type=Config))
