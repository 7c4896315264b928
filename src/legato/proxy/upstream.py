"""The HTTP client: requests as they are told, answers as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
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
    """The upstream could not be asked, or its answer not be read. `code` names it, `status` is the client's."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


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
        try:
            async for piece in self._response.content.iter_any():
                yield piece
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as problem:
            silent = isinstance(problem, TimeoutError)
            code = "upstream-silent" if silent else "upstream-cut"
            raise UpstreamError(504 if silent else 502, code, "the upstream did not finish its answer") from None

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

    def __init__(self, limits: Limits) -> None:
        self._timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=limits.connect_seconds, sock_read=limits.upstream_seconds
        )
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
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
        except aiohttp.ClientConnectorError:
            raise UpstreamError(502, "upstream-unreachable", "the upstream cannot be connected to") from None
        except (aiohttp.ClientError, ConnectionError, asyncio.IncompleteReadError):
            raise UpstreamError(502, "upstream-broken", "the upstream gave no answer that is HTTP") from None
        return Answer(response)
