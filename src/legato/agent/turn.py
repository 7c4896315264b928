"""The items of a conversation in any wire format: written for the user and the tools, read from the model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from legato import wire
from legato.messages import ASIDE, Json, Message, Text, ToolCall, ToolResult, changed, user
from legato.pipeline import Governed
from legato.wire import shape


def read(items: Sequence[Json], form: str) -> tuple[Message, ...]:
    """The items as messages. Raises `WireError` where one could not be sent or saved."""
    for at, item in enumerate(items):
        shape.verify(item, f"[{at}]")
    return wire.read(list(items), form).transcript


def encode(message: Message, form: str) -> tuple[Json, ...]:
    return wire.codec(form).encode(message)


def said(text: str, form: str) -> tuple[Json, ...]:
    """What a user says, as wire items."""
    return encode(user(text), form)


def aside(text: str, form: str) -> tuple[Json, ...]:
    """What the model is told and no user said, as wire items: what was asked last is still what the user said."""
    return tuple([{**item, ASIDE: True} for item in said(text, form)])


def answer(call: ToolCall, text: str, error: bool, form: str) -> Json:
    """The result of one call, as a wire item."""
    result = ToolResult(call.id, (Text(text, flat=True),), call.name, error, wire.answer_fields(call, form))
    return encode(Message("function" if "function_call" in call.extra else "tool", (result,)), form)[0]


def joined(results: Sequence[Json], form: str) -> list[Json]:
    """The results of one turn as they stand in a transcript: in one message where results are parts of messages."""
    if len(results) < 2 or not wire.holds_parts(form):
        return list(results)
    messages = wire.codec(form).decode(results)
    parts = tuple([part for message in messages for part in message.parts])
    return list(encode(changed(messages[0], parts=parts), form))


def renamed(items: Sequence[Json], governed: Governed, form: str) -> tuple[Json, ...]:
    """A reply's items with the ids and tool names the caller knows, where the request was sent with others."""
    if not governed.ids and not governed.tool_names:
        return tuple(items)
    back: list[Json] = []
    for message in wire.codec(form).decode(items):
        parts = tuple([_renamed(part, governed) if type(part) is ToolCall else part for part in message.parts])
        same = all(new is old for new, old in zip(parts, message.parts, strict=True))
        back += encode(message if same else changed(message, parts=parts), form)
    return tuple(back)


def _renamed(call: ToolCall, governed: Governed) -> ToolCall:
    call_id = governed.ids.get(call.id, call.id) if call.id else call.id
    name = governed.tool_names.get(call.name, call.name) if call.name else call.name
    return call if (call_id, name) == (call.id, call.name) else changed(call, id=call_id, name=name)


def text_of(messages: Iterable[Message]) -> str:
    """What an assistant turn says."""
    each = ["".join([part.text for part in message.parts if type(part) is Text]) for message in messages]
    return "\n\n".join(filter(None, each))


def calls_of(messages: Iterable[Message]) -> tuple[ToolCall, ...]:
    """The calls of a turn that can be run or answered: those that have a name and arguments."""
    every = [call for message in messages for call in message.calls]
    return tuple([call for call in every if call.name and call.name.strip() and call.arguments is not None])


def arguments_of(call: ToolCall) -> Json:
    """A call's arguments as a tool takes them: as the model wrote them, free text as the one field of an object."""
    return {shape.FREE: call.arguments} if call.free else call.arguments
