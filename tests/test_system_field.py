"""What a system field says is kept when system messages join it, in any shape; what can hold no text is refused."""

from __future__ import annotations

from typing import Any

import pytest

import legato
from legato.messages import Text
from legato.wire import system

FORMATS = tuple(system.OWN)

SHAPES: list[Any] = ["You", {"text": "You"}, ["You"], [{"text": "You"}], {"parts": [{"text": "You"}]}, {"parts": "You"}]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("old", SHAPES, ids=repr)
def test_what_the_system_field_says_is_kept_beside_what_is_added(form: str, old: Any) -> None:
    for key in system.OWN[form]:
        head = system.add({"model": "m", key: old}, [Text("hi")], form)
        assert system.texts(head) in (["You", "hi"], ["You\n\nhi"])
        assert set(head) == {"model", key}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("old", [None, "", [], {}], ids=repr)
def test_an_empty_system_field_holds_what_is_added(form: str, old: Any) -> None:
    for key in system.OWN[form]:
        assert system.texts(system.add({key: old}, [Text("hi"), Text("there")], form)) == ["hi\n\nthere"]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("old", [5, True, 1.5])
def test_a_system_field_that_can_hold_no_text_is_refused_with_its_name(form: str, old: Any) -> None:
    key = system.OWN[form][0]
    body = {key: old, **EMPTY[form]}
    with pytest.raises(legato.WireError, match=f"^{key}: must be text"):
        legato.check(body, format=form)


EMPTY: dict[str, Any] = {
    "anthropic": {"messages": []},
    "bedrock": {"messages": []},
    "gemini": {"contents": []},
    "openai-responses": {"input": []},
}


def test_a_part_with_both_spellings_of_a_field_is_refused_with_its_place() -> None:
    part = {"functionCall": {"name": "f", "args": []}, "function_call": "abc"}
    with pytest.raises(legato.WireError, match=r"contents\[0\]\.parts\[0\]\.functionCall: .*function_call"):
        legato.govern({"contents": [{"role": "model", "parts": [part]}]}, profile="gemini")


EPHEMERAL = {"cache_control": {"type": "ephemeral"}}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}


def test_a_system_message_that_is_moved_to_the_field_keeps_its_cache_marker() -> None:
    said = {"type": "text", "text": "Be brief.", **EPHEMERAL}
    messages = [{"role": "system", "content": [said]}, {"role": "user", "content": "hi"}]
    assert legato.govern(messages, profile="anthropic").body == {"system": [said], "messages": messages[1:]}
    blocks = [{"text": "Be brief."}, {"cachePoint": {"type": "default"}}]
    messages = [{"role": "system", "content": blocks}, {"role": "user", "content": [{"text": "hi"}]}]
    assert legato.govern(messages, profile="bedrock").body == {"system": blocks, "messages": messages[1:]}


def test_what_is_no_text_in_a_system_message_is_said_by_the_user() -> None:
    messages = [
        {"role": "system", "content": [IMAGE, {"type": "text", "text": "Look."}]},
        {"role": "user", "content": "?"},
    ]
    body = legato.govern(messages, profile="anthropic").body
    assert body == {"system": "Look.", "messages": [{"role": "user", "content": [IMAGE]}, messages[1]]}


def test_a_late_system_message_keeps_its_image_and_its_cache_marker() -> None:
    late = {"role": "system", "content": [IMAGE, {"type": "text", "text": "Look.", **EPHEMERAL}]}
    sent = legato.govern([{"role": "user", "content": "?"}, late], profile="anthropic:claude-sonnet-4-5").messages
    reminder = {"type": "text", "text": "<system-reminder>\nLook.\n</system-reminder>", **EPHEMERAL}
    assert sent[1] == {"role": "user", "content": [reminder, IMAGE]}
