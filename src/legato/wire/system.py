"""The field of a body that holds the system prompt, where messages of that role are not taken."""

from __future__ import annotations

from collections.abc import Sequence

from legato.messages import Fields, Json

JOINT = "\n\n"
FIELDS = ("system", "instructions", "systemInstruction", "system_instruction")
"""The fields of a body, in any format, that hold system text."""


def add(head: Fields, texts: Sequence[str], form: str) -> Fields:
    """The head with these texts behind what its system field says already. What is there keeps its shape."""
    text = JOINT.join(filter(None, texts))
    if not text:
        return dict(head)
    match form:
        case "gemini":
            key = "system_instruction" if "system_instruction" in head else "systemInstruction"
            old = head.get(key)
            parts = old.get("parts", []) if isinstance(old, dict) else [{"text": old}] if isinstance(old, str) else []
            base = old if isinstance(old, dict) else {}
            return {**head, key: {**base, "parts": [*(parts if isinstance(parts, list) else [parts]), {"text": text}]}}
        case "bedrock":
            return {**head, "system": [*(head.get("system") or []), {"text": text}]}
        case "openai-responses":
            return {**head, "instructions": _joined(head.get("instructions"), text)}
    return {**head, "system": _joined(head.get("system"), text)}


def _joined(old: Json, text: str) -> Json:
    if isinstance(old, list):
        return [*old, {"type": "text", "text": text}]
    return f"{old}{JOINT}{text}" if isinstance(old, str) and old else text


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
