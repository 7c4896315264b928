"""A recorded session played again: the model says what it said, the tools give what they gave. Nothing is executed.

    recorded = Recorded(messages)
    with recorded.runner(policy=policy, hooks=[show]) as runner:
        result = await runner.run(recorded.task)

Every request of the session is governed as if it were made now, so that one sees what governance does to it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Any

from legato import wire
from legato.agent.events import AfterRequest, Event, Hook
from legato.agent.provider import OnText, ProviderError, Reply
from legato.agent.runner import AgentRunner
from legato.agent.tool import Output, Tool
from legato.edits import Request
from legato.messages import Json, Message, Text, ToolCall, ToolResult, Transcript, changed, text_of
from legato.pipeline import OWN
from legato.wire import shape

LOST = "[no result was recorded]"
"""What a call gives whose result the recording does not hold."""


class Played(Tool, frozen=True):
    """A tool that takes whatever was recorded, and gives what it gave."""

    async def call(self, arguments: object) -> Output:
        output = await self.run(arguments=arguments)
        assert isinstance(output, Output)
        return output


class Recorded:
    """Plays a list of wire items, or a whole body. Raises `WireError` where it is none.

    `task` is what was said before the first turn of the model; what was said later is said again where it was.
    Turns that say nothing and call nothing are left out.
    """

    def __init__(
        self,
        messages: Json,
        format: str | None = None,  # noqa: A002 - the contract's word
        profile: str | None = None,
    ) -> None:
        self.format = format or wire.sniff(messages)
        self.profile = profile or OWN[self.format]
        request = wire.read(messages, self.format)
        self.system = wire.system.JOINT.join(wire.system.texts(request.head))
        self.task: list[Json] = []
        self._turns: list[list[Message]] = []
        self._said: list[list[Json]] = []
        self._split(request.transcript)
        self._answers = _answers(request)
        self.tools = self._offered(request)
        self._at = 0

    def runner(self, *, hooks: Iterable[Hook] = (), **options: Any) -> AgentRunner:
        """A runner that plays the recording to its end. `options` are its own: policy, session, …"""
        fields = {"system": self.system, "max_iterations": len(self._turns), **options}
        runner = AgentRunner(provider=self, tools=self.tools, hooks=(*hooks, lambda event: follow(event)), **fields)

        def follow(event: Event) -> None:
            if isinstance(event, AfterRequest):
                runner.say(self.follow_up)

        return runner

    @property
    def follow_up(self) -> list[Json]:
        """What was said after the turn that was played last, as wire items."""
        return self._said[self._at - 1] if self._at else []

    @property
    def over(self) -> bool:
        """Whether every turn was played."""
        return self._at == len(self._turns)

    async def complete(self, body: Json, on_text: OnText | None = None) -> Reply:  # noqa: ARG002 - it was said already
        """The next turn of the recording, its text all at once."""
        await asyncio.sleep(0)  # a request can always be cancelled
        if self.over:
            raise ProviderError("the recording is over: it ends before the model has answered")
        messages = self._turns[self._at]
        self._at += 1
        for text in [part.text for message in messages for part in message.parts if isinstance(part, Text)]:
            if on_text is not None:
                on_text(text)
        calls = any(message.calls for message in messages)
        return Reply(items=tuple(self._wire(messages)), stop="calls" if calls else "end")

    def _split(self, transcript: Transcript) -> None:
        """The turns of the model, and what was said before and after each; results are no word of anybody's."""
        answering = False
        for message in transcript:
            if message.role == "assistant":
                if not message.calls and not (text_of(_texts(message)) or "").strip():
                    continue
                if not answering:
                    self._turns.append([])
                    self._said.append([])
                self._turns[-1].append(message)
                answering = True
                continue
            answering = False
            rest = tuple([part for part in message.parts if not isinstance(part, ToolResult)])
            if rest:
                spoken = message if len(rest) == len(message.parts) else changed(message, parts=rest)
                (self._said[-1] if self._said else self.task).extend(self._wire([spoken]))

    def _offered(self, request: Request) -> list[Tool]:
        """The tools the recording defines, and those it calls all the same."""
        plain = wire.tools.write(list(wire.tools.definitions(request.head)), "openai-chat")["tools"]
        defined = {each["function"]["name"]: each["function"] for each in plain}
        names = dict.fromkeys([*defined, *[name for name, _ in self._answers]])
        tools: list[Tool] = []
        for name in names:
            known = defined.get(name, {})
            schema = known.get("parameters", wire.tools.EMPTY)
            tools.append(Played(name, known.get("description", ""), schema, partial(self._answer, name)))
        return tools

    async def _answer(self, name: str, arguments: Json) -> Output:
        outputs = self._answers.get((name, _key(ToolCall(None, name, arguments))))
        return outputs.popleft() if outputs else Output(LOST, error=True)

    def _wire(self, messages: Iterable[Message]) -> list[Json]:
        return [item for message in messages for item in wire.codec(self.format).encode(message)]


def _texts(message: Message) -> tuple[Text, ...]:
    return tuple([part for part in message.parts if isinstance(part, Text)])


def _answers(request: Request) -> dict[tuple[str, str], deque[Output]]:
    """What the calls of each tool with the same arguments gave, in their order."""
    found: dict[tuple[str, str], deque[Output]] = {}
    for called in request.pairs[0]:
        if called.call.name:
            output = Output(LOST, error=True)
            for at, part in called.results[:1]:
                output = _output(request.transcript[at].parts[part])
            found.setdefault((called.call.name, _key(called.call)), deque()).append(output)
    return found


def _output(result: object) -> Output:
    """A recorded result as text: what is no text in it, as its JSON."""
    assert isinstance(result, ToolResult)
    texts = [part.text if isinstance(part, Text) else shape.dump(part.raw) for part in result.parts]
    return Output("\n".join(texts), result.error)


def _key(call: ToolCall) -> str:
    """The arguments in a form that is the same however they are written."""
    value = shape.as_object(call)
    return shape.dump(dict(sorted(value.items())) if isinstance(value, dict) else value)
