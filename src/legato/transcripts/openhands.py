"""OpenHands' events, of both generations, as OpenAI Chat.

The newer ones are a folder with `events/event-*.json`, an event a file, told apart by `kind`: all actions with the same
`llm_response_id` are one answer, and a `Condensation` forgets events. The older ones are a list of events with `action`
or `observation`, also under `history` or `events` of an object, and keep the model's own answer in their metadata.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from legato.errors import WireError
from legato.messages import Fields, Json
from legato.transcripts import files
from legato.transcripts.reader import Reader, fields, objects
from legato.transcripts.recording import Answer, Item, Piece, Thread, seconds, text_of
from legato.transcripts.source import Source

FOLDER = "events"
LISTS = ("history", "events")
KINDS = ("ActionEvent", "ObservationEvent", "MessageEvent", "SystemPromptEvent", "AgentErrorEvent", "Condensation")
OUTCOMES = ("ObservationEvent", "UserRejectObservation", "AgentErrorEvent")


def sniff(source: Source, values: Sequence[Json]) -> bool:
    if source.folder:
        return os.path.isdir(os.path.join(source.name, FOLDER))
    found = [event for value in values[:3] for event in _events(value)[:5]]
    return any(_is_event(event) for event in objects(found))


def _events(value: Json) -> list[Json]:
    if isinstance(value, dict):
        inner = next((value[key] for key in LISTS if isinstance(value.get(key), list)), None)
        return [value] if inner is None else inner
    return value if isinstance(value, list) else []


def _is_event(event: Fields) -> bool:
    old = "source" in event and ("action" in event or "observation" in event) and "timestamp" in event
    return old or (event.get("kind") in KINDS and "source" in event)


def threads(source: Source) -> Iterator[Thread]:
    if source.folder:
        yield _thread(source, _in_folder(source))
    elif source.is_document:
        yield _thread(source, ((Item(1), event) for event in _events(source.document)))
    else:
        single: list[tuple[Item, Json]] = []
        for item, value in source.items():
            if isinstance(value, dict) and _events(value) == [value]:
                single.append((item, value))
            else:
                label = next((str(value[key]) for key in ("instance_id", "id") if key in value), str(item.line))
                yield _thread(source, [(item, event) for event in _events(value)], label)
        if single:
            yield _thread(source, single)


def _in_folder(source: Source) -> Iterator[tuple[Item, Json]]:
    """The events of a folder in the order of their numbers, each file as the line of its place in that order."""
    folder = os.path.join(source.name, FOLDER)
    names = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
    for number, name in enumerate(names, 1):
        path = os.path.join(folder, name)
        with open(path, "rb") as stream:
            try:
                yield Item(number), files.parse(stream.read(), path)
            except WireError as problem:
                source.note(number, str(problem), damage=True)


def _thread(source: Source, events: Iterable[tuple[Item, Json]], label: str = "") -> Thread:
    thread = Thread("openai-chat", label=label)
    seen: set[str] = set()
    forgotten: dict[str, tuple[str | None, Item]] = {}
    known: list[tuple[Json, list[Piece]]] = []
    for item, event in events:
        if not isinstance(event, dict):
            source.note(item.line, "not an event", damage=True)
            continue
        if event.get("kind") == "Condensation":
            ids = event.get("forgotten_event_ids")
            gone = dict.fromkeys(map(str, ids if isinstance(ids, list) else ()), (event.get("summary"), item))
            forgotten.update(gone)
            continue
        if isinstance(event.get("tools"), list) and event.get("kind") == "SystemPromptEvent":
            thread.head = (
                {"tools": event["tools"]} if all("function" in tool for tool in objects(event["tools"])) else {}
            )
        known.append((event.get("id"), _newer(item, event) if "kind" in event else _older(item, event, seen)))
    summary: set[str] = set()
    for ident, pieces in known:
        if str(ident) in forgotten:
            text, item = forgotten[str(ident)]
            if text_of(text) and text not in summary:
                summary.add(str(text))
                thread.pieces.append(Piece({"role": "user", "content": text}, item))
            continue
        for piece in pieces:
            _add(thread.pieces, piece)
    return thread


def _add(pieces: list[Piece], piece: Piece) -> None:
    """One more piece: a call of the same answer goes to the calls before it."""
    last = next((at for at in range(len(pieces) - 1, -1, -1) if pieces[at].message["role"] != "tool"), None)
    before = pieces[last].answer if last is not None else None
    if last is None or before is None or piece.answer is None or before.id is None or before.id != piece.answer.id:
        pieces.append(piece)
        return
    message = pieces[last].message
    calls = [*message.get("tool_calls", ()), *piece.message.get("tool_calls", ())]
    pieces[last] = Piece({**message, "tool_calls": calls}, pieces[last].item, before)


def _newer(item: Item, event: Fields) -> list[Piece]:
    kind = event["kind"]
    time = seconds(event.get("timestamp"))
    if kind == "SystemPromptEvent":
        return [Piece({"role": "system", "content": _content([event.get("system_prompt")])}, item)]
    if kind == "MessageEvent" and isinstance(event.get("llm_message"), dict):
        message = event["llm_message"]
        wire = {"role": message.get("role"), "content": _content(message.get("content"))}
        answer = Answer(text_of(event.get("llm_response_id")), time=time) if wire["role"] == "assistant" else None
        return [Piece(wire, item, answer)]
    if kind == "ActionEvent" and isinstance(event.get("tool_call"), dict):
        thoughts = event.get("reasoning_content")
        wire = {"role": "assistant", "content": _content(event.get("thought")), "tool_calls": [_call(event)]}
        wire.update({"reasoning_content": thoughts} if text_of(thoughts) else {})
        return [Piece(wire, item, Answer(text_of(event.get("llm_response_id")), time=time))]
    if kind in OUTCOMES:
        observation = event.get("observation")
        said = observation.get("content", observation) if isinstance(observation, dict) else None
        text = said if said is not None else event.get("error") or event.get("rejection_reason") or ""
        return [Piece({"role": "tool", "tool_call_id": event.get("tool_call_id"), "content": _content(text)}, item)]
    return []


def _call(event: Fields) -> Json:
    call = event["tool_call"]
    inner = fields(call.get("function")) or call
    function = {"name": inner.get("name") or event.get("tool_name"), "arguments": inner.get("arguments")}
    return {"id": event.get("tool_call_id") or call.get("id"), "type": "function", "function": function}


def _content(value: Json) -> Json:
    """Blocks as one text where they are nothing but text."""
    if not isinstance(value, list):
        text = value.get("text") if isinstance(value, dict) else value
        return text if isinstance(text, str) else "" if value is None else files.dump(value).decode()
    texts = [each.get("text") if isinstance(each, dict) else None for each in value]
    return "\n".join(map(str, texts)) if all(isinstance(text, str) for text in texts) else value


def _older(item: Item, event: Fields, seen: set[str]) -> list[Piece]:
    arguments = fields(event.get("args"))
    metadata = fields(event.get("tool_call_metadata"))
    if "observation" in event:
        if not metadata:
            return []
        content = _content(event.get("content") or event.get("message"))
        return [Piece({"role": "tool", "tool_call_id": metadata.get("tool_call_id"), "content": content}, item)]
    if event.get("action") == "system":
        return [Piece({"role": "system", "content": _content(arguments.get("content"))}, item)]
    time = seconds(event.get("timestamp"))
    if event.get("action") == "finish":
        said: Json = (
            text_of(arguments.get("final_thought")) or text_of(arguments.get("thought")) or event.get("message")
        )
        return [Piece({"role": "assistant", "content": _content(said)}, item, Answer(None, time=time))]
    if metadata:
        return _answered(item, metadata, seen, time)
    if event.get("action") != "message":
        return []
    role = "user" if event.get("source") == "user" else "assistant"
    answer = Answer(None, time=time) if role == "assistant" else None
    return [Piece({"role": role, "content": _content(arguments.get("content"))}, item, answer)]


def _answered(item: Item, metadata: Fields, seen: set[str], time: float | None) -> list[Piece]:
    """The model's own answer, once however many actions came of it."""
    response = fields(metadata.get("model_response"))
    choices = response.get("choices")
    message = fields(fields(choices[0]).get("message")) if isinstance(choices, list) and choices else {}
    if not message:
        return []
    ident = text_of(response.get("id"))
    if ident in seen:
        return []
    seen.update({ident} if ident else ())
    wire = {key: message[key] for key in ("role", "content", "tool_calls") if message.get(key) is not None}
    return [Piece(wire, item, Answer(ident, response.get("usage"), text_of(response.get("model")), time))]


READER = Reader("openhands", "OpenHands events", sniff, threads, why_not="each event is a file, or a link in a chain")
