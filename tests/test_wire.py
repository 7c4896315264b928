"""The codecs lose nothing: what was decoded is encoded to the same, as the very object or rebuilt from its parts."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.errors import WireError
from legato.messages import Json, Media, Message, Opaque, Reasoning, Text, ToolResult, changed
from legato.wire import gemini, openai_responses, tools
from wire_items import CODECS, ITEMS, every_format, recorded


def stripped(value: Any) -> Any:
    """The same without the wire objects it came from, but for the parts that are nothing else."""
    if isinstance(value, Media | Opaque) or (isinstance(value, Reasoning) and isinstance(value.raw, list)):
        return value
    if isinstance(value, Message | ToolResult):
        value = msgspec.structs.replace(value, parts=tuple(map(stripped, value.parts)))
    return msgspec.structs.replace(value, raw=None)


def rebuilt(form: str, items: list[Json]) -> list[Json]:
    codec = CODECS[form]
    return [item for message in codec.decode(items) for item in codec.encode(stripped(message))]


# -- recorded requests -------------------------------------------------------------------------------------------------


@every_format
def test_a_recorded_item_is_encoded_as_the_very_object_that_came_in(form: str) -> None:
    for items in recorded(form):
        transcript = CODECS[form].decode(items)
        assert len(transcript) == len(items)
        for at, (item, message) in enumerate(zip(items, transcript, strict=True)):
            (written,) = CODECS[form].encode(message)
            assert written is item
            assert message.origin == (at,)


@every_format
def test_a_recorded_item_is_rebuilt_from_its_parts_alone(form: str) -> None:
    for items in recorded(form):
        assert rebuilt(form, items) == items


WORDS = {
    "openai-chat": ('"arguments":', '"role": "tool"'),
    "openai-responses": ('"type": "function_call"', '"type": "function_call_output"'),
    "anthropic": ('"type": "tool_use"', '"type": "tool_result"'),
    "gemini": ('"function(C|_c)all":', '"function(R|_r)esponse":'),
    "bedrock": (
        '"toolUse": {"toolUseId"(?![^{]*{[^}]*}, "type")',
        '"toolResult": {"toolUseId"(?!.{1,200}"type": "nova)',
    ),
}
"""How the wire itself writes a call and a result of the client's tools."""


@every_format
def test_as_many_calls_and_results_are_read_as_the_wire_has_words_for_them(form: str) -> None:
    wire = json.dumps(recorded(form))
    messages = [message for items in recorded(form) for message in CODECS[form].decode(items)]
    calls, results = (sum(len(getattr(message, name)) for message in messages) for name in ("calls", "results"))
    searches = [item for items in recorded(form) for item in items if item.get("execution") == "client"]
    found = [sum(item.get("type") == f"tool_search_{kind}" for item in searches) for kind in ("call", "output")]
    words = [len(re.findall(word, wire)) for word in WORDS[form]]
    assert [calls, results] == [of_words + of_searches for of_words, of_searches in zip(words, found, strict=True)]
    assert calls > 30


@every_format
@given(data=st.data())
def test_a_generated_item_is_rebuilt_with_every_field_nobody_knows(form: str, data: st.DataObject) -> None:
    wire = data.draw(st.lists(ITEMS[form], max_size=4))
    copy = json.loads(json.dumps(wire))
    assert rebuilt(form, wire) == wire
    assert wire == copy


# -- what a codec does with odd and wrong items ------------------------------------------------------------------------

