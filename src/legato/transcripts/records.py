"""Writing records: a file of lines with some of them changed, moved, taken out or new, and a document likewise."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from legato.messages import Fields, Json
from legato.transcripts.layout import Layout, lay_out
from legato.transcripts.mend import CannotWrite, Row
from legato.transcripts.reader import Writer
from legato.transcripts.recording import Item, Piece, Thread
from legato.transcripts.relink import Links
from legato.transcripts.source import Line, Source
from legato.transcripts.spans import Span, children, dumped, is_tight, locate, spliced, with_fields

SPEAKERS = ("assistant", "model")
NUMBERED = "its lines are numbered (`{}`): none can be put in or taken out; its agent answers open calls itself"


@dataclass(slots=True)
class New:
    """A record that is put into the file: its text, and the made-up item that it goes by."""

    item: Item
    text: str


@dataclass(frozen=True, slots=True)
class Edit:
    """The fields of one object of a record, before and after."""

    path: tuple[str, ...]
    old: Fields
    new: Fields

    def of(self, text: str) -> str:
        """The text of the record with them changed."""
        return with_fields(text, self.path, dict(self.old), dict(self.new))


@dataclass(slots=True)
class Records:
    """What becomes of the records of a file of lines. The `edits` of a record are made in order."""

    writer: Writer
    links: Links
    gone: set[Item] = field(default_factory=set)
    edits: dict[Item, list[Edit]] = field(default_factory=dict)
    added: dict[Item | None, list[New]] = field(default_factory=dict)
    first: Item | None = None

    def put(self, source: Source, thread: Thread, rows: Sequence[Row]) -> None:
        """Take over the rows of one conversation. Raises `CannotWrite` with the place."""
        if self.writer.merged:
            self._put_merged(source, thread, rows)
            return
        layout = lay_out(rows, len(thread.pieces))
        moved = {row.old for new in layout.added.values() for row in new if row.old is not None}
        for at in sorted(layout.gone | set(layout.changed)):
            if thread.pieces[at].derived:
                raise CannotWrite(
                    f"{source.name}:{thread.pieces[at].item.line}", "it would have to change, and is no message"
                )
        if (layout.gone or layout.added) and self.writer.numbered in source.load(thread.pieces[0].item):
            raise CannotWrite(source.name, NUMBERED.format(self.writer.numbered))
        if layout and self.writer.counter is not None:
            self._count(source, rows, self.writer.counter)
        if self.writer.keeps is not None:
            self._keep(source, thread, layout.gone, self.writer.keeps)
        self.gone |= {thread.pieces[at].item for at in layout.gone}
        self.links.drop(thread.pieces[at].item for at in layout.gone)
        for at, row in layout.changed.items():
            self._change(source, thread.pieces[at], row.new)
        self._add(source, thread, rows, layout, moved)

    def relink(self) -> None:
        """Make every record name the one that is now before it."""
        self.gone |= self.links.twice
        if self.writer.links is None:
            return
        key, above = self.writer.links
        for item, (ident, parent, new_ident, new_parent) in self.links.changed().items():
            old = {key: ident, **({above: parent} if item in self.links.named else {})}
            new = {key: new_ident, **({above: new_parent} if item in self.links.named else {})}
            self.edits.setdefault(item, []).append(Edit((), old, new))

    def pieces(self, source: Source) -> Iterator[bytes]:
        """The file as it will be."""
        start = self.added.get(None, ())
        ended = True
        for line in source.lines():
            new = self._line(line, start if line.items else ())
            start = () if line.items else start
            if new is None:
                yield line.raw
                ended = line.raw.endswith(b"\n")
                continue
            if new and not ended:
                yield b"\n"
            yield new
            ended = new.endswith(b"\n") if new else ended

    def _line(self, line: Line, start: Sequence[New]) -> bytes | None:
        """The new bytes of a line; None: those it has."""
        touched = [item in self.gone or item in self.edits or item in self.added for item in line.items]
        if not line.fault and not any(touched) and not start:
            return None
        end = "\r\n" if line.raw.endswith(b"\r\n") else "\n"
        alone = not line.fault and len(line.items) == 1
        out = [_bytes(new.text + end) for new in start]
        for item, text in zip(line.items, line.texts, strict=True):
            if item not in self.gone and alone and item not in self.edits:
                out.append(line.raw)
            elif item not in self.gone:
                for edit in self.edits.get(item, ()):
                    text = edit.of(text)
                out.append(_bytes(text + end))
            out += [_bytes(new.text + end) for new in self.added.get(item, ())]
        return b"".join(each if each.endswith(b"\n") else each + b"\n" for each in out[:-1]) + b"".join(out[-1:])

    def _change(self, source: Source, piece: Piece, wire: Json) -> None:
        writer = self.writer
        text = source.text_at(piece.item)
        value = json.loads(text)
        for step in writer.path:
            value = value[step]
        new = writer.fields(wire, value)
        known = {*writer.fields(piece.message, value), *new}
        old = {key: value[key] for key in known if key in value}
        self.edits.setdefault(piece.item, []).append(Edit(writer.path, old, new))

    def _add(self, source: Source, thread: Thread, rows: Sequence[Row], layout: Layout, moved: set[int]) -> None:
        """Put the new and the moved records in, and link them to their neighbours."""
        staying = [row.old for row in rows if row.old is not None and row.old not in moved]
        for anchor, news in layout.added.items():
            base = thread.pieces[anchor].item if anchor >= 0 else None
            before = base
            following = next((at for at in staying if at > anchor), None)
            after = None if following is None else thread.pieces[following].item
            for number, row in enumerate(news):
                home = thread.pieces[anchor].item.line if anchor >= 0 else 0
                item = Item(-1, home, number, row.old if row.old is not None else -1)
                seed = f"{source.name.rsplit('/', 1)[-1]}/{home}/{number}/{dumped(row.new)}"
                text, ident = self._new(source, thread, row, anchor, seed)
                if self.writer.links is not None and ident:
                    self.links.insert(item, ident, before, after)
                    above = self.writer.links[1]
                    if above in json.loads(text):
                        text = _named(text, above, self.links.parent[item])
                self.added.setdefault(base, []).append(New(item, text))
                before = item if ident else before

    def _new(self, source: Source, thread: Thread, row: Row, anchor: int, seed: str) -> tuple[str, str | None]:
        """The text of a record that is put in, and its id."""
        key = self.writer.links[0] if self.writer.links is not None else ""
        if row.old is not None:
            text = source.text_at(thread.pieces[row.old].item)
            if row.new is not None:
                self._change(source, thread.pieces[row.old], row.new)
                for edit in self.edits.pop(thread.pieces[row.old].item):
                    text = edit.of(text)
        else:
            near = source.text_at(_neighbour(thread, anchor)) if thread.pieces else "{}"
            text = dumped(self.writer.record(row.new, json.loads(near), seed), tight=is_tight(near))
        return text, json.loads(text).get(key) if key else None

    def _count(self, source: Source, rows: Sequence[Row], counter: str) -> None:
        """Keep a count of messages right that stands in the first record."""
        found = next(iter(source.items()), None)
        if found is None or not isinstance(found[1], dict) or not isinstance(found[1].get(counter), int):
            return
        item, value = found
        boundary = next(
            (at for at, row in enumerate(rows) if row.old is not None and row.old >= value[counter]), len(rows)
        )
        if boundary != value[counter]:
            old, new = {counter: value[counter]}, {counter: boundary}
            self.edits.setdefault(item, []).append(Edit((), old, new))

    def _keep(self, source: Source, thread: Thread, gone: set[int], keeps: str) -> None:
        """Where the first record that a compaction keeps is gone, have it name the next one."""
        ids = [self.links.ids.get(piece.item) for piece in thread.pieces]
        for piece in thread.pieces:
            first = source.load(piece.item).get(keeps) if piece.derived else None
            at = ids.index(first) if first is not None and first in ids else None
            if at is not None and at in gone:
                new = next((ids[later] for later in range(at + 1, len(ids)) if later not in gone), None)
                self.edits.setdefault(piece.item, []).append(Edit((), {keeps: first}, {keeps: new}))

    def _put_merged(self, source: Source, thread: Thread, rows: Sequence[Row]) -> None:
        """Records that are several messages each: what every one of them became."""
        became: dict[Item, list[Json]] = {piece.item: [] for piece in thread.pieces}
        was: dict[Item, list[Json]] = {}
        for piece in thread.pieces:
            was.setdefault(piece.item, []).append(piece.message)
        at: Item | None = None
        for row in rows:
            at = thread.pieces[row.old].item if row.old is not None else at
            if at is None:
                raise CannotWrite(source.name, "a record would have to be added at its start")
            became[at].append(thread.pieces[row.old].message if row.new is None and row.old is not None else row.new)
        shared = {piece.item for piece in thread.pieces if piece.derived}
        for item, wires in became.items():
            if len(wires) == len(was[item]) and all(map(_is, wires, was[item])):
                continue
            if item in shared:
                raise CannotWrite(
                    f"{source.name}:{item.line}", "it would have to change, and holds more than one message"
                )
            if not wires:
                self.gone |= _versions(source, item)
                continue
            value = source.load(item)
            new = self.writer.fields(wires, value)
            old = {key: value[key] for key in new if key in value}
            self.edits.setdefault(item, []).append(Edit(self.writer.path, old, new))


def document(source: Source, writer: Writer, thread: Thread, rows: Sequence[Row]) -> Callable[[], Iterator[bytes]]:
    """A document with its list of records changed: one piece."""
    assert writer.container is not None
    start = locate(source.text, writer.container)
    assert start is not None
    text = in_list(source.text, start, writer, thread, rows)
    return lambda: iter((text.encode("utf-8", "backslashreplace"),))


def in_list(text: str, start: int, writer: Writer, thread: Thread, rows: Sequence[Row]) -> str:
    """The text with the list that starts there changed. Pieces stand where their items say."""
    layout = lay_out(rows, len(thread.pieces))
    spans = list(children(text, start))
    homes = {piece.item.start: at for at, piece in enumerate(thread.pieces)}
    indent = _indent(text, spans)
    out: list[str] = [_written(text, thread, row, writer, -1, indent) for row in layout.added.get(-1, ())]
    separator = text[spans[0].end : spans[1].member] if len(spans) > 1 else ", "
    kept: list[tuple[int, int] | None] = [None] * len(out)
    for span in spans:
        at = homes.get(span.start)
        if at is None or at not in layout.gone:
            row = layout.changed.get(at) if at is not None else None
            same = text[span.start : span.end]
            out.append(same if row is None or at is None else _edited(same, thread.pieces[at], row.new, writer))
            kept.append((span.start, span.end))
        for row in layout.added.get(at, ()) if at is not None else ():
            out.append(_written(text, thread, row, writer, at or 0, indent))
            kept.append(None)
    if not spans:
        return spliced(text, [(start + 1, start + 1, ", ".join(out))])
    inner = "".join(each + _between(text, kept, number, separator) for number, each in enumerate(out))
    return spliced(text, [(spans[0].start, spans[-1].end, inner)])


def _between(text: str, kept: list[tuple[int, int] | None], number: int, usual: str) -> str:
    """What stands between an element and the next one: what did, if both are neighbours of old."""
    if number + 1 == len(kept):
        return ""
    here, there = kept[number], kept[number + 1]
    if here is not None and there is not None:
        gap = text[here[1] : there[0]]
        if not gap.replace(",", "", 1).strip():
            return gap
    return usual


def _indent(text: str, spans: Sequence[Span]) -> str | None:
    """The white space before an element of a list over many lines."""
    if not spans:
        return None
    line = text.rfind("\n", 0, spans[0].start) + 1
    found = text[line : spans[0].start]
    return found if line and not found.strip() and "\n" in text[spans[0].start : spans[0].end] else None


def _written(text: str, thread: Thread, row: Row, writer: Writer, anchor: int, indent: str | None) -> str:
    """A new or moved element, indented like the others."""
    if row.old is not None:
        piece = thread.pieces[row.old]
        same = text[piece.item.start : piece.item.end]
        return same if row.new is None else _edited(same, piece, row.new, writer)
    near = thread.pieces[max(anchor, 0)] if thread.pieces else None
    beside = text[near.item.start : near.item.end] if near is not None else "{}"
    value = writer.record(row.new, json.loads(beside), "")
    return (
        dumped(value, tight=is_tight(beside))
        if indent is None
        else dumped(value, indent=2).replace("\n", f"\n{indent}")
    )


def _edited(text: str, piece: Piece, wire: Json, writer: Writer) -> str:
    value = json.loads(text)
    new = writer.fields(wire, value)
    known = {*writer.fields(piece.message, value), *new}
    return with_fields(text, (), {key: value[key] for key in known if key in value}, dict(new))


def _named(text: str, above: str, parent: str | None) -> str:
    return with_fields(text, (), {above: json.loads(text)[above]}, {above: parent})


def _neighbour(thread: Thread, anchor: int) -> Item:
    """The record whose time and place a new one takes: the answer before it, else the one it follows."""
    for at in range(anchor, -1, -1):
        message = thread.pieces[at].message
        if message.get("role") in SPEAKERS or str(message.get("type")).endswith("_call"):
            return thread.pieces[at].item
    return thread.pieces[max(anchor, 0)].item


def _versions(source: Source, item: Item) -> set[Item]:
    """All records of the same id: without them an older one would come back."""
    ident = source.load(item).get("id")
    found = {each for each, value in source.items() if isinstance(value, dict) and ident and value.get("id") == ident}
    return found | {item}


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _is(one: Json, other: Json) -> bool:
    return one is other
