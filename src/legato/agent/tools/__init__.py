"""The tools of an agent that works in a folder.

    async with workspace_tools(".", recall=store, allow=["git status", "pytest *"]) as tools:
        runner = AgentRunner(provider=..., tools=tools, policy=policy)

`workspace.py` keeps files inside the folder, `files.py`, `listing.py` and `grep.py` are the tools over them;
`execution.py` runs commands (`process.py` ends them, `commands.py` says which need no leave); `fetch.py` and
`websearch.py` see the web (`public.py` which addresses); `keep.py` bounds what comes back.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol

from legato.agent.tool import Tool
from legato.agent.tools.execution import Execution, environment
from legato.agent.tools.fetch import Fetch
from legato.agent.tools.files import Files
from legato.agent.tools.grep import Grep
from legato.agent.tools.keep import kept, recall_tool
from legato.agent.tools.limits import Limits
from legato.agent.tools.listing import Listing
from legato.agent.tools.public import Guard, is_any, is_public
from legato.agent.tools.websearch import Service, WebSearch
from legato.agent.tools.workspace import Workspace
from legato.recall import Store

__all__ = ["Limits", "Service", "Toolbox", "kept", "recall_tool", "workspace_tools"]


class Family(Protocol):
    """Tools that share what they work on."""

    def tools(self) -> list[Tool]: ...


class Toolbox(list[Tool]):
    """Tools. As a context it ends, when it is left, the commands that they have running."""

    def __init__(self, tools: Iterable[Tool], execution: Execution) -> None:
        super().__init__(tools)
        self._execution = execution

    async def close(self) -> None:
        """End what runs in the background."""
        await self._execution.close()

    async def __aenter__(self) -> Toolbox:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def workspace_tools(
    root: str | os.PathLike[str],
    *,
    recall: Store | None = None,
    allow: Sequence[str] = (),
    ask: bool = True,
    web: bool = True,
    private_network: bool = False,
    env: Mapping[str, str] = {},
    search: Service | None = None,
    limits: Limits = Limits(),  # noqa: B008 -- frozen
) -> Toolbox:
    """Files, search, commands and the web, as tools that stay inside `root`.

    `recall` keeps the whole of results that are too long, and adds the tool that reads them back. `exec` asks first,
    unless the command fits a pattern of `allow` (see `commands.py`) or `ask` is False. `web`: False leaves `web_search`
    and `web_fetch` out; `private_network`: `web_fetch` may go to private and loopback addresses too; `search`: where
    `web_search` asks, None being what the environment names (see `websearch.py`). `env`: what commands get besides the
    harmless variables of the environment. Raises `OSError` if `root` is no folder.
    """
    workspace = Workspace(root)
    execution = Execution(workspace, limits, environment(os.environ, env), allow, ask)
    families: list[Family] = [
        Files(workspace, limits),
        Listing(workspace, limits),
        Grep(workspace, limits),
        execution,
    ]
    if web:
        guard = partial(Guard, permits=is_any if private_network else is_public)
        families += [WebSearch(limits, search or Service.of(os.environ)), Fetch(limits, guard)]
    tools = [each for family in families for each in family.tools()]
    if recall is not None:
        tools.append(recall_tool(recall, limits.result))
    return Toolbox(kept(tools, recall, limits.result), execution)
