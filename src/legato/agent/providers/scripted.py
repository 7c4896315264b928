"""A model that says what it was told to: for tests of what stands around it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from legato.agent.provider import OnText, ProviderError, Reply
from legato.errors import WireError
from legato.messages import Json, Message, Text, ToolCall
from legato.pipeline import OWN
from legato.wire import codec, holds_text, shape

Line: TypeAlias = Reply | ProviderError | str
"""What the model does next: a reply, an error, or a final answer as text."""
Script: TypeAlias = Iterable[Line] | Callable[[Json], Line]
"""The lines in order, or a function of the body that was sent."""


class Scripted:
    """Plays a script, and keeps the body of every request in `bodies`. A script that is over is a `ProviderError`."""

    def __init__(
        self,
        script: Script,
        format: str = "openai-chat",  # noqa: A002 - the contract's word
        profile: str | None = None,
    ) -> None:
        self.format = format
        self.profile = OWN[format] if profile is None else profile
        self.bodies: list[Json] = []
        self._script = script if callable(script) else _next(iter(script))

    async def complete(self, body: Json, on_text: OnText | None = None) -> Reply:
        """The next line. Text comes a word at a time."""
        self.bodies.append(body)
        line = self._script(body)
        await asyncio.sleep(0)  # a request can always be cancelled
        if isinstance(line, ProviderError):
            raise line
        reply = says(line, self.format) if isinstance(line, str) else line
        if on_text is not None:
            await _stream(reply, self.format, on_text)
        return reply


def says(text: str, form: str, *calls: ToolCall, **fields: Json) -> Reply:
    """A turn of text and calls in a wire format. `fields` are those of `Reply`."""
    said = (Text(text, flat=not calls or holds_text(form)),) if text else ()
    made = [call if holds_text(form) else _as_object(call) for call in calls]
    items = codec(form).encode(Message("assistant", (*said, *made)))
    return Reply(**{"items": items, "stop": "calls" if calls else "end", **fields})


def call(name: str, call_id: str | None = None, **arguments: Json) -> ToolCall:
    """A call as a model writes it."""
    return ToolCall(call_id, name, shape.dump(arguments))


def _as_object(made: ToolCall) -> ToolCall:
    return ToolCall(made.id, made.name, shape.as_object(made), made.free, made.extra)


async def _stream(reply: Reply, form: str, on_text: OnText) -> None:
    try:
        messages = codec(form).decode(reply.items)
    except WireError:  # a script may hold what is no turn at all
        return
    for part in [part for message in messages for part in message.parts if isinstance(part, Text)]:
        for word in part.text.split(" "):
            on_text(word + " ")
            await asyncio.sleep(0)


def _next(lines: Iterator[Line]) -> Callable[[Json], Line]:
    return lambda _: next(lines, ProviderError("the script is over"))
