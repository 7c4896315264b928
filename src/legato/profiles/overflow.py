"""What a provider says when a request is too long, whatever it is wrapped in.

The texts, codes and fields are data: `errors/overflow.toml`. What needs a window to be seen (usage above it, an input
the provider cut) is no error text and not found here.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from importlib import resources
from itertools import islice
from typing import Any, Literal, TypeAlias

import msgspec

Kind: TypeAlias = Literal["window", "output", "bytes", "throttle"]

TEXT = 20_000
"""Characters of a text that are searched, half of them its head, half its tail."""
TEXTS = 16
"""Texts of one answer that are searched."""
PARSED = 1_000_000
"""Characters of JSON that are read for one answer, all layers together."""
VALUES = 500
"""Values of one answer that are looked at: what stands deeper or wider is no error message."""
EVENTS = 64
"""Lines of a stream that are read, from its end: an error ends a stream."""


class Overflow(msgspec.Struct, frozen=True, kw_only=True):
    """A provider's "too long". Numbers are tokens, None where it names none.

    `kind`: `window`, the input is too long; `output`, a lower output cap cures it and loses nothing; `bytes`, the body
    is too large; `throttle`, one request above a limit per minute or day: waiting never helps, shrinking does.
    `used` is the input as the provider counted it (with the asked output where it names only the sum), `over` by how
    much it is too long. `exact` is False where `used` is an estimate, a sum, or only the least it can be: good for a
    retry, not for calibrating. `pattern` is the name of what matched, `text` the message.
    """

    kind: Kind
    pattern: str
    text: str
    limit: int | None = None
    used: int | None = None
    output: int | None = None
    over: int | None = None
    exact: bool = True


class Pattern(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """A text of a provider, or one that only sounds like it."""

    name: str
    pattern: str
    example: str
    source: str
    date: str
    grade: Literal["R", "S", "D", "P", "C", "U", "L"]
    provider: str = ""
    kind: Kind = "window"
    floor: bool = False
    wrapped: bool = False

    @cached_property
    def expression(self) -> re.Pattern[str]:
        return re.compile(self.pattern, re.IGNORECASE | re.DOTALL | re.ASCII)


class Signs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file `errors/overflow.toml`."""

    finish_reasons: tuple[str, ...]
    codes: dict[str, Kind]
    wrappings: dict[Literal["texts", "holders", "codes", "finishes"], frozenset[str]]
    fields: dict[str, str]
    pattern: tuple[Pattern, ...]
    look_alike: tuple[Pattern, ...]


@cache
def signs() -> Signs:
    """The signs by which a "too long" is recognised, read when first used."""
    file = resources.files("legato.profiles").joinpath("errors/overflow.toml")
    return msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), Signs)


def overflow(status: object, body: object = None) -> Overflow | None:
    """What a provider's error says if it says "too long", else None; whatever it is given.

    `status` is the HTTP status, None if not known; `body` the answer: bytes, text, parsed JSON, or an SDK's exception
    or response. `overflow(error)` does with the exception alone.
    """
    said = _answer(status, body)
    known = signs()
    code = next((known.codes[code] for code in said.codes if code in known.codes), None)
    if code is not None and not said.throttled:
        return _found(said, known.pattern) or _made(code, "code", said.text, said.numbers)
    throttle = _found(said, [pattern for pattern in known.pattern if pattern.kind == "throttle"])
    if throttle is not None or _look_alike(said) is not None:
        return throttle
    found = _found(said, [pattern for pattern in known.pattern if pattern.wrapped or not said.broken])
    if found is not None:
        return found
    finish = next((reason for reason in said.finishes if reason in known.finish_reasons), None)
    if finish is not None:
        return _made("window", "finish", finish, {})
    if said.empty and said.statuses & {400, 413}:
        return _made("window", "nobody", "", {})
    return _made("bytes", "status", said.text, {}) if 413 in said.statuses else None


def look_alike(status: object, body: object = None) -> str | None:
    """The name of what only sounds like "too long": `rate-limit`, `output-cap`, `string-length`, `content-filter`."""
    return None if overflow(status, body) is not None else _look_alike(_answer(status, body))


