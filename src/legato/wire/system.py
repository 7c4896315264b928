"""The field of a body that holds the system prompt, where messages of that role are not taken."""

from __future__ import annotations

from collections.abc import Sequence

from legato.errors import WireError
from legato.messages import Fields, Json
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


def verify(head: Fields, form: str) -> None:
    """Raise `WireError` with the field where a system field is nothing that could hold text."""
    for key in OWN.get(form, ()):
        value = head.get(key)
        if value is not None and not isinstance(value, str | list | tuple | dict):
            raise WireError(key, f"must be text, a list or an object, not {shape.kind(value)}")


def add(head: Fields, texts: Sequence[str], form: str) -> Fields:
    """The head with these texts behind what its system field says already. What is there is kept whole."""
    text = JOINT.join(filter(None, texts))
    if not text:
        return dict(head)
    key = next((key for key in OWN[form] if key in head), OWN[form][0])
    old = head.get(key)
    if form == "gemini":
        held = old if isinstance(old, dict) and ("parts" in old or not old) else {"parts": old}
        return {**head, key: {**held, "parts": [*_blocks(held.get("parts"), form), _block(text, form)]}}
    if form == "bedrock" or (old and not isinstance(old, str)):
        return {**head, key: [*_blocks(old, form), _block(text, form)]}
    return {**head, key: f"{old}{JOINT}{text}" if old else text}


def _blocks(value: Json, form: str) -> list[Json]:
    """What a system field or the parts of one hold, as the blocks of the format."""
    if not value:
        return []
    if isinstance(value, list | tuple):
        return [block for item in value for block in ([item] if isinstance(item, dict) else _blocks(item, form))]
    return [_block(value, form) if isinstance(value, str) else value]


def _block(text: str, form: str) -> Json:
    return {"text": text} if form in ("gemini", "bedrock") else {"type": "text", "text": text}


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
