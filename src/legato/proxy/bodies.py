"""Bodies, read and inflated within bounds."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, Protocol, TypeAlias

try:
    import brotli
except ImportError:  # answers that need it are passed on all the same, only nothing is read off them
    brotli = None

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

PIECE = 2**20
"""Bytes that are inflated at a time."""


class ClientGone(Exception):
    """The client is not there any more."""


class TooLarge(Exception):
    """A body beyond its bound."""


class Unreadable(Exception):
    """A body that is not compressed as it says, or in a way that is not known."""


class Inflater(Protocol):
    """Gives plain bytes for compressed ones, a piece after the other."""

    def __call__(self, data: bytes, /) -> bytes: ...


async def read(receive: Receive, most: int, seconds: float, hold: Callable[[int], None]) -> bytes:
    """The whole body; `hold` is told the size of each piece. Raises `TooLarge`, `TimeoutError` and `ClientGone`."""
    pieces: list[bytes] = []
    size = 0
    async with asyncio.timeout(seconds):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            piece = message.get("body", b"")
            size += len(piece)
            if size > most:
                raise TooLarge
            hold(len(piece))
            pieces.append(piece)
            if not message.get("more_body", False):
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def pass_on(receive: Receive, seconds: float) -> AsyncIterator[bytes]:
    """The body as it comes in. Raises `TimeoutError` after a pause of `seconds`, and `ClientGone`."""
    while True:
        async with asyncio.timeout(seconds):
            message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        if message.get("body"):
            yield message["body"]
        if not message.get("more_body", False):
            return


def inflate(body: bytes, encoding: str, most: int) -> bytes:
    """The plain body. Raises `TooLarge` before more than `most` bytes are made, and `Unreadable`."""
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise Unreadable(f"content-encoding {encoding} cannot be read")
    found = bytearray()
    rest = body
    try:
        while rest:  # a gzip body may be several, one behind the other
            inflating = _zlib(rest, encoding)
            while rest and not inflating.eof:
                found += inflating.decompress(rest, min(PIECE, most + 1 - len(found)))
                if len(found) > most:
                    raise TooLarge
                rest = inflating.unconsumed_tail
            found += inflating.flush() if not inflating.eof else b""
            if not inflating.eof:
                raise Unreadable(f"a {encoding} body that ends too early")
            rest = inflating.unused_data
    except zlib.error as problem:
        raise Unreadable(f"no {encoding} body: {problem}") from None
    return bytes(found)


def inflater(encoding: str) -> Inflater | None:
    """What inflates a passing answer, None if its encoding is not known. It raises `Unreadable`."""
    if encoding in ("", "identity"):
        return lambda data: data
    if encoding in ("gzip", "x-gzip", "deflate"):
        return _Deflated(encoding)
    if encoding == "br" and brotli is not None:
        return _Brotli()
    return None


class _Deflated:
    def __init__(self, encoding: str) -> None:
        self.encoding = encoding
        self._inflating: Any = None
        self._begun = b""

    def __call__(self, data: bytes) -> bytes:
        found = b""
        try:
            while data:
                if self._inflating is None or self._inflating.eof:
                    data, self._begun = self._begun + data, b""
                    if len(data) < 2:  # what kind it is shows in the first two bytes
                        self._begun = data
                        break
                    self._inflating = _zlib(data, self.encoding)
                found += self._inflating.decompress(data)
                data = self._inflating.unused_data
        except zlib.error as problem:
            raise Unreadable(str(problem)) from None
        return found


class _Brotli:
    def __init__(self) -> None:
        self._inflating = brotli.Decompressor()

    def __call__(self, data: bytes) -> bytes:
        try:
            found: bytes = self._inflating.process(data)
        except brotli.error as problem:
            raise Unreadable(str(problem)) from None
        return found


def _zlib(start: bytes, encoding: str) -> Any:
    """A fresh inflater. What calls itself deflate comes with or without the zlib header (RFC 9110, 8.4.1.2)."""
    if encoding != "deflate":
        return zlib.decompressobj(wbits=31)
    headed = len(start) > 1 and start[0] & 0x0F == 8 and (start[0] * 256 + start[1]) % 31 == 0
    return zlib.decompressobj(wbits=15 if headed else -15)
