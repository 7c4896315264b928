"""Texts that can be encoded: half a surrogate pair cannot, and no request that holds one can be sent."""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_

import msgspec

from legato import traits
from legato.messages import Json, Media, Message, Opaque, Part, Reasoning, ToolResult, changed


def well_formed(message: Message) -> Message:
    """The message with every text in it well formed: itself if all are."""
    if not traits.of(message) & traits.RAW and _can_be_written(message if message.raw is None else message.raw):
        return message  # files are large: they are only looked at
    parts = tuple([_scrubbed_part(part) for part in message.parts])
    name, extra = scrubbed(message.name), scrubbed(message.extra)
    if name is message.name and extra is message.extra and all(map(is_, parts, message.parts)):
        return message
    return changed(message, parts=parts, name=name, extra=extra)


def _can_be_written(value: Json) -> bool:
    """Whether a value is sure to hold no lone surrogate: told at once, since it can be written as JSON."""
    try:
        msgspec.json.encode(value)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return False
    return True


def _scrubbed_part(part: Part) -> Part:
    """The part with every text in it well formed: itself if all are. A signature does not outlive a change."""
    if isinstance(part, ToolResult):
        inner = tuple([_scrubbed_part(each) for each in part.parts])
        part = part if all(map(is_, inner, part.parts)) else changed(part, parts=inner)
    if isinstance(part, Media | Opaque) or isinstance(part.raw, list):  # a list: reasoning that has no text
        raw = scrubbed(part.raw)
        return part if raw is part.raw else msgspec.structs.replace(part, raw=raw)
    names = [name for name in part.__struct_fields__ if name not in ("parts", "raw")]
    fields = {name: new for name in names if (new := scrubbed(getattr(part, name))) is not getattr(part, name)}
    if fields and isinstance(part, Reasoning):
        fields["signature"] = None
    return changed(part, **fields) if fields else part


def scrubbed(value: Json) -> Json:
    """A JSON value with every text in it well formed: surrogate pairs joined, lone ones U+FFFD. Itself if all are."""
    if isinstance(value, str):
        return _well_formed(value)
    if isinstance(value, list):
        items = [scrubbed(item) for item in value]
        return value if all(map(is_, items, value)) else items
    if isinstance(value, Mapping):
        pairs = {scrubbed(key): scrubbed(item) for key, item in value.items()}
        same = all(key in value and pairs[key] is value[key] for key in pairs)
        return value if same and len(pairs) == len(value) else pairs
    return value


def _well_formed(text: str) -> str:
    """The text itself, or with surrogate pairs joined and lone surrogates replaced."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
