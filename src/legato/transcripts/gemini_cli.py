"""gemini-cli's chats: JSONL, or an older single JSON document. A call and its result stand in one record.

A later record of the same id takes the place of the earlier one; `$set` may replace all messages; `$rewindTo` takes
back what stands from that message on, and everything if there is no such message. Where the content has calls or
thoughts in it, all of the answer stands there, and `toolCalls` holds the results; these may come again as a record of
the user's. Commands and notices of the user's are not sent again. A file without its `sessionId` and `projectHash` is
not loaded. Sources: google-gemini/gemini-cli, packages/core/src/services/chatRecordingService.ts and
packages/core/src/utils/sessionUtils.ts, 2026.
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
SENT = ("user", "gemini")
NOT_SENT = ("/", "?", "<session_context>", "<hook_context>")
"""How the text of a user record starts that is not sent again."""
LOST = (
    "its line of metadata is lost, and without one gemini-cli does not load it; put one before all others:"
    ' {"sessionId":"…","projectHash":"…","startTime":"…","lastUpdated":"…"}'
)
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
        _read(source, records)
    thread = Thread("gemini")
    sent = [each for each in records.values() if _is_sent(each[1])]
    told = {ident for _, value, _ in sent if value["type"] == "user" for ident in _answered_in(value)}
    for item, value, derived in sent:
        thread.pieces += [replace(piece, derived=derived) for piece in _pieces(item, value, told)]
    yield thread


def _read(source: Source, records: Records) -> None:
    """The records of a file of lines, as they are at its end."""
    known: set[str] = set()
    for item, value in source.items():
        if not isinstance(value, dict):
            source.reject(item, "not an object")
            continue
        update = value.get("$set")
        known |= (update if isinstance(update, dict) else value).keys()
        if "$rewindTo" in value:
            _rewind(records, value["$rewindTo"])
        elif isinstance(update, dict) and "messages" in update:
            records.clear()
            _put(source, records, item, update["messages"], derived=True)
        elif "$set" not in value and "projectHash" not in value:
            _put(source, records, item, [value])
    if not {"sessionId", "projectHash"} <= known:
        source.give_up(1, LOST)


def _is_sent(value: Fields) -> bool:
    parts = _parts(value.get("content"))
    text = "".join(str(part.get("text") or "") for part in parts).strip()
    if value["type"] == "user":
        return not text.startswith(NOT_SENT) if text else any("text" not in part for part in parts)
    return bool(value["type"] == "gemini")


def _answered_in(value: Fields) -> Iterator[Json]:
    """The ids of the calls that a record of the user's brings the results of."""
    for part in _parts(value.get("content")):
        if isinstance(part.get("functionResponse"), dict):
            yield part["functionResponse"].get("id")


def _put(source: Source, records: Records, item: Item, values: Json, derived: bool = False) -> None:
    for number, value in enumerate(values if isinstance(values, list) else ()):
        if not isinstance(value, dict) or not isinstance(value.get("type"), str):
            if derived:
                source.note(item.line, "a record without a type", damage=True)
            else:
                source.reject(item, "a record without a type")
            continue
        if value["type"] not in (*SENT, *SHOWN):
            source.note(item.line, f"a record of the type {value['type']!r}")
        records[text_of(value.get("id")) or f"{item.line}:{number}"] = (item, value, derived)


def _rewind(records: Records, to: Json) -> None:
    ids = list(records)
    for each in ids[ids.index(to) :] if to in records else ids:
        del records[each]


def _pieces(item: Item, value: Fields, told: set[Json]) -> list[Piece]:
    """The model's content with its calls, then a content with their results that are not `told` elsewhere."""
    parts = _parts(value.get("content"))
    if value["type"] != "gemini":
        return [Piece({"role": "user", "parts": parts}, item)]
    calls = [call for call in value.get("toolCalls") or () if isinstance(call, dict)]
    said = _said(parts)
    if not any("functionCall" in part or part.get("thought") for part in said):
        said += [_call(call) for call in calls]
    answer = Answer(None, value.get("tokens"), text_of(value.get("model")), seconds(value.get("timestamp")))
    if not said:
        return [Piece(None, item, answer)]
    pieces = [Piece({"role": "model", "parts": said}, item, answer)]
    results = [part for call in calls if call.get("id") not in told for part in _results(call)]
    return [*pieces, Piece({"role": "user", "parts": results}, item)] if results else pieces


def _said(parts: list[Json]) -> list[Json]:
    return [part for part in parts if "text" not in part or part["text"]]


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
    had = _said(_parts(old.get("content")))
    if old.get("type") == "user":
        return {} if parts == had else {"content": parts}
    answers = {part["functionResponse"].get("id"): part for part in parts if "functionResponse" in part}
    calls = {part["functionCall"].get("id"): part["functionCall"] for part in parts if "functionCall" in part}
    inside = any("functionCall" in part for part in had)
    said = [part for part in parts if "functionResponse" not in part and (inside or "functionCall" not in part)]
    found: dict[str, Json] = {} if said == had else {"content": said}
    known = [call for call in old.get("toolCalls") or () if isinstance(call, dict) and call.get("id") in calls]
    new = [
        {**calls[each], "status": "cancelled", "timestamp": old.get("timestamp")}
        for each in answers
        if each in calls and each not in {call.get("id") for call in known}
    ]
    if "toolCalls" in old or new:
        found["toolCalls"] = [_answered(call, answers) for call in (*known, *new)]
    return found


def _answered(call: dict[str, Json], answers: dict[Json, Json]) -> Json:
    if _results(call) or call.get("id") not in answers:
        return call
    status = {"status": "cancelled"} if call.get("status") in PENDING else {}
    return {**call, "result": [answers[call["id"]]], **status}


def _record(wire: Json, neighbour: Json, seed: str) -> Json:
    return {"id": seed, "timestamp": neighbour.get("timestamp"), "type": "user", "content": wire.get("parts")}


READER = Reader("gemini-cli", "gemini-cli chat", sniff, threads, Writer(_record, fields=_fields, merged=True))