# --- judging


def _look_alike(said: Answer) -> str | None:
    if said.throttled:
        return "rate-limit"
    texts = (*said.texts, *said.codes)
    return next((sign.name for sign in signs().look_alike if any(map(sign.expression.search, texts))), None)


def _found(said: Answer, patterns: Iterable[Pattern]) -> Overflow | None:
    """The first pattern that matches and names a number, else the first that matches."""
    first = None
    for pattern in patterns:
        for match in filter(None, map(pattern.expression.search, said.texts)):
            found = _read(pattern, match, said.numbers)
            if pattern.kind == "throttle":
                if (found.used or 0) > (found.limit or 0):
                    return found
            elif (found.limit, found.used, found.over) != (None, None, None):
                return found
            else:
                first = first or found
    return first


def _read(pattern: Pattern, match: re.Match[str], fields: Mapping[str, int]) -> Overflow:
    """What a message says. Three exact numbers decide the kind: a long input stays too long under any output cap."""
    groups = match.groupdict()
    # More than fifteen digits are no count of tokens, and `int` refuses thousands of them.
    digits = {name: found.replace(",", "") for name, found in groups.items() if found and name != "about"}
    named = {name: int(found) for name, found in digits.items() if len(found) <= 15}
    total = named.pop("total", None)
    exact = not pattern.floor and pattern.kind != "throttle" and not groups.get("about")
    if total is not None:
        exact = exact and "output" in named
        named["used"] = max(total - named.get("output", 0), 0)
    numbers = {**fields, **named}
    kind = pattern.kind
    if kind in ("window", "output") and not pattern.floor and numbers.keys() >= {"limit", "used", "output"}:
        kind = "output" if numbers["used"] < numbers["limit"] else "window"
    return _made(kind, pattern.name, match.string, numbers, exact)


def _made(kind: Kind, pattern: str, text: str, numbers: Mapping[str, int], exact: bool = True) -> Overflow:
    return Overflow(kind=kind, pattern=pattern, text=text, exact=exact, **numbers)


# --- reading the answer, layer by layer

STATUS = re.compile(r"\b(?:error|status)[ _]code:? ?([45]\d\d)\b", re.IGNORECASE | re.ASCII)
"""How an SDK writes the status into an exception's text."""
STATED = ("status_code", "status", "http_status", "code", "type", "stop_reason", "finish_reason")
"""The attributes of an SDK's objects that say what became of a request."""
BROKEN = (ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError)
"""What reading an attribute of somebody's exception may raise, such as httpx of a body that was not read."""


class Answer(msgspec.Struct):
    """What an answer says, out of its wrappings. `empty`: there was one, and it was blank."""

    texts: list[str] = []
    codes: list[str] = []
    finishes: list[str] = []
    statuses: set[int] = set()
    numbers: dict[str, int] = {}
    empty: bool = False
    unread: int = PARSED

    @property
    def text(self) -> str:
        return self.texts[0] if self.texts else ""

    @property
    def throttled(self) -> bool:
        return 429 in self.statuses

    @property
    def broken(self) -> bool:
        return min(self.statuses, default=0) >= 500