WRONG: list[tuple[str, Json, str]] = [
    ("anthropic", 7, "messages[1]"),
    ("anthropic", {"content": "no role"}, "messages[1]"),
    ("anthropic", {"role": ["user"], "content": "x"}, "messages[1].role"),
    ("anthropic", {"role": "user", "content": {"text": "x"}}, "messages[1].content"),
    (
        "anthropic",
        {"role": "user", "content": [{}, {"type": "tool_result", "tool_use_id": 5}]},
        "messages[1].content[1].tool_use_id",
    ),
    (
        "anthropic",
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": 5}]},
        "messages[1].content[0].content",
    ),
    ("anthropic", {"role": "assistant", "content": [{"type": "tool_use", "name": {}}]}, "messages[1].content[0].name"),
    ("gemini", None, "contents[1]"),
    ("gemini", {"role": 1, "parts": []}, "contents[1].role"),
    ("gemini", {"role": "user", "parts": {"text": "x"}}, "contents[1].parts"),
    ("gemini", {"parts": [{"text": ""}, {"functionCall": "f"}]}, "contents[1].parts[1].functionCall"),
    ("gemini", {"parts": [{"function_call": {"id": 3}}]}, "contents[1].parts[0].function_call.id"),
    ("gemini", {"parts": [{"functionResponse": {"name": 3}}]}, "contents[1].parts[0].functionResponse.name"),
    ("openai-responses", "text", "input[1]"),
    ("openai-responses", {}, "input[1]"),
    ("openai-responses", {"type": 5}, "input[1].type"),
    ("openai-responses", {"type": "message", "content": "no role"}, "input[1]"),
    ("openai-responses", {"role": "user", "content": 5}, "input[1].content"),
    ("openai-responses", {"type": "function_call", "call_id": 5}, "input[1].call_id"),
    ("openai-responses", {"type": "function_call_output", "call_id": "a", "output": {}}, "input[1].output"),
    ("bedrock", [], "messages[1]"),
    ("bedrock", {"role": "user", "content": "text"}, "messages[1].content"),
    ("bedrock", {"role": "user", "content": [{"toolUse": {"name": 5}}]}, "messages[1].content[0].toolUse.name"),
    (
        "bedrock",
        {"role": "user", "content": [{"toolResult": {"toolUseId": "a", "content": "x"}}]},
        "messages[1].content[0].toolResult.content",
    ),
]


@pytest.mark.parametrize(("form", "item", "place"), WRONG)
def test_a_wrong_type_is_named_with_its_place(form: str, item: Json, place: str) -> None:
    fine = {"role": "user", "parts": []} if form == "gemini" else {"role": "user", "content": []}
    with pytest.raises(WireError) as raised:
        CODECS[form].decode([fine, item])
    assert raised.value.place == place


JUNK_FIELDS = (
    "role content parts type text id name input call_id output arguments functionCall function_response args response "
    "toolUse toolResult toolUseId status tool_use_id thinking inlineData source summary tool_calls function reasoning"
)
JUNK = st.recursive(
    st.sampled_from((None, True, 0, 1.5, "", "text", "tool_use", "message", "user", "function_call")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(JUNK_FIELDS.split()), inner, max_size=4),
    ),
    max_leaves=12,
)


@every_format
@given(junk=st.lists(JUNK, min_size=1, max_size=3))
def test_junk_is_decoded_or_refused_but_never_crashes(form: str, junk: list[Json]) -> None:
    codec = CODECS[form]
    try:
        transcript = codec.decode(junk)
    except WireError:
        with pytest.raises(WireError, match=rf"^{codec.KEY}\[\d\]"):
            codec.decode(junk)
    else:
        assert [codec.encode(message) for message in transcript] == [(item,) for item in junk]
        assert all(codec.encode(stripped(message)) for message in transcript)


