"""Reading conversations from files, and writing a file so that it is either whole or untouched.

A file is one JSON document, or JSONL with a conversation a line; `-` is the standard input. JSONL is recognised by
its name, else by a first line that is a whole JSON value with more after it. A conversation is a list of messages, a
body, or an envelope that holds either under `request`.
"""

from __future__ import annotations

import codecs
import errno
import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from glob import glob, has_magic
from io import BufferedIOBase
from tempfile import mkstemp
from typing import BinaryIO

from legato.errors import WireError
from legato.messages import Json
from legato.wire import shape

STDIN = "-"
JSONL = (".jsonl", ".ndjson")
SUFFIXES = (".json", *JSONL, ".eval", ".traj")
"""What is looked for in a directory."""
PIECE = 1 << 18
"""Bytes that are read at once."""
ENVELOPE = "request"
"""The field of an envelope that holds the conversation."""

SIGNS = frozenset(("role", "parts", "type"))
"""A message of any wire format has one of these fields."""

MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
    **dict.fromkeys((b"[\0", b"\0[", b"{\0", b"\0{"), "UTF-16"),
}
"""How a file starts that is not UTF-8."""
CONSTANTS = re.compile(r'"(?:[^"\\]|\\.)*+"|(NaN|-?Infinity)', re.DOTALL)
"""Texts, so that they are skipped, and the numbers that Python reads though JSON has none of them."""


class NoConversation(WireError):
    """Sound JSON, but there is no conversation in it."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation of a file. `line` is its line in JSONL, None in a document. `raw` is that line or document as it
    came in; `value` is what it says, and `key` the field of an envelope that holds the conversation."""

    file: str
    line: int | None
    raw: bytes
    value: Json
    key: str | None

    @property
    def where(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"

    @property
    def size(self) -> int:
        """Bytes of the file that it takes."""
        return len(self.raw)

    def line_of(self, at: int | None) -> int | None:  # noqa: ARG002 - as of a recording
        """The line of the file where a message stands: all of them on the one of the conversation."""
        return self.line

    @property
    def payload(self) -> Json:
        """The list of messages, or the body."""
        return self.value if self.key is None else self.value[self.key]

    def put(self, payload: Json) -> bytes:
        """The line or document with this payload: the very bytes that came in if it is the same object."""
        if payload is self.payload:
            return self.raw
        value = payload if self.key is None else {**self.value, self.key: payload}
        return self.raw[: _start(self.raw)] + dump(value) + b"\n"


def read(name: str) -> Iterator[Conversation]:
    """The conversations of a file; of JSONL one line is held at a time. Blank lines go with the line after them.

    Raises `OSError`, `WireError` with FILE:LINE:COLUMN where it is no JSON, `NoConversation`.
    """
    try:
        if name == STDIN and sys.stdin is None:
            raise OSError(errno.EBADF, "the standard input is closed")
        with open(0, "rb", closefd=False) if name == STDIN else open(name, "rb") as stream:
            yield from conversations(name, stream)
    except OSError as problem:
        raise OSError(problem.errno, problem.strerror, name) from problem


def dump(value: Json) -> bytes:
    """JSON on one line in UTF-8, half a surrogate pair as the escape that stands for it. Raises `WireError`."""
    try:
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")
    except RecursionError:
        raise WireError("", "JSON nested too deeply to be written") from None


def write(name: str, pieces: Iterable[bytes]) -> None:
    """Write a file whole or not at all: beside it under another name, to the disk, then renamed over it.

    A pipe or a device is written to as it is. Raises `OSError` with the name.
    """
    try:
        if os.path.isdir(name):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if os.path.exists(name) and not os.path.isfile(name):
            with open(name, "wb") as stream:
                stream.writelines(pieces)
        else:
            _replace(os.path.realpath(name), pieces)
    except OSError as problem:
        raise OSError(problem.errno, problem.strerror, name) from problem


def find(name: str) -> list[str]:
    """The files that a name, a pattern or a directory stands for, in order; hidden ones are not looked for.

    Raises `FileNotFoundError` if there is none in a directory, or none that fits a pattern.
    """
    if os.path.isdir(name):
        found = _inside(name)
    elif has_magic(name) and not os.path.lexists(name):
        hits = sorted(glob(name, recursive=True))
        found = [file for hit in hits for file in (_inside(hit) if os.path.isdir(hit) else [hit])]
    else:
        found = [name]
    if not found:
        raise FileNotFoundError(errno.ENOENT, f"no {' or '.join(SUFFIXES)} file there", name)
    return found


def _inside(folder: str) -> list[str]:
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith(".")]
        if "base_state.json" in files and "events" in folders:  # one session of OpenHands
            found.append(os.path.normpath(place))
            folders.clear()
            continue
        found += [
            os.path.normpath(os.path.join(place, file))
            for file in files
            if file.endswith(SUFFIXES) and not file.startswith(".")
        ]
    return sorted(found)


def conversations(name: str, stream: BufferedIOBase | BinaryIO) -> Iterator[Conversation]:
    """The conversations of an open file. Raises as `read` does."""
    pieces = split(stream)
    lines = _lines(pieces)
    number, line = next(lines, (0, b""))
    if not line:
        raise WireError(name, "it is empty")
    if not name.endswith(JSONL):
        try:
            value = parse(line, name)
        except WireError:
            line += b"".join(pieces)
            yield _conversation(name, None, line, parse(line, name))
            return
        following = next(lines, None)
        if following is None:
            yield _conversation(name, None, line, value)
            return
        yield _conversation(name, number, line, value)
        number, line = following
    yield _conversation(name, number, line, parse(line[_start(line) :].rstrip(), name, number))
    for number, line in lines:
        yield _conversation(name, number, line, parse(line[_start(line) :].rstrip(), name, number))


