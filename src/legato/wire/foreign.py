"""A message of one wire format, made ready to be encoded by another's codec."""

from __future__ import annotations

from legato.messages import Media, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult, changed
from legato.wire import media, shape

REASONING = {
    "openai-chat": "reasoning_content",
    "openai-responses": "reasoning",
    "anthropic": "thinking",
    "gemini": "thought",
    "bedrock": "reasoningText",
}
"""What each format calls a thought that nobody signed."""

TEXT_ARGUMENTS = ("openai-chat", "openai-responses")
"""Formats that hold a call's arguments as text, and each result as a message of its own."""

MARK = "cachePoint"
"""A block that says nothing. It goes as the fields in `extra` do."""


def foreign(message: Message, to: str) -> tuple[Message, ...]:
    """The same in the format `to`. What only the old one understands is gone; nothing claims to be off the wire.

    Media become blocks of the new format, or a text that names them if it has none; `Opaque` parts become their JSON
    as text; reasoning loses its signature. Where results are messages of their own, they come first and the rest of
    their message follows: this is the only case of more than one message. The ids and names of calls and results stay
    as they are, and so do the caller's notes; the name of a speaker goes.
    """
    parts = _translated(message, to)
    results = tuple([part for part in parts if type(part) is ToolResult])
    said = tuple([part for part in parts if type(part) is not ToolResult])
    if to not in TEXT_ARGUMENTS:
        role = "user" if results else message.role
        return (_message(message, role, parts, to),)
    answers = [_message(message, "tool", (result,), to) for result in results]
    if said or not answers:
        role = "user" if results and message.role in ("tool", "function") else message.role
        answers.append(_message(message, role, said, to))
    return tuple(answers)


def _message(message: Message, role: str, parts: tuple[Part, ...], to: str) -> Message:
    if role == "developer" and to not in TEXT_ARGUMENTS:
        role = "system"
    extra = {key: value for key, value in message.extra.items() if key[:1] == "_"}
    if to == "openai-responses" and role != "tool":
        extra["type"] = "message"
    return Message(role, _flat(parts), message.origin, None, extra)


def _translated(message: Message, to: str) -> tuple[Part, ...]:
    silent = len(message.parts) > 1  # an empty text beside something else is a way to say nothing
    parts = [_part(part, to) for part in message.parts if not _is_mark(part) and not (silent and _is_empty(part))]
    refusal = message.extra.get("refusal")
    if isinstance(refusal, str):
        parts.append(Text(refusal))
    thoughts = [part.text for part in parts if isinstance(part, Reasoning)]
    if to == "openai-chat" and len(thoughts) > 1:
        rest = [part for part in parts if not isinstance(part, Reasoning)]
        parts = [Reasoning("\n\n".join(filter(None, thoughts)), REASONING[to]), *rest]
    return tuple(parts)


def _is_empty(part: Part) -> bool:
    return isinstance(part, Text) and not part.text


def _is_mark(part: Part) -> bool:
    return isinstance(part, Opaque) and isinstance(part.raw, dict) and len(part.raw) == 1 and MARK in part.raw


def _part(part: Part, to: str) -> Part:
    if isinstance(part, Text):
        return Text(part.text)
    if isinstance(part, ToolCall):
        arguments = part.arguments
        if arguments is not None:
            arguments = shape.as_text(part) if to in TEXT_ARGUMENTS else shape.as_object(part)
        return changed(part, arguments=arguments, free=part.free and to in TEXT_ARGUMENTS, extra={})
    if isinstance(part, ToolResult):
        inner = tuple([_part(each, to) for each in part.parts if not _is_mark(each)])
        return changed(part, parts=_flat(inner), extra={})
    if isinstance(part, Reasoning):
        return Reasoning(part.text, REASONING[to], "" if to == "anthropic" else None)
    if isinstance(part, Media):
        source = media.read(part.raw)
        block = media.write(source, to) if source else None
        if source and block is not None:
            return Media(source.kind, block)
        return Text(source.as_text() if source else shape.dump(part.raw))
    return Text(shape.dump(part.raw))


def _flat(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """A lone text is written as a plain string where the format allows it."""
    texts = [part for part in parts if isinstance(part, Text)]
    if len(texts) != 1 or any(isinstance(part, (Media, Opaque)) for part in parts):
        return parts
    return tuple([changed(part, flat=True) if part is texts[0] else part for part in parts])
