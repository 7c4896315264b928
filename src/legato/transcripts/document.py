"""The elements of a list in a JSON document, each with its line and where it stands in the text."""

from __future__ import annotations

from collections.abc import Iterator

from legato.errors import WireError
from legato.messages import Json
from legato.transcripts.recording import Item
from legato.transcripts.source import Source
from legato.transcripts.spans import children, locate


def elements(source: Source, path: tuple[str, ...]) -> Iterator[tuple[Item, Json]]:
    """The elements of the list at the path. Raises `WireError` where there is none."""
    text = source.text
    values = source.document
    for step in path:
        values = values.get(step) if isinstance(values, dict) else None
    at = locate(text, path)
    if not isinstance(values, list) or at is None:
        raise WireError(source.name, f"has no list under {'.'.join(path) or 'its root'}")
    line, place = 1, 0
    for span, value in zip(children(text, at), values, strict=True):
        line += text.count("\n", place, span.start)
        place = span.start
        yield Item(line, span.start, span.end), value