def _answer(status: object, body: object) -> Answer:
    """Everything an answer says, breadth first, without recursion and within bounds."""
    if body is None and not isinstance(status, int | None):
        status, body = None, status
    said = Answer()
    _note(said, status)
    # The plain text of an accepted request is the model's.
    plain = not (isinstance(status, int) and 200 <= status < 400)
    layers = deque([body])
    for _ in range(VALUES):
        if not layers:
            break
        value = layers.popleft()
        if isinstance(value, bytes | bytearray):
            ends = value if len(value) <= PARSED else value[: PARSED // 2] + b"\n" + value[-PARSED // 2 :]
            value = ends.decode("utf-8", "replace")
        if isinstance(value, str):
            layers.extend(_unwrapped(said, value, plain))
        elif isinstance(value, Mapping):
            layers.extend(_looked_into(said, value.items()))
        elif isinstance(value, list | tuple):
            layers.extend(islice(value, VALUES))
        elif value is not None and not isinstance(value, int | float):
            layers.extend(_looked_into(said, _attributes(value)))
        plain = True
    said.empty = said.empty and not said.texts
    return said


def _note(said: Answer, value: object) -> None:
    """Notes an HTTP status as one, any other number or name as a code."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return
    name = value[:200].strip().lower() if isinstance(value, str) else str(int(value)) if abs(value) < 10**9 else ""
    if len(name) == 3 and name[0] in "45" and name.isdecimal():
        said.statuses.add(int(name))
    elif name:
        said.codes.append(name)


def _looked_into(said: Answer, fields: Iterable[tuple[object, object]]) -> Iterator[object]:
    """Notes the codes, reasons and numbers of an object, and yields what to look into next."""
    names = signs().wrappings
    counts = {field: number for number, field in signs().fields.items()}
    for key, value in islice(fields, VALUES):
        name = key.lower().replace("_", "") if isinstance(key, str) else ""
        if name in names["codes"]:
            _note(said, value)
        if name in names["finishes"] and isinstance(value, str):
            said.finishes.append(value)
        if key in counts and isinstance(value, int) and not isinstance(value, bool):
            said.numbers[counts[str(key)]] = value
        if name in names["texts"] or (name in names["holders"] and not isinstance(value, str)):
            yield value


def _unwrapped(said: Answer, text: str, plain: bool) -> list[object]:
    """Notes a text unless it is nothing but JSON or a stream of it, and returns the JSON it is or holds."""
    bare = text.strip()
    if not bare:
        said.empty = True
        return []
    whole = _json(said, bare) if bare[0] in '{["' else None
    if whole is not None:
        return [whole]
    if len(said.texts) == TEXTS:
        return []
    lines = [line for line in bare[-PARSED:].splitlines() if line.startswith(("data:", "{"))]
    events = [_json(said, line.removeprefix("data:")) for line in lines[-EVENTS:]]
    events = [event for event in events if event is not None]
    if not plain or (events and bare.startswith(("data:", "event:", "{"))):
        return events
    ends = text if len(text) <= TEXT else f"{text[: TEXT // 2]} … {text[-TEXT // 2 :]}"
    said.texts.append(" ".join(ends.split()))
    said.statuses.update(int(found) for found in STATUS.findall(said.texts[-1]))
    return events or _hidden(said, bare)


def _hidden(said: Answer, text: str) -> list[object]:
    """The JSON object inside a text such as `BadRequestError: b'{"error": …}'`, as a list of none or one."""
    end = text.rfind("}") + 1
    starts = islice(re.finditer(r"\{", text[:end]), 3)
    found = (_json(said, text[start.start() : end]) for start in starts)
    return list(islice((value for value in found if value is not None), 1))


def _json(said: Answer, text: str) -> Any:
    """The JSON value of a text, None if it is none or no more is to be read."""
    if len(text) > said.unread:
        return None
    said.unread -= len(text)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _attributes(error: object) -> Iterator[tuple[str, object]]:
    """What an SDK's exception or response holds, as fields; an exception's own text if it keeps no answer."""
    for name in (*STATED, "choices", "response"):
        yield name, _attribute(error, name)
    answers = {name: _attribute(error, name) for name in ("body", "details", "error")}
    if isinstance(error, BaseException):
        if not any(isinstance(found, str | bytes | Mapping) and found for found in answers.values()):
            yield "message", _attribute(error, "message") or _text(error)
        yield "cause", error.__cause__
        yield "errors", _attribute(error, "exceptions")
    elif isinstance(_attribute(error, "status_code"), int):
        text = _attribute(error, "text")
        answers["body"] = text if isinstance(text, str) else _attribute(error, "content")
    yield from answers.items()


def _attribute(value: object, name: str) -> object:
    try:
        found: object = getattr(value, name, None)
    except BROKEN:
        return None
    return None if callable(found) else found


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BROKEN:
        return ""
