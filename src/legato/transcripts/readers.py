"""The readers of session files, and the two ways to read a file with them.

recordings(name)  for replay: what was recorded, turn by turn
read(name)        for check and govern: the conversations, plain files as they stand
"""

from __future__ import annotations

from collections.abc import Iterator

from legato.errors import WireError
from legato.transcripts import (
    claude_code,
    cline,
    codex,
    files,
    gemini_cli,
    inspect_eval,
    message_lines,
    mini_swe_agent,
    nanobot,
    openhands,
    pi,
    request_log,
    swe_agent,
)
from legato.transcripts.reader import Reader
from legato.transcripts.recording import Recording, record
from legato.transcripts.source import Source, naming

READERS: dict[str, Reader] = {
    reader.name: reader
    for reader in (
        inspect_eval.READER,
        nanobot.READER,
        pi.READER,
        codex.READER,
        gemini_cli.READER,
        claude_code.READER,
        openhands.READER,
        mini_swe_agent.RESPONSES,
        mini_swe_agent.READER,
        swe_agent.READER,
        cline.READER,
        cline.LIST,
        message_lines.READER,
    )
}
"""In the order in which they are asked; what none of them knows is a plain file."""


def reader_of(source: Source) -> Reader | None:
    """Whose session file it is, told by what stands in it; None: a plain list, body, or JSONL of them."""
    values = source.values
    return next((reader for reader in READERS.values() if reader.sniff(source, values)), None)


def recordings(name: str) -> Iterator[Recording]:
    """What a file holds, a conversation at a time. Raises `OSError` and `WireError`, both with the place."""
    with naming(name), Source(name) as source:
        reader = reader_of(source)
        if reader is None:
            yield from request_log.recordings(_plain(source))
        else:
            yield from _recorded(source, reader)


def read(name: str) -> Iterator[files.Conversation | Recording]:
    """The conversations that may go on: of a session file those that are not over. Raises as `recordings` does."""
    with naming(name), Source(name) as source:
        reader = reader_of(source)
        if reader is None:
            yield from _plain(source)
        else:
            yield from (recording for recording in _recorded(source, reader) if not recording.over)


def _plain(source: Source) -> Iterator[files.Conversation]:
    if source.folder:
        raise WireError(source.name, "a folder, and no session that is known")
    source.stream.seek(0)
    yield from files.conversations(source.name, source.stream)


def _recorded(source: Source, reader: Reader) -> Iterator[Recording]:
    told = 0
    for thread in reader.threads(source):
        yield record(source.name, reader.name, thread, source.notes[told:], source.size)
        told = len(source.notes)
