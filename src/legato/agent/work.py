"""Running the calls of one turn."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import TypeAlias

from legato.agent import turn
from legato.agent.events import Event, ToolFinished, ToolStarted
from legato.agent.history import History
from legato.agent.tool import Output, Tool
from legato.messages import ToolCall

Approve: TypeAlias = Callable[[str, ToolCall], bool | Awaitable[bool]]
"""Is asked the question of a tool before the call runs. False: it does not run, and the model is told so."""

Numbered: TypeAlias = tuple[int, ToolCall]

NOBODY = "Not run: it needs a person's leave, and there is nobody to ask."
DECLINED = "Not run: the person who was asked declined."


class Work:
    """The calls of one turn, run in their order. Read-only neighbours run at the same time, any other call alone.

    A call is written down as started before it runs, and with its result as soon as it has one.
    """

    def __init__(
        self, tools: Mapping[str, Tool], approve: Approve | None, history: History, emit: Callable[[Event], None]
    ) -> None:
        self.tools = tools
        self.approve = approve
        self.history = history
        self._emit = emit

    async def run(self, calls: Sequence[ToolCall], request: int) -> list[Output]:
        """Run or refuse every call; their outputs in the order of the calls. `request` is the number for the events."""
        outputs: dict[int, Output] = {}
        for batch in self._batches(calls):
            allowed: list[Numbered] = []
            for nth, call in batch:
                refusal = await self._refusal(call)
                if refusal is None:
                    allowed.append((nth, call))
                else:
                    outputs[nth] = self._finish(nth, call, request, Output(refusal, error=True), ran=False)
            if allowed:
                outputs.update(await self._together(allowed, request))
        return [outputs[nth] for nth in range(len(calls))]

    def _batches(self, calls: Sequence[ToolCall]) -> Iterator[list[Numbered]]:
        """The calls that may run at the same time: neighbours that only read."""
        batch: list[Numbered] = []
        for nth, call in enumerate(calls):
            known = self.tools.get(call.name or "")
            reads = known is not None and known.reads_only
            if batch and not reads:
                yield batch
                batch = []
            batch.append((nth, call))
            if not reads:
                yield batch
                batch = []
        if batch:
            yield batch

    async def _refusal(self, call: ToolCall) -> str | None:
        """Why a call is not run at all; None: it may."""
        name = call.name or ""
        known = self.tools.get(name)
        if known is None:
            near = get_close_matches(name, self.tools, n=1, cutoff=0.5)
            hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(self.tools) or 'none'}."
            return f"There is no tool {name!r}. {hint}"
        question = known.question(turn.arguments_of(call))
        if question is None:
            return None
        if self.approve is None:
            return NOBODY
        verdict = self.approve(question, call)
        return None if (await verdict if inspect.isawaitable(verdict) else verdict) else DECLINED

    async def _together(self, batch: Sequence[Numbered], request: int) -> dict[int, Output]:
        self.history.started([nth for nth, _ in batch])
        try:
            async with asyncio.TaskGroup() as group:
                tasks = {nth: group.create_task(self._one(nth, call, request)) for nth, call in batch}
        except BaseExceptionGroup as problems:
            raise problems.exceptions[0] from None  # the first has cancelled the others
        return {nth: task.result() for nth, task in tasks.items()}

    async def _one(self, nth: int, call: ToolCall, request: int) -> Output:
        assert call.name is not None
        self._emit(ToolStarted(request, nth, call.id, call.name, call.arguments))
        output = await self.tools[call.name].call(turn.arguments_of(call))
        return self._finish(nth, call, request, output, ran=True)

    def _finish(self, nth: int, call: ToolCall, request: int, output: Output, *, ran: bool) -> Output:
        self.history.finished(nth, output.text, output.error)
        name, arguments = call.name or "", call.arguments
        self._emit(ToolFinished(request, nth, call.id, name, arguments, output.text, output.error, ran))
        return output
