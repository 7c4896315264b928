"""pi's sessions: JSONL, first a `session` line, then entries; from version 2 on a tree by `parentId`.

Its messages are Anthropic's under other names, and read as those: `toolCall`, `toolResult`, `thinkingSignature`. A
`compaction` starts the history anew: a summary, and what stands from `firstKeptEntryId` on. Where the conversation goes
on is the last entry of any type. A file that does not start with its `session` line is empty to pi, and written over
(badlogic/pi-mono, packages/coding-agent/src/core/session-manager.ts, 2026-03).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256

from legato.messages import Fields, Json
from legato.transcripts.reader import Reader, Writer, objects
from legato.transcripts.recording import Answer, Item, Piece, Thread, seconds, text_of
from legato.transcripts.source import Source
from legato.transcripts.tree import Node, Seen, adopt, paths

SPOKEN = ("message", "custom_message", "branch_summary", "compaction")
SILENT = ("session", "model_change", "thinking_level_change", "custom", "label", "session_info")
FAILED = ("error", "aborted")
"""How an answer stopped that is never sent again, with all that is in it."""
ID_LENGTH = 8
LOST = (
    "its session line is lost, and pi starts a file without one anew, over what is in it; put a line before all others:"
    ' {"type":"session","version":3,"id":"…","timestamp":"…","cwd":"…"}'
)


def sniff(_: Source, values: Sequence[Json]) -> bool:
    found = objects(values)
    if any(value.get("type") == "session" and "cwd" in value and "id" in value for value in found[:3]):
        return True
    messages = [value["message"] for value in found if value.get("type") == "message" and "message" in value]
    return any(
        isinstance(message, dict) and ("toolCallId" in message or "stopReason" in message) for message in messages
    )


def threads(source: Source) -> Iterator[Thread]:
    nodes: list[Node] = []
    seen = Seen()
    first: Json = None
    for item, value in source.items():
        first = value if first is None else first
        kind = value.get("type") if isinstance(value, dict) else None
        if kind not in SPOKEN:
            if not isinstance(kind, str):
                source.reject(item, "a line without a type")
            elif kind not in SILENT:
                source.note(item.line, f"a line of the type {kind!r}")
            if not isinstance(kind, str) or kind == "session":
                continue
        elif kind == "message" and not isinstance(value.get("message"), dict):
            source.reject(item, "a message line without a message")
            continue
        known = text_of(value.get("id"))
        if seen.again(source, item, known, value):
            continue
        nodes.append(Node(item, known, text_of(value.get("parentId")), kind in SPOKEN))
    adopt(source, nodes)
    if not isinstance(first, dict) or first.get("type") != "session" or not text_of(first.get("id")):
        source.give_up(1, LOST)
    found = paths([replace(node, says=True) for node in nodes])[-1:]
    shown = {at for path in found for at in path}
    left = sum(node.says for at, node in enumerate(nodes) if at not in shown)
    if left:
        source.note(None, f"{left:,} messages of other branches are left out")
    for path in found:
        yield from _history(source, [nodes[at] for at in path])


def _history(source: Source, path: list[Node]) -> Iterator[Thread]:
    thread = Thread("anthropic")
    said: list[list[Piece]] = []
    for node in path:
        value = source.load(node.item) if node.says else {}
        if value.get("type") == "compaction":
            yield Thread(thread.format, list(thread.pieces), {}, "before", over=True)
            first = _first_kept(value, path)
            if first is None and value.get("firstKeptEntryId") is not None:
                source.note(node.item.line, f"the first entry it keeps is nowhere: {value['firstKeptEntryId']}")
            kept = [] if first is None else [piece for pieces in said[first:] for piece in pieces]
            summary = Piece(_user(value.get("summary")), node.item, derived=True)
            thread.pieces = [summary, *(replace(piece, answer=None) for piece in kept)]
            said.append([])
        else:
            said.append(_pieces(node.item, value) if node.says else [])
            thread.pieces += said[-1]
    yield thread


def _first_kept(value: Fields, path: list[Node]) -> int | None:
    """Where on the path the first entry stands that a compaction keeps. Version 1 counts them, the first line too."""
    first, index = value.get("firstKeptEntryId"), value.get("firstKeptEntryIndex")
    if first is None:
        return index - 1 if isinstance(index, int) else None
    return next((at for at, node in enumerate(path) if node.id == first), None)


def _pieces(item: Item, value: Fields) -> list[Piece]:
    if value["type"] == "branch_summary":
        return [Piece(_user(value["summary"]), item, derived=True)] if value.get("summary") else []
    message = value["message"] if value["type"] == "message" else {"role": "user", "content": value.get("content")}
    wire = to_wire(message)
    time = seconds(message.get("timestamp") or value.get("timestamp"))
    answer = Answer(None, message.get("usage"), text_of(message.get("model")), time)
    if message.get("role") == "assistant" and message.get("stopReason") in FAILED:
        return [Piece(None, item, answer)]
    if wire is None:
        return []
    native = value["type"] == "message" and message.get("role") in ("user", "assistant", "toolResult")
    return [Piece(wire, item, answer if wire["role"] == "assistant" else None, derived=not native)]


def to_wire(message: Fields) -> dict[str, Json] | None:
    """A message of pi's as one of Anthropic's; None if it is not sent."""
    role, content = message.get("role"), message.get("content")
    blocks = [_block(block) for block in content] if isinstance(content, list) else content
    if role == "toolResult":
        result = {"type": "tool_result", "tool_use_id": message.get("toolCallId"), "content": blocks}
        return {"role": "user", "content": [{**result, **({"is_error": True} if message.get("isError") else {})}]}
    if role == "bashExecution":
        return (
            None if message.get("excludeFromContext") else _user(f"$ {message.get('command')}\n{message.get('output')}")
        )
    if role not in ("user", "assistant"):
        return _user(str(message.get("summary"))) if text_of(message.get("summary")) else None
    return {"role": role, "content": blocks if blocks is not None else ""}


def _user(text: Json) -> dict[str, Json]:
    return {"role": "user", "content": text if isinstance(text, str) else str(text)}


def _block(block: Json) -> Json:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "toolCall":
        return {"type": "tool_use", "id": block.get("id"), "name": block.get("name"), "input": block.get("arguments")}
    if kind == "thinking":
        signature = block.get("thinkingSignature")
        signed = {"signature": signature} if isinstance(signature, str) and signature else {}
        return {"type": "thinking", "thinking": block.get("thinking"), **signed}
    if kind == "image" and "data" in block:
        source = {"type": "base64", "media_type": block.get("mimeType"), "data": block["data"]}
        return {"type": "image", "source": source}
    return {"type": "text", "text": block.get("text")} if kind == "text" else block


def _fields(wire: Json, old: Json) -> Fields:
    """A wire message in pi's words: the blocks that were not changed are those it had."""
    had = old.get("content") if isinstance(old.get("content"), list) else []
    content = wire["content"]
    if old.get("role") == "toolResult":
        result = content[0]
        inner = result.get("content")
        blocks = [_native(block, had) for block in inner] if isinstance(inner, list) else _texts(inner)
        flag = {"isError": result.get("is_error") is True} if "isError" in old else {}
        return {"toolCallId": result.get("tool_use_id"), "content": blocks, **flag}
    return {"content": [_native(block, had) for block in content] if isinstance(content, list) else content}


