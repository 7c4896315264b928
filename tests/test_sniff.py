"""The format of a payload is told by its shape."""

from __future__ import annotations

import pytest

from legato.errors import WireError
from legato.messages import Json
from legato.wire.sniff import sniff
from wire_items import bodies, every_format, recorded


def is_plain(items: list[Json]) -> bool:
    """Nothing but roles and texts, which several formats write the same way."""
    for item in items:
        content = item.get("content")
        texts = (
            [block["text"] for block in content if set(block) <= {"type", "text", "cache_control"}]
            if isinstance(content, list)
            else None
        )
        if not (isinstance(content, str) or (texts is not None and len(texts) == len(content))) or set(item) - {
            "role",
            "content",
        }:
            return False
    return True


@every_format
def test_a_recorded_body_is_told_by_its_shape_unless_it_is_plain_text_without_tools(form: str) -> None:
    undecided = [body for body in bodies(form) if sniff(body) != form]
    assert len(undecided) <= (19 if form == "anthropic" else 0)
    for body in undecided:
        assert sniff(body) == "openai-chat"
        assert is_plain(body["messages"])
        assert not {"system", "tools"} & set(body)


@every_format
def test_a_recorded_bare_list_is_told_by_its_shape_unless_it_is_plain_text(form: str) -> None:
    for items in recorded(form):
        assert sniff(items) == form or (sniff(items) == "openai-chat" and is_plain(items))


def test_what_is_no_request_has_no_format() -> None:
    payloads: list[Json] = [{}, {"prompt": "x"}, {"input": {"converse": {}}}, {"messages": 5}, None, 5, "text"]
    for payload in payloads:
        with pytest.raises(WireError):
            sniff(payload)
