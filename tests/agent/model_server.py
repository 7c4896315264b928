"""A server of a model on this machine: it gives the answers it was told, one a request, and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

PATIENCE = 600
"""Seconds after which a client that should have hung up is taken for one that does not."""


@dataclass(frozen=True)
class Whole:
    """One document: JSON, or bytes as they are."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: str = "application/json"


@dataclass(frozen=True)
class Stream:
    """Server-sent events. After the last of them the answer is complete, or the connection breaks, or nothing comes."""

    events: Sequence[bytes]
    end: Literal["complete", "cut", "silence"] = "complete"
    kind: str = "text/event-stream"


class Asked(NamedTuple):
    path: str
    headers: Mapping[str, str]
    body: Any


def data(event: Any) -> bytes:
    """An event that is JSON."""
    return f"data: {json.dumps(event)}\n\n".encode()


def named(event: dict[str, Any]) -> bytes:
    """An event that is JSON, under the name that its type is."""
    return f"event: {event['type']}\n".encode() + data(event)


class ModelServer:
    """The server, from entering to leaving.

    `silent` is set when a silence begins, `hung_up` when the client leaves a stream before its end: in the silence, or
    while events are still being written.
    """

    def __init__(self, *answers: Whole | Stream) -> None:
        self.answers = deque(answers)
        self.asked: list[Asked] = []
        self.silent = threading.Event()
        self.hung_up = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers["content-length"]))
            server.asked.append(Asked(self.path, dict(self.headers.items()), json.loads(sent)))
            answer = server.answers.popleft()
            if isinstance(answer, Whole):
                self._give(answer)
            else:
                self._stream(answer)

        def _give(self, answer: Whole) -> None:
            body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            for name, value in {"content-type": answer.kind, **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _stream(self, answer: Stream) -> None:
            self.send_response(200)
            self.send_header("content-type", answer.kind)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            try:
                for event in answer.events:
                    self.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
            except ConnectionError:
                self.close_connection = True
                server.hung_up.set()
                return
            if answer.end == "complete":
                self.wfile.write(b"0\r\n\r\n")
                return
            self.close_connection = True
            if answer.end == "cut":
                self.connection.shutdown(SHUT_RDWR)
            else:
                self._wait()

        def _wait(self) -> None:
            server.silent.set()
            self.connection.settimeout(PATIENCE)
            try:
                left = self.connection.recv(1) == b""
            except ConnectionError:
                left = True
            except TimeoutError:
                left = False
            if left:
                server.hung_up.set()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's word
            """Nothing is logged."""

    return Handler
