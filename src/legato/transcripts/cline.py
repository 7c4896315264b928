"""Cline's and Roo's conversations: the `messages` of a session document, or an older bare list, in Anthropic's shape.

A `file` block is the text of a file that the user named. Results may be lists of objects: they are sent as their JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from legato.messages import Fields, Json
from legato.transcripts.document import elements
from legato.transcripts.reader import Reader, Writer, fields, objects
from legato.transcripts.recording import Answer, Piece, Thread, expect, seconds, text_of
from legato.transcripts.source import Source
from legato.transcripts.spans import dumped

SENT = ("role", "content")
BLOCKS = ("text", "image", "document")
TIME = "ts"


def sniff(_: Source, values: Sequence[Json]) -> bool:
    messages = [
        message for value in objects(values)[:1] for message in _messages(value)[:5] if isinstance(message, dict)
    ]
    return bool(messages) and all(TIME in message and "role" in message for message in messages)


def sniff_list(_: Source, values: Sequence[Json]) -> bool:
    first = values[0] if len(values) == 1 and isinstance(values[0], list) else []
    return bool(first) and all(isinstance(each, dict) and TIME in each and "role" in each for each in first[:5])


def _messages(value: Fields) -> list[Json]:
    found = value.get("messages") if "sessionId" in value or "system_prompt" in value else None
    return found if isinstance(found, list) else []


def threads(source: Source) -> Iterator[Thread]:
    whole = source.document
    system = whole.get("system_prompt") if isinstance(whole, dict) else None
    thread = Thread("anthropic", head={"system": system} if text_of(system) else {})
    for item, value in elements(source, ("messages",) if isinstance(whole, dict) else ()):
        message = expect(value, dict, f"{source.name}:{item.line}")
        content = message.get("content")
        blocks = [_block(block) for block in content] if isinstance(content, list) else content
        wire = {"role": message.get("role"), "content": blocks}
        thread.pieces.append(Piece(wire, item, _answer(message) if message.get("role") == "assistant" else None))
    yield thread


def _answer(message: Fields) -> Answer:
    info = fields(message.get("modelInfo"))
    return Answer(None, message.get("metrics"), text_of(info.get("id")), seconds(message.get(TIME)))


def _block(block: Json) -> Json:
    if not isinstance(block, dict):
        return block
    if block.get("type") == "file":
        return {"type": "text", "text": f"{block.get('path')}:\n{block.get('content')}"}
    content = block.get("content")
    if block.get("type") == "tool_result":
        plain = {key: value for key, value in block.items() if key not in ("name", TIME)}
        fits = not isinstance(content, list) or all(
            isinstance(each, dict) and each.get("type") in BLOCKS for each in content
        )
        return plain if fits else {**plain, "content": dumped(content)}
    return block


def _fields(wire: Json, old: Json) -> Fields:
    """The message's fields, its blocks as they were where they are still the same."""
    had = old.get("content") if isinstance(old.get("content"), list) else []
    content = wire.get("content")
    if isinstance(content, list):
        content = [next((each for each in had if _block(each) == block), block) for block in content]
    return {**wire, "content": content}


def _record(wire: Json, neighbour: Json, _: str) -> Json:
    return {**wire, **({TIME: neighbour[TIME]} if TIME in neighbour else {})}


READER = Reader(
    "cline",
    "Cline session",
    sniff,
    threads,
    why_not="a compaction kept beside it is bound to its messages by a hash",
)
LIST = Reader(
    "cline-history", "Cline or Roo history", sniff_list, threads, Writer(_record, fields=_fields, container=())
)
