"""How a stream opens: some upstreams say 200 first, and in the first event that the request is too long.

Nothing is held back but what comes before the first event that tells a client anything, and that within bounds: the
first token is as early as without.
"""

from __future__ import annotations

import json
from time import monotonic

from legato.messages import Json
from legato.proxy.bodies import Unreadable, inflater
from legato.proxy.upstream import Answer

HELD = 64 * 2**10
"""Bytes of an opening that are held back at most."""
SECONDS = 5.0
"""How long an opening is held back at most: what is too long is refused before anything is computed."""
FIELDS = (b":", b"event:", b"id:", b"retry:")
"""How the lines of a stream begin that have no data. The first is a comment, which keeps a connection alive."""
OPENINGS = frozenset(("response.created", "response.queued", "response.in_progress", "ping"))
"""Events that only say that there will be others (OpenAI Responses, Anthropic Messages)."""


class Opening:
    """Reads the start of a stream until it is known whether that is an error. `encoding` is the answer's."""

    def __init__(self, encoding: str) -> None:
        self.error: bytes | None = None
        """The event that says what is wrong."""
        self._inflate = inflater(encoding)
        self._rest = b""
        self._left = HELD

    @property
    def is_over(self) -> bool:
        """Whether all is known that there is to know."""
        return self._inflate is None or self._left < 0

    def feed(self, data: bytes) -> None:
        """A piece of the stream."""
        if self._inflate is None or self._left < 0:
            return
        try:
            plain = self._inflate(data)
        except Unreadable:
            self._inflate = None
            return
        self._left -= len(plain)
        for line in (self._rest + plain).splitlines(keepends=True):
            self._rest = b"" if line.endswith((b"\n", b"\r")) else line
            if not self._rest and not _is_opening(line):
                self._judge(line)
                return

    def end(self) -> bytes | None:
        """The error; None if there is none. The last line of a stream may lack its end."""
        if not self.is_over:
            self._judge(self._rest)
        return self.error

    def _judge(self, line: bytes) -> None:
        self._inflate = None
        self.error = line[5:] if _is_error(_event(line)) else None


def is_stream(answer: Answer) -> bool:
    """Whether an answer is one of server-sent events."""
    return "text/event-stream" in answer.header("content-type")


async def error(answer: Answer) -> bytes | None:
    """The event with the error that a stream opens with, None if it opens otherwise. Raises `UpstreamError`.

    What is read stays to be passed on.
    """
    opening, until = Opening(answer.header("content-encoding")), monotonic() + SECONDS
    while not opening.is_over and (piece := await answer.peek(until - monotonic())):
        opening.feed(piece)
    return opening.end()


def _is_opening(line: bytes) -> bool:
    """Whether a line tells nothing yet."""
    if not line.startswith(b"data:"):
        return not line.strip() or line.startswith(FIELDS)
    event = _event(line)
    return isinstance(event, dict) and event.get("type") in OPENINGS


def _is_error(event: Json) -> bool:
    """Whether an event says that the request failed, in whatever API's words."""
    if not isinstance(event, dict):
        return False
    response = event.get("response")
    said = response if isinstance(response, dict) else event
    return bool(said.get("error")) or "error" in (event.get("type"), event.get("object"))


def _event(line: bytes) -> Json:
    try:
        return json.loads(line[5:]) if line.startswith(b"data:") else None
    except (ValueError, RecursionError):
        return None
