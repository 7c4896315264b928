"""Cutting long texts in the middle, the last resort.

`cutting` says what of a text stays. The longest texts go down to one common length, kind by kind: tool results, then
string values of tool-call arguments, then unsigned assistant texts, then user texts. System messages and signed
reasoning are never cut.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import msgspec

from legato.edits import Edit, Request
from legato.fit.cutting import MARKER_TOKENS, Count, cut
from legato.messages import Json, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult, changed
from legato.rules.violation import Rule

LONG = Rule("SIZE003", "text-over-budget", "A text that has to stay is longer than the budget allows.")

DEEPEST = 64
"""Strings of arguments that are nested deeper are left alone."""

LEAST = (0, 0, 0, 16)
"""What each kind of text keeps at least, in tokens: a task that is nothing but a marker is no task.

Kinds: tool results, arguments, assistant texts, user texts.
"""

Path = tuple[int | str, ...]


class Leaf(msgspec.Struct, frozen=True):
    """A text that may be cut: its message, its kind (the lower the sooner it is cut), its place there, its tokens."""

    at: int
    kind: int
    path: Path
    text: str
    tokens: int


def leaves(request: Request, count: Count) -> list[Leaf]:
    """Every text that may be cut."""
    found: list[Leaf] = []
    for at, message in enumerate(request.transcript):
        if not message.is_system:
            found.extend(Leaf(at, kind, path, text, count(text)) for kind, path, text in _texts(message))
    return found


def plan(request: Request, over: int, count: Count, keep: Callable[[str], str] | None = None) -> list[Edit]:
    """Edits that save at least `over` tokens if cutting texts can; else all it can.

    `keep` keeps the whole of a text that is cut; the reason then names the handle.
    """
    chosen: dict[int, dict[Path, str]] = {}
    kept: dict[int, list[str]] = {}
    found = leaves(request, count)
    for kind, least in enumerate(LEAST):
        if over <= 0:
            break
        of_kind = [leaf for leaf in found if leaf.kind == kind and leaf.tokens > MARKER_TOKENS]
        length = max(least, _length([leaf.tokens for leaf in of_kind], over))
        for leaf in of_kind:
            if leaf.tokens > length + MARKER_TOKENS:
                text = cut(leaf.text, length, count)
                saved = leaf.tokens - count(text)
                if saved <= 0:
                    continue
                over -= saved
                chosen.setdefault(leaf.at, {})[leaf.path] = text
                if keep is not None:
                    kept.setdefault(leaf.at, []).append(keep(leaf.text))
    return [_edit(request.transcript[at], at, texts, kept.get(at, [])) for at, texts in chosen.items()]


def _length(sizes: list[int], over: int) -> int:
    """The common length, as great as can be, to which texts of these sizes must come down to save so many tokens."""
    low, high = 0, max(sizes, default=0)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(max(0, size - middle - MARKER_TOKENS) for size in sizes) >= over:
            low = middle
        else:
            high = middle - 1
    return low


def _texts(message: Message) -> Iterator[tuple[int, Path, str]]:
    for i, part in enumerate(message.parts):
        match part:
            case ToolResult():
                for j, inner in enumerate(part.parts):
                    if isinstance(inner, Text):
                        yield 0, (i, j), inner.text
                    elif isinstance(inner, Opaque) and _is_value(inner.raw):
                        yield from ((0, (i, j, *path), text) for path, text in _strings(inner.raw))
            case ToolCall(arguments=str()) if _is_plain(part):
                yield 1, (i,), part.arguments
            case ToolCall():
                for path, text in _strings(_parsed(part.arguments)):
                    yield 1, (i, *path), text
            case Text():
                yield 2 if message.role == "assistant" else 3, (i,), part.text
            case Reasoning(signature=None) if part.text and (part.raw is None or isinstance(part.raw, str)):
                yield 2, (i,), part.text


def _is_value(value: Json) -> bool:
    """Whether a result's part is plain JSON (an object of Gemini's, the outputs of a shell), not a typed block."""
    items = value if isinstance(value, list) else [value]
    return all(isinstance(item, dict) and "type" not in item for item in items)


def _is_plain(call: ToolCall) -> bool:
    """Whether the arguments are a text that is no JSON, and may be cut like any other."""
    return call.free or (isinstance(call.arguments, str) and _parsed(call.arguments) is None)


def _parsed(arguments: Json) -> Json:
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return None


def _strings(value: Json) -> Iterator[tuple[Path, str]]:
    """The string leaves of a JSON value with their paths. Walked without recursion: the value may be nested deeply."""
    todo: list[tuple[Path, Json]] = [((), value)]
    while todo:
        path, here = todo.pop()
        if isinstance(here, str):
            yield path, here
        elif len(path) == DEEPEST:
            continue
        elif isinstance(here, dict):
            todo.extend(((*path, key), inner) for key, inner in here.items())
        elif isinstance(here, list):
            todo.extend(((*path, at), inner) for at, inner in enumerate(here))


def _edit(message: Message, at: int, texts: dict[Path, str], handles: list[str]) -> Edit:
    parts: list[Part] = list(message.parts)
    for place in dict.fromkeys(path[0] for path in texts):
        assert isinstance(place, int)
        inside = {path[1:]: text for path, text in texts.items() if path[0] == place}
        parts[place] = _replaced(parts[place], inside)
    reason = "a text was cut in the middle to fit the budget"
    if handles:
        reason += f"; the whole of it is kept as {', '.join(handles)}"
    return Edit(at, (changed(message, parts=tuple(parts)),), LONG.code, reason)


def _replaced(part: Part, texts: dict[Path, str]) -> Part:
    match part:
        case ToolResult():
            inner = list(part.parts)
            for place in dict.fromkeys(path[0] for path in texts):
                assert isinstance(place, int)
                old, new = inner[place], {path[1:]: text for path, text in texts.items() if path[0] == place}
                inner[place] = Opaque(_with(old.raw, new)) if isinstance(old, Opaque) else _replaced(old, new)
            return changed(part, parts=tuple(inner))
        case ToolCall() if _is_plain(part):
            return changed(part, arguments=texts[()])
        case ToolCall():
            value = _with(_parsed(part.arguments), texts)
            return changed(
                part, arguments=json.dumps(value, ensure_ascii=False) if isinstance(part.arguments, str) else value
            )
        case Text() | Reasoning():
            return changed(part, text=texts[()])
    raise AssertionError(part)


def _with(value: Json, texts: dict[Path, str]) -> Json:
    """A copy of the JSON value with these texts at their paths."""
    if () in texts:
        return texts[()]
    copy = json.loads(json.dumps(value))
    for path, text in texts.items():
        here = copy
        for key in path[:-1]:
            here = here[key]
        here[path[-1]] = text
    return copy
