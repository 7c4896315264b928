"""Repairing plain files: a list of messages, a body, or JSONL with one of them on each line.

Such a file holds requests, so without a profile all rules apply that `check` applies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from legato import profiles, wire
from legato.errors import Unrepairable, WireError
from legato.messages import Json
from legato.rules import FAMILIES
from legato.transcripts import files
from legato.transcripts.mend import cannot, mend
from legato.transcripts.reader import Writer
from legato.transcripts.recording import Item, Piece, Thread
from legato.transcripts.records import in_list
from legato.transcripts.remark import Remark
from legato.transcripts.source import Source
from legato.transcripts.spans import children, locate, with_fields

PLAIN = Writer(lambda message, neighbour, seed: message)  # noqa: ARG005 - the messages are the records


def repair(source: Source, profile: str | None) -> tuple[list[Remark], Callable[[], Iterator[bytes]]]:
    """The remarks, and the file as it will be. Raises `WireError` with the place."""
    if source.is_document:
        remarks, text = _conversation(source.name, None, source.text, source.document, profile)
        return remarks, lambda: iter((text.encode("utf-8", "backslashreplace"),))
    found: list[Remark] = []
    new: dict[int, bytes] = {}
    for line in source.lines():
        texts = []
        for value, text in zip(line.values, line.texts, strict=True):
            remarks, mended = _conversation(f"{source.name}:{line.number}", line.number, text, value, profile)
            found += remarks
            texts.append(mended)
        if line.fault:
            found.append(Remark(line.number, "", line.fault))
        if line.fault or texts != list(line.texts):
            new[line.number] = "".join(f"{text}\n" for text in texts).encode("utf-8", "backslashreplace")
    if not found and not source.values:
        raise WireError(source.name, "it is empty")
    return found, lambda: (new.get(line.number, line.raw) for line in source.lines())


def _conversation(where: str, line: int | None, text: str, value: Json, name: str | None) -> tuple[list[Remark], str]:
    """What is wrong with one conversation, and its text as it will be."""
    key = files.envelope(where, value)
    payload = value if key is None else value[key]
    try:
        form = wire.evidence(payload) or (wire.sniff(payload) if name is None else profiles.get(name).format)
        thread, path = _thread(text, payload, key, form)
        mended = mend(thread, name, FAMILIES)
    except Unrepairable as problem:
        raise WireError(where, f"only you can mend this: {cannot(problem)}") from None
    except WireError as problem:
        raise WireError(f"{where}: {problem.place}" if problem.place else where, problem.problem) from None
    if not mended.changes:
        return [], text
    if mended.head is not None and not isinstance(payload, dict):
        raise WireError(where, "a system text would have to stand beside the list; `legato govern` writes a body")
    start = locate(text, path)
    assert start is not None
    new = in_list(text, start, PLAIN, thread, mended.rows)
    if mended.head is not None:
        new = with_fields(new, path[:-1], dict(thread.head), dict(mended.head))
    return [Remark(_line(text, thread, change.at, line), change.code, change.reason) for change in mended.changes], new


def _thread(text: str, payload: Json, key: str | None, form: str) -> tuple[Thread, tuple[str, ...]]:
    """The messages of a conversation as pieces, and the path of their list."""
    field = wire.codec(form).KEY
    path = (*(() if key is None else (key,)), *((field,) if isinstance(payload, dict) else ()))
    head = {name: value for name, value in payload.items() if name != field} if isinstance(payload, dict) else {}
    messages = payload[field] if isinstance(payload, dict) else payload
    start = locate(text, path)
    if not isinstance(messages, list) or start is None:
        raise WireError(field, "must be a list to be repaired in place")
    spans = children(text, start)
    pieces = [Piece(message, Item(1, span.start, span.end)) for message, span in zip(messages, spans, strict=True)]
    return Thread(form, pieces, head), path


def _line(text: str, thread: Thread, at: int | None, line: int | None) -> int | None:
    """The line of the file where a message starts."""
    if line is not None or at is None or at >= len(thread.pieces):
        return line
    return text.count("\n", 0, thread.pieces[at].item.start) + 1
