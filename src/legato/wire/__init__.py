"""Wire formats: one codec a format, and the reading and writing of whole payloads.

A codec is a module with `KEY` (the body's field that holds the list), `decode(items) -> Transcript` of the same length
and `encode(message) -> wire items`. An unchanged message is written as the very object that was read; an unchanged
payload is the payload.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from legato import traits
from legato.edits import Request
from legato.errors import WireError
from legato.messages import Fields, Json, Media, Message, Opaque, Text, ToolCall, ToolResult, Transcript
from legato.wire import anthropic, bedrock, gemini, limits, openai_chat, openai_responses, shape, system
from legato.wire import tools as tools
from legato.wire.foreign import TEXT_ARGUMENTS, foreign
from legato.wire.moving import move
from legato.wire.sniff import evidence, sniff


class Codec(Protocol):
    """What a wire format's module offers."""

    KEY: str

    def decode(self, items: Sequence[Json], /) -> Transcript: ...

    def encode(self, message: Message, /) -> tuple[Json, ...]: ...


CODECS: dict[str, Codec] = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic,
    "gemini": gemini,
    "bedrock": bedrock,
}

INSIDE = {"anthropic": "content", "bedrock": "content", "gemini": "parts"}
"""The field that holds the parts of a message, calls and results among them."""

LISTED = {"openai-responses": openai_responses.listed, "gemini": gemini.listed}
"""How a list is made of what else may stand where a format wants its list: a bare text, a single item."""


def codec(name: str) -> Codec:
    """The codec of a format. Raises `WireError` with the formats there are."""
    if name not in CODECS:
        raise WireError("", f"no wire format {name!r}; there are: {', '.join(CODECS)}")
    return CODECS[name]


def read(payload: Json, form: str, tools: Sequence[Json] | None = None) -> Request:
    """A bare list of messages or a whole body, as a request. `tools` are those of a bare list."""
    found = codec(form)
    if isinstance(payload, dict):
        if found.KEY not in payload:
            raise WireError(
                "", f"a body of {form} has {found.KEY}; this one has {', '.join(map(str, payload)) or 'nothing'}"
            )
        head = {key: value for key, value in payload.items() if key != found.KEY}
        items = _listed(payload[found.KEY], form)
    else:
        head, items = {}, _listed(payload, form)
    if tools:
        head["tools"] = list(shape.items(tools, "tools"))
    request = Request(head, found.decode(items))
    for at in request.having(traits.FIELDS | traits.RAW | traits.ENCODED):
        _verify(request.transcript[at], found.KEY, at)
    shape.verify(head, "")
    system.verify(head, form)
    return request


def _verify(message: Message, key: str, at: int) -> None:
    """Look at all that the codec took as it is: fields and parts it does not know, media, arguments."""
    for field, value in message.extra.items():
        if type(value) not in shape.PLAIN:
            shape.verify(value, f"{key}[{at}].{field}")
    for part in message.parts:
        if type(part) is ToolCall:
            if type(part.arguments) is not str:
                shape.verify(part.arguments, f"{key}[{at}]: the arguments of a call")
        elif type(part) is ToolResult:
            for inner in part.parts:
                if type(inner) is not Text:
                    shape.verify(inner.raw, f"{key}[{at}].content", raw_bytes=type(inner) is Media)
        elif type(part) is Opaque or type(part) is Media:
            shape.verify(part.raw, f"{key}[{at}].content", raw_bytes=type(part) is Media)


def _listed(value: Json, form: str) -> list[Json]:
    return LISTED[form](value) if form in LISTED else shape.items(value, codec(form).KEY)


def holds_text(form: str) -> bool:
    """Whether the format holds the arguments of calls as text."""
    return form in TEXT_ARGUMENTS


def holds_parts(form: str) -> bool:
    """Whether calls and results are parts of a message's content, beside its texts."""
    return form in INSIDE


def takes_text(call: ToolCall, form: str) -> bool | None:
    """Whether the format holds the arguments of this call as text, else as a value; None: of a special kind."""
    if call.free or (form == "openai-responses" and "type" in call.extra):
        return None
    return form in TEXT_ARGUMENTS


def place(form: str, part: int, nth_call: int | None) -> str:
    """Where in a message of this format a part stands. `nth_call`: it is a call, the nth of the message."""
    if form in INSIDE:
        return f".{INSIDE[form]}[{part}]"
    return f".tool_calls[{nth_call}]" if nth_call is not None and form == "openai-chat" else ""


def answer_fields(call: ToolCall, form: str) -> Fields:
    """The `extra` that a made-up result of this call needs in this format."""
    return openai_responses.answer_fields(call) if form == "openai-responses" else {}


def write(request: Request, before: Request, payload: Json, form: str, moved: bool = False) -> Json:
    """The payload in the shape it came in: the same object if the request is the one that was read from it.

    A bare list becomes a body only if the head was changed, or tools moved with it. The caller's notes are left out.
    `moved`: the payload is of another format, so that only its being a list or a body counts.
    """
    found = codec(form)
    noted = notes(before)
    if request.transcript is before.transcript and not request.altered and not noted and not moved:
        return payload
    items: list[Json] = []
    for message in request.transcript:
        known = message.raw is not None and not message.extra  # what came in, and no note on it
        items += (message.raw,) if known else map(bare, found.encode(message))
    return body(request, payload, form, items, moved)


def body(request: Request, payload: Json, form: str, items: list[Json], moved: bool = False) -> Json:
    """A payload with these wire items, in the shape of the one that came in: see `write`."""
    found = codec(form)
    if not isinstance(payload, dict):
        if request.altered or (moved and request.head):
            return {**request.head, found.KEY: items}
        return items
    head = request.head if request.altered or moved else payload
    whole = {key: items if key == found.KEY else value for key, value in head.items() if not _is_note(key)}
    return whole if found.KEY in whole else {**whole, found.KEY: items}


def notes(request: Request) -> tuple[str, ...]:
    """The caller's notes: keys that start with `_`, of the body or of messages. They are never sent."""
    found = {key for key in request.head if _is_note(key)}
    for message in request.transcript:
        for key in message.extra:
            if _is_note(key):
                found.add(key)
    return tuple(sorted(found))


def _is_note(key: str) -> bool:
    return key[:1] == "_"


def bare(item: Json) -> Json:
    """The wire item without the caller's notes: itself if it has none."""
    noted = isinstance(item, dict) and [key for key in item if key[:1] == "_"]
    return {key: value for key, value in item.items() if key not in noted} if noted else item


__all__ = [
    "CODECS",
    "Codec",
    "answer_fields",
    "bare",
    "body",
    "codec",
    "evidence",
    "foreign",
    "holds_parts",
    "holds_text",
    "limits",
    "move",
    "notes",
    "place",
    "read",
    "sniff",
    "takes_text",
    "tools",
    "write",
]
