"""The tools of a run: those of the workspace, and those of MCP servers."""

from __future__ import annotations

import argparse
import logging
import shlex
from collections.abc import Collection
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from legato.agent.mcp import LONGEST, mcp_tools
from legato.agent.tool import Tool
from legato.agent.tools import Limits, kept, workspace_tools
from legato.cli.failure import Failure
from legato.cli.run_ask import asks_for
from legato.recall import Store

WEB = ("http://", "https://")


async def open_tools(
    stack: AsyncExitStack, workspace: Path, store: Store, options: argparse.Namespace
) -> tuple[list[Tool], list[Tool]]:
    """The tools of the workspace and those of the servers, as long as the stack. Raises `Failure`, `OSError`."""
    allow, ask = options.allow or (), not options.yes
    box = workspace_tools(workspace, recall=store, allow=allow, ask=ask, web=not options.no_web)
    own = await stack.enter_async_context(box)
    served: list[Tool] = []
    for server in options.mcp or ():
        found = kept(await _opened(stack, server, workspace), store, Limits().result)
        taken = {tool.name for tool in (*own, *served)}
        served += [_ours(tool, taken, allow, ask) for tool in found]
    return list(own), served


async def _opened(stack: AsyncExitStack, server: str, workspace: Path) -> list[Tool]:
    """The tools of a server. Raises `Failure` where it cannot be reached."""
    logging.getLogger("mcp").addHandler(logging.NullHandler())  # it logs with tracebacks what it then raises
    try:
        target = server if server.startswith(WEB) else shlex.split(server)
        if not target:
            raise Failure("--mcp: no command")
        return await stack.enter_async_context(mcp_tools(target, cwd=str(workspace)))
    except OSError as problem:
        raise Failure(f"--mcp {server}: {problem.strerror or problem}") from None
    except ValueError as problem:
        raise Failure(f"--mcp {server}: {problem}") from None
    except BaseExceptionGroup as group:
        causes = _causes(group)
        if any(not isinstance(cause, Exception) for cause in causes):
            raise
        raise Failure(f"--mcp {server}: {'; '.join(str(cause) or type(cause).__name__ for cause in causes)}") from None


def _causes(problem: BaseException) -> list[BaseException]:
    if isinstance(problem, BaseExceptionGroup):
        return [cause for inner in problem.exceptions for cause in _causes(inner)]
    return [problem]


def _ours(tool: Tool, taken: set[str], allow: Collection[str], ask: bool) -> Tool:
    """A server's tool under a name that no other has; it asks before each call, unless it need not."""
    name, nth = tool.name, 1
    while name in taken:
        nth += 1
        name = f"{tool.name[: LONGEST - 4]}_{nth}"
    taken.add(name)
    return msgspec.structs.replace(tool, name=name, asks=asks_for(name, allow) if ask else None)