def _native(block: Json, had: Sequence[Json]) -> Json:
    for old in had:
        if _block(old) == block:
            return old
    kind = block.get("type")
    if kind == "tool_use":
        return {"type": "toolCall", "id": block.get("id"), "name": block.get("name"), "arguments": block.get("input")}
    if kind == "thinking":
        signed = {"thinkingSignature": block["signature"]} if "signature" in block else {}
        return {"type": "thinking", "thinking": block.get("thinking"), **signed}
    return block


def _texts(text: Json) -> list[Json]:
    return [{"type": "text", "text": text}] if isinstance(text, str) else []


def _record(wire: Json, neighbour: Json, seed: str) -> Json:
    """An entry as pi would write it, beside its neighbour."""
    near = neighbour.get("message") if isinstance(neighbour.get("message"), dict) else {}
    time = {"timestamp": near["timestamp"]} if "timestamp" in near else {}
    content = wire["content"]
    result = content[0] if isinstance(content, list) and content else {}
    if isinstance(result, dict) and result.get("type") == "tool_result":
        calls = [block for block in near.get("content") or () if isinstance(block, dict)]
        name = next((call.get("name") for call in calls if call.get("id") == result.get("tool_use_id")), None)
        message = {"role": "toolResult", "toolCallId": result.get("tool_use_id"), "toolName": name or "unknown"}
        inner = result.get("content")
        message["content"] = [_native(block, ()) for block in inner] if isinstance(inner, list) else _texts(inner)
        message["isError"] = result.get("is_error") is True
    else:
        message = {"role": wire["role"], **_fields(wire, {})}
    entry = {"type": "message", "timestamp": neighbour.get("timestamp"), "message": {**message, **time}}
    known = {"id": _id(seed)} if "id" in neighbour else {}
    return {**entry, **known, **({"parentId": None} if "parentId" in neighbour else {})}


def _id(seed: str) -> str:
    return sha256(seed.encode()).hexdigest()[:ID_LENGTH]


WRITER = Writer(_record, ("message",), _fields, ("id", "parentId"), _id, keeps="firstKeptEntryId")
READER = Reader("pi", "pi session", sniff, threads, WRITER)
