"""Claude Code's sessions: JSONL, a message or a part of one on each line, a tree by `parentUuid`.

One answer is split over lines that share `message.id`, each repeating its usage; parallel calls and their results are
lines of their own, chained or side by side, and Claude Code puts them together again when it resumes
(anthropics/claude-code, issue 31330). A compaction starts a new root. Left out are lines of sub-agents (`isSidechain`)
unless there are no others, notices of failed requests, and what only the transcript shows. `isMeta` lines are sent, so
they are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import NAMESPACE_URL, uuid5

from legato.messages import Json
from legato.transcripts.reader import Reader, Writer, objects
from legato.transcripts.recording import Answer, Item, Piece, Thread, seconds, text_of
from legato.transcripts.source import Source
from legato.transcripts.tree import Node, Seen, adopt, paths, with_results

KINDS = ("user", "assistant")
KNOWN = (*KINDS, "system", "summary", "file-history-snapshot", "queue-operation", "progress", "attachment")
HIDDEN = ("isApiErrorMessage", "isVisibleInTranscriptOnly")
"""Flags of lines that are never sent."""
BARE = ("uuid", "sessionId", "timestamp")
"""A message line has at least two of these."""
OF_MESSAGE = ("message", "toolUseResult", "requestId", "sourceToolAssistantUUID", "thinkingMetadata", "todos", "error")
"""Fields that belong to one line, so that a new one does not take them over."""


def sniff(_: Source, values: Sequence[Json]) -> bool:
    found = objects(values)
    lines = [value for value in found if value.get("type") in KINDS and isinstance(value.get("message"), dict)]
    if lines:
        return all(sum(key in value for key in BARE) > 1 for value in lines[:3])
    return any(
        {"uuid", "parentUuid"} <= value.keys() or "leafUuid" in value or ("messageId" in value and "snapshot" in value)
        for value in found
    )


def threads(source: Source) -> Iterator[Thread]:
    nodes: list[Node] = []
    sides: list[bool] = []
    sessions: list[str | None] = []
    seen = Seen()
    aside = 0
    for item, value in source.items():
        problem = _fault(value)
        if problem:
            broken = isinstance(value, dict) and value.get("type") in KINDS
            if broken:
                source.reject(item, problem)
            else:
                source.note(item.line, problem)
        if problem or not text_of(value.get("uuid")):
            continue
        says = value["type"] in KINDS and not any(value.get(flag) for flag in HIDDEN)
        if seen.again(source, item, value["uuid"], value):
            continue
        nodes.append(_node(item, value, says))
        sides.append(value.get("isSidechain") is True)
        sessions.append(value.get("sessionId"))
    if not all(sides):
        aside = sum(sides)
        keep = [at for at, side in enumerate(sides) if not side]
        nodes, sessions = [nodes[at] for at in keep], [sessions[at] for at in keep]
    if aside:
        source.note(None, f"{aside:,} lines of sub-agents are left out")
    adopt(source, nodes)
    yield from _threads(source, nodes, sessions)


def _fault(value: Json) -> str:
    """Why a line is not read; nothing if it is."""
    if not isinstance(value, dict):
        return "not an object"
    kind = value.get("type")
    if kind not in KNOWN and not value.get("uuid"):
        return f"a line of the type {kind!r}"
    if kind in KINDS:
        message = value.get("message")
        if not isinstance(message, dict) or not isinstance(message.get("content"), str | list):
            return f"a line of the type {kind!r} without a message"
    return "" if isinstance(kind, str) else "a line without a type"


def _node(item: Item, value: dict[str, Json], says: bool) -> Node:
    content = value["message"]["content"] if says else ()
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    calls = tuple(str(block.get("id")) for block in blocks if block.get("type") == "tool_use")
    answers = tuple(str(block.get("tool_use_id")) for block in blocks if block.get("type") == "tool_result")
    part = text_of(value["message"].get("id")) if says and value["type"] == "assistant" else None
    return Node(item, value["uuid"], text_of(value.get("parentUuid")), says, calls, answers, part)


def _threads(source: Source, nodes: list[Node], sessions: list[str | None]) -> Iterator[Thread]:
    found = paths(nodes)
    shown = {at for path in found for at in path}
    left = sum(node.says for at, node in enumerate(nodes) if at not in shown)
    for number, path in enumerate(found):
        again = any(sessions[other[0]] == sessions[path[0]] for other in found[number + 1 :])
        live = with_results(nodes, path)
        left -= len(live) - len(path)
        thread = Thread("anthropic", label=str(sessions[path[-1]]) if len(found) > 1 else "", over=again)
        for at in live:
            if nodes[at].says:
                thread.pieces.append(_piece(nodes[at].item, source.load(nodes[at].item)))
        if path is found[-1] and left:
            source.note(None, f"{left:,} messages of other branches are left out")
        yield thread


def _piece(item: Item, value: dict[str, Json]) -> Piece:
    message = value["message"]
    wire = {"role": value["type"], "content": message["content"]}
    if value["type"] == "user":
        return Piece(wire, item)
    known = text_of(message.get("id")) or text_of(value.get("requestId"))
    answer = Answer(known, message.get("usage"), text_of(message.get("model")), seconds(value.get("timestamp")))
    return Piece(wire, item, answer)


def _record(wire: Json, neighbour: Json, seed: str) -> Json:
    """A line as Claude Code would write it, beside its neighbour."""
    shared = {key: value for key, value in neighbour.items() if key not in OF_MESSAGE}
    return {**shared, "type": wire["role"], "message": wire, "uuid": _id(seed)}


def _id(seed: str) -> str:
    return str(uuid5(NAMESPACE_URL, seed))


READER = Reader(
    "claude-code",
    "Claude Code session",
    sniff,
    threads,
    Writer(_record, ("message",), lambda wire, _: {"content": wire["content"]}, ("uuid", "parentUuid"), _id),
)
