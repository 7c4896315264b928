"""gemini-cli's chats: JSONL, or an older single JSON document. A call and its result stand in one record.

A later record of the same id takes the place of the earlier one; `$set` may replace all messages; `$rewindTo` takes
back what stands from that message on, and everything if there is no such message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from legato.messages import Fields, Json
from legato.transcripts.reader import Reader, Writer, objects
from legato.transcripts.recording import Answer, Item, Piece, Thread, seconds, text_of
from legato.transcripts.source import Source

SHOWN = ("info", "error", "warning")
"""Records that only the screen shows."""
Records: TypeAlias = "dict[str, tuple[Item, dict[str, Json], bool]]"
"""The records by id, each with where it stands, and whether it is only a part of what stands there."""
PENDING = ("validating", "scheduled", "executing", "awaiting_approval")


def sniff(_: Source, values: Sequence[Json]) -> bool:
    found = objects(values)
    records = (value for value in found if {"id", "timestamp", "content"} <= value.keys())
    return any("sessionId" in value and "projectHash" in value for value in found[:3]) or any(
        value.get("type") == "gemini" for value in records
    )


def threads(source: Source) -> Iterator[Thread]:
    records: Records = {}
    if source.is_document and isinstance(source.document, dict) and "messages" in source.document:
        _put(source, records, Item(1), source.document["messages"], derived=True)
    else:
        for item, value in source.items():
            if not isinstance(value, dict):
                source.reject(item, "not an object")
            elif "$rewindTo" in value:
                _rewind(records, value["$rewindTo"])
            elif isinstance(value.get("$set"), dict) and "messages" in value["$set"]:
                records.clear()
                _put(source, records, item, value["$set"]["messages"], derived=True)
            elif "$set" not in value and "projectHash" not in value:
                _put(source, records, item, [value])
    thread = Thread("gemini")
    for item, value, derived in records.values():
        if value["type"] not in SHOWN:
            thread.pieces += [replace(piece, derived=derived) for piece in _pieces(item, value)]
    yield thread


def _put(source: Source, records: Records, item: Item, values: Json, derived: bool = False) -> None:
    for number, value in enumerate(values if isinstance(values, list) else ()):
        if not isinstance(value, dict) or not isinstance(value.get("type"), str):
            if derived:
                source.note(item.line, "a record without a type", damage=True)
            else:
                source.reject(item, "a record without a type")
            continue
        records[text_of(value.get("id")) or f"{item.line}:{number}"] = (item, value, derived)


def _rewind(records: Records, to: Json) -> None:
    ids = list(records)
    for each in ids[ids.index(to) :] if to in records else ids:
        del records[each]


def _pieces(item: Item, value: Fields) -> list[Piece]:
    """The model's content with its calls, then a content with their results."""
    parts = _parts(value.get("content"))
    if value["type"] != "gemini":
        return [Piece({"role": "user", "parts": parts}, item)]
    calls = [call for call in value.get("toolCalls") or () if isinstance(call, dict)]
    said = [part for part in parts if "text" not in part or part["text"]] + [_call(call) for call in calls]
    answer = Answer(None, value.get("tokens"), text_of(value.get("model")), seconds(value.get("timestamp")))
    pieces = [Piece({"role": "model", "parts": said}, item, answer)]
    results = [part for call in calls for part in _results(call)]
    return [*pieces, Piece({"role": "user", "parts": results}, item)] if results else pieces


def _parts(content: Json) -> list[Json]:
    if isinstance(content, str):
        return [{"text": content}]
    if isinstance(content, dict):
        return [content]
    found = content if isinstance(content, list) else []
    return [{"text": part} if isinstance(part, str) else part for part in found if isinstance(part, str | dict)]


def _call(call: Fields) -> Json:
    arguments = call.get("args")
    return {"functionCall": {"id": call.get("id"), "name": call.get("name"), "args": arguments}}


def _results(call: Fields) -> list[Json]:
    result = call.get("result")
    if result is None or result == []:
        return []
    parts = _parts(result)
    if any("functionResponse" in part for part in parts):
        return parts
    text = "\n".join(str(part.get("text", "")) for part in parts)
    return [{"functionResponse": {"id": call.get("id"), "name": call.get("name"), "response": {"output": text}}}]


def _fields(wires: Json, old: Json) -> Fields:
    """The record's words for the contents it became: results go into their calls, calls that went are taken out."""
    parts = [part for wire in wires for part in wire.get("parts", ()) if isinstance(part, dict)]
    answers = {part["functionResponse"].get("id"): part for part in parts if "functionResponse" in part}
    kept = {part["functionCall"].get("id") for part in parts if "functionCall" in part}
    found: dict[str, Json] = {}
    if "toolCalls" in old:
        calls = [call for call in old["toolCalls"] or () if isinstance(call, dict) and call.get("id") in kept]
        found["toolCalls"] = [_answered(call, answers) for call in calls]
    said = [part for part in parts if "functionResponse" not in part and "functionCall" not in part]
    if said != [part for part in _parts(old.get("content")) if "text" not in part or part["text"]]:
        found["content"] = said
    return found


def _answered(call: dict[str, Json], answers: dict[Json, Json]) -> Json:
    if _results(call) or call.get("id") not in answers:
        return call
    status = {"status": "cancelled"} if call.get("status") in PENDING else {}
    return {**call, "result": [answers[call["id"]]], **status}


def _record(wire: Json, neighbour: Json, seed: str) -> Json:
    return {"id": seed, "timestamp": neighbour.get("timestamp"), "type": "user", "content": wire.get("parts")}


READER = Reader("gemini-cli", "gemini-cli chat", sniff, threads, Writer(_record, fields=_fields, merged=True))
