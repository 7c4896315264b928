"""What it takes to repair a session file: remarks on what is wrong, and the pieces of the file as it will be.

Every byte of a record that need not change stays, and so does every record: only the fields that change are written
anew. A file of lines is read again line by line as its pieces are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from legato.errors import Unrepairable, WireError
from legato.report import Change
from legato.transcripts import plain
from legato.transcripts.mend import CannotWrite, Row, cannot, mend
from legato.transcripts.reader import Writer
from legato.transcripts.readers import reader_of
from legato.transcripts.recording import Thread
from legato.transcripts.records import Records, document
from legato.transcripts.relink import Links
from legato.transcripts.remark import Remark
from legato.transcripts.source import Source

FEW = 3
"""So many broken lines are mended in any file; where there are more of them than messages, it is no session."""


@dataclass(frozen=True, slots=True)
class Repair:
    """`kind` says what the file is, `pieces()` are the bytes of the repaired one. What is clean has no remarks."""

    kind: str
    remarks: tuple[Remark, ...]
    pieces: Callable[[], Iterator[bytes]]


def repair(source: Source, profile: str | None) -> Repair:
    """The repair of an open file by the rules of a profile, or those that hold for any session.

    Raises `WireError` with the place where it cannot be read, `CannotWrite` where there is something to repair and that
    cannot be written.
    """
    reader = reader_of(source)
    if reader is None:
        said, pieces = plain.repair(source, profile)
        _refuse_hopeless(source)
        return Repair("messages", tuple(said), pieces)
    threads = [thread for thread in reader.threads(source) if not thread.over]
    for thread in threads:
        thread.pieces = [piece for piece in thread.pieces if piece.message is not None]
    _refuse_hopeless(source)
    damage = [Remark(note.line, "", note.text) for note in source.notes if note.damage]
    kept = sum(len(thread.pieces) for thread in threads)
    if len(damage) > max(kept, FEW):
        found = f"{len(damage):,} lines are broken and {kept:,} hold a message"
        raise CannotWrite(source.name, f"{found}: it may be no {reader.title}, and is left as it is")
    mended = [_mended(source, thread, profile) for thread in threads]
    remarks = [*damage, *(remark for _, _, found in mended for remark in found)]
    if not remarks:
        return Repair(reader.title, (), lambda: iter(()))
    if reader.writer is None:
        raise CannotWrite(source.name, f"{_first(remarks)}; this ({reader.title}) is not written: {reader.why_not}")
    plans = [(thread, layout) for thread, layout, _ in mended]
    if reader.writer.container is not None:
        pieces = document(source, reader.writer, *plans[0])
    else:
        pieces = _lines(source, reader.writer, plans)
    return Repair(reader.title, tuple(sorted(remarks, key=lambda remark: remark.line or 0)), pieces)


def _refuse_hopeless(source: Source) -> None:
    """Raises `CannotWrite` where something is broken that cannot be mended: what is left must not be made worse."""
    if source.hopeless is not None:
        place = source.name if source.hopeless.line is None else f"{source.name}:{source.hopeless.line}"
        raise CannotWrite(place, f"{source.hopeless.text}; the file is left as it is")


def _first(remarks: Sequence[Remark]) -> str:
    line = "" if remarks[0].line is None else f"line {remarks[0].line}: "
    return f"{line}{remarks[0].code} {remarks[0].text}".replace(":  ", ": ")


def _mended(source: Source, thread: Thread, profile: str | None) -> tuple[Thread, list[Row], list[Remark]]:
    """The rows of a thread as they will be, and what is said of them."""
    try:
        mended = mend(thread, profile)
    except Unrepairable as problem:
        raise WireError(source.name, f"only you can mend this: {cannot(problem)}") from None
    except WireError as problem:
        raise WireError(f"{source.name}: {problem.place}", problem.problem) from None
    if mended.head is not None:
        raise CannotWrite(source.name, "what stands beside the messages would have to change, and is not in this file")
    return thread, mended.rows, [_remark(thread, change) for change in mended.changes]


def _remark(thread: Thread, change: Change) -> Remark:
    at = change.at
    inside = at is not None and at < len(thread.pieces)
    return Remark(thread.pieces[at].item.line if inside and at is not None else None, change.code, change.reason)


def _lines(source: Source, writer: Writer, plans: Sequence[tuple[Thread, list[Row]]]) -> Callable[[], Iterator[bytes]]:
    """A file of lines: the records that change, by where they stand, and those that come after one."""
    records = Records(writer, Links.of(source, writer), gone=set(source.rejected))
    records.links.drop(source.rejected)
    for thread, rows in plans:
        records.put(source, thread, rows)
    records.relink()
    return lambda: records.pieces(source)
