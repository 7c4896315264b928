"""Tools of a real MCP server, over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from legato.agent.mcp import mcp_tools
from legato.agent.tool import Output, Tool

SERVER = str(Path(__file__).with_name("mcp_server.py"))


@pytest.fixture
def address() -> Iterator[str]:
    """The URL of a server in a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        handed = listener.fileno()
        process = subprocess.Popen([sys.executable, SERVER, str(handed)], pass_fds=[handed], stderr=subprocess.DEVNULL)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        finally:
            process.kill()
            process.wait()


async def use(tools: list[Tool]) -> None:
    box = {each.name: each for each in tools}
    assert list(box) == ["t_add", "t_fail_always", "t_environment", "t_picture", "t_die"]
    assert [each.reads_only for each in tools] == [True, False, False, False, False]
    assert box["t_add"].description == "Add two numbers."
    assert await box["t_add"].call('{"first": 1, "second": 2}') == Output("3")
    refused = await box["t_add"].call({"first": "x"})
    assert refused.error
    assert "'second' is a required property; first: 'x' is not of type 'integer'" in refused.text
    assert await box["t_fail_always"].call({}) == Output("Error executing tool fail.always: no way", error=True)
    assert await box["t_picture"].call({}) == Output("[image, image/png: not shown]")
    assert await asyncio.gather(*(box["t_add"].call({"first": n, "second": n}) for n in range(5))) == [
        Output(str(2 * n)) for n in range(5)
    ]


def test_tools_of_a_command_are_called_over_stdio() -> None:
    async def scenario() -> None:
        async with mcp_tools([sys.executable, SERVER], prefix="t_") as tools:
            await use(tools)

    asyncio.run(scenario())


def test_tools_of_a_url_are_called_over_http(address: str) -> None:
    async def scenario() -> None:
        async with mcp_tools(address, prefix="t_") as tools:
            await use(tools)
        async with mcp_tools(address, prefix="t_", headers={"Authorization": "Bearer x"}) as tools:
            await use(tools)

    asyncio.run(scenario())


def test_no_secret_of_the_environment_reaches_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the-secret")

    async def scenario() -> str:
        async with mcp_tools([sys.executable, SERVER], env={"GIVEN": "x"}) as tools:
            [environment] = [each for each in tools if each.name == "environment"]
            return (await environment.call({})).text

    names = asyncio.run(scenario()).splitlines()
    assert "GIVEN" in names
    assert "OPENAI_API_KEY" not in names


def test_a_server_that_dies_is_an_error_of_its_tools() -> None:
    async def scenario() -> list[Output]:
        async with mcp_tools([sys.executable, SERVER]) as tools:
            box = {each.name: each for each in tools}
            return [await box["die"].call({}), await box["add"].call({"first": 1, "second": 2})]

    assert all(output.error for output in asyncio.run(scenario()))


def test_a_call_that_takes_a_leave_asks_for_it() -> None:
    async def scenario() -> list[str | None]:
        def asks(name: str):  # type: ignore[no-untyped-def]
            return (lambda arguments: f"Let {name} run with {arguments}?") if name == "add" else None

        async with mcp_tools([sys.executable, SERVER], asks=asks) as tools:
            return [each.question({"first": 1, "second": 2} if each.name == "add" else {}) for each in tools]

    assert asyncio.run(scenario()) == ["Let add run with {'first': 1, 'second': 2}?", None, None, None, None]
