"""Connections to public addresses only, and to the very address that was checked.

A name is resolved once a request. If any of its addresses is not public, nothing is connected to; else one of those
addresses is, not the name again: a name that answers differently the next time gains nothing. Every redirect is a
request of its own. Proxies of the environment are not used, since they resolve names anew.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any

from legato.agent.extra import need
from legato.agent.tool import ToolError

Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Awaitable[list[str]]]
Permits = Callable[[Address], bool]

UNICAST = IPv6Network("2000::/3")
TRANSLATED = IPv6Network("64:ff9b::/96")
"""IPv4 addresses as NAT64 writes them."""
PORTS = {"http": 80, "https": 443}


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, as the system resolves it. Raises `OSError`."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def is_public(address: Address) -> bool:
    """Whether it is one of the open internet: not private, loopback, link-local (cloud metadata) or reserved."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in TRANSLATED:
            inner = IPv4Address(int(address) & 0xFFFF_FFFF)
        if inner is not None:
            return is_public(inner)
        return address in UNICAST and address.is_global
    return address.is_global and not address.is_multicast and not address.is_reserved


def is_any(_: Address) -> bool:
    """Permits every address."""
    return True


class Guard:
    """A transport of an HTTP client: connects to what `permits` lets it. Raises `ToolError` for the rest."""

    def __init__(self, resolve: Resolve = resolve, permits: Permits = is_public, **options: Any) -> None:
        self.resolve = resolve
        self.permits = permits
        self._httpx = need("httpx2")
        self._inner = self._httpx.AsyncHTTPTransport(trust_env=False, **options)

    async def handle_async_request(self, request: Any) -> Any:
        """Send the request to an address of its host. The host's own name is what TLS is verified against."""
        url = request.url
        if url.scheme not in PORTS:
            raise ToolError(f"only http and https can be fetched, not {url.scheme}:")
        host = url.raw_host.decode("ascii").strip("[]")
        addresses = await self._addresses(host, url.port or PORTS[url.scheme])
        for left, address in enumerate(addresses, 1 - len(addresses)):
            try:
                return await self._inner.handle_async_request(
                    self._httpx.Request(
                        request.method,
                        url.copy_with(host=str(address)),
                        headers=request.headers,
                        stream=request.stream,
                        extensions={**request.extensions, "sni_hostname": host},
                    )
                )
            except self._httpx.ConnectError:
                if left == 0:
                    raise
        raise ToolError(f"{host} has no address")

    async def _addresses(self, host: str, port: int) -> list[Address]:
        """The addresses of a host, each permitted. Raises `ToolError`."""
        try:
            found = [ip_address(each) for each in await self.resolve(host, port)]
        except (OSError, UnicodeError) as problem:
            raise ToolError(f"{host} cannot be resolved: {problem}") from None
        for address in found:
            if not self.permits(address):
                raise ToolError(f"{host} is at {address}, which is not a public address: it is not fetched")
        return found

    async def __aenter__(self) -> Guard:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *failure: Any) -> None:
        await self._inner.__aexit__(*failure)

    async def aclose(self) -> None:
        await self._inner.aclose()
