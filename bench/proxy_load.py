"""The proxy beside LiteLLM's and mitmproxy, with a thousand streams, and for minutes: `make bench-proxy`.

    bench/proxy_load.py [--seconds N] [--streams N] [--soak MINUTES] [--only latency,streams,soak]

Latency: the same requests, which need nothing, go in turns to one loopback upstream directly, through `legato serve`
with governing off (the same server as a plain pass-through), governed, through the LiteLLM proxy, and through mitmproxy
as a reverse proxy. So whatever else the machine does falls on all alike. Both others have their own environments under
.oracles/, which the first run makes. `added` is the median of what a request took longer than its direct twin.

Streams: so many are held open at once, and the memory of the proxy is told while they run. Soak: eight clients send
conversations that grow, new ones, and streams that they leave in the middle; memory is told every half minute.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import subprocess
import tempfile
import time
import venv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection
from itertools import islice
from os import getloadavg
from pathlib import Path
from statistics import median
from time import perf_counter

from proxy import BEAT, CASES, PATH, connect, hold, memory, proxy, say, session, timed, turns, upstream

ROOM = Path(__file__).parent.parent / ".oracles"
OTHERS = {"litellm": "litellm[proxy]==1.100.5", "mitmproxy": "mitmproxy==11.0.2"}
"""By folder: the last of each that installs on Python 3.11 from PyPI alone."""
SIZES = ("1 KB", "100 KB", "100 KB, new", "1 MB", "10 MB")
LEAST = 20
"""Requests of each size that are sent at least, however long they take."""
CLIENTS = 8
EVERY = 30.0
"""Seconds between two looks at the memory."""
LITELLM = """
model_list:
  - model_name: bench
    litellm_params: {{model: openai/bench, api_base: "http://127.0.0.1:{port}/v1", api_key: none}}
litellm_settings: {{telemetry: false}}
"""


# -- the others --------------------------------------------------------------------------------------------------------


def install(name: str) -> Path:
    """The folder with the programs of one of the others."""
    folder = ROOM / name
    if not (folder / "installed").exists():
        say(f"installing {OTHERS[name]}\n")
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([folder / "bin" / "pip", "-qq", "install", OTHERS[name]], check=True)
        (folder / "installed").touch()
    return folder / "bin"


@contextmanager
def serving(command: Sequence[str], port: int) -> Iterator[int]:
    """A program that serves on a port; it is there once that port answers."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            end = perf_counter() + 120
            while not answers(port):
                if process.poll() is not None or perf_counter() > end:
                    raise RuntimeError(f"{command[0]} does not serve")
                time.sleep(0.2)
            yield port
        finally:
            process.terminate()


def answers(port: int) -> bool:
    with suppress(OSError), closing(HTTPConnection("127.0.0.1", port, timeout=1)) as connection:
        connection.connect()
        return True
    return False


@contextmanager
def litellm(port: int, own: int) -> Iterator[int]:
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(LITELLM.format(port=port))
        programs = install("litellm")
        command = [str(programs / "litellm"), "--config", str(config), "--host", "127.0.0.1", "--port", str(own)]
        with serving(command, own) as found:
            yield found


@contextmanager
def mitmproxy(port: int, own: int) -> Iterator[int]:
    mode = ["--mode", f"reverse:http://127.0.0.1:{port}", "--listen-host", "127.0.0.1", "--listen-port", str(own)]
    with serving([str(install("mitmproxy") / "mitmdump"), "-q", *mode], own) as found:
        yield found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


# -- latency -----------------------------------------------------------------------------------------------------------


def compare(ways: Mapping[str, int], requests: Iterator[bytes], seconds: float) -> dict[str, list[float]]:
    """Milliseconds of each request on each way, in turns."""
    found: dict[str, list[float]] = {way: [] for way in ways}
    with ExitStack() as stack:
        open_ones = {way: stack.enter_context(closing(connect(port))) for way, port in ways.items()}
        for data in islice(requests, 2):
            for connection in open_ones.values():
                timed(connection, data)
        end, order = perf_counter() + seconds, list(open_ones.items())
        while perf_counter() < end or len(found["direct"]) < LEAST:
            data = next(requests)
            for way, connection in order:
                found[way].append(timed(connection, data))
            order.append(order.pop(0))  # what comes after a slow one finds the caches cold: that falls on each in turn
    return found


