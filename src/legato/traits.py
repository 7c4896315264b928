"""What can be told of a message at a glance, so that a rule looks only where it can find something.

The traits of a message are eight bits. A bit that is set says that there may be something to find; one that is not
says that there is nothing: a message without `BLANK` holds no blank text.
"""

from __future__ import annotations

from functools import cache

from legato.messages import Fields, Message, Part, Reasoning, Text, ToolCall, ToolResult

BARE = 1
"""It holds nothing, or nothing but reasoning; or a result in it holds nothing."""
BLANK = 2
"""A text in it, or in a result of it, is empty or nothing but white space."""
CALLS = 4
"""It calls tools."""
THINKS = 8
"""It holds reasoning."""
BLOCKS = 16
"""A text in it is a block in a list, not the whole content."""
RAW = 32
"""It holds media, or what legato does not understand."""
FIELDS = 64
"""It has fields that legato does not read into parts."""
ENCODED = 128
"""Something in it may be more than ASCII: a text, a name, a field."""

NULL = {"content": None}
"""The fields of a message that only calls: these are no `FIELDS`."""


@cache
def mask(wanted: int) -> bytes:
    """What `bytes.translate` makes 0 of traits among which there is none of these."""
    return bytes([found & wanted for found in range(256)])


def of(message: Message) -> int:
    """The traits of one message."""
    found = 0 if message.parts else BARE
    for part in message.parts:
        if type(part) is Text:
            found |= _of_text(part)
        elif type(part) is ToolResult:
            found |= _of_result(part)
        elif type(part) is ToolCall:
            found |= CALLS if _is_plain_call(part) else CALLS | ENCODED
        else:
            found |= _of_other(part)
    if found & THINKS and all(type(part) is Reasoning for part in message.parts):
        found |= BARE
    if message.extra and message.extra != NULL:
        found |= FIELDS | ENCODED
    return found if message.name is None else found | ENCODED


def _of_text(part: Text) -> int:
    text = part.text
    found = BLANK if not text or text.isspace() else 0
    if not text.isascii():
        found |= ENCODED
    if not part.flat:
        found |= BLOCKS
    if part.extra and not _is_type(part.extra):
        found |= ENCODED
    return found


def _of_result(part: ToolResult) -> int:
    found = 0 if part.parts else BARE
    for inner in part.parts:
        found |= _of_text(inner) if type(inner) is Text else _of_other(inner)
    plain = not part.extra and (part.call_id or "").isascii() and (part.name or "").isascii()
    return found if plain else found | ENCODED


def _is_plain_call(part: ToolCall) -> bool:
    """Whether there is nothing but ASCII in a call: texts, and no field but the type every call has."""
    extra, arguments = part.extra, part.arguments
    if (extra and not _is_type(extra)) or not isinstance(arguments, str):
        return False
    return arguments.isascii() and (part.id or "").isascii() and (part.name or "").isascii()


def _is_type(extra: Fields) -> bool:
    """Whether there is no field but the one that says what a part is."""
    return len(extra) == 1 and extra.get("type") in ("text", "function")


def _of_other(part: Part) -> int:
    if type(part) is not Reasoning:
        return RAW | ENCODED
    plain = part.text and part.text.isascii() and not part.extra and (part.signature or "").isascii()
    return THINKS if plain else THINKS | ENCODED
