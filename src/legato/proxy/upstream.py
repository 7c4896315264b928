"""The HTTP client: requests as they are told, answers as they come."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from io import BytesIO

import aiohttp
from yarl import URL

from legato.proxy.config import Limits

LINE = 64 * 2**10
"""The longest header of an answer, in bytes."""
READ = 64 * 2**10
"""Bytes that are written at once, and bytes of an answer that wait for a slow client before the upstream has to."""
NOT_ADDED = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")


class UpstreamError(Exception):
    """The upstream could not be asked, or its answer not be read. `code` names it, `status` is the client's.

    `why` is for the operator: it may name hosts that are no business of a client's.
    """

    def __init__(self, status: int, code: str, message: str, why: BaseException | str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.why = (why if isinstance(why, str) else _why(why))[:200]


class Answer:
    """An answer whose headers are there. `read` is what was read of its body already."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: Sequence[tuple[bytes, bytes]] = response.raw_headers
        self.read = b""

    def header(self, name: str) -> str:
        return self._response.headers.get(name, "").strip().lower()

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it arrives, what was read already first. Raises `UpstreamError`."""
        if self.read:
            yield self.read
        while piece := await self._next():
            yield piece

    async def peek(self, seconds: float) -> bytes:
        """What comes next, which stays to be passed on; nothing at the end, or after `seconds`. Raises as `pieces`."""
        piece = b""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                piece = await self._next()
        self.read += piece
        return piece

    async def _next(self) -> bytes:
        try:
            return await self._response.content.readany()
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as problem:
            silent = isinstance(problem, TimeoutError)
            code = "upstream-silent" if silent else "upstream-cut"
            said = "the upstream did not finish its answer"
            raise UpstreamError(504 if silent else 502, code, said, problem) from None

    async def start(self, most: int) -> bool:
        """Reads the body up to `most` bytes into `read`; whether that is all of it. Raises `UpstreamError`."""
        pieces: list[bytes] = []
        size = 0
        async for piece in self.pieces():
            pieces.append(piece)
            size += len(piece)
            if size > most:
                break
        self.read = b"".join(pieces)
        return size <= most

    def close(self) -> None:
        """Lets the connection be used again if all was read, else ends it: the upstream need not go on."""
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()


class Client:
    """Connections to the upstreams. It follows no redirect, keeps no cookie, and inflates nothing."""

    def __init__(self, limits: Limits, ca: str | None = None) -> None:
        self._ca = ca
        self._timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=limits.connect_seconds, sock_read=limits.upstream_seconds
        )
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=_trusting(self._ca)),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=self._timeout,
            auto_decompress=False,
            read_bufsize=READ,
            max_line_size=LINE,
            max_field_size=LINE,
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def send(
        self, method: str, url: str, headers: list[tuple[str, str]], body: bytes | AsyncIterator[bytes] | None
    ) -> Answer:
        """The answer when its headers are there. Raises `UpstreamError`."""
        assert self._session is not None
        # While a request was governed the loop stood still. Now it learns which connections the upstream closed
        # meanwhile: the request must not go on one of those, for a POST may not be sent again.
        await asyncio.sleep(0)
        data = BytesIO(body) if isinstance(body, bytes) and len(body) > READ else body
        try:
            response = await self._session.request(
                method,
                URL(url, encoded=True),
                headers=headers,
                data=data,
                skip_auto_headers=NOT_ADDED,
                allow_redirects=False,
            )
        except aiohttp.ConnectionTimeoutError:
            raise UpstreamError(504, "upstream-unreachable", "the upstream took too long to connect to") from None
        except TimeoutError:
            raise UpstreamError(504, "upstream-silent", "the upstream did not answer in time") from None
        except aiohttp.ClientConnectorCertificateError as problem:
            said = "the upstream's certificate cannot be verified"
            raise UpstreamError(502, "upstream-untrusted", said, problem.certificate_error) from None
        except aiohttp.ClientConnectorError as problem:
            said = "the upstream cannot be connected to"
            raise UpstreamError(502, "upstream-unreachable", said, problem.os_error) from None
        except (aiohttp.ClientError, ConnectionError, asyncio.IncompleteReadError) as problem:
            said = "the upstream gave no answer that is HTTP"
            raise UpstreamError(502, "upstream-broken", said, problem) from None
        return Answer(response)


def _trusting(ca: str | None) -> ssl.SSLContext | bool:
    """What trusts the system's certificates, and those in the file `ca`. Raises `OSError`."""
    if ca is None:
        return True
    context = ssl.create_default_context()
    context.load_verify_locations(ca)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _why(problem: BaseException) -> str:
    """An error in its own words, if those are the system's; else its name: its words may quote what was sent."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return problem.verify_message
    if isinstance(problem, ssl.SSLError | socket.gaierror):
        return problem.strerror or type(problem).__name__
    return os.strerror(problem.errno) if isinstance(problem, OSError) and problem.errno else type(problem).__name__
