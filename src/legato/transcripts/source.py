"""A session file as a reader sees it: its JSON values one by one, whatever happened to it on disk.

What cannot be read as it stands is read as far as it goes, and noted with its line: a torn line, NUL bytes, a byte
order mark, bytes that are not UTF-8, several values on one line. Of a file of lines only one line is held at a time.
"""

from __future__ import annotations

import codecs
import errno
import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from io import BufferedIOBase
from tempfile import TemporaryFile
from types import TracebackType
from typing import BinaryIO

from legato.errors import WireError
from legato.messages import Json
from legato.transcripts import files
from legato.transcripts.recording import Item, Note
from legato.transcripts.spans import DECODER, skip

FIRST_VALUES, FIRST_BYTES = 40, 1 << 18
"""So much of a file is looked at to tell what it is."""
WHOLE = 1 << 28
"""A file of more bytes than this is no single document."""
TRIES = 64
"""In so many places of a torn line a value is looked for."""
OUT = "; it is left out"
"""What becomes of a line in which nothing can be read."""
OPENING = re.compile(r'\{\s*"')
ZIP = b"PK\x03\x04"
WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, '{"'.encode("utf-16-le"), '{"'.encode("utf-16-be"))
"""How a file starts that is UTF-16, with a mark of it or without."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the file: its number, its bytes with their end, and the values that were found in it.

    `texts` are the values as they stand, cleaned of what is no JSON; `fault` says what is wrong with the line. Blank
    lines have no values and no fault. `beyond`: it may be sound, and is more than Python's JSON reader takes.
    """

    number: int
    start: int
    raw: bytes
    values: tuple[Json, ...]
    texts: tuple[str, ...]
    items: tuple[Item, ...]
    fault: str = ""
    beyond: bool = False


class Source:
    """An open session file. Raises `OSError` with its name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.notes: list[Note] = []
        self.rejected: set[Item] = set()
        self.adopted: dict[Item, Item | None] = {}
        self.openings: set[str] = set()
        self.hopeless: Note | None = None
        self.folder = os.path.isdir(name)
        with naming(name):
            self.stream: BufferedIOBase | BinaryIO = TemporaryFile() if self.folder else _opened(name)  # noqa: SIM115

    def __enter__(self) -> Source:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stream.close()

    @cached_property
    def size(self) -> int:
        return self.stream.seek(0, os.SEEK_END)

    @cached_property
    def magic(self) -> bytes:
        self.stream.seek(0)
        return self.stream.read(4)

    @cached_property
    def first(self) -> list[Json]:
        """The first values of a file of lines, without what is damaged."""
        found: list[Json] = []
        read = 0
        for line in self._read():
            found += line.values
            read += len(line.raw)
            if len(found) >= FIRST_VALUES or read >= FIRST_BYTES:
                break
        return found

    @cached_property
    def is_document(self) -> bool:
        """Whether the file is one JSON value, over one line or many, or the start of one that was cut."""
        if self.folder or self.magic.startswith(ZIP):
            return False
        lines = (line for line in self._read() if line.values or line.fault)
        head = next(lines, None)
        if head is None:
            return False
        if head.values and not head.fault:
            return next(lines, None) is None
        try:
            return self.size <= WHOLE and self.document is not None
        except WireError:
            return not self.first

    @property
    def values(self) -> list[Json]:
        """What tells the format: the first values of a file of lines, or the one of a document. Raises `WireError`."""
        if self.folder or self.magic.startswith(ZIP):
            return []
        if self.magic.startswith(WIDE):
            raise WireError(self.name, "this is UTF-16, and legato reads UTF-8")
        return [self.document] if self.is_document else self.first

    @cached_property
    def text(self) -> str:
        """The whole file as text, for a document. Raises `WireError` where it is not UTF-8."""
        self.stream.seek(0)
        return files.decode(self.stream.read(), self.name)

    @cached_property
    def document(self) -> Json:
        """The one value of a document. Raises `WireError` with its place where it is none."""
        self.stream.seek(0)
        return files.parse(self.stream.read(), self.name)

    def note(self, line: int | None, text: str, damage: bool = False) -> None:
        self.notes.append(Note(line, text, damage))

    def give_up(self, line: int | None, text: str) -> None:
        """Note damage that cannot be mended, so that a file with it is not written."""
        self.note(line, text, damage=True)
        self.hopeless = self.hopeless or self.notes[-1]

    def reject(self, item: Item, text: str) -> None:
        """Note a value that is no record of this format: nothing can be made of it."""
        self.rejected.add(item)
        self.note(item.line, text, damage=True)

    def adopt(self, item: Item, before: Item | None, text: str) -> None:
        """Note a record that names a parent which is nowhere: it is taken to follow this one."""
        self.adopted[item] = before
        self.note(item.line, text, damage=True)

    def lines(self) -> Iterator[Line]:
        """Every line with its values; what is damaged is noted. Read it once to its end."""
        self.notes = [note for note in self.notes if not note.damage]
        for line in self._read():
            if line.beyond:
                self.give_up(line.number, f"{line.fault}, more than is read here: it may be sound")
            elif line.fault:
                self.note(line.number, line.fault + ("" if line.values else OUT), damage=True)
            yield line

    def items(self) -> Iterator[tuple[Item, Json]]:
        """Every value of a file of lines, with where it stands."""
        for line in self.lines():
            yield from zip(line.items, line.values, strict=True)

    def text_at(self, item: Item) -> str:
        """The text of a value of a file of lines, at a place that `items` gave."""
        self.stream.seek(item.start)
        raw = self.stream.read(item.end - item.start)
        text = clean(raw)
        try:
            if DECODER.raw_decode(text)[1] == len(text):
                return text
        except json.JSONDecodeError:
            pass
        return _line(item.line, item.start, raw, self.openings).texts[item.nth]

    def load(self, item: Item) -> Json:
        """The value of a file of lines at a place that `items` gave."""
        return json.loads(self.text_at(item))

    def _read(self) -> Iterator[Line]:
        start = 0
        self.stream.seek(0)
        for number, raw in enumerate(files.split(self.stream), 1):
            line = _line(number, start, raw, self.openings)
            self.openings.update(_opening(text) for text in line.texts[:1])
            at = self.stream.tell()
            yield line
            if self.stream.tell() != at:
                self.stream.seek(at)
            start += len(raw)


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Have an `OSError` say which file it is about."""
    try:
        yield
    except OSError as problem:
        if problem.filename is not None:
            raise
        raise OSError(problem.errno, problem.strerror, name) from problem


