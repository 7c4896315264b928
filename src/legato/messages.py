"""What a transcript is made of, whatever API it came from.

A `Transcript` is a tuple of `Message`; a message is a role and a tuple of parts. Every value is frozen. A value
that came off the wire keeps the wire object it was decoded from in `raw`; `changed` makes an altered copy and
forgets it. So "unchanged" is `raw is not None`, and what did not change is sent as the very object that came in.
Fields of the wire that legato does not understand are kept in `extra`, parts it does not understand are `Opaque`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import msgspec

Json: TypeAlias = Any
"""A JSON value, as the `json` module makes it."""

Fields: TypeAlias = Mapping[str, Json]
"""Wire fields by name."""

NOTHING: Fields = {}
"""No fields: one object for all that have none, so that a long history is not full of empty dicts."""


class Text(msgspec.Struct, frozen=True, gc=False):
    """Plain text. `flat`: on the wire it was the whole content as one string, not a block in a list."""

    text: str
    flat: bool = False
    extra: Fields = {}
    raw: Json = None


class Reasoning(msgspec.Struct, frozen=True, gc=False):
    """What the model thought. `field` is the wire's name for it (`reasoning_content`, `thinking`, …).

    `signature` proves to the provider that it is its own and unaltered: a changed text must lose it.
    `text` is empty for reasoning that is only an encrypted blob.
    """

    text: str
    field: str
    signature: str | None = None
    extra: Fields = {}
    raw: Json = None


class ToolCall(msgspec.Struct, frozen=True, gc=False):
    """One call. `arguments` is the JSON text the model wrote where the wire holds text, else the JSON value.

    `id`, `name` and `arguments` are None where the wire has none: a call cut off while it streamed.
    `free`: the arguments are free text by design (a custom tool), not JSON.
    """

    id: str | None
    name: str | None
    arguments: Json
    free: bool = False
    extra: Fields = {}
    raw: Json = None


class ToolResult(msgspec.Struct, frozen=True, gc=False):
    """The answer to one call. `parts` are `Text`, `Media` or `Opaque`; `error` is the wire's error flag, if any."""

    call_id: str | None
    parts: tuple[Part, ...]
    name: str | None = None
    error: bool = False
    extra: Fields = {}
    raw: Json = None


class Media(msgspec.Struct, frozen=True, gc=False):
    """An image, audio, video or document: `kind`. Its data stays in `raw` as the wire wrote it."""

    kind: str
    raw: Json


class Opaque(msgspec.Struct, frozen=True, gc=False):
    """A part legato does not understand. It is kept, sent on as it came, and counted as its JSON."""

    raw: Json


Part: TypeAlias = Text | Reasoning | ToolCall | ToolResult | Media | Opaque


ASIDE = "_aside"
"""The caller's note on a user message that no user said: a summary, a nudge. It is never taken for what was asked."""

SHOWN = {
    "tool": "From the tool results above:",
    "assistant": "Shown with the assistant message:",
    "system": "Shown with the system message:",
}
"""The text before media that were moved out of a message of this role, in a user message. No user said them."""
TITLES = frozenset(SHOWN.values())


class Message(msgspec.Struct, frozen=True, gc=False):
    """One item of the wire's list.

    `role` is one of `system`, `developer`, `user`, `assistant`, `tool`, or what the wire said if it is none of them.
    `origin` holds the caller's own indexes this message came from: one for a decoded message, several after a
    merge, none for a synthetic one.
    """

    role: str
    parts: tuple[Part, ...] = ()
    origin: tuple[int, ...] = ()
    name: str | None = None
    extra: Fields = {}
    raw: Json = None

    @property
    def is_system(self) -> bool:
        return self.role in ("system", "developer")

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple([part for part in self.parts if type(part) is ToolCall])

    @property
    def results(self) -> tuple[ToolResult, ...]:
        return tuple([part for part in self.parts if type(part) is ToolResult])

    @property
    def says_something(self) -> bool:
        """Whether it is a turn of its own: anything in it besides tool results."""
        return any(type(part) is not ToolResult for part in self.parts) or not self.parts

    @property
    def asks(self) -> bool:
        """Whether a user says something in it: text that is not blank, or anything else that is no tool result."""
        if self.role != "user" or (self.extra and ASIDE in self.extra):
            return False
        shown = False
        for part in self.parts:
            if type(part) is Text:
                title = part.text in TITLES
                if not title and part.text.strip():
                    return True
                shown = shown or title
            elif type(part) is not ToolResult and not (shown and type(part) is Media):
                return True
        return False

    @property
    def shows(self) -> bool:
        """Whether it is nothing but media that were moved out of another message."""
        first = self.parts[0] if self.role == "user" and self.parts else None
        return type(first) is Text and first.text in TITLES and not self.asks


Transcript: TypeAlias = tuple[Message, ...]

Value = TypeVar("Value", bound="Text | Reasoning | ToolCall | ToolResult | Message")


def changed(value: Value, **fields: Any) -> Value:
    """A copy with these fields, which no longer claims to be what came off the wire."""
    return msgspec.structs.replace(value, raw=None, **fields)


def without(fields: Fields, *keys: str) -> Fields:
    """The fields but these."""
    return {key: value for key, value in fields.items() if key not in keys}


def text_of(parts: tuple[Part, ...]) -> str | None:
    """The parts as one text, or None if any of them is something else."""
    texts = [part.text for part in parts if type(part) is Text]
    return "\n".join(texts) if len(texts) == len(parts) else None


def user(text: str) -> Message:
    """A synthetic user message."""
    return Message("user", (Text(text, flat=True),))