def split(stream: BufferedIOBase | BinaryIO) -> Iterator[bytes]:
    """The lines of a stream. Python's own reading of a line does not stop for Ctrl-C until the line has ended."""
    held: list[bytes] = []
    while piece := stream.read1(PIECE):  # type: ignore[union-attr]
        *ends, rest = piece.split(b"\n")
        for end in ends:
            yield b"".join((*held, end, b"\n"))
            held.clear()
        if rest:
            held.append(rest)
    if held:
        yield b"".join(held)


def _lines(pieces: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, each with its number and with the blank lines before it."""
    blank: list[bytes] = []
    for number, line in enumerate(pieces, 1):
        if line.isspace():
            blank.append(line)
        else:
            yield number, b"".join((*blank, line))
            blank.clear()


def _start(raw: bytes) -> int:
    """Where the first line starts that is not blank."""
    return raw.rfind(b"\n", 0, len(raw) - len(raw.lstrip())) + 1


def _conversation(file: str, line: int | None, raw: bytes, value: Json) -> Conversation:
    """The conversation in a value. Raises `NoConversation`."""
    return Conversation(file, line, raw, value, envelope(file if line is None else f"{file}:{line}", value))


def envelope(where: str, value: Json) -> str | None:
    """The field that holds the conversation of a value, None where the value is one. Raises `NoConversation`."""
    if isinstance(value, list) or (isinstance(value, dict) and _is_body(value)):
        key = None
        problem = "" if _may_be_messages(value) else "no conversation: nothing in this list is a message"
    elif isinstance(value, dict):
        inner = value.get(ENVELOPE)
        key = ENVELOPE
        fits = isinstance(inner, list) or (isinstance(inner, dict) and _is_body(inner))
        problem = "" if fits else f"no conversation: {_described(value)}"
    else:
        key = None
        problem = f"no conversation: {shape.kind(value)}"
    if problem:
        raise NoConversation(where, problem)
    return key


def _described(value: dict[str, Json]) -> str:
    """What an object is that holds no conversation."""
    if "role" in value:
        return "a single message; the messages of a conversation stand in one list"
    return f"an object with {', '.join(list(value)[:8])}" if value else "an empty object"


def _may_be_messages(value: Json) -> bool:
    """Whether it is a body, or a list that is empty or has at least one thing in it that looks like a message."""
    if isinstance(value, dict) or not value:
        return True
    return any(isinstance(item, dict) and not SIGNS.isdisjoint(item) for item in value)


def _is_body(value: dict[str, Json]) -> bool:
    return "messages" in value or "contents" in value or isinstance(value.get("input"), list | str)


def decode(raw: bytes, file: str, line: int = 1) -> str:
    """The bytes as text, without a byte order mark. Raises `WireError` with the place where they are not UTF-8."""
    for mark, encoding in MARKS.items():
        if raw.startswith(mark):
            raise WireError(f"{file}:{line}", f"this is {encoding}, and legato reads UTF-8")
    try:
        return raw.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as problem:
        before = problem.object[: problem.start].decode("utf-8").split("\n")
        place = f"{file}:{line + len(before) - 1}:{len(before[-1]) + 1}"
        raise WireError(place, f"not UTF-8: the byte 0x{problem.object[problem.start]:02x}") from None


def parse(raw: bytes, file: str, line: int = 1) -> Json:
    """The JSON value in the bytes, which start at that line of the file. Raises `WireError` with the place."""
    text = decode(raw, file, line)

    def refuse(constant: str) -> None:
        found = next(match for match in CONSTANTS.finditer(text) if match[1])
        raise json.JSONDecodeError(f"a number that is {constant}", text, found.start())

    try:
        return json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as problem:
        what = problem.msg[:1].lower() + problem.msg[1:]
        if text[problem.pos : problem.pos + 1] == "\0":
            what = "a NUL byte" if text.strip("\0 \t\r\n") else "nothing but NUL bytes, nothing is left of it"
        raise WireError(f"{file}:{line + problem.lineno - 1}:{problem.colno}", f"not JSON: {what}") from None
    except RecursionError:
        raise WireError(f"{file}:{line}", "JSON nested too deeply") from None
    except ValueError:
        raise WireError(f"{file}:{line}", f"a number of more than {sys.get_int_max_str_digits():,} digits") from None


def _replace(target: str, pieces: Iterable[bytes]) -> None:
    """Write the pieces under another name in the same folder and rename that: the old file is there until then."""
    descriptor, part = mkstemp(dir=os.path.dirname(target), prefix=".legato-")
    done = False
    try:
        with open(descriptor, "wb") as stream:
            stream.writelines(pieces)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(part, _mode(target))
        os.replace(part, target)
        done = True
    finally:
        if not done:
            with suppress(OSError):
                os.unlink(part)


def _mode(target: str) -> int:
    """The permissions that the file has, or that a new one gets."""
    if os.path.exists(target):
        return stat.S_IMODE(os.stat(target).st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
