"""Both ends of the proxy on loopback: an upstream that keeps every byte it got, and the proxy in a thread."""

from __future__ import annotations

import json
import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import uvicorn

from legato.proxy import server
from legato.proxy.app import Proxy
from legato.proxy.config import Config, made

Wire = dict[str, Any]
PATIENCE = 60.0
"""Seconds after which a wait has failed: more than a machine at its limit takes for anything here."""


@dataclass
class Seen:
    """A request as it arrived. `body` is what was sent, without the framing of chunks."""

    head: bytes
    body: bytes

    @property
    def line(self) -> str:
        return self.head.split(b"\r\n")[0].decode()

    @property
    def target(self) -> str:
        return self.line.split(" ")[1]

    @property
    def headers(self) -> list[tuple[str, str]]:
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        return [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines if line)]

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Script = Callable[[Seen], Iterable[bytes]]


class Upstream:
    """A server whose script says, piece by piece, the bytes of each answer. Then it takes the next request.

    With a `context` it speaks TLS.
    """

    def __init__(self, script: Script, context: ssl.SSLContext | None = None) -> None:
        self.script = script
        self.context = context
        self.seen: list[Seen] = []
        self.connections = 0
        self.left = threading.Event()
        """Set when the other side breaks a connection off."""

    def close_after(self, seen: Seen) -> bool:
        return seen.header("connection") == "close"

    @contextmanager
    def serving(self) -> Iterator[str]:
        owner = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                owner.connections += 1
                connection: socket.socket = self.request
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                try:
                    if owner.context is None:
                        owner.serve(connection)
                    else:
                        with owner.context.wrap_socket(connection, server_side=True) as secured:
                            owner.serve(secured)
                except OSError:
                    owner.left.set()

        class Listening(socketserver.ThreadingTCPServer):
            daemon_threads = True
            block_on_close = False
            request_queue_size = 128  # of five, a sixth connection at once would wait a second for its next try

        with Listening(("127.0.0.1", 0), Handler) as listening:
            thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            try:
                scheme = "http" if self.context is None else "https"
                yield f"{scheme}://127.0.0.1:{listening.server_address[1]}"
            finally:
                listening.shutdown()
                thread.join()

    def serve(self, connection: socket.socket) -> None:
        """The requests of one connection, to its end. Raises `OSError` where the other side breaks it off."""
        with connection.makefile("rb") as reading, suppress(Hangup):
            while (seen := receive(reading)) is not None:
                self.seen.append(seen)
                for piece in self.script(seen):
                    connection.sendall(piece)


class Hangup(Exception):
    """Raised by a script: the connection ends here."""


def receive(reading: Any) -> Seen | None:
    """One request off a connection, None at its end."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = reading.readline()
        if not line:
            return None
        head += line
    seen = Seen(head[:-4], b"")
    if (length := seen.header("content-length")) is not None:
        seen.body = reading.read(int(length))
    elif (seen.header("transfer-encoding") or "").lower() == "chunked":
        while size := int(reading.readline().strip() or b"0", 16):
            seen.body += reading.read(size)
            reading.readline()
        reading.readline()
    return seen


def answer(value: Any, status: int = 200, **headers: str) -> bytes:
    """An answer with a length; a value that is not bytes is its JSON."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    given = {name.replace("_", "-"): text for name, text in headers.items()}
    named = {"content-type": "application/json", "content-length": str(len(body)), **given}
    lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {text}" for name, text in named.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


def start(status: int = 200, kind: str = "text/event-stream", **headers: str) -> bytes:
    """The head of an answer in chunks."""
    given = {name.replace("_", "-"): text for name, text in headers.items()}
    named = {"content-type": kind, "transfer-encoding": "chunked", **given}
    lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {text}" for name, text in named.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


END = b"0\r\n\r\n"


def events(values: Iterable[Any], done: bool = False) -> list[bytes]:
    """Server-sent events, one a piece."""
    found = [f"data: {json.dumps(value)}\n\n".encode() for value in values]
    return [*found, b"data: [DONE]\n\n"] if done else found


CHAT: Wire = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
}


def says(value: Any = CHAT, status: int = 200, **headers: str) -> Script:
    """A script that answers everything alike."""
    return lambda _: [answer(value, status, **headers)]


