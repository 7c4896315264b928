"""The SDKs' own types judge the shape of what is governed: `make oracles`.

OpenAI's, Anthropic's and Google's types are asked through pydantic, Bedrock's through the validator in botocore. None
of them looks at the order of messages: roles and pairs are for the other oracles.
"""

from __future__ import annotations

import base64
import copy
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import botocore.session
from anthropic.types import MessageParam
from botocore.exceptions import ParamValidationError
from botocore.validate import ParamValidator
from google.genai.types import Content
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter, ValidationError

import legato
from accidents import Wire
from damage import damaged_histories
from histories import TOOLS
from tables import conclude, say, table
from written import KEYS, Style, fields_of, write

HISTORIES = 420

Shape = Callable[[Wire], str | None]
"""Says what is wrong with one message, or None."""


def pydantic_shape(kind: Any, *, strict: bool = True) -> Shape:
    adapter: TypeAdapter[Any] = TypeAdapter(kind)

    def shape(message: Wire) -> str | None:
        try:
            _walk(adapter.validate_python(message, strict=strict))
        except ValidationError:
            return "its type does not take it"
        return None

    return shape


def _walk(value: Any) -> None:
    """Goes through it all: pydantic looks into an `Iterable` only when it is gone through."""
    if isinstance(value, Mapping):
        value = value.values()
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for inner in value:
            _walk(inner)


def converse_shape() -> Shape:
    """Bedrock's model of a message, as botocore reads it before it sends."""
    model = botocore.session.Session().get_service_model("bedrock-runtime")
    messages = model.operation_model("Converse").input_shape.members["messages"].member
    validator = ParamValidator()

    def shape(message: Wire) -> str | None:
        try:
            report = validator.validate(_with_bytes(message), messages)
        except ParamValidationError as error:
            return str(error)
        return str(report.generate_report()) if report.has_errors() else None

    return shape


def _with_bytes(value: Any) -> Any:
    """JSON carries an image in base64, botocore wants the bytes."""
    if isinstance(value, dict):
        return {
            key: base64.b64decode(inner) if key == "bytes" and isinstance(inner, str) else _with_bytes(inner)
            for key, inner in value.items()
        }
    return [_with_bytes(inner) for inner in value] if isinstance(value, list) else value


def responses_shape() -> Shape:
    """OpenAI's type of an item. What it demands and the API does not (recorded, or left out by Codex) is filled in."""
    shape = pydantic_shape(ResponseInputItemParam)

    def filled(item: Wire) -> Wire:
        if item.get("type") == "reasoning":
            return {"id": "rs_0", **item}
        if item.get("type") == "message" and item.get("role") == "assistant" and isinstance(item.get("content"), list):
            content = [{"annotations": [], **part} for part in item["content"]]
            return {"id": "msg_0", "status": "completed", **item, "content": content}
        return item

    return lambda item: shape(filled(item))


SHAPES: dict[str, tuple[str, Callable[[], Shape]]] = {
    "openai": ("openai ChatCompletionMessageParam", lambda: pydantic_shape(ChatCompletionMessageParam)),
    "openai-responses": ("openai ResponseInputItemParam", responses_shape),
    "anthropic": ("anthropic MessageParam", lambda: pydantic_shape(MessageParam)),
    "gemini": ("google-genai Content", lambda: pydantic_shape(Content, strict=False)),
    "bedrock": ("botocore Converse", converse_shape),
}
"""By profile: the name of the type, and how it is asked."""
FORMATS = {"openai": "openai-chat"}


def bodies(form: str) -> Iterator[Wire]:
    """The damaged histories as bodies of that format, each written in one of the ways agents write it."""
    for seed, history in enumerate(damaged_histories(HISTORIES)):
        chance = random.Random(seed)
        style = Style(*[chance.random() < 0.5 for _ in range(5)])
        yield {KEYS[form]: write(history, form, style).items, **fields_of(TOOLS, form)}


def judge(profile: str, shape: Shape, failures: list[str]) -> Counter[str]:
    form = FORMATS.get(profile, profile)
    tally: Counter[str] = Counter()
    kinds: set[str] = set()
    for body in bodies(form):
        tally["histories"] += 1
        tally["wrong as they are"] += any(shape(message) for message in body[KEYS[form]])
        governed = legato.govern(copy.deepcopy(body), profile=profile, format=form)
        wrong = [(words, message) for message in governed.messages if (words := shape(message))]
        tally["wrong governed"] += bool(wrong)
        for words, message in wrong:
            if _kind(message) not in kinds:
                kinds.add(_kind(message))
                failures.append(f"{profile}: {words}: {json.dumps(message, ensure_ascii=False)[:400]}")
    return tally


def _kind(message: Wire) -> str:
    """Messages of one kind need be shown once: the same role, fields, and types of blocks."""
    content = message.get("content")
    blocks = sorted({str(block.get("type")) for block in content}) if isinstance(content, list) else [content is None]
    return f"{message.get('role')} {sorted(message)} {blocks}"


def main() -> int:
    failures: list[str] = []
    columns = ("histories", "wrong as they are", "wrong governed")
    rows = []
    for profile, (name, make) in SHAPES.items():
        tally = judge(profile, make(), failures)
        rows.append((profile, name, *[tally[column] for column in columns]))
    say("The SDKs' types: damaged histories of which some message has a shape that they refuse")
    say(table(("profile", "type", *columns), rows))
    return conclude(failures)


if __name__ == "__main__":
    sys.exit(main())
