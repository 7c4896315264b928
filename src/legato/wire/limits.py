"""The limit of output tokens in a request's head, in any format."""

from __future__ import annotations

from legato.messages import Fields, Json

FIELDS = ("max_completion_tokens", "max_tokens", "max_output_tokens", "maxOutputTokens", "maxTokens")
HOLDERS = ("generationConfig", "generation_config", "inferenceConfig")
"""Where a format keeps its limits, if not in the body itself."""


def output(head: Fields) -> int | None:
    """The most tokens of output the request asks for, if it says so."""
    found = _find(head)
    return None if found is None else found[2]


def with_output(head: Fields, tokens: int) -> Fields:
    """The head with another limit in the field that holds it."""
    found = _find(head)
    if found is None:
        return head
    holder, key, _ = found
    return {**head, key: tokens} if holder is None else {**head, holder: {**head[holder], key: tokens}}


def _find(head: Fields) -> tuple[str | None, str, int] | None:
    places: list[tuple[str | None, Json]] = [(None, dict(head)), *[(holder, head.get(holder)) for holder in HOLDERS]]
    for holder, place in places:
        for key in FIELDS:
            value = place.get(key) if isinstance(place, dict) else None
            if isinstance(value, int) and not isinstance(value, bool):
                return holder, key, value
    return None
