"""Making one message of several, losing nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from legato.messages import ASIDE, Json, Message, Part, Reasoning, Text, ToolCall, ToolResult, changed

JOINT = "\n\n"
"""What stands between two texts that become one."""


def merge(messages: Sequence[Message]) -> Message:
    """One message of one role: results first, then reasoning, contents and calls, each in the order they came."""
    names = {message.name for message in messages}
    told = messages if len(names) == 1 else [_signed(message) for message in messages]
    parts = [part for message in told for part in message.parts]
    fields: dict[str, Json] = {}
    for message in messages:
        _absorb(fields, message.extra)
    content = _content([part for part in parts if not isinstance(part, ToolCall | ToolResult | Reasoning)])
    if content:
        fields.pop("content", None)
    if not all(ASIDE in message.extra for message in messages):
        fields.pop(ASIDE, None)  # what a user asked is in it too
    return Message(
        messages[0].role,
        (
            *[part for part in parts if isinstance(part, ToolResult)],
            *_thoughts([part for part in parts if isinstance(part, Reasoning)]),
            *content,
            *[part for part in parts if isinstance(part, ToolCall)],
        ),
        tuple(sorted({index for message in messages for index in message.origin})),
        names.pop() if len(names) == 1 else None,
        fields,
    )


def _signed(message: Message) -> Message:
    """The message with its speaker's name in front of its first text: one message can bear only one name."""
    first = next((at for at, part in enumerate(message.parts) if isinstance(part, Text)), None)
    if message.name is None or first is None:
        return message
    text = message.parts[first]
    assert isinstance(text, Text)
    named = changed(text, text=f"{message.name}: {text.text}")
    return changed(message, parts=(*message.parts[:first], named, *message.parts[first + 1 :]))


def _content(parts: list[Part]) -> list[Part]:
    """One flat text if all are flat texts, else blocks. Empty texts add nothing."""
    said = [part for part in parts if not (isinstance(part, Text) and part.flat and not part.text)]
    texts = [part.text for part in said if isinstance(part, Text) and part.flat]
    if len(texts) == len(said):
        return [Text(JOINT.join(texts), flat=True)] if texts else list(parts[:1])
    return [changed(part, flat=False) if isinstance(part, Text) and part.flat else part for part in said]


def _thoughts(parts: Iterable[Reasoning]) -> list[Reasoning]:
    """Reasoning that shares a field of the wire becomes one, since a field can be there only once."""
    fields: dict[str, Reasoning] = {}
    blocks = []
    for part in parts:
        before = fields.get(part.field)
        if part.signature is not None or part.extra:
            blocks.append(part)
        elif before is None:
            fields[part.field] = part
        elif isinstance(before.raw, list) and isinstance(part.raw, list):
            fields[part.field] = msgspec.structs.replace(before, raw=[*before.raw, *part.raw])
        else:
            fields[part.field] = changed(before, text=JOINT.join(filter(None, (before.text, part.text))))
    return [*blocks, *fields.values()]


def _absorb(fields: dict[str, Json], extra: object) -> None:
    """Add wire fields to those there are. Lists and texts of one name are joined; of other values the first stays."""
    assert isinstance(extra, dict)
    for key, value in extra.items():
        old = fields.get(key)
        if old is None or old == []:
            fields[key] = value
        elif isinstance(old, list) and isinstance(value, list):
            fields[key] = [*old, *value]
        elif isinstance(old, str) and isinstance(value, str) and old != value:
            fields[key] = JOINT.join((old, value))
