"""The runner over every official SDK: a tool loop, and an overflow in the middle of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from apis import APIS, Api, chat_stream, content_stream, message_stream, response_stream
from legato import Policy
from legato.agent.result import Result
from legato.agent.runner import AgentRunner
from legato.agent.tool import tool
from model_server import ModelServer, Stream, Whole

Json = Any
ARGUMENTS = {"pattern": "x"}
TEXT = json.dumps(ARGUMENTS)
SAID = "It is in a.py."
LONG = 400
each_api = pytest.mark.parametrize("api", APIS, ids=str)


def calling(api: Api, at: int) -> Stream:
    """A streamed turn that calls `grep`, the `at`-th of its conversation."""
    function = {"name": "grep", "arguments": TEXT}
    if api.name == "chat":
        call = {"index": 0, "id": f"call_{at}", "type": "function", "function": function}
        return Stream(chat_stream({"tool_calls": [call]}, finish="tool_calls"))
    if api.name == "responses":
        thought = {"id": f"rs_{at}", "type": "reasoning", "summary": [], "encrypted_content": f"seal {at}"}
        call = {"id": f"fc_{at}", "type": "function_call", "call_id": f"call_{at}", **function, "status": "completed"}
        return Stream(response_stream([thought, call]))
    if api.name == "anthropic":
        block = {"type": "tool_use", "id": f"toolu_{at}", "name": "grep", "input": {}}
        return Stream(message_stream((block, [{"type": "input_json_delta", "partial_json": TEXT}]), stop="tool_use"))
    part = {"functionCall": {"name": "grep", "args": ARGUMENTS}, "thoughtSignature": f"seal {at}=="}
    return Stream(content_stream([part]))


def run(api: Api, server: ModelServer, policy: Policy) -> tuple[Result, list[Json]]:
    asked: list[Json] = []

    @tool(reads_only=True)
    def grep(pattern: str) -> str:
        """Search the files."""
        asked.append(pattern)
        return "\n".join(f"a.py:{line}: {pattern} = {line}" for line in range(LONG))

    async def running() -> Result:
        async with api.connect(server.url) as provider:
            with AgentRunner(provider=provider, tools=[grep], policy=policy, system="Be terse.") as runner:
                return await runner.run("Where is x set?")

    return asyncio.run(running()), asked


@each_api
def test_a_tool_loop_comes_to_its_answer(api: Api) -> None:
    turns = [calling(api, at) for at in range(3)]
    with ModelServer(*turns, Stream(api.events(SAID, api.stops["end"]))) as server:
        result, asked = run(api, server, Policy(window=100_000))
    assert (result.stop, result.text) == ("completed", SAID)
    assert asked == [ARGUMENTS["pattern"]] * 3
    assert 4 * 11 in result.usage.values()
    for sealed in ("seal 0", "seal 1", "seal 2") if api.name in ("responses", "gemini") else ():
        assert sealed in json.dumps(server.asked[-1].body)


@each_api
def test_an_overflow_in_the_loop_is_followed_by_one_smaller_request(api: Api) -> None:
    turns = [calling(api, at) for at in range(3)]
    refusal = Whole(api.error(*api.overflow), api.overflow[0])
    with ModelServer(*turns, refusal, Stream(api.events(SAID, api.stops["end"]))) as server:
        result, _ = run(api, server, Policy(window=40_000))
    assert (result.stop, result.text, result.error) == ("completed", SAID, None)
    *_, refused, smaller = [len(json.dumps(asked.body)) for asked in server.asked]
    assert smaller < refused
    assert len(server.asked) == 5
