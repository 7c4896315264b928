"""What the proxy adds to a request: `bench/proxy.py [--seconds N] [--streams N]`.

Each request is sent to the same loopback upstream three ways: directly, through the proxy with governing off (the same
server code as a plain pass-through), and governed. All bodies need nothing. They are sent in turns, one after the other
on a connection each that stays open, so that whatever else the machine does falls on all three alike. The columns at
the end are differences of medians: what is `added` to a direct request, and how much of that is governing.

Each body is the one before it and a turn more, as an agent's are. The `new` rows are conversations that the proxy has
never seen, whose texts it has (but the last). An agent's 100 KB hold some fifty messages, `chatty` ones seven times as
many. With `--streams` so many streams are held open at once, and the memory of the proxy is told.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import Any, NamedTuple

CASES = {
    "1 KB": (1_000, 4_000, True),
    "100 KB": (100_000, 4_000, True),
    "100 KB, new": (100_000, 4_000, False),
    "100 KB, chatty": (100_000, 300, True),
    "100 KB, chatty, new": (100_000, 300, False),
    "1 MB": (1_000_000, 4_000, True),
    "1 MB, new": (1_000_000, 4_000, False),
    "10 MB": (10_000_000, 4_000, True),
}
"""Bytes of a body, characters of each result, and whether the conversation is known."""
LENGTH = 30
"""Turns of a conversation that grows."""
PATH = "/v1/chat/completions"
BEAT = 0.5
"""Seconds between the events of a held stream."""
ANSWER = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "x" * 400}, "finish_reason": "stop"}],
    }
).encode()


class Row(NamedTuple):
    """Milliseconds of one way."""

    median: float
    p99: float


def session(size: int, result: int) -> dict[str, Any]:
    """A request of an agent of about so many bytes, the results of its calls of `result` characters each."""
    messages: list[Any] = [{"role": "system", "content": "You mend code. " * min(400, size // 60)}]
    messages.append({"role": "user", "content": "Find the leak."})
    length, n = len(messages[0]["content"]) + 200, 0
    while length < size - result:
        function = {"name": "read_log", "arguments": json.dumps({"path": f"logs/{n}.txt"})}
        call = {"id": f"call_{n}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": "Looking.", "tool_calls": [call]})
        text = "\n".join(f"{n}.{line} worker {n * line} closed file {line}" for line in range(result // 36))
        messages.append({"role": "tool", "tool_call_id": f"call_{n}", "content": text})
        length += len(text) + 250
        n += 1
    tool = {"name": "read_log", "description": "Read a log.", "parameters": {"type": "object", "properties": {}}}
    return {"model": "bench", "messages": messages, "tools": [{"type": "function", "function": tool}]}


def turns(size: int, result: int, known: bool) -> Iterator[bytes]:
    """One request after the other; the conversation begins anew after some turns, or if not `known` every time."""
    number = 0
    while True:
        request = session(size, result)
        for _ in range(LENGTH if known else 1):
            number += 1
            said = {"role": "assistant", "content": f"Answer {number}."}
            asked = {"role": "user", "content": f"Turn {number}: and now? " + f"{number} more " * min(40, size // 100)}
            request["messages"] += [said, asked]
            if not known:
                request["messages"][1] = {"role": "user", "content": f"Find leak {number}."}
            yield json.dumps(request).encode()


def upstream() -> int:
    """Serves the answer, or an endless stream, from a thread of its own; the port."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=4_096)
    plain = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(ANSWER) + ANSWER
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    event = b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n'

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            while True:
                try:
                    asked = await reader.readuntil(b"\r\n\r\n")
                    length = int(asked.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
                    await reader.readexactly(length)
                    if b"\r\nx-stream: 1" not in asked.lower():
                        writer.write(plain)
                        continue
                    writer.write(head)
                    while True:
                        writer.write(b"%x\r\n%s\r\n" % (len(event), event))
                        await writer.drain()
                        await asyncio.sleep(BEAT)
                except (asyncio.IncompleteReadError, ConnectionError):
                    return

    async def run() -> None:
        await (await asyncio.start_server(serve, sock=listening, limit=2**24)).serve_forever()

    threading.Thread(target=lambda: asyncio.run(run()), daemon=True).start()
    port: int = listening.getsockname()[1]
    return port


@contextmanager
def proxy(port: int, *arguments: str) -> Iterator[tuple[int, int]]:
    """`legato serve` in front of that port: its own port and process."""
    command = [sys.executable, "-m", "legato", "serve", "--port", "0", "--upstream", f"http://127.0.0.1:{port}"]
    with subprocess.Popen([*command, *arguments], stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        own = json.loads(process.stderr.readline())["port"]
        drain = threading.Thread(target=lambda: [None for _ in process.stderr or ()])
        drain.start()
        try:
            yield own, process.pid
        finally:
            process.terminate()
            drain.join()


def timed(connection: HTTPConnection, data: bytes) -> float:
    """Milliseconds from the first byte sent to the last byte read."""
    began = perf_counter()
    connection.request("POST", PATH, data, {"content-type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 200
    assert answer.headers.get("x-legato-changes", "none") == "none", answer.headers["x-legato-changes"]
    return (perf_counter() - began) * 1_000


def measure(ways: dict[str, int], requests: Iterator[bytes], seconds: float) -> dict[str, Row]:
    """The ways in turns for so many seconds."""
    found: dict[str, list[float]] = {way: [] for way in ways}
    with ExitStack() as stack:
        open_ones = {way: stack.enter_context(closing(connect(port))) for way, port in ways.items()}
        first = next(requests)
        for connection in open_ones.values():
            timed(connection, first)
        end, turn = perf_counter() + seconds, 0
        while perf_counter() < end or turn < 20:
            turn += 1
            data = next(requests)
            for way, connection in open_ones.items():
                found[way].append(timed(connection, data))
    return {way: Row(median(times), quantiles(times, n=100)[98]) for way, times in found.items()}


def connect(port: int) -> HTTPConnection:
    connection = HTTPConnection("127.0.0.1", port)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def memory(process: int) -> float:
    """Megabytes that a process holds."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1_024


async def hold(port: int, process: int, streams: int) -> None:
    """Opens streams through the proxy, and prints its memory while they run."""
    data = json.dumps(session(20_000, 4_000)).encode()
    head = f"POST {PATH} HTTP/1.1\r\nhost: x\r\nx-stream: 1\r\ncontent-length: {len(data)}\r\n\r\n".encode()
    before = memory(process)
    began = perf_counter()

    async def one() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head + data)
        await reader.readuntil(b"data:")
        return reader, writer

    held = await asyncio.gather(*[one() for _ in range(streams)])
    say(f"\n{streams:,} streams in {perf_counter() - began:.1f} s; memory: {before:.0f} MB before")
    for seconds in (1, 10):
        end = perf_counter() + seconds
        while perf_counter() < end:
            await asyncio.gather(*[reader.readuntil(b"data:") for reader, _ in held])
        say(f", {memory(process):.0f} MB after {seconds} s more")
    for _, writer in held:
        writer.close()
    say("\n")


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="how long each size is measured")
    parser.add_argument("--streams", type=int, default=0, help="hold so many streams at once, too")
    options = parser.parse_args()
    port = upstream()
    own = ["--profile", "openai", "--window", "100000000"]
    with proxy(port, "--policy", "off") as (off, _), proxy(port, *own) as (governed, process):
        ways = {"direct": port, "off": off, "governed": governed}
        say("milliseconds              direct        pass-through          governed       added  of it governing\n")
        say("body                  median     p99    median     p99    median     p99    median           median\n")
        for name, case in CASES.items():
            rows = measure(ways, turns(*case), options.seconds)
            cells = "  ".join(f"{row.median:8.2f} {row.p99:7.2f}" for row in rows.values())
            direct, plain, full = (rows[way].median for way in ways)
            say(f"{name:<20}{cells}  {full - direct:8.2f}         {full - plain:8.2f}\n")
        if options.streams:
            asyncio.run(hold(governed, process, options.streams))


if __name__ == "__main__":
    main()