def latency(seconds: float) -> None:
    port = upstream()
    own = ["--profile", "openai", "--window", "100000000"]
    with ExitStack() as stack:
        ways = {"direct": port}
        ways["pass-through"] = stack.enter_context(proxy(port, "--policy", "off"))[0]
        ways["governed"] = stack.enter_context(proxy(port, *own))[0]
        ways["LiteLLM"] = stack.enter_context(litellm(port, free_port()))
        ways["mitmproxy"] = stack.enter_context(mitmproxy(port, free_port()))
        say(f"milliseconds, median and p99; {', '.join(OTHERS.values())}\n")
        say(f"{'body':<14}{'requests':>9}" + "".join(f"{way:>20}" for way in ways) + "    added at the median\n")
        for name in SIZES:
            found = compare(ways, turns(*CASES[name]), seconds)
            cells = "".join(f"{median(each):>11.2f}{p99(each):>9.2f}" for each in found.values())
            added = {way: median(map(difference, each, found["direct"])) for way, each in found.items()}
            told = ", ".join(f"{way} {value:.2f}" for way, value in added.items() if way != "direct")
            say(f"{name:<14}{len(found['direct']):>9}{cells}    {told}    (load {getloadavg()[0]:.0f})\n")


def p99(values: Sequence[float]) -> float:
    """The largest, of fewer than a hundred."""
    return sorted(values)[-1 - len(values) // 100]


def difference(one: float, other: float) -> float:
    return one - other


# -- a soak ------------------------------------------------------------------------------------------------------------


async def soak(port: int, process: int, minutes: float) -> None:
    """Mixed work for minutes, and the memory of the proxy while it goes on."""
    say(f"\nsoak: {CLIENTS} clients, {minutes:g} minutes; memory {memory(process):.0f} MB before\n")
    end = perf_counter() + minutes * 60
    tally: Counter[str] = Counter()
    clients = [asyncio.create_task(client(port, number, end, tally)) for number in range(CLIENTS)]
    while perf_counter() < end:
        await asyncio.wait(clients, timeout=min(EVERY, max(end - perf_counter(), 0.1)))
        told = ", ".join(f"{count:,} {kind}" for kind, count in sorted(tally.items()))
        say(f"{memory(process):6.0f} MB  {told}  (load {getloadavg()[0]:.0f})\n")
    await asyncio.gather(*clients)


async def client(port: int, number: int, end: float, tally: Counter[str]) -> None:
    """A growing conversation, a new one, and a stream that is left, over and over, each on a connection of its own."""
    growing = turns(100_000, 4_000, known=True)
    at = 0
    while perf_counter() < end:
        at += 1
        data = next(growing) if at % 2 else fresh(f"{number} {at}")
        streamed = at % 5 == 0
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        flag = "x-stream: 1\r\n" if streamed else ""
        writer.write(f"POST {PATH} HTTP/1.1\r\nhost: x\r\n{flag}content-length: {len(data)}\r\n\r\n".encode() + data)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            tally[head.split(b"\r\n")[0].decode()] += 1
        elif streamed:
            await asyncio.wait_for(reader.readuntil(b"data:"), BEAT * 60)
            tally["streams left"] += 1
        else:
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            await reader.readexactly(length)
            tally["answers"] += 1
        writer.close()


def fresh(name: str) -> bytes:
    """A conversation that the proxy has not seen."""
    request = session(20_000, 4_000)
    request["messages"][1]["content"] = f"Find leak {name}."
    return json.dumps(request).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long each size is measured")
    parser.add_argument("--streams", type=int, default=1_000, help="how many are held at once")
    parser.add_argument("--soak", type=float, default=4.0, help="minutes")
    parser.add_argument("--only", default="latency,streams,soak", help="some of the three")
    options = parser.parse_args()
    wanted = options.only.split(",")
    if "latency" in wanted:
        latency(options.seconds)
    with proxy(upstream(), "--profile", "openai", "--window", "100000000") as (port, process):
        with closing(connect(port)) as connection:
            for data in islice(turns(*CASES["100 KB"]), LEAST):  # what it loads with its first requests is no growth
                timed(connection, data)
        if "streams" in wanted:
            asyncio.run(hold(port, process, options.streams))
        if "soak" in wanted:
            asyncio.run(soak(port, process, options.soak))


if __name__ == "__main__":
    main()
