"""mini-swe-agent's trajectories: one JSON document with `messages` of OpenAI Chat, each with an `extra` of its own.

The role `exit` ends a run and is never sent. With a model of the Responses API an answer stands there as the whole
`response`, whose `output` is sent, and results as `function_call_output` (SWE-agent/mini-swe-agent, models/, 2026).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from legato.messages import Fields, Json
from legato.transcripts.document import elements
from legato.transcripts.reader import Reader, Writer, fields, objects
from legato.transcripts.recording import Answer, Piece, Thread, expect, seconds, text_of
from legato.transcripts.source import Source

OWN = ("extra", "timestamp")
"""Fields of a message that are not sent."""
EXIT = "exit"
RESPONSE = "response"


def sniff(_: Source, values: Sequence[Json]) -> bool:
    return any(str(value.get("trajectory_format", "")).startswith("mini-swe-agent") for value in objects(values)[:1])


def sniff_responses(source: Source, values: Sequence[Json]) -> bool:
    messages = fields(values[0]).get("messages") if sniff(source, values) else None
    return isinstance(messages, list) and any(message.get("object") == RESPONSE for message in objects(messages))


def responses(source: Source) -> Iterator[Thread]:
    thread = Thread("openai-responses")
    for item, value in elements(source, ("messages",)):
        message = expect(value, dict, f"{source.name}:{item.line}")
        if message.get("object") == RESPONSE:
            time = seconds(fields(message.get("extra")).get("timestamp") or message.get("created_at"))
            answer = Answer(str(item.start), message.get("usage"), text_of(message.get("model")), time)
            thread.pieces += [Piece(each, item, answer) for each in objects(message.get("output") or ())]
        elif message.get("role") != EXIT:
            thread.pieces.append(Piece({key: inner for key, inner in message.items() if key not in OWN}, item))
    yield thread


def threads(source: Source) -> Iterator[Thread]:
    thread = Thread("openai-chat")
    for item, value in elements(source, ("messages",)):
        message = expect(value, dict, f"{source.name}:{item.line}")
        if message.get("role") != EXIT:
            answer = _answer(message) if message.get("role") == "assistant" else None
            wire = {key: inner for key, inner in message.items() if key not in OWN}
            thread.pieces.append(Piece(wire, item, answer))
    yield thread


def _answer(message: Fields) -> Answer:
    extra = fields(message.get("extra"))
    response = fields(extra.get("response"))
    time = seconds(extra.get("timestamp") or message.get("timestamp"))
    return Answer(None, response.get("usage"), text_of(response.get("model")), time)


def _record(wire: Json, neighbour: Json, _: str) -> Json:
    return {**wire, **({"timestamp": neighbour["timestamp"]} if "timestamp" in neighbour else {})}


READER = Reader("mini-swe-agent", "mini-swe-agent trajectory", sniff, threads, Writer(_record, container=("messages",)))
RESPONSES = Reader(
    "mini-swe-agent-responses",
    "mini-swe-agent trajectory",
    sniff_responses,
    responses,
    why_not="an answer of several items is one record",
)
