"""Real web servers on loopback addresses, one thread each, that answer as a table of paths says."""

from __future__ import annotations

import errno
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[BaseHTTPRequestHandler], None]


def page(body: bytes | str, kind: str = "text/html; charset=utf-8", status: int = 200, **headers: str) -> Answer:
    """Answers with a body."""
    data = body.encode() if isinstance(body, str) else body

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in {"content-type": kind, "content-length": str(len(data)), **headers}.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        request.wfile.write(data)

    return answer


def redirect(to: str) -> Answer:
    """Answers with a redirection."""
    return page("", status=302, location=to)


class Quiet(ThreadingHTTPServer):
    """A server that says nothing of clients that break a handshake off."""

    def handle_error(self, *_: Any) -> None:
        pass


class Server:
    """A running server: its address, and the paths and hosts that it was asked for."""

    def __init__(self, host: str, port: int, answers: dict[str, Answer], tls: ssl.SSLContext | None) -> None:
        self.asked: list[tuple[str, str]] = []
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                asked.append((self.headers["host"], self.path))
                self.close_connection = True
                with suppress(BrokenPipeError, ConnectionResetError):  # the client has read enough
                    answers.get(self.path.partition("?")[0], page("not here", status=404))(self)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = Quiet((host, port), Handler)
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.host, self.port = host, self.server.server_port


@contextmanager
def nobody() -> Iterator[str]:
    """An address where nobody listens, and nobody begins to as long as the context."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@contextmanager
def serving(
    answers: dict[str, Answer], host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> Iterator[Server]:
    """A server as long as the context."""
    with running(Server(host, port, answers, tls)) as server:
        yield server


@contextmanager
def serving_twice(one: dict[str, Answer], other: dict[str, Answer], *hosts: str) -> Iterator[tuple[Server, Server]]:
    """Two servers at the same port of two addresses."""
    while True:
        first = Server(hosts[0], 0, one, None)
        try:
            second = Server(hosts[1], first.port, other, None)
            break
        except OSError as problem:  # at the other address the port is somebody's
            first.server.server_close()
            if problem.errno != errno.EADDRINUSE:
                raise
    with running(first), running(second):
        yield first, second


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """The server at work."""
    thread = threading.Thread(target=server.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.server.shutdown()
        thread.join()
        server.server.server_close()
