"""The tools of MCP servers, through the official SDK.

    async with mcp_tools("https://host/mcp") as tools: ...
    async with mcp_tools(["npx", "-y", "some-server"], prefix="some_") as tools: ...

A server is a URL (streamable HTTP) or a command (stdio). A command gets few variables of the environment, and those in
`env`. That a tool only reads is the server's own word: it lets calls run at the same time, and is believed no further.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec

from legato.agent.extra import need
from legato.agent.tool import Ask, Output, Tool, ToolError
from legato.messages import Json

SECONDS = 300.0
"""How long a server may take to answer a call."""
PAGES = 100
"""Pages of tools that are asked for."""
NAME = re.compile(r"[^A-Za-z0-9_-]")
LONGEST = 64
"""Characters of a tool's name, as the providers allow them."""


@asynccontextmanager
async def mcp_tools(
    server: str | Sequence[str],
    *,
    prefix: str = "",
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    headers: Mapping[str, str] | None = None,
    asks: Callable[[str], Ask | None] = lambda _: None,
    seconds: float = SECONDS,
) -> AsyncIterator[list[Tool]]:
    """The tools of a server, as long as the context. Enter and leave it in one task.

    `prefix` goes before each name, so that several servers can be used; `asks` gives, for a tool's name, what asks the
    person. `env` and `cwd` are for a command, `headers` for a URL. A call that outlasts `seconds` is an error.
    """
    sdk = need("mcp")
    async with AsyncExitStack() as stack:
        target: Any = server
        if not isinstance(server, str):
            words = list(server)
            target = sdk.StdioServerParameters(command=words[0], args=words[1:], env=dict(env or {}), cwd=cwd)
        elif headers:
            client = await stack.enter_async_context(need("httpx2").AsyncClient(headers=dict(headers), timeout=seconds))
            target = need("mcp.client.streamable_http").streamable_http_client(server, http_client=client)
        client = await stack.enter_async_context(sdk.Client(target, read_timeout_seconds=seconds))
        taken: set[str] = set()
        yield [_tool(client, each, _name(prefix + each.name, taken), asks) for each in await _listed(client)]


async def _listed(client: Any) -> list[Any]:
    """All tools of a server."""
    found: list[Any] = []
    cursor = None
    for _ in range(PAGES):
        listed = await client.list_tools(cursor=cursor)
        found += listed.tools
        cursor = listed.next_cursor
        if not cursor:
            break
    return found


def _name(wanted: str, taken: set[str]) -> str:
    """A name that providers accept, and that is not taken yet."""
    base = name = NAME.sub("_", wanted)[:LONGEST]
    number = 1
    while name in taken:
        number += 1
        name = f"{base[: LONGEST - 4]}_{number}"
    taken.add(name)
    return name


def _tool(client: Any, listed: Any, name: str, asks: Callable[[str], Ask | None]) -> Tool:
    async def run(**arguments: Json) -> Output:
        try:
            result = await client.call_tool(listed.name, arguments)
        except need("mcp").MCPError as problem:
            raise ToolError(f"{name}: {problem}") from None
        text = "\n".join(map(_shown, result.content))
        if not text and result.structured_content is not None:
            text = msgspec.json.encode(result.structured_content).decode()
        return Output(text, error=result.is_error)

    reads_only = bool(listed.annotations and listed.annotations.read_only_hint)
    return Tool(name, listed.description or listed.title or "", listed.input_schema, run, reads_only, asks(name))


def _shown(block: Any) -> str:
    """A block of a result as text. What is none is named, not shown."""
    if block.type == "text":
        return str(block.text)
    if block.type == "resource":
        resource = block.resource
        text = getattr(resource, "text", None)
        return str(text) if text is not None else f"[{resource.uri}: {resource.mime_type}, not text]"
    if block.type == "resource_link":
        return f"[{block.name}: {block.uri}]"
    return f"[{block.type}, {block.mime_type}: not shown]"
