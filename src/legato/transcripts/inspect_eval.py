"""Inspect's logs: an `.eval` file, a zip with a JSON document a sample, or the one document of the JSON form.

Messages are OpenAI Chat with arguments as values. `attachment://` texts stand in `attachments`. Usage is taken from the
model event whose answer is the message. Newer logs are compressed with zstd (UKGovernmentBEIS/inspect_ai,
src/inspect_ai/_util/zipfile.py, 2026), which Python's own `zipfile` knows from 3.14 on.
"""

from __future__ import annotations

import errno
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from legato.errors import WireError
from legato.messages import Fields, Json
from legato.transcripts import files
from legato.transcripts.reader import Reader, objects
from legato.transcripts.recording import Answer, Item, Piece, Thread, seconds, text_of
from legato.transcripts.source import ZIP, Source
from legato.transcripts.spans import dumped

ATTACHED = "attachment://"
SAMPLES = "samples/"


def sniff(source: Source, values: Sequence[Json]) -> bool:
    if not source.folder and source.magic.startswith(ZIP):
        return True
    return any("eval" in value and isinstance(value.get("samples"), list) for value in objects(values)[:1])


def threads(source: Source) -> Iterator[Thread]:
    samples = _zipped(source) if source.magic.startswith(ZIP) else iter(source.document["samples"])
    for number, sample in enumerate(samples, 1):
        if not isinstance(sample, dict) or not isinstance(sample.get("messages"), list):
            source.note(None, f"sample {number} has no messages", damage=True)
            continue
        yield _thread(sample, number)


def _zipped(source: Source) -> Iterator[Json]:
    """The samples of a zip, one at a time. Raises `WireError` where it is broken."""
    reader, broken = _reader()
    try:
        with reader.ZipFile(source.stream) as archive:
            names = [name for name in archive.namelist() if name.startswith(SAMPLES) and name.endswith(".json")]
            for name in names:
                yield files.parse(archive.read(name), f"{source.name}/{name}")
    except broken as problem:
        raise WireError(source.name, f"not a sound zip: {problem}; `inspect log recover` may mend it") from None
    except NotImplementedError as problem:
        raise WireError(source.name, f"{problem}; if that is zstd, pip install backports.zstd") from None
    except OSError as problem:
        if problem.errno != errno.EINVAL:  # it is told to look before the start of the file
            raise
        raise WireError(source.name, "not a sound zip; `inspect log recover` may mend it") from None


def _reader() -> tuple[Any, tuple[type[Exception], ...]]:
    """What opens a zip, and how it says that one is broken."""
    broken = (zipfile.BadZipFile, zlib.error, EOFError)
    if hasattr(zipfile, "ZIP_ZSTANDARD"):
        return zipfile, (*broken, import_module("compression.zstd").ZstdError)
    try:
        found = import_module("backports.zstd.zipfile")
    except ImportError:
        return zipfile, broken
    return found, (*broken, found.BadZipFile, import_module("backports.zstd").ZstdError)


def _thread(sample: Fields, number: int) -> Thread:
    found = sample.get("attachments")
    attached = found if isinstance(found, dict) else {}
    answers = _answers(sample)
    thread = Thread("openai-chat", label=f"{sample.get('id', number)}/{sample.get('epoch', 1)}")
    for at, message in enumerate(objects(sample["messages"]), 1):
        message = _attach(message, attached)
        known = answers.get(message.get("id"), Answer(model=text_of(message.get("model"))))
        thread.pieces.append(Piece(_wire(message), Item(at), known if message.get("role") == "assistant" else None))
    return thread


def _answers(sample: Fields) -> dict[Json, Answer]:
    """What the model events say of the answers, by the id of the message."""
    found = {}
    events = sample.get("events")
    for event in objects(events if isinstance(events, list) else ()):
        output = event.get("output")
        if event.get("event") == "model" and isinstance(output, dict):
            for choice in objects(output.get("choices") or ()):
                message = choice.get("message")
                if isinstance(message, dict) and text_of(message.get("id")):
                    usage, model = output.get("usage"), text_of(output.get("model"))
                    found[message["id"]] = Answer(None, usage, model, seconds(event.get("timestamp")))
    return found


def _attach(value: Json, attached: Fields) -> Json:
    if isinstance(value, str) and value.startswith(ATTACHED):
        return attached.get(value.removeprefix(ATTACHED), value)
    if isinstance(value, list):
        return [_attach(inner, attached) for inner in value]
    return {key: _attach(inner, attached) for key, inner in value.items()} if isinstance(value, dict) else value


def _wire(message: Fields) -> dict[str, Json]:
    wire: dict[str, Json] = {"role": message.get("role"), "content": message.get("content")}
    content = message.get("content")
    if isinstance(content, list):
        thoughts = [block for block in objects(content) if block.get("type") == "reasoning"]
        said = [_block(block) for block in content if block not in thoughts]
        wire["content"] = said
        if thoughts:
            wire["reasoning_content"] = "\n".join(str(block.get("reasoning") or "") for block in thoughts)
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        wire["tool_calls"] = [_call(call) for call in objects(calls)]
    if message.get("role") == "tool":
        wire["tool_call_id"] = message.get("tool_call_id")
        error = message.get("error")
        if isinstance(error, dict) and not wire["content"]:
            wire["content"] = str(error.get("message", ""))
    return wire


def _block(block: Json) -> Json:
    if not isinstance(block, dict):
        return block
    if block.get("type") == "image":
        return {"type": "image_url", "image_url": {"url": block.get("image")}}
    return {"type": "text", "text": block.get("text")} if block.get("type") == "text" else block


def _call(call: Fields) -> Json:
    arguments = call.get("arguments")
    text = arguments if isinstance(arguments, str) else dumped(arguments)
    return {"id": call.get("id"), "type": "function", "function": {"name": call.get("function"), "arguments": text}}


READER = Reader("inspect", "Inspect log", sniff, threads, why_not="an evaluation log is a record, not a session")