NORMALISED: list[tuple[str, Json, Json]] = [
    ("anthropic", {"role": "user"}, {"role": "user", "content": []}),
    (
        "anthropic",
        {"role": "assistant", "content": [{"type": "tool_use", "id": None, "name": "f", "input": None}]},
        {"role": "assistant", "content": [{"type": "tool_use", "name": "f"}]},
    ),
    ("gemini", {"role": "user"}, {"role": "user", "parts": []}),
    ("gemini", {"role": None, "parts": []}, {"parts": []}),
    (
        "gemini",
        {"role": "model", "parts": [{"functionCall": {"name": "f"}}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
    ),
    (
        "gemini",
        {"role": "user", "parts": [{"functionResponse": {"name": "f"}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": ""}}}]},
    ),
    (
        "openai-responses",
        {"role": "user", "content": [{"type": "output_text", "text": "x"}]},
        {"role": "user", "content": [{"type": "input_text", "text": "x"}]},
    ),
    (
        "openai-responses",
        {"type": "function_call_output", "call_id": "a", "output": None},
        {"type": "function_call_output", "call_id": "a"},
    ),
]


@pytest.mark.parametrize(("form", "item", "normal"), NORMALISED)
def test_only_these_items_change_when_they_are_rebuilt(form: str, item: Json, normal: Json) -> None:
    assert rebuilt(form, [item]) == [normal] == rebuilt(form, [normal])


def test_a_changed_gemini_response_keeps_its_key_and_an_error_gets_its_own() -> None:
    part = {"function_response": {"name": "f", "response": {"result": "long"}}}
    (message,) = gemini.decode([{"role": "function", "parts": [part]}])
    (result,) = message.results

    def written(**fields: Any) -> Json:
        ((item),) = gemini.encode(changed(message, parts=(changed(result, **fields),)))
        return item

    response = {"name": "f", "response": {"result": "short"}}
    assert written(parts=(Text("short"),)) == {"role": "function", "parts": [{"function_response": response}]}
    (failed,) = written(parts=(Text("no"),), error=True)["parts"]
    assert failed["function_response"]["response"] == {"error": "no"}


def test_a_gemini_message_that_changes_sides_loses_the_role_word_of_the_old_side() -> None:
    (message,) = gemini.decode([{"role": "function", "parts": [{"text": "x"}]}])
    assert gemini.encode(changed(message, role="assistant")) == ({"role": "model", "parts": [{"text": "x"}]},)


def test_a_responses_message_that_changes_sides_says_its_texts_as_the_new_side() -> None:
    item = {"role": "assistant", "content": [{"type": "output_text", "text": "x", "annotations": []}]}
    (message,) = openai_responses.decode([item])
    (written,) = openai_responses.encode(changed(message, role="user"))
    assert written == {"role": "user", "content": [{"type": "input_text", "text": "x"}]}


def test_a_made_up_result_is_written_as_the_output_that_its_responses_call_wants() -> None:
    kinds = ("function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call")
    for kind in kinds:
        ((call,),) = (
            m.calls for m in openai_responses.decode([{"type": kind, "call_id": "a", "name": "f", "input": ""}])
        )
        result = ToolResult(call.id, (Text("lost", flat=True),), error=True, extra=openai_responses.answer_fields(call))
        (item,) = openai_responses.encode(Message("tool", (result,)))
        assert (item["type"], item["call_id"]) == (f"{kind}_output", "a")
        assert "lost" in json.dumps(item["output"])
        (again,) = openai_responses.decode([item])
        assert again.results[0].call_id == "a"


def test_a_body_may_hold_a_text_or_one_object_instead_of_a_list() -> None:
    assert openai_responses.listed("hello") == [{"role": "user", "content": "hello"}]
    assert gemini.listed("hello") == [{"role": "user", "parts": [{"text": "hello"}]}]
    assert gemini.listed({"parts": []}) == [{"parts": []}]
    with pytest.raises(WireError, match="input"):
        openai_responses.listed(5)


def test_a_single_tool_is_read_and_renamed_where_a_list_is_usual() -> None:
    head = {"tools": {"functionDeclarations": [{"name": "look up", "description": "Look something up."}]}}
    assert tools.names(head) == ["look up"]
    assert tools.names(tools.rename(head, {"look up": "look_up"})) == ["look_up"]
    named = {"tools": {"type": "function", "function": {"name": "look"}}}
    assert tools.has_schema(next(tools.definitions(tools.with_schemas(named))))


@pytest.mark.parametrize("places", [(0,), (1,), (2,), (0, 2)])
def test_an_error_names_the_first_item_that_is_wrong(places: tuple[int, ...]) -> None:
    calls = [{"id": 1 if at in places else "a", "type": "function", "function": {"name": "f"}} for at in range(3)]
    items: list[Json] = [{"role": 3} if at in places else {"role": "user", "content": "x"} for at in range(3)]
    with pytest.raises(WireError, match=re.escape(f"messages[{places[0]}].role")):
        CODECS["openai-chat"].decode(items)
    with pytest.raises(WireError, match=re.escape(f"messages[0].tool_calls[{places[0]}].id")):
        CODECS["openai-chat"].decode([{"role": "assistant", "tool_calls": calls}])
