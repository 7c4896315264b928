"""What an operator looks at: `/_legato/` and `/metrics`. Nothing here reaches an upstream, or changes anything.

/_legato/                  the dashboard: page/, files that need no token and hold nothing of any request
/_legato/rules/CODE.md     the page of a rule
/_legato/health            200 while the process runs
/_legato/ready             200 once it serves
/_legato/api/requests      the newest records: ?limit=100&after=ID
/_legato/api/requests/ID   one of them; with `contents = true` with its diff
/_legato/api/events        every record from now on, as server-sent events
/_legato/api/summary       the upstreams, what is going on now, and what all requests come to
/_legato/api/rules         every code in a line
/metrics                   for Prometheus
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import msgspec

from legato.proxy import headers, pages
from legato.proxy.bodies import Message, Receive, Send
from legato.proxy.config import profile_of
from legato.proxy.metrics import Metrics
from legato.proxy.records import Record, Records, row

if TYPE_CHECKING:
    from legato.proxy.app import Proxy

HERE = "/_legato"
EVENTS = f"{HERE}/api/events"
ONE = re.compile(rf"{HERE}/api/requests/(\d{{1,15}})")
OPEN = (f"{HERE}/health", f"{HERE}/ready")
"""What needs no token: it says nothing."""
UNDER_WAY = 20
"""Unfinished requests that are shown."""
BEAT = 15.0
"""Seconds after which a silent feed says that it is still there."""


def takes(path: str) -> bool:
    """Whether a path is ours."""
    return path == "/metrics" or path == HERE or path.startswith(f"{HERE}/")


async def serve(proxy: Proxy, path: str, scope: Message, receive: Receive, send: Send) -> None:
    """Answers a request for one of our own pages."""
    if scope["method"] not in ("GET", "HEAD"):
        await _say(send, 405, {"error": "only GET"})
    elif path in OPEN:
        ready = path == OPEN[0] or proxy.started
        await _say(send, 200 if ready else 503, {"status": "ok" if ready else "starting"})
    elif not _is_trusted(proxy, scope["headers"]):
        await _say(send, 403, {"error": "this host name is not one of the proxy's: add it to hosts"})
    elif path == HERE:
        await _write(send, 308, b"text/plain", b"", (b"location", f"{HERE}/".encode()))
    elif (page := pages.find(path.removeprefix(f"{HERE}/"))) is not None:
        await _write(send, 200, *page)
    elif not proxy.allows(_token(scope["headers"])):
        await _say(send, 401, {"error": "Authorization: Bearer must hold a token of this proxy"})
    elif path == EVENTS:
        await _feed(proxy, receive, send)
    elif path == "/metrics":
        await _write(send, 200, Metrics.TYPE, proxy.metrics.text())
    else:
        found = _found(proxy, path, scope["query_string"])
        await _say(send, 404 if found is None else 200, {"error": "nothing here"} if found is None else found)


def _found(proxy: Proxy, path: str, query: bytes) -> object:
    if path == f"{HERE}/api/requests":
        asked = parse_qs(query.decode("latin-1"))
        limit, after = (_number(asked, name, usual) for name, usual in (("limit", 100), ("after", 0)))
        rows = [row(record) for record in proxy.records.newest(limit, after)]
        return {"instance": proxy.records.instance, "requests": rows}
    if path == f"{HERE}/api/summary":
        return _summary(proxy)
    if path == f"{HERE}/api/rules":
        return pages.catalogue()
    one = ONE.fullmatch(path)
    record = proxy.records.find(int(one[1])) if one else None
    return None if record is None else {"instance": proxy.records.instance, **msgspec.to_builtins(record)}


def _summary(proxy: Proxy) -> dict[str, object]:
    config, records = proxy.config, proxy.records
    upstreams = [{"name": each.label, "url": each.url, "profile": profile_of(each)} for each in config.upstream]
    stated = {"policy": config.policy, "on_failure": config.on_failure, "contents": config.contents}
    kept = {"records": config.records, "workers": config.workers}
    under_way = list(records.under_way.values())[-UNDER_WAY:]
    return {
        "instance": records.instance,
        "upstreams": upstreams,
        **stated,
        **kept,
        "active": proxy.active,
        "held_bytes": proxy.held,
        "under_way": [row(record) for record in under_way],
        "totals": msgspec.to_builtins(records.totals),
    }


def _number(asked: dict[str, list[str]], name: str, usual: int) -> int:
    text = asked.get(name, [""])[0]
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else usual


async def _feed(proxy: Proxy, receive: Receive, send: Send) -> None:
    """Records as server-sent events, until the client goes or the server stops."""
    start = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store"), *pages.GUARDS]
    await send({"type": "http.response.start", "status": 200, "headers": start})
    await send({"type": "http.response.body", "body": b": legato\n\n", "more_body": True})
    ending = asyncio.create_task(_wait_for_end(receive))
    try:
        with proxy.records.feed() as records:
            while not ending.done():
                await _next(proxy.records, records, ending, send)
    finally:
        ending.cancel()
    await send({"type": "http.response.body", "body": b""})


async def _next(records: Records, queue: asyncio.Queue[Record], ending: asyncio.Task[None], send: Send) -> None:
    coming = asyncio.create_task(queue.get())
    await asyncio.wait((coming, ending), timeout=BEAT, return_when=asyncio.FIRST_COMPLETED)
    if coming.done():
        record = coming.result()
        shown = {"instance": records.instance, **row(record)}
        event = f"id: {record.id}\ndata: {json.dumps(shown)}\n\n"
        await send({"type": "http.response.body", "body": event.encode(), "more_body": True})
    else:
        coming.cancel()
        if not ending.done():
            await send({"type": "http.response.body", "body": b": still here\n\n", "more_body": True})


async def _wait_for_end(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _is_trusted(proxy: Proxy, given: headers.Headers) -> bool:
    """Whether the name a browser knows us by is ours: a page elsewhere can make its own name lead here."""
    host = headers.get(given, b"host").decode("latin-1").lower()
    name = host.partition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name in ("localhost", "", *proxy.config.hosts)
    return True


def _token(given: headers.Headers) -> bytes:
    """The token, from our own header or as a bearer: nothing of this request goes on to an upstream."""
    bearer = headers.get(given, b"authorization")
    return headers.get(given, b"x-legato-token") or (bearer[7:] if bearer[:7].lower() == b"bearer " else b"")


async def _say(send: Send, status: int, value: object) -> None:
    await _write(send, status, b"application/json", json.dumps(value).encode())


async def _write(send: Send, status: int, kind: bytes, body: bytes, *more: tuple[bytes, bytes]) -> None:
    start = [(b"content-type", kind), (b"content-length", b"%d" % len(body)), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": [*start, *pages.GUARDS, *more]})
    await send({"type": "http.response.body", "body": body})
