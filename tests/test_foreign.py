"""A conversation that moves to another format says the same there, and is what that format's APIs take."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legato.messages import Json, Media, Message, Part, Reasoning, Text, ToolCall, ToolResult, Transcript
from legato.wire import media, shape
from legato.wire.foreign import foreign
from legato.wire.sniff import sniff
from wire_items import CODECS, every_format, every_pair, recorded


def gist(transcript: Transcript) -> list[tuple[Any, ...]]:
    """Who said what, which calls were made and what they gave, in order, in no format's words."""
    said: list[tuple[Any, ...]] = []
    for message in transcript:
        for part in message.parts:
            if isinstance(part, ToolCall):
                said.append(("call", part.id, part.name, shape.as_object(part)))
            elif isinstance(part, ToolResult):
                said.append(("result", part.call_id, *gist_of_parts(part.parts)))
            elif isinstance(part, Reasoning):
                said.append(("thought", part.text))
            elif not (isinstance(part, Text) and not part.text):
                said.append((message.role, *gist_of_parts((part,))))
    return said


def gist_of_parts(parts: tuple[Part, ...]) -> list[Any]:
    return [
        media.read(part.raw) if isinstance(part, Media) else part.text
        for part in parts
        if isinstance(part, Media | Text)
    ]


PNG = media.Source("image", "image/png", data="iVBORw0KGgo=")


@st.composite
def conversations(draw: st.DrawFn, form: str) -> list[Json]:
    """The form's own items: texts, an image, thoughts, parallel calls, results and a text after them."""
    numbers = iter(range(1000))
    phrases = st.sampled_from(("ok", "查看 🙂", "", '{"a": 1}', "two\n\nlines"))

    def text() -> Text:
        return Text(f"{next(numbers)} {draw(phrases)}")

    messages = [Message("user", (text(), Media("image", media.write(PNG, form))))]
    for _ in range(draw(st.integers(1, 3))):
        free = form.startswith("openai") and draw(st.booleans())
        values = [text().text if free else {"path": text().text} for _ in range(draw(st.integers(0, 3)))]
        calls = [ToolCall(f"call{next(numbers)}", "f", value, free) for value in values]
        said = [text() for _ in range(draw(st.integers(0 if calls else 1, 2)))]
        thoughts = [Reasoning(text().text, "x")] if draw(st.booleans()) else []
        messages.append(Message("assistant", (*thoughts, *said, *calls)))
        failed = draw(st.booleans())
        results = [ToolResult(call.id, (text(),), "f", failed) for call in calls]
        after = [text()] if not results or draw(st.booleans()) else []
        messages.append(Message("user", (*results, *after)))
    return [item for message in messages for own in foreign(message, form) for item in CODECS[form].encode(own)]


def converted(transcript: Transcript, to: str) -> list[Json]:
    return [item for message in transcript for new in foreign(message, to) for item in CODECS[to].encode(new)]


@every_pair
@settings(max_examples=15)
@given(data=st.data())
def test_a_conversation_says_the_same_in_another_format(old: str, new: str, data: st.DataObject) -> None:
    wire = data.draw(conversations(old))
    transcript = CODECS[old].decode(wire)
    moved = converted(transcript, new)
    assert gist(CODECS[new].decode(moved)) == gist(transcript)
    assert sniff(moved) in (new, "openai-chat")
    for item in moved:
        assert_native(new, item)


def assert_native(form: str, item: Any) -> None:
    """The item has the roles, the types and the ids that every API of this format asks for."""
    text = json.dumps(item)
    if form == "openai-chat":
        assert item["role"] in ("user", "assistant", "tool")
        assert (item["role"] == "tool") == ("tool_call_id" in item)
        bodies = [call[call["type"]] for call in item.get("tool_calls", ())]
        assert all(isinstance(body.get("arguments", body.get("input")), str) for body in bodies)
    elif form == "openai-responses":
        assert item["type"] in ("message", "reasoning", "function_call", "function_call_output", "custom_tool_call")
        assert all(isinstance(item[key], str) for key in ("arguments", "input", "output") if key in item)
    elif form == "gemini":
        assert item["role"] in ("user", "model")
        inner = [part[key] for part in item["parts"] for key in ("functionCall", "functionResponse") if key in part]
        assert all(isinstance(value.get("args", value.get("response")), dict) and value["id"] for value in inner)
    else:
        assert item["role"] in ("user", "assistant")
        blocks = item["content"] if isinstance(item["content"], list) else []
        calls = [block.get("toolUse", block) for block in blocks]
        assert all(isinstance(call["input"], dict) for call in calls if "input" in call)
        assert ('"type"' in text) == (form == "anthropic") or isinstance(item["content"], str)


