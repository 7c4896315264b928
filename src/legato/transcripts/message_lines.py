"""JSONL with one message on each line, of any wire format. Roles that start with `_` are an agent's own records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from legato import wire
from legato.messages import Json
from legato.transcripts.reader import Reader, Writer, objects
from legato.transcripts.recording import Answer, Piece, Thread, seconds, text_of
from legato.transcripts.source import Source

INSIDE = ("content", "parts", "tool_calls")
ANSWERS = ("assistant", "model")
TIMES = ("timestamp", "ts", "time", "created_at")


def sniff(source: Source, values: Sequence[Json]) -> bool:
    if source.is_document and isinstance(source.document, list):
        return False
    found = [value for value in objects(values) if not str(value.get("role", "")).startswith("_")]
    messages = [value for value in found if isinstance(value.get("role"), str) and any(key in value for key in INSIDE)]
    return len(messages) > 1 and len(messages) == len(found)


def threads(source: Source) -> Iterator[Thread]:
    thread = Thread("openai-chat")
    for item, value in source.items():
        role = value.get("role") if isinstance(value, dict) else None
        if not isinstance(role, str):
            source.reject(item, "a line that is no message")
        elif not role.startswith("_"):
            time = next((value[key] for key in TIMES if key in value), None)
            answer = Answer(None, value.get("usage"), text_of(value.get("model")), seconds(time))
            message = {key: inner for key, inner in value.items() if key not in (*TIMES, "id", "usage", "model")}
            thread.pieces.append(Piece(message, item, answer if role in ANSWERS else None))
    thread.format = wire.sniff([piece.message for piece in thread.pieces])
    yield thread


def _record(message: Json, neighbour: Json, _: str) -> Json:
    return {**message, **{key: neighbour[key] for key in TIMES if key in neighbour}}


READER = Reader("message-lines", "messages, one a line", sniff, threads, Writer(_record))
