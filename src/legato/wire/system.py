"""The field of a body that holds the system prompt, where messages of that role are not taken."""

from __future__ import annotations

from collections.abc import Sequence

from legato.errors import WireError
from legato.messages import Fields, Json, Opaque, Part, Text
from legato.wire import shape

JOINT = "\n\n"
OWN = {
    "anthropic": ("system",),
    "bedrock": ("system",),
    "gemini": ("systemInstruction", "system_instruction"),
    "openai-responses": ("instructions",),
}
"""The fields of a format's body that hold system text."""
FIELDS = ("system", "instructions", "systemInstruction", "system_instruction")
"""All of them."""

BLOCKS = {"bedrock": ("cachePoint", "guardContent")}
"""What a format's system field takes besides text, by the key of the block."""


def verify(head: Fields, form: str) -> None:
    """Raise `WireError` with the field where a system field is nothing that could hold text."""
    for key in OWN.get(form, ()):
        value = head.get(key)
        if value is not None and not isinstance(value, str | list | tuple | dict):
            raise WireError(key, f"must be text, a list or an object, not {shape.kind(value)}")


def takes(part: Part, form: str) -> bool:
    """Whether a part of a system message may stand in the format's system field."""
    if isinstance(part, Opaque):
        return isinstance(part.raw, dict) and not part.raw.keys().isdisjoint(BLOCKS.get(form, ()))
    return isinstance(part, Text)


def add(head: Fields, parts: Sequence[Part], form: str) -> Fields:
    """The head with these parts behind what its system field says already: one text, as long as all of it is text.

    `parts` are those that the format `takes` there. What is there is kept whole.
    """
    said = [part for part in parts if not isinstance(part, Text) or part.text or part.extra]
    if not said:
        return dict(head)
    own = OWN.get(form, ("system",))
    key = next((key for key in own if key in head), own[0])
    old = head.get(key)
    plain = all(isinstance(part, Text) and not part.extra for part in said)
    if plain:
        said = [Text(JOINT.join([part.text for part in said if isinstance(part, Text)]))]
    new = [_block(part, form) for part in said]
    if form == "gemini":
        held = old if isinstance(old, dict) and ("parts" in old or not old) else {"parts": old}
        return {**head, key: {**held, "parts": [*_blocks(held.get("parts"), form), *new]}}
    if form == "bedrock" or not plain or (old and not isinstance(old, str)):
        return {**head, key: [*_blocks(old, form), *new]}
    return {**head, key: f"{old}{JOINT}{new[0]['text']}" if old else new[0]["text"]}


def _blocks(value: Json, form: str) -> list[Json]:
    """What a system field or the parts of one hold, as the blocks of the format."""
    if not value:
        return []
    if isinstance(value, list | tuple):
        return [block for item in value for block in ([item] if isinstance(item, dict) else _blocks(item, form))]
    return [_block(Text(value), form) if isinstance(value, str) else value]


def _block(part: Part, form: str) -> Json:
    if not isinstance(part, Text):
        return part.raw
    return {**({} if form in ("gemini", "bedrock") else {"type": "text"}), "text": part.text, **part.extra}


def texts(head: Fields) -> list[str]:
    """What the system fields of a head say, in any format."""
    return [text for key in FIELDS for text in _texts(head.get(key))]


def _texts(value: Json) -> list[str]:
    """The texts of a system field in any format: a string, a list of blocks, an object with parts."""
    if isinstance(value, str):
        return [value] if value else []
    if isinstance(value, dict):
        return _texts(value.get("parts")) if "parts" in value else _texts(value.get("text"))
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return []