@every_pair
def test_every_recorded_request_can_be_moved_to_another_format(old: str, new: str) -> None:
    for items in recorded(old):
        transcript = CODECS[old].decode(items)
        moved = CODECS[new].decode(converted(transcript, new))
        for name in ("calls", "results"):
            before, after = ([part for m in messages for part in getattr(m, name)] for messages in (transcript, moved))
            assert len(before) == len(after)
        texts = [part.text for m in transcript for part in m.parts if isinstance(part, Text)]
        kept = {part.text for m in moved for part in m.parts if isinstance(part, Text)}
        assert kept.issuperset(filter(None, texts))  # an empty text beside something else says nothing


SOURCES = [
    PNG,
    media.Source("image", "image/jpeg", url="https://example.org/a.jpg"),
    media.Source("document", "application/pdf", data="JVBERi0xLjQ="),
    media.Source("document", "application/pdf", url="https://example.org/a.pdf"),
    media.Source("audio", "audio/wav", data="UklGRg=="),
    media.Source("video", "video/mp4", data="AAAAIGZ0eXA="),
]


@every_format
@pytest.mark.parametrize("source", SOURCES)
def test_media_come_back_as_they_were_written_or_are_named_in_a_text(form: str, source: media.Source) -> None:
    block = media.write(source, form)
    if block is None:
        (part,) = foreign(Message("user", (Media("x", media.write(source, "gemini")),)), form)[0].parts
        assert isinstance(part, Text)
        assert (source.url or "base64 left out") in part.text
        return
    again = media.read(block)
    assert again is not None
    assert (again.kind, again.data, again.url) == (source.kind, source.data, source.url)
    assert again.mime in (source.mime, None)


def test_media_in_the_url_safe_base64_of_gemini_are_written_in_the_usual_one() -> None:
    source = media.read({"inlineData": {"mimeType": "image/png", "data": "-_8"}})
    assert source == media.Source("image", "image/png", data="+/8=")


FOREIGN: list[tuple[str, Json, str, list[Json]]] = [
    (  # what one provider alone understands becomes text
        "anthropic",
        {"role": "user", "content": [{"type": "container_upload", "file_id": "f"}]},
        "openai-chat",
        [{"role": "user", "content": '{"type": "container_upload", "file_id": "f"}'}],
    ),
    (  # a cache point says nothing
        "bedrock",
        {"role": "user", "content": [{"text": "hi"}, {"cachePoint": {"type": "default"}}]},
        "anthropic",
        [{"role": "user", "content": "hi"}],
    ),
    (  # the field of a chat message can be there only once
        "anthropic",
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "a", "signature": "s"}, {"type": "thinking", "thinking": "b"}],
        },
        "openai-chat",
        [{"role": "assistant", "reasoning_content": "a\n\nb", "content": ""}],
    ),
    (  # results before what is said, each its own message
        "anthropic",
        {
            "role": "user",
            "content": [{"type": "text", "text": "hi"}, {"type": "tool_result", "tool_use_id": "a", "content": "x"}],
        },
        "openai-chat",
        [{"role": "tool", "tool_call_id": "a", "content": "x"}, {"role": "user", "content": "hi"}],
    ),
    (  # a refusal is text
        "openai-chat",
        {"role": "assistant", "content": None, "refusal": "no"},
        "gemini",
        [{"role": "model", "parts": [{"text": "no"}]}],
    ),
    (  # a structured response is text elsewhere
        "gemini",
        {"role": "user", "parts": [{"functionResponse": {"id": "a", "name": "f", "response": {"x": [1]}}}]},
        "openai-responses",
        [{"type": "function_call_output", "call_id": "a", "output": '{"x": [1]}'}],
    ),
    (  # a call of a kind that only one API has is a function call elsewhere
        "openai-responses",
        {
            "type": "local_shell_call",
            "call_id": "a",
            "action": {"command": ["ls"]},
            "status": "completed",
            "id": "lsh_1",
        },
        "anthropic",
        [
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "a", "name": "local_shell", "input": {"command": ["ls"]}}],
            }
        ],
    ),
    (  # arguments that are no object are kept in one
        "openai-chat",
        {
            "role": "assistant",
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": '}}],
        },
        "bedrock",
        [
            {
                "role": "assistant",
                "content": [{"toolUse": {"toolUseId": "a", "name": "f", "input": {"_raw": '{"x": '}}}],
            }
        ],
    ),
    (  # the caller's notes stay
        "openai-responses",
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "", "_origin": "here"},
        "gemini",
        [{"role": "model", "_origin": "here", "parts": [{"functionCall": {"id": "a", "name": "f", "args": {}}}]}],
    ),
]


@pytest.mark.parametrize(("old", "item", "new", "moved"), FOREIGN)
def test_what_only_one_format_has_is_said_in_the_words_of_the_other(
    old: str, item: Json, new: str, moved: list[Json]
) -> None:
    assert converted(CODECS[old].decode([item]), new) == moved
