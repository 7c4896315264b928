"""What a session file holds, whatever agent wrote it.

A reader finds the `Thread`s of a file: its conversations as they stand there, a `Piece` a record. `record` makes of
one what was sent and answered, a `Recording`: pieces of one answer are one message again, and each answer is a `Turn`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from legato import wire
from legato.errors import WireError
from legato.messages import Fields, Json
from legato.transcripts import files

RESULTS = ("tool_result",)
"""The types of blocks that bring the result of a call, in formats that have it inside a user message."""


@dataclass(frozen=True, slots=True)
class Note:
    """A remark on a line of the file (None: on all of it). `damage`: what is there is broken, not merely unknown."""

    line: int | None
    text: str
    damage: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """One JSON value of the file: its line, and where it stands.

    `start` and `end` are bytes in a file of lines, characters in a document; `nth` counts the values of its line.
    """

    line: int
    start: int = 0
    end: int = 0
    nth: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the file says of an answer. `id`: neighbouring pieces with the same one are one answer; `time`: seconds."""

    id: str | None = None
    usage: Json = None
    model: str | None = None
    time: float | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """One record of the file as a wire message. `answer` is set where the model said it; an answer without a message
    was stopped or failed, and is not sent again.

    `derived`: the record is no message, the message was made of what it says (a summary), so it cannot be changed.
    """

    message: Json
    item: Item
    answer: Answer | None = None
    derived: bool = False


@dataclass(slots=True)
class Thread:
    """One conversation of a file. `over`: it was compacted, or left for another branch that was not its child."""

    format: str
    pieces: list[Piece] = field(default_factory=list)
    head: Fields = field(default_factory=dict)
    label: str = ""
    over: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the model: `messages[at:end]`, to the request `messages[:at]`.

    `usage` is as the provider or the agent wrote it, `time` in seconds since 1970. Where `at == end` the answer itself
    was not recorded, or never sent again.
    """

    at: int
    end: int
    usage: Json = None
    model: str | None = None
    time: float | None = None


@dataclass(frozen=True, slots=True)
class Recording:
    """One conversation that was recorded. `lines` are the lines of the file that each message came from.

    `source` names the reader, `head` holds system and tools where the file has them, `label` tells the conversations of
    one file apart. `over`: no request goes on from here, it was compacted.
    """

    file: str
    source: str
    format: str
    messages: list[Json]
    lines: tuple[tuple[int, ...], ...]
    head: Fields
    turns: tuple[Turn, ...]
    notes: tuple[Note, ...]
    label: str = ""
    over: bool = False
    size: int = 0

    @property
    def payload(self) -> Json:
        """The bare list, or the body where there is more than messages."""
        return {**self.head, wire.codec(self.format).KEY: self.messages} if self.head else self.messages

    @property
    def where(self) -> str:
        return f"{self.file}#{self.label}" if self.label else self.file

    @property
    def line(self) -> None:
        """The line that holds all of it: none does."""
        return None

    def line_of(self, at: int | None) -> int | None:
        """The line of the file where a message starts."""
        return self.lines[at][0] if at is not None and at < len(self.lines) and self.lines[at] else None

    def at(self, note: Note) -> str:
        """The place of a note."""
        return self.file if note.line is None else f"{self.file}:{note.line}"

    def put(self, payload: Json) -> bytes:
        """A payload on a line."""
        return files.dump(payload) + b"\n"


def record(file: str, source: str, thread: Thread, notes: Sequence[Note], size: int = 0) -> Recording:
    """The recording of a thread. Raises `WireError` where a message is none of the thread's format."""
    messages: list[Json] = []
    lines: list[list[int]] = []
    turns: list[Turn] = []
    open_id: str | None = None
    for piece in thread.pieces:
        answer = piece.answer
        if answer is None:
            if messages and _brings_results(piece.message) and _brings_results(messages[-1]):
                messages[-1] = _joined(messages[-1], piece.message)
                lines[-1].append(piece.item.line)
                continue
            if not _brings_results(piece.message):
                open_id = None
        elif piece.message is None:
            turns.append(Turn(len(messages), len(messages), answer.usage, answer.model, answer.time))
            continue
        elif answer.id is not None and answer.id == open_id:
            turns[-1] = _widened(turns[-1], answer)
            if thread.format == "openai-responses":
                turns[-1] = Turn(turns[-1].at, len(messages) + 1, turns[-1].usage, turns[-1].model, turns[-1].time)
            else:
                at = turns[-1].at
                messages[at] = _joined(messages[at], piece.message)
                lines[at].append(piece.item.line)
                continue
        else:
            open_id = answer.id
            turns.append(Turn(len(messages), len(messages) + 1, answer.usage, answer.model, answer.time))
        messages.append(piece.message)
        lines.append([piece.item.line])
    return Recording(
        file,
        source,
        thread.format,
        messages,
        tuple(map(tuple, lines)),
        thread.head,
        tuple(turns),
        tuple(notes),
        thread.label,
        thread.over,
        size,
    )


def _brings_results(message: Json) -> bool:
    """Whether it is a message of nothing but results, which another of that kind can be joined to."""
    content = message.get("content") if isinstance(message, dict) and message.get("role") == "user" else None
    if not isinstance(content, list) or not content:
        return False
    return all(isinstance(block, dict) and block.get("type") in RESULTS for block in content)


def _joined(first: Json, second: Json) -> Json:
    return {**first, "content": [*_blocks(first), *_blocks(second)]}


def _blocks(message: Json) -> list[Json]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


def _widened(turn: Turn, answer: Answer) -> Turn:
    """The turn with what a later piece of it says: usage is repeated on each, and the last one counts all output."""
    usage = turn.usage if answer.usage is None else answer.usage
    return Turn(turn.at, turn.end, usage, turn.model or answer.model, turn.time)


def seconds(time: Json) -> float | None:
    """A time as seconds since 1970: from ISO text, or from a number of seconds or milliseconds."""
    if isinstance(time, bool) or not isinstance(time, int | float | str):
        return None
    try:
        if isinstance(time, str):
            found = datetime.fromisoformat(time)
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
        return float(time) / 1000 if time > 1e11 else float(time)
    except (ValueError, OverflowError):
        return None


def text_of(value: Json) -> str | None:
    """The value if it is text that is not empty."""
    return value if isinstance(value, str) and value else None


def expect(value: Json, kind: type, place: str) -> Json:
    """The value, which must be of this type. Raises `WireError`."""
    if not isinstance(value, kind):
        raise WireError(place, f"must be {wire.shape.kind(kind())}, not {wire.shape.kind(value)}")
    return value
