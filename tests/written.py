"""Histories of OpenAI Chat written in every other wire format, damage and all; and what a body of any format says.

A converter of the tests' own, which shares no code with legato. Each block that is written knows the place in the chat
history it stands for.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from accidents import History, Wire

KEYS = {"openai-chat": "messages", "openai-responses": "input", "anthropic": "messages", "bedrock": "messages"}
KEYS["gemini"] = "contents"
FIELDS = {"anthropic": "system", "bedrock": "system", "gemini": "systemInstruction", "openai-responses": "instructions"}
"""Where the body holds the system text, if it has a field for it."""

Place = tuple[int, int | None]
"""A chat message, and the number of a call in it; None: the message, or the result it is."""
Block = tuple[Wire, Place]


@dataclass(frozen=True)
class Style:
    """The ways one history can be written in a format; where a format knows only one, a choice changes nothing."""

    together: bool = True
    """Results that follow each other stand in one message."""
    joined: bool = False
    """What the user says after results stands in their message."""
    ids: bool = True
    """Calls and results have ids where a format can do without, and items have ids of their own."""
    signed: bool = True
    """Thoughts and first calls are signed."""
    names: bool = True
    """Results carry the name of their tool, where they can."""
    marked: bool = False
    """Every block that can carries a cache marker."""


@dataclass
class Written:
    """Wire items, and for each the places of its blocks."""

    items: list[Wire] = field(default_factory=list)
    places: list[list[Place]] = field(default_factory=list)

    def add(self, item: Wire, *places: Place) -> None:
        self.items.append(item)
        self.places.append(list(places))


def write(history: History, form: str, style: Style) -> Written:
    """The history in a format. Keys that start with `_` are carried along, other keys that only chat has are not."""
    history = copy.deepcopy(history)
    if form == "openai-chat":
        written = Written()
        for at, message in enumerate(history):
            written.add(message, (at, None))
        return written
    if form == "openai-responses":
        return _responses(history, style)
    return _turns(history, replace(WORDS[form], style=style))


# -- formats with turns of blocks --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Words:
    """How one format writes each kind of block."""

    blocks: str
    """The key of a turn's blocks."""
    model: str
    """The role of the model."""
    flat: bool
    """A lone text may be a plain string."""
    marks: bool
    """Blocks may carry a cache marker."""
    text: Callable[[str], Wire]
    image: Callable[[str], Wire]
    thought: Callable[[str, bool], Wire]
    call: Callable[[Wire, bool], Wire]
    result: Callable[[Wire, Any], Wire]
    style: Style = Style()

    def content(self, message: Wire) -> list[Wire]:
        content = message.get("content")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        return [self.text(p["text"]) if p["type"] == "text" else self.image(_data(p)) for p in parts]


def _turns(history: History, words: Words) -> Written:
    written = Written()
    names: dict[Any, Any] = {}
    before = ""
    for at, message in enumerate(history):
        role = message["role"]
        for call in message.get("tool_calls") or ():
            names[call.get("id")] = call["function"].get("name")
        blocks = list(_blocks(message, at, names, words))
        for block, _ in blocks:
            if words.marks and words.style.marked and block["type"] != "thinking":
                block["cache_control"] = {"type": "ephemeral"}
        joins = words.style.together if role == "tool" else words.style.joined and role == "user"
        if before == "tool" and joins and words.blocks in written.items[-1]:
            written.items[-1][words.blocks] += [block for block, _ in blocks]
            written.places[-1] += [place for _, place in blocks]
            continue
        wire = {"assistant": words.model, "tool": "user"}.get(role, role)
        content: Any = [block for block, _ in blocks]
        if (
            words.flat
            and not words.style.marked
            and role != "tool"
            and isinstance(message.get("content"), str)
            and len(blocks) == 1
        ):
            content = message["content"]
        notes = {key: value for key, value in message.items() if key.startswith("_")}
        written.add({"role": wire, words.blocks: content, **notes}, *[place for _, place in blocks])
        before = role
    return written


def _blocks(message: Wire, at: int, names: dict[Any, Any], words: Words) -> Iterator[Block]:
    style = words.style
    if message["role"] == "tool":
        call_id = message.get("tool_call_id") if style.ids or words.blocks != "parts" else None
        fields = {"id": call_id, "name": message.get("name") or names.get(message.get("tool_call_id"))}
        content = message.get("content")
        plain = words.flat and isinstance(content, str)
        if not style.names:
            del fields["name"]
        yield words.result(fields, content if plain else words.content(message)), (at, None)
        return
    for key in ("reasoning_content", "reasoning"):
        if isinstance(message.get(key), str):
            yield words.thought(message[key], style.signed), (at, None)
    for block in words.content(message):
        yield block, (at, None)
    for number, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        fields = {"name": function.get("name"), "input": _parsed(function.get("arguments"))}
        if style.ids or words.blocks != "parts":
            fields["id"] = call.get("id")
        yield words.call(fields, style.signed and number == 0), (at, number)


def _parsed(arguments: Any) -> Any:
    """Arguments as a value. A text that is no JSON, or only null, stays the text."""
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments
    return arguments if value is None else value


def _data(part: Wire) -> str:
    data: str = part["image_url"]["url"].partition(",")[2]
    return data


def _known(**fields: Any) -> Wire:
    """The fields that are there: a call that was cut off lacks some."""
    return {key: value for key, value in fields.items() if value is not None}


def _claude_image(data: str) -> Wire:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def _claude_thought(text: str, signed: bool) -> Wire:
    return {"type": "thinking", "thinking": text, **({"signature": "c2lnbmVk"} if signed else {})}