@dataclass
class Running:
    """A proxy that runs."""

    proxy: Proxy
    host: str
    port: int
    upstream: Upstream
    stopping: Callable[[], None] = field(repr=False)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def ask(self, path: str, body: Any = b"", method: str = "POST", **headers: str) -> Reply:
        """One request on a connection of its own, and the whole answer."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {"host": f"{self.host}:{self.port}", "content-length": str(len(data)), **headers}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name.replace('_', '-')}: {text}" for name, text in named.items())]
        return self.raw("\r\n".join([*lines, "", ""]).encode() + data)

    def raw(self, data: bytes) -> Reply:
        """These bytes, and what comes back for them: that may be before all of them are sent (RFC 9112, 9.5)."""
        with self.connect() as connection:
            with suppress(ConnectionResetError, BrokenPipeError):
                connection.sendall(data)
            return reply(connection)

    def connect(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout=PATIENCE)

    def settled(self) -> Any:
        """The newest record, when there is one and nothing is under way any more."""
        wait_until(lambda: self.proxy.active == 0 and self.proxy.records.newest(1) != [])
        return self.proxy.records.newest(1)[-1]


@dataclass
class Reply:
    """An answer to a client. `whole`: it ended as HTTP says it should."""

    status: int
    headers: dict[str, str]
    body: bytes
    whole: bool

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def reply(connection: socket.socket) -> Reply:
    """The one answer on a connection, read to its end. No answer at all is status 0."""
    return replies(connection, 1)[0]


def replies(connection: socket.socket, count: int) -> list[Reply]:
    """The answers to so many requests that were sent at once."""
    with connection.makefile("rb") as reading:
        return [_reply(reading) for _ in range(count)]


def _reply(reading: Any) -> Reply:
    try:
        line = reading.readline()
    except ConnectionResetError:
        line = b""
    if not line:
        return Reply(0, {}, b"", False)
    named: dict[str, str] = {}
    while (text := reading.readline()) not in (b"\r\n", b""):
        name, _, value = text.decode("latin-1").partition(":")
        named[name.lower()] = value.strip()
    body, whole = _body(reading, named)
    return Reply(int(line.split()[1]), named, body, whole)


def _body(reading: Any, headers: dict[str, str]) -> tuple[bytes, bool]:
    if "content-length" in headers:
        length = int(headers["content-length"])
        body = reading.read(length)
        return body, len(body) == length
    body = b""
    if headers.get("transfer-encoding") != "chunked":
        return reading.read(), True
    while True:
        size = reading.readline().strip()
        if not size:
            return body, False
        if int(size, 16) == 0:
            return body, reading.readline() == b"\r\n"
        piece = reading.read(int(size, 16))
        body += piece
        if len(piece) < int(size, 16) or reading.readline() != b"\r\n":
            return body, False


@contextmanager
def proxied(script: Script | Upstream | None = None, url: str | None = None, **fields: Any) -> Iterator[Running]:
    """The proxy in front of an upstream with this script; `fields` are those of the configuration and the upstream."""
    upstream = script if isinstance(script, Upstream) else Upstream(script or says())
    with upstream.serving() as address:
        own = {name: fields.pop(name) for name in ("profile", "window", "max_output") if name in fields}
        stated: Sequence[Wire] = fields.pop("upstreams", None) or [{"url": url or address, **own}]
        at = [{**each, "url": each.get("url", "").replace("UPSTREAM", address) or address} for each in stated]
        config = made({"upstream": at, "port": 0, "processes": 0, **fields})
        with running(config, upstream) as found:
            yield found


@contextmanager
def running(config: Config, upstream: Upstream) -> Iterator[Running]:
    """The proxy on a free port. It is there at once: connections wait until it has started."""
    proxy = Proxy(config)
    listening = server.listen(config.host, 0)
    serving = uvicorn.Server(server.settings(config, proxy))
    thread = threading.Thread(target=serving.run, kwargs={"sockets": [listening]})
    thread.start()

    def stop() -> None:
        serving.should_exit = True

    try:
        yield Running(proxy, config.host, listening.getsockname()[1], upstream, stop)
    finally:
        wait_until(lambda: serving.started or not thread.is_alive())
        stop()
        thread.join(PATIENCE)
        assert not thread.is_alive(), "the proxy does not stop"


def wait_until(holds: Callable[[], bool]) -> None:
    """Returns once it holds; it never holding is a failure."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "this never came to be"
        time.sleep(0.002)
