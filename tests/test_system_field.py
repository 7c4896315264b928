"""What a system field says is kept when system messages join it, in any shape; what can hold no text is refused."""

from __future__ import annotations

from typing import Any

import pytest

import legato
from legato.wire import system

FORMATS = ("anthropic", "bedrock", "gemini", "openai-responses")

SHAPES: list[Any] = ["You", {"text": "You"}, ["You"], [{"text": "You"}], {"parts": [{"text": "You"}]}, {"parts": "You"}]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("old", SHAPES, ids=repr)
def test_what_the_system_field_says_is_kept_beside_what_is_added(form: str, old: Any) -> None:
    for key in system.OWN[form]:
        head = system.add({"model": "m", key: old}, ["hi"], form)
        assert system.texts(head) in (["You", "hi"], ["You\n\nhi"])
        assert set(head) == {"model", key}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("old", [None, "", [], {}], ids=repr)
def test_an_empty_system_field_holds_what_is_added(form: str, old: Any) -> None:
    for key in system.OWN[form]:
        assert system.texts(system.add({key: old}, ["hi", "there"], form)) == ["hi\n\nthere"]


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