def _opening(text: str) -> str:
    """The first key of a value: by it others of its make are known."""
    found = OPENING.match(text)
    return text[found.end() : found.end() + 64].split('"', 1)[0] if found else ""


def clean(raw: bytes) -> str:
    """Bytes as text: without NULs and a byte order mark, and U+FFFD for what is not UTF-8."""
    return raw.replace(b"\0", b"").removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")


def _opened(name: str) -> BinaryIO:
    """The file, open at its start; what has no places, such as a pipe, is put into a temporary file first."""
    if name == files.STDIN and sys.stdin is None:
        raise OSError(errno.EBADF, "the standard input is closed")
    stream: BinaryIO = open(0, "rb", closefd=False) if name == files.STDIN else open(name, "rb")  # noqa: SIM115
    if stat.S_ISREG(os.fstat(stream.fileno()).st_mode) and name != files.STDIN:
        return stream
    spool = TemporaryFile()  # noqa: SIM115
    with stream:
        shutil.copyfileobj(stream, spool)
    return spool


def _line(number: int, start: int, raw: bytes, openings: set[str]) -> Line:
    body = raw.strip(b" \t\r\n")
    if not body:
        return Line(number, start, raw, (), (), ())
    faults = []
    if b"\0" in body:
        faults.append("NUL bytes")
    if body.startswith(codecs.BOM_UTF8):
        faults.append("a byte order mark")
    text = clean(body).strip(" \t\r\n")
    if "\ufffd" in text and not _sound(body):
        faults.append("bytes that are not UTF-8, read as U+FFFD")
    if not text:
        return Line(number, start, raw, (), (), (), "nothing but NUL bytes")
    at = start + raw.index(body)
    try:
        values: tuple[Json, ...] = (json.loads(text),)
        texts: tuple[str, ...] = (text,)
    except json.JSONDecodeError:
        found, why = _pieces(text, openings)
        faults.append(why)
        values, texts = tuple(value for value, _ in found), tuple(piece for _, piece in found)
    except RecursionError:
        return Line(number, start, raw, (), (), (), "JSON nested too deeply", beyond=True)
    except ValueError:
        why = f"a number of more than {sys.get_int_max_str_digits():,} digits"
        return Line(number, start, raw, (), (), (), why, beyond=True)
    items = [Item(number, at, at + len(body))] if len(texts) == 1 and not faults else _places(number, at, body, texts)
    return Line(number, start, raw, values, texts, tuple(items), ", ".join(faults))


def _sound(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _places(number: int, at: int, body: bytes, texts: tuple[str, ...]) -> list[Item]:
    """Where the values of a damaged line stand, as near as can be said: a value that cannot be found is all of it."""
    items = []
    place = 0
    for nth, text in enumerate(texts):
        wanted = text.encode("utf-8", "surrogatepass")
        found = body.find(wanted, place)
        start, end = (found, found + len(wanted)) if found >= 0 else (0, len(body))
        items.append(Item(number, at + start, at + end, nth))
        place = end if found >= 0 else place
    return items


def _pieces(text: str, openings: set[str]) -> tuple[list[tuple[Json, str]], str]:
    """The values in a line that is not one value, and what is wrong with it."""
    found: list[tuple[Json, str]] = []
    torn: list[str] = []
    at = 0
    while at < len(text):
        value, end = _decoded(text, at)
        if end is None or not isinstance(value, dict | list):
            start = _next(text, at + 1, openings)
            torn.append(f"column {at + 1:,}")
            if start is None:
                break
            at = start
            continue
        found.append((value, text[at:end]))
        at = skip(text, end)
    if torn:
        what = "cut off" if not found else f"{len(found)} whole and a torn one"
        return found, f"not JSON: {what} ({', '.join(torn[:3])})"
    return found, f"{len(found)} values on one line"


def _decoded(text: str, at: int) -> tuple[Json, int | None]:
    try:
        return DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None, None


def _next(text: str, at: int, openings: set[str]) -> int | None:
    """Where the next whole value starts that is of the same make as those of other lines."""
    for found, _ in zip(OPENING.finditer(text, at), range(TRIES), strict=False):
        if _opening(text[found.start() : found.end() + 64]) not in openings:
            continue
        end = _decoded(text, found.start())[1]
        if end is not None and (skip(text, end) == len(text) or text[skip(text, end)] in "{["):
            return found.start()
    return None
