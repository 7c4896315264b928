"""`legato serve` as a process: it starts, says where, serves with several workers, and stops when streams are done."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from loopback import CHAT, END, PATIENCE, Seen, Upstream, chunk, events, says, start, wait_until

PLAIN = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}


class Process:
    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "legato", "serve", *arguments]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.lines: list[Any] = [json.loads(self.process.stderr.readline())]
        assert self.lines[0]["event"] == "listening"
        self.port: int = self.lines[0]["port"]
        self.reading = threading.Thread(target=self._read)
        self.reading.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(json.loads(line) for line in self.process.stderr if line.startswith("{"))

    def ask(self, body: Any = PLAIN) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body))
            found = connection.getresponse()
            return found.status, found.read()
        finally:
            connection.close()

    def stop(self, sign: int = signal.SIGTERM) -> int:
        self.process.send_signal(sign)
        code = self.process.wait(PATIENCE)
        self.read_to_the_end()
        return code

    def read_to_the_end(self) -> None:
        """The log ends when none of its processes is left."""
        self.reading.join(PATIENCE)
        assert not self.reading.is_alive(), "a process is left that writes the log"


@contextmanager
def before(address: str, *arguments: str) -> Iterator[Process]:
    process = Process("--upstream", address, "--port", "0", *arguments)
    try:
        yield process
    finally:
        if process.process.poll() is None:
            process.process.kill()
            process.process.wait()
        process.read_to_the_end()
        assert process.process.stderr is not None
        process.process.stderr.close()


@contextmanager
def served(script: Any, *arguments: str) -> Iterator[Process]:
    with Upstream(script).serving() as address, before(address, *arguments) as process:
        yield process


def test_it_serves_logs_a_line_a_request_and_stops_with_zero() -> None:
    with served(says(), "--profile", "openai") as process:
        assert process.ask() == (200, json.dumps(CHAT).encode())
        assert process.stop() == 0
        (line,) = [line for line in process.lines if line["event"] == "request"]
        assert (line["outcome"], line["status"], line["reported"]) == ("untouched", 200, 12)


def test_a_stream_that_is_under_way_is_finished_before_it_stops() -> None:
    asked, go_on = threading.Event(), threading.Event()

    def script(_: Seen) -> Iterator[bytes]:
        yield start() + chunk(events([CHAT])[0])
        asked.set()
        go_on.wait(PATIENCE)
        yield chunk(b"data: [DONE]\n\n") + END

    with served(script) as process, socket.create_connection(("127.0.0.1", process.port), timeout=PATIENCE) as client:
        body = json.dumps(PLAIN).encode()
        client.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
        )
        assert asked.wait(PATIENCE)
        process.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not takes_connections(process.port))
        assert process.process.poll() is None
        go_on.set()
        received = b""
        while piece := client.recv(4_096):
            received += piece
        assert b"[DONE]" in received
        assert received.endswith(END)
        assert process.process.wait(PATIENCE) == 0


def takes_connections(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
    except (ConnectionRefusedError, ConnectionResetError):  # reset: it was waiting to be taken
        return False
    return True


def test_several_workers_share_a_port_and_nothing_else() -> None:
    with served(says(), "--workers", "2", "--profile", "openai") as process:
        answers = [process.ask() for _ in range(12)]
        assert {status for status, _ in answers} == {200}
        assert process.stop() == 0


def test_workers_end_with_the_process_that_started_them_however_it_ends() -> None:
    with served(says(), "--workers", "2") as process:
        assert process.ask()[0] == 200
        assert process.stop(signal.SIGKILL) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--upstream URL or --config FILE"),
        (["--upstream", "ftp://x"], "no http or https URL"),
        (["--upstream", "http://x", "--profile", "nobody"], "no profile 'nobody'"),
        (["--upstream", "http://x", "--policy", "nobody"], "no policy 'nobody'"),
        (["--config", "/nowhere/legato.toml"], "/nowhere/legato.toml"),
    ],
)
def test_what_cannot_start_says_why_in_a_line_and_exits_with_two(arguments: list[str], said: str) -> None:
    done = subprocess.run([sys.executable, "-m", "legato", "serve", *arguments], capture_output=True, text=True)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        file = tmp_path / "legato.toml"
        file.write_text('[[upstream]]\nurl = "http://127.0.0.1:1"\n', encoding="utf-8")
        command = [sys.executable, "-m", "legato", "serve", "--config", str(file), "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ})
    assert done.returncode == 2
    assert "in use" in done.stderr
