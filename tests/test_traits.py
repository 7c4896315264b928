"""The traits of messages, by which rules pass over most of them, hide nothing from a rule."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import legato
from histories import histories
from legato import profiles, traits
from legato.edits import Edit, Request, apply
from legato.messages import Json, Message, user
from legato.profiles import NAMES, Profile
from legato.rules import FAMILIES
from legato.rules.body import is_object
from legato.wire import CODECS
from wire_items import FORMATS, ITEMS, every_format

EVERY = 255
"""Every trait there is."""
ODD = ("\ud800", "a\udfff", "\udc00\ud83d", " \n", "\u2028", "é")
"""Texts that are half of a character, blank, or no ASCII."""


def violations(request: Request, profile: Profile, traits_of_all: bytes | None = None) -> list[Json]:
    """What every family finds, by its own words; with other traits than the request's own."""
    asked = Request(request.head, request.transcript)
    if traits_of_all is not None:
        asked.__dict__["traits"] = traits_of_all
    return [violation.to_dict() for family in FAMILIES for violation in family(asked, profile)]


def read(form: str, items: list[Json]) -> Request:
    return Request({}, CODECS[form].decode(items))


@st.composite
def requests(draw: st.DrawFn, form: str) -> Request:
    """Generated items, an odd text in place of their texts or of what their unknown fields hold."""
    items = draw(st.lists(ITEMS[form], max_size=5))
    return read(form, spoiled(items, draw(st.sampled_from((("ok",), ("x", 0), ()))), draw(st.sampled_from(ODD))))


def spoiled(value: Json, what: tuple[Json, ...], odd: str) -> Json:
    if isinstance(value, dict):
        return {key: spoiled(inner, what, odd) for key, inner in value.items()}
    if isinstance(value, list):
        return [spoiled(inner, what, odd) for inner in value]
    return odd if value in what else value


@every_format
@given(st.data())
def test_a_rule_finds_no_more_where_it_looks_at_every_message(form: str, data: st.DataObject) -> None:
    request = data.draw(requests(form))
    names = [name for name in NAMES if profiles.get(name).format == form]
    profile = profiles.get(data.draw(st.sampled_from(names)))
    everywhere = violations(request, profile, bytes([EVERY]) * len(request.transcript))
    assert violations(request, profile) == everywhere


@given(histories(), st.sampled_from([name for name in NAMES if profiles.get(name).format == "openai-chat"]))
def test_a_rule_finds_no_more_in_a_damaged_history_where_it_looks_at_every_message(
    history: list[Json], name: str
) -> None:
    request = read("openai-chat", history)
    everywhere = violations(request, profiles.get(name), bytes([EVERY]) * len(request.transcript))
    assert violations(request, profiles.get(name)) == everywhere


HALF = "\ud800"
CALL: Json = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CHAT = [
    {"role": "user", "content": [{"type": "text", "text": "ok", "note": HALF}]},
    {"role": "user", "content": "ok", "note": {"deep": [HALF]}},
    {"role": "user", "content": "ok", "name": HALF},
    {"role": "assistant", "content": None, "tool_calls": [{**CALL, "note": HALF}]},
    {"role": "assistant", "content": None, "tool_calls": [{**CALL, "function": {**CALL["function"], "note": HALF}}]},
    {"role": "assistant", "content": "ok", "reasoning_details": [{"text": HALF}]},
    {"role": "tool", "tool_call_id": "c", "content": "ok", "note": HALF},
    {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "ok", "note": HALF}]},
]
ANTHROPIC = [
    {"role": "user", "content": [{"type": "text", "text": "ok", "note": HALF}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "ok", "note": HALF}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {"a": HALF}}]},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "ok", "signature": HALF}]},
]


@pytest.mark.parametrize(
    ("form", "item"), [*(("openai-chat", item) for item in CHAT), *(("anthropic", item) for item in ANTHROPIC)]
)
def test_half_a_character_is_found_in_every_field(form: str, item: Json) -> None:
    assert "BODY006" in {violation.code for violation in legato.check([item], format=form)}


@given(st.data())
def test_after_edits_the_traits_are_those_of_the_messages(data: st.DataObject) -> None:
    request = data.draw(requests(data.draw(st.sampled_from(FORMATS))))
    new: st.SearchStrategy[tuple[Message, ...]] = st.sampled_from([(), (user(" "),), (user("ok"), user("é"))])
    places = data.draw(st.sets(st.sampled_from(range(len(request.transcript))))) if request.transcript else set()
    edited = apply(request, [Edit(at, data.draw(new), "X", "x") for at in places])
    assert edited.traits == bytes(map(traits.of, edited.transcript))
    assert len(edited.traits) == len(edited.transcript)


SPELLINGS = (
    "NaN",
    "-Infinity",
    "1e999",
    "1" * 5000,
    '"\\ud800"',
    '"\ud800"',
    "01",
    "1.",
    '"\x01"',
    "[" * 200 + "]" * 200,
)


@given(st.one_of(st.text(max_size=8), st.sampled_from(SPELLINGS), st.integers().map(str), st.floats().map(repr)))
def test_arguments_are_an_object_when_the_standard_library_says_so(inner: str) -> None:
    for text in (inner, f'{{"a": {inner}}}', f'{{"a": {json.dumps(inner)}}}', f' {{"{inner}": [{inner}]}} '):
        assert is_object(text) == by_the_standard_library(text), text


def by_the_standard_library(text: str) -> bool:
    """NaN and Infinity apart, which are not JSON."""
    strange: list[str] = []
    try:
        return isinstance(json.loads(text, parse_constant=strange.append), dict) and not strange
    except ValueError:
        return False