def _converse_thought(text: str, signed: bool) -> Wire:
    return {"reasoningContent": {"reasoningText": {"text": text, **({"signature": "c2lnbmVk"} if signed else {})}}}


def _gemini_call(call: Wire, signed: bool) -> Wire:
    made = _known(id=call.get("id"), name=call["name"], args=call["input"])
    return {"functionCall": made, **({"thoughtSignature": "c2lnbmVk"} if signed else {})}


def _gemini_result(result: Wire, content: Any) -> Wire:
    texts = [part["text"] for part in content if "text" in part]
    images = [part for part in content if "text" not in part]
    response = {"response": {"output": "\n".join(texts)}, **({"parts": images} if images else {})}
    return {"functionResponse": {**_known(id=result["id"], name=result.get("name")), **response}}


WORDS = {
    "anthropic": Words(
        blocks="content",
        model="assistant",
        flat=True,
        marks=True,
        text=lambda text: {"type": "text", "text": text},
        image=_claude_image,
        thought=_claude_thought,
        call=lambda call, _: {
            "type": "tool_use",
            **_known(id=call.get("id"), name=call["name"], input=call["input"]),
        },
        result=lambda result, content: {
            "type": "tool_result",
            **_known(tool_use_id=result["id"]),
            "content": content,
        },
    ),
    "bedrock": Words(
        blocks="content",
        model="assistant",
        flat=False,
        marks=False,
        text=lambda text: {"text": text},
        image=lambda data: {"image": {"format": "png", "source": {"bytes": data}}},
        thought=_converse_thought,
        call=lambda call, _: {"toolUse": _known(toolUseId=call.get("id"), name=call["name"], input=call["input"])},
        result=lambda result, content: {"toolResult": {**_known(toolUseId=result["id"]), "content": content}},
    ),
    "gemini": Words(
        blocks="parts",
        model="model",
        flat=False,
        marks=False,
        text=lambda text: {"text": text},
        image=lambda data: {"inlineData": {"mimeType": "image/png", "data": data}},
        thought=lambda text, _: {"text": text, "thought": True},
        call=_gemini_call,
        result=_gemini_result,
    ),
}


# -- OpenAI Responses --------------------------------------------------------------------------------------------------


def _responses(history: History, style: Style) -> Written:
    written = Written()
    for at, message in enumerate(history):
        role = message["role"]
        notes = {key: value for key, value in message.items() if key.startswith("_")}
        if role == "tool":
            output = _said(message, "input_text")
            call_id = _known(call_id=message.get("tool_call_id"))
            written.add({"type": "function_call_output", **call_id, "output": output, **notes}, (at, None))
            continue
        for key in ("reasoning_content", "reasoning"):
            if isinstance(message.get(key), str):
                summary = [{"type": "summary_text", "text": message[key]}]
                own = {"id": f"rs_{at}{key}"} if style.ids else {}
                blob = {"encrypted_content": "c2lnbmVk"} if style.signed else {}
                written.add({"type": "reasoning", **own, "summary": summary, **blob}, (at, None))
        calls = message.get("tool_calls") or ()
        if message.get("content") is not None or not calls:
            own = {"id": f"msg_{at}"} if style.ids and role == "assistant" else {}
            content = _said(message, "output_text" if role == "assistant" else "input_text")
            written.add({"type": "message", **own, "role": role, "content": content, **notes}, (at, None))
        for number, call in enumerate(calls):
            function = call["function"]
            fields = _known(call_id=call.get("id"), name=function.get("name"), arguments=function.get("arguments"))
            own = {"id": f"fc_{at}_{number}"} if style.ids else {}
            written.add({"type": "function_call", **own, **fields}, (at, number))
    return written


def _said(message: Wire, kind: str) -> Any:
    content = message.get("content")
    if not isinstance(content, list):
        return content
    return [
        {"type": kind, "text": part["text"]}
        if part["type"] == "text"
        else {"type": "input_image", "image_url": part["image_url"]["url"], "detail": "auto"}
        for part in content
    ]


# -- whole bodies ------------------------------------------------------------------------------------------------------


def fields_of(tools: History, form: str) -> Wire:
    """The field of a body that offers these tools of chat."""
    plain = [tool["function"] for tool in tools]
    match form:
        case "anthropic":
            made = [{("input_schema" if key == "parameters" else key): t[key] for key in t} for t in plain]
            return {"tools": made}
        case "bedrock":
            specs = [
                {"name": t["name"], "description": t["description"], "inputSchema": {"json": t["parameters"]}}
                for t in plain
            ]
            return {"toolConfig": {"tools": [{"toolSpec": spec} for spec in specs]}}
        case "gemini":
            return {"tools": [{"functionDeclarations": plain}]}
        case "openai-responses":
            return {"tools": [{"type": "function", **tool} for tool in plain]}
    return {"tools": tools}


def system_field(text: str, form: str) -> Wire:
    """The field of a body that holds a system text."""
    match form:
        case "bedrock":
            return {"system": [{"text": text}]}
        case "gemini":
            return {"systemInstruction": {"parts": [{"text": text}]}}
    return {FIELDS[form]: text}


LIMITS: dict[str, Wire] = {
    "openai-chat": {"max_tokens": 8},
    "openai-responses": {"max_output_tokens": 8},
    "anthropic": {"max_tokens": 8},
    "bedrock": {"inferenceConfig": {"maxTokens": 8}},
    "gemini": {"generationConfig": {"maxOutputTokens": 8}},
}
"""What makes a body a whole request: a limit of the output, in the words of each format."""
