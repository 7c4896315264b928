"""Looking into wire JSON without trusting it: each look names the place when the type is wrong."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from operator import length_hint
from typing import TypeVar

from legato.errors import WireError
from legato.messages import Json, Message, ToolCall, Transcript

Found = TypeVar("Found")

KINDS = {dict: "an object", list: "a list", str: "text", bool: "a boolean", int: "a number", float: "a number"}


def kind(value: Json) -> str:
    """What a JSON value is, in the words of an error message."""
    return "null" if value is None else KINDS.get(type(value), f"a {type(value).__name__}")


def fields(value: Json, place: str) -> dict[str, Json]:
    """The value, which must be an object."""
    if type(value) is dict or isinstance(value, dict):
        return value
    if isinstance(value, Mapping):
        return dict(value)
    raise WireError(place, f"must be an object, not {kind(value)}")


def text(value: dict[str, Json], key: str, place: str) -> str:
    """The text under `key`, which must be there."""
    found = value.get(key)
    if isinstance(found, str):
        return found
    if key not in value:
        raise WireError(place, f"has no {key}")
    raise WireError(f"{place}.{key}", f"must be text, not {kind(found)}")


def optional_text(value: dict[str, Json], key: str, place: str) -> str | None:
    """The text under `key`, or None if it is absent or null."""
    found = value.get(key)
    if found is None or isinstance(found, str):
        return found
    raise WireError(f"{place}.{key}", f"must be text or null, not {kind(found)}")


def items(value: Json, place: str) -> list[Json]:
    """The value, which must be a list."""
    if isinstance(value, list):
        return value
    if isinstance(value, tuple):
        return list(value)
    raise WireError(place, f"must be a list, not {kind(value)}")


def dump(value: Json) -> str:
    """A JSON value as the text that stands for it, in a form that is the same in every process.

    Bytes, which SDKs take for media, are written in base64.
    """
    return json.dumps(value, ensure_ascii=False, default=as_base64)


def as_base64(value: object) -> str:
    """Bytes as what stands for them in JSON."""
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    raise TypeError(f"{type(value).__name__} is no JSON")


def rest(value: dict[str, Json], known: Iterable[str]) -> dict[str, Json]:
    """The fields that are not `known`."""
    found = value.copy()
    for key in known:
        found.pop(key, None)
    return found


def under(place: str, error: WireError) -> WireError:
    """The error of something inside `place`. So a place is put together only when there is something to say."""
    inner = error.place
    return WireError(place + inner if inner[:1] in ("", ".", "[") else f"{place}.{inner}", error.problem)


def each(values: Sequence[Json], read: Callable[[Json], Found], place: str) -> tuple[Found, ...]:
    """What `read` makes of every value; an error names the value it came from."""
    done: list[Found] = []
    try:
        for value in values:
            done.append(read(value))
    except WireError as error:
        raise under(f"{place}[{len(done)}]", error) from None
    return tuple(done)


def transcript(values: Sequence[Json], read: Callable[[Json, int], Message], key: str) -> Transcript:
    """What `read` makes of every item of the wire's list `key` and its index."""
    walk = iter(values)
    try:
        return tuple(map(read, walk, count()))
    except WireError as error:
        raise under(f"{key}[{len(values) - length_hint(walk) - 1}]", error) from None


UNPARSED = "_raw"
"""The key under which arguments that are no JSON object keep what they are."""
FREE = "input"
"""The key under which the free text of a custom tool stands in an object."""


def as_object(call: ToolCall) -> Json:
    """A call's arguments for a wire that holds an object. Text that is not the JSON of one is kept under a key."""
    arguments = call.arguments
    if not isinstance(arguments, str):
        return arguments
    if call.free:
        return {FREE: arguments}
    if not arguments.strip():
        return {}
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        value = arguments
    return value if isinstance(value, dict) else {UNPARSED: value}


def as_text(call: ToolCall) -> str:
    """A call's arguments for a wire that holds text."""
    return call.arguments if isinstance(call.arguments, str) else dump(call.arguments)


PLAIN = frozenset((str, int, float, bool, type(None)))
"""The JSON values that hold no others."""
DEEPEST = 200
"""How deeply JSON that legato does not read may be nested."""


def verify(value: Json, place: str, raw_bytes: bool = False) -> None:
    """Raise `WireError`, naming the place, if a value is no JSON, is nested absurdly, or holds itself.

    `raw_bytes`: bytes are allowed, as SDKs take them for media. Walked without recursion.
    """
    todo: list[tuple[str, Json, int]] = [(place, value, 0)]
    while todo:
        where, here, depth = todo.pop()
        if depth > DEEPEST:
            raise WireError(place, f"is nested more than {DEEPEST} levels deep")
        if isinstance(here, dict | Mapping):
            for key, item in here.items():
                if not isinstance(key, str):
                    raise WireError(where, f"has a key that is not text but {kind(key)}")
                if type(item) not in PLAIN:
                    todo.append((f"{where}.{key}" if depth < 8 else where, item, depth + 1))
        elif isinstance(here, list | tuple):
            for at, item in enumerate(here):
                if type(item) not in PLAIN:
                    todo.append((f"{where}[{at}]" if depth < 8 else where, item, depth + 1))
        elif not (here is None or isinstance(here, str | int | float) or (raw_bytes and isinstance(here, bytes))):
            raise WireError(where, f"is no JSON but {kind(here)}")
