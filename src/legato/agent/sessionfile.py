"""A session on disk: JSONL that is only ever appended to, a line an event, each written through to the disk.

    {"type": "session", "version": 1, "format": "anthropic", "profile": "anthropic:…"}
    {"type": "said", "items": […]}                       what the user said, as wire items
    {"type": "reply", "items": […], "state": {…}}        an assistant turn, and what the session had learnt by then
    {"type": "started", "calls": [0, 1]}                 these calls of the turn are about to run
    {"type": "finished", "call": 1, "item": {…}}         one has its result
    {"type": "unanswered", "items": […]}                 shown to the model in place of results that were lost

A line is all of one event, so that a torn write cannot leave half a turn. `prompt` of a reply is what the model was
told before it and nobody said (to go on after the output limit, say). That and `unanswered` are sent again with every
request, and are no part of the transcript. `profile` of a reply is whose it is, where that is not the first line's.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import msgspec

from legato.errors import GovernanceError
from legato.messages import Json

if sys.platform != "win32":
    import fcntl

VERSION = 1
START = b'{"type": "session"'
"""How a session file starts."""
ASIDE = ".torn"
"""The end of the name of the file that keeps what a torn last line held."""


class Header(msgspec.Struct, frozen=True, tag="session", kw_only=True):
    """The first line. Every item of the file is in wire format `format`.

    `base_url` is the address of the model, "" where it was the provider's own, None where that is not known.
    """

    version: int = VERSION
    format: str
    profile: str
    base_url: str | None = None


class Said(msgspec.Struct, frozen=True, tag="said"):
    items: list[Json]


class Replied(msgspec.Struct, frozen=True, tag="reply", omit_defaults=True):
    items: list[Json]
    state: Json = None
    prompt: list[Json] = []
    profile: str = ""


class Started(msgspec.Struct, frozen=True, tag="started"):
    calls: list[int]


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    call: int
    item: Json


class Unanswered(msgspec.Struct, frozen=True, tag="unanswered"):
    items: list[Json]


Line: TypeAlias = Said | Replied | Started | Finished | Unanswered


class SessionFileError(GovernanceError):
    """A session file that cannot be opened, read or written. The message names the file, and the line if it has one."""


class SessionFile:
    """One open session file, locked against every other writer until it is closed.

    `lines` is what was in it, `header` its first line; `notes` says what was repaired. Raises `SessionFileError`.
    """

    def __init__(self, path: str | os.PathLike[str], header: Header) -> None:
        self.path = Path(path)
        self.notes: tuple[str, ...] = ()
        self.lines: tuple[Line, ...] = ()
        self.header = header
        self._fd: int | None = _open(self.path)
        try:
            self._size = 0
            _lock(self._fd, self.path)
            self._load()
        except BaseException:
            self.close()
            raise

    def append(self, line: Line | Header) -> None:
        """Write a line through to the disk. Where that fails the file is as it was. Raises `SessionFileError`."""
        if self._fd is None:
            raise SessionFileError(f"{self.path}: is closed")
        data = _written(line)
        try:
            _write(self._fd, data)
        except BaseException as problem:
            with suppress(OSError):
                os.ftruncate(self._fd, self._size)
            if isinstance(problem, OSError):
                raise SessionFileError(f"{self.path}: cannot be written: {problem.strerror}") from problem
            raise
        self._size += len(data)

    def close(self) -> None:
        """Give the file free. What was appended is on the disk already."""
        if self._fd is not None:
            _unlock(self._fd)
            os.close(self._fd)
            self._fd = None

    def _load(self) -> None:
        """Read the lines. Nothing is repaired before the first one shows that this is a session."""
        assert self._fd is not None
        self._size = os.fstat(self._fd).st_size
        whole, newline, tail = _read(self._fd, self._size).rpartition(b"\n")
        lines = whole.split(b"\n") if newline else []
        if lines:
            self.header = _typed(lines[0], Header, f"{self.path}:1")
            if self.header.version != VERSION:
                raise SessionFileError(f"{self.path}: version {self.header.version}; this legato reads {VERSION}")
        elif tail.strip(b"\0") and not tail.startswith(START) and not START.startswith(tail):
            raise SessionFileError(f"{self.path}: is no session file")
        if tail and _parsed(tail) is not None:
            self._seal()  # all of the last line is there but its end
            lines.append(tail)
        elif tail:
            self._set_aside(tail)
        elif len(lines) > 1 and lines[-1].strip() and _parsed(lines[-1]) is None:
            self._set_aside(lines.pop() + b"\n")
        if not lines:
            self.append(self.header)
            _sync_folder(self.path)
        rows = [(at, line) for at, line in enumerate(lines[1:], 2) if line.strip()]
        self.lines = tuple([_typed(line, Line, f"{self.path}:{at}") for at, line in rows])

    def _seal(self) -> None:
        assert self._fd is not None
        try:
            _write(self._fd, b"\n")
        except OSError as problem:
            raise SessionFileError(f"{self.path}: cannot be written: {problem.strerror}") from problem
        self._size += 1

    def _set_aside(self, torn: bytes) -> None:
        """Keep a torn last line in a file beside this one, then cut it off."""
        assert self._fd is not None
        aside = self.path.with_name(self.path.name + ASIDE)
        try:
            fd = os.open(aside, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                _write(fd, torn.rstrip(b"\n") + b"\n")
            finally:
                os.close(fd)
            os.ftruncate(self._fd, self._size - len(torn))
            os.fsync(self._fd)
        except OSError as problem:
            raise SessionFileError(f"{aside}: cannot keep a torn line: {problem.strerror}") from problem
        self._size -= len(torn)
        self.notes = (f"{self.path}: the last line was torn; its {len(torn):,} bytes are kept in {aside}",)


def _open(path: Path) -> int:
    try:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError as problem:
        raise SessionFileError(f"{path}: {problem.strerror}") from problem
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise SessionFileError(f"{path}: is no regular file")
    return fd


def _lock(fd: int, path: Path) -> None:
    if sys.platform == "win32":
        raise SessionFileError(f"{path}: session files need a lock that this platform does not have")
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SessionFileError(f"{path}: another runner is writing this session; close it, or resume a copy") from None
    except OSError as problem:
        raise SessionFileError(f"{path}: cannot be locked: {problem.strerror}") from problem


def _unlock(fd: int) -> None:
    """Where a child process has inherited the file the lock would outlive us."""
    if sys.platform != "win32":
        with suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_UN)


def _read(fd: int, size: int) -> bytes:
    pieces = []
    at = 0
    while at < size and (piece := os.pread(fd, size - at, at)):
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)


def _write(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
    os.fsync(fd)


def _sync_folder(path: Path) -> None:
    """A new file's name is on the disk only when its folder is."""
    folder = os.open(path.absolute().parent, os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems have no such thing
            os.fsync(folder)
    finally:
        os.close(folder)


def _written(line: Line | Header) -> bytes:
    value = {"type": line.__struct_config__.tag, **msgspec.structs.asdict(line)}
    value = {key: part for key, part in value.items() if part is not None and part != []}
    try:
        return json.dumps(value, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair
        return json.dumps(value).encode() + b"\n"


def _parsed(piece: bytes) -> Json:
    """The JSON value of a line, None if it has none."""
    try:
        return json.loads(piece)
    except (ValueError, RecursionError):
        return None


def _typed(piece: bytes, kind: object, place: str) -> Json:
    value = _parsed(piece)
    if value is None:
        raise SessionFileError(f"{place}: is no JSON; mend or delete that line")
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as problem:
        raise SessionFileError(f"{place}: is no line of a session: {problem}") from None
