"""Texts that can be encoded: half a surrogate pair cannot, and no request that holds one can be sent."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from legato.messages import Fields, Json, Media, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult, changed


def well_formed(message: Message) -> Message:
    """The message with every text in it well formed: itself if all are."""
    if not message.extra and message.name is None and all(_is_ascii(part) for part in message.parts):
        return message
    return _scrubbed_message(message)


def _scrubbed_message(message: Message) -> Message:
    parts = tuple([_scrubbed_part(part) for part in message.parts])
    name, extra = scrubbed(message.name), scrubbed(message.extra)
    same = name is message.name and extra is message.extra
    if same and all(new is old for new, old in zip(parts, message.parts, strict=True)):
        return message
    return changed(message, parts=parts, name=name, extra=extra)


def _scrubbed_part(part: Part) -> Part:
    """The part with every text in it well formed: itself if all are. A signature does not outlive a change."""
    if isinstance(part, ToolResult):
        inner = tuple([_scrubbed_part(each) for each in part.parts])
        kept = all(new is old for new, old in zip(inner, part.parts, strict=True))
        part = part if kept else changed(part, parts=inner)
    names = [name for name in part.__struct_fields__ if name not in ("parts", "raw")]
    fields = {name: new for name in names if (new := scrubbed(getattr(part, name))) is not getattr(part, name)}
    if isinstance(part, Media | Opaque):
        raw = scrubbed(part.raw)
        return part if raw is part.raw else msgspec.structs.replace(part, raw=raw)
    if fields and isinstance(part, Reasoning):
        fields["signature"] = None
    return changed(part, **fields) if fields else part


def scrubbed(value: Json) -> Json:
    """A JSON value with every text in it well formed: surrogate pairs joined, lone ones U+FFFD. Itself if all are."""
    if isinstance(value, str):
        return _well_formed(value)
    if isinstance(value, list):
        items = [scrubbed(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if isinstance(value, Mapping):
        pairs = {scrubbed(key): scrubbed(item) for key, item in value.items()}
        same = all(key in value and pairs[key] is value[key] for key in pairs)
        return value if same and len(pairs) == len(value) else pairs
    return value


def _is_ascii(part: Part) -> bool:
    """Whether the part is a text, or a result of one text, of nothing but ASCII: the usual case, told at once."""
    if type(part) is ToolResult:
        named = (part.name or "").isascii() and (part.call_id or "").isascii()
        return named and len(part.parts) == 1 and _is_ascii(part.parts[0])
    if type(part) is ToolCall:
        texts = (part.id, part.name, part.arguments)
        return all(isinstance(text, str) and text.isascii() for text in texts) and not _is_deep(part.extra)
    return (type(part) is Text or type(part) is Reasoning) and part.text.isascii()


def _is_deep(extra: Fields) -> bool:
    """Whether there is more in a call's `extra` than the type every call has."""
    return len(extra) > 1 or (len(extra) == 1 and extra.get("type") != "function")


def _well_formed(text: str) -> str:
    """The text itself, or with surrogate pairs joined and lone surrogates replaced."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
