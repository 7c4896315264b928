"""nanobot's sessions: JSONL, first a line of metadata, then a message of OpenAI Chat on each line.

`last_consolidated` of the metadata counts messages from the start: whoever takes one out before it has to lower it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from legato.messages import Fields, Json
from legato.transcripts.reader import Reader, Writer, objects
from legato.transcripts.recording import Answer, Piece, Thread, seconds, text_of
from legato.transcripts.source import Source

MARK = "_type"
OWN = ("role", "content", "tool_calls", "tool_call_id", "name", "reasoning_content", "function_call")
"""The fields of a line that are sent."""


def sniff(_: Source, values: Sequence[Json]) -> bool:
    return any(value.get(MARK) == "metadata" for value in objects(values)[:3])


def threads(source: Source) -> Iterator[Thread]:
    thread = Thread("openai-chat")
    for item, value in source.items():
        if not isinstance(value, dict):
            source.reject(item, "not an object")
        elif MARK not in value:
            if not isinstance(value.get("role"), str):
                source.reject(item, "a message without a role")
                continue
            known = value.get("usage")
            about = Answer(None, known, text_of(value.get("model")), seconds(value.get("timestamp")))
            thread.pieces.append(Piece(sent(value), item, about if value["role"] == "assistant" else None))
        elif value[MARK] not in ("metadata", "provider_state"):
            source.note(item.line, f"a line of the type {value[MARK]!r}")
    yield thread


def sent(value: Fields) -> dict[str, Json]:
    """The fields of a message that are sent."""
    return {key: inner for key, inner in value.items() if key in OWN}


def _record(wire: Json, neighbour: Json, _: str) -> Json:
    return {**wire, **({"timestamp": neighbour["timestamp"]} if "timestamp" in neighbour else {})}


READER = Reader("nanobot", "nanobot session", sniff, threads, Writer(_record, counter="last_consolidated"))
