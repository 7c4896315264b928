"""SWE-agent's trajectories: one JSON document with `trajectory` (steps) and `history` (messages of OpenAI Chat)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from legato.messages import Fields, Json
from legato.transcripts.document import elements
from legato.transcripts.reader import Reader, objects
from legato.transcripts.recording import Answer, Piece, Thread, expect
from legato.transcripts.source import Source

SENT = ("role", "content", "tool_calls", "thinking_blocks")


def sniff(_: Source, values: Sequence[Json]) -> bool:
    return any(isinstance(value.get("history"), list) and "trajectory" in value for value in objects(values)[:1])


def threads(source: Source) -> Iterator[Thread]:
    thread = Thread("openai-chat")
    for item, value in elements(source, ("history",)):
        message = expect(value, dict, f"{source.name}:{item.line}")
        thread.pieces.append(Piece(_wire(message), item, Answer() if message.get("role") == "assistant" else None))
    yield thread


def _wire(message: Fields) -> dict[str, Json]:
    found = {key: value for key, value in message.items() if key in SENT and value is not None}
    ids = message.get("tool_call_ids")
    if message.get("role") == "tool" and isinstance(ids, list) and len(ids) == 1:
        found["tool_call_id"] = ids[0]
    return found


READER = Reader(
    "swe-agent",
    "SWE-agent trajectory",
    sniff,
    threads,
    why_not="its steps stand beside its messages, and both would have to change together",
)
