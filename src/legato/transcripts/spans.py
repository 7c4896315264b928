"""Where the values of a JSON text stand in it, so that one can be replaced and all others stay as they were written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from legato.messages import Json

DECODER = json.JSONDecoder()
SPACE = re.compile(r"[ \t\n\r]*")


@dataclass(frozen=True, slots=True)
class Span:
    """A value of a container: its key or index, and where it stands. `member` is where its key starts, in an object."""

    key: str | int
    member: int
    start: int
    end: int


def skip(text: str, at: int) -> int:
    """The first place from there that is not blank."""
    found = SPACE.match(text, at)
    assert found is not None
    return found.end()


def children(text: str, start: int) -> Iterator[Span]:
    """The values of the object or list that starts there, which must be sound JSON."""
    closing, keyed = ("}", True) if text[start] == "{" else ("]", False)
    at = skip(text, start + 1)
    index = 0
    while text[at] != closing:
        member = at
        key: str | int = index
        if keyed:
            key, at = DECODER.raw_decode(text, at)
            at = skip(text, skip(text, at) + 1)
        _, end = DECODER.raw_decode(text, at)
        yield Span(key, member, at, end)
        index += 1
        at = skip(text, end)
        if text[at] == ",":
            at = skip(text, at + 1)


def locate(text: str, path: Iterable[str | int], start: int = 0) -> int | None:
    """Where the value at the path starts; None if there is none. Of a key that comes twice the last one counts."""
    at = skip(text, start)
    for step in path:
        if text[at] not in "{[":
            return None
        found = None
        for span in children(text, at):
            if span.key == step:
                found = span.start
        if found is None:
            return None
        at = found
    return at


def spliced(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """The text with each stretch `start:end` replaced. The stretches do not overlap."""
    parts: list[str] = []
    at = 0
    for start, end, new in sorted(edits, key=lambda edit: edit[:2]):
        parts += (text[at:start], new)
        at = end
    return "".join((*parts, text[at:]))


def with_fields(text: str, path: Iterable[str | int], old: dict[str, Json], new: dict[str, Json]) -> str:
    """The text with the fields of one object changed as `old` became `new`; every other byte of it stays.

    A field that is in neither is not touched.
    """
    at = locate(text, path)
    assert at is not None
    tight = is_tight(text)
    spans = list({span.key: span for span in children(text, at)}.values())
    edits: list[tuple[int, int, str]] = []
    gone = [key for key in old if key not in new]
    for index, span in enumerate(spans):
        if span.key in gone:
            edits.append(_cut(spans, index, gone))
        elif span.key in new and (span.key not in old or not same(old[str(span.key)], new[str(span.key)])):
            edits.append((span.start, span.end, dumped(new[str(span.key)], tight=tight)))
    known = {span.key for span in spans}
    colon, comma = (":", ",") if tight else (": ", ", ")
    added = [f"{dumped(key)}{colon}{dumped(value, tight=tight)}" for key, value in new.items() if key not in known]
    if added:
        kept = [span for span in spans if span.key not in gone]
        place = kept[-1].end if kept else at + 1
        edits.append((place, place, (comma if kept else "") + comma.join(added)))
    return spliced(text, [edit for edit in edits if edit[0] < edit[1] or edit[2]])


def _cut(spans: list[Span], index: int, gone: list[str]) -> tuple[int, int, str]:
    """Take a member out, with the comma that is no longer needed."""
    if any(span.key not in gone for span in spans[:index]):
        return spans[index - 1].end, spans[index].end, ""
    end = spans[index + 1].member if index + 1 < len(spans) else spans[index].end
    return spans[index].member, end, ""


def same(one: Json, other: Json) -> bool:
    """Whether two values are written alike: 1, 1.0 and true are not."""
    return one is other or dumped(one) == dumped(other)


def is_tight(text: str) -> bool:
    """Whether a JSON text is written without blanks."""
    colon = text.find('":')
    return colon >= 0 and text[colon + 2 : colon + 3] not in (" ", "\n")


def dumped(value: Json, indent: int | None = None, tight: bool = False) -> str:
    """JSON text, half a surrogate pair as the escape that stands for it. `tight`: without blanks."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=(",", ":") if tight else None)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
