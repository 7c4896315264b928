"""A small MCP server for the tests: over stdio, or with the number of a listening socket as argument over HTTP."""

from __future__ import annotations

import os
import sys

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ImageContent, ToolAnnotations

server = MCPServer("test")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(first: int, second: int) -> str:
    """Add two numbers."""
    return str(first + second)


@server.tool(name="fail.always")
def fail() -> str:
    """Fail."""
    raise ToolError("no way")


@server.tool()
def environment() -> str:
    """The variables this server was given."""
    return "\n".join(sorted(os.environ))


@server.tool()
def picture() -> ImageContent:
    """A picture."""
    return ImageContent(type="image", data="AAAA", mime_type="image/png")


@server.tool()
def die() -> str:
    """End the server."""
    os._exit(3)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        uvicorn.run(server.streamable_http_app(), fd=int(sys.argv[1]))
    else:
        server.run()
