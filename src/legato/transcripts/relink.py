"""Records that name the one before them: what they must name once some are gone, moved or new."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from legato.messages import Json
from legato.transcripts.reader import Writer
from legato.transcripts.recording import Item, text_of
from legato.transcripts.source import Source


@dataclass(slots=True)
class Links:
    """The records of a file that have an id: by it, and what each names as its parent. New records have made-up items.

    `named` are records with a field for their parent, `twice` those that repeat one before them.
    """

    ids: dict[Item, str] = field(default_factory=dict)
    parent: dict[Item, str | None] = field(default_factory=dict)
    named: set[Item] = field(default_factory=set)
    twice: set[Item] = field(default_factory=set)
    _first: dict[Item, tuple[str, str | None]] = field(default_factory=dict)
    _homes: dict[str, Item] = field(default_factory=dict)
    _seen: dict[str, Item] = field(default_factory=dict)
    _newest: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, source: Source, writer: Writer) -> Links:
        """The links of a file that was read. A rejected record has no claim to its id."""
        links = cls()
        if writer.links is None:
            return links
        for line in source.lines():
            for item, value in zip(line.items, line.values, strict=True):
                if isinstance(value, dict) and text_of(value.get(writer.links[0])) is not None:
                    links._add(source, writer, item, value)
        for item, before in source.adopted.items():
            if item in links.ids:
                links.parent[item] = links.ids.get(before) if before is not None else None
        return links

    def _add(self, source: Source, writer: Writer, item: Item, value: dict[str, Json]) -> None:
        assert writer.links is not None
        known, parent = value[writer.links[0]], text_of(value.get(writer.links[1]))
        if item in source.rejected:
            self.ids[item], self.parent[item] = known, parent
            return
        again = known in self._seen
        if again and source.load(self._seen[known]) == value:
            self.twice.add(item)
            return
        self._first[item] = (known, parent)
        self.ids[item] = writer.ident(f"{known}/{item.line}/{item.nth}") if again else known
        self.parent[item] = self._newest.get(parent, parent) if parent is not None else None
        self._homes[self.ids[item]] = item
        if writer.links[1] in value:
            self.named.add(item)
        self._seen.setdefault(known, item)
        self._newest[known] = self.ids[item]

    def drop(self, gone: Iterable[Item]) -> None:
        """Take records out: what named one of them names what that one named."""
        gone = set(gone)
        held = {ident for item, ident in self.ids.items() if item not in gone}
        instead = {
            self.ids[item]: self.parent[item] for item in gone if item in self.ids and self.ids[item] not in held
        }
        for item, parent in self.parent.items():
            seen: set[str] = set()
            while parent in instead and parent not in seen:
                assert parent is not None
                seen.add(parent)
                parent = instead[parent]
            self.parent[item] = parent

    def insert(self, item: Item, ident: str, before: Item | None, after: Item | None) -> None:
        """Put a record between two that follow each other in the conversation."""
        self.ids[item] = ident
        self._homes[ident] = item
        above = self.ids.get(before) if before is not None else None
        if before is not None and before not in self.ids:
            self.parent[item] = None
            return
        chained = [each for each, parent in self.parent.items() if parent == above and each != item]
        below = self._on_the_way(after, above) if after is not None else chained if before is not None else []
        self.parent[item] = above
        if before is not None and after is not None and not below and self.parent.get(after) is None:
            self.parent[item] = None  # a file whose records do not name each other
        for each in below:
            self.parent[each] = ident

    def _on_the_way(self, item: Item, above: str | None) -> list[Item]:
        """The record on the way up from an item that names this one."""
        seen: set[Item] = set()
        at: Item | None = item
        while at is not None and at not in seen:
            seen.add(at)
            parent = self.parent.get(at)
            if parent == above:
                return [at] if at in self.named else []
            at = self._homes.get(parent) if parent is not None else None
        return []

    def changed(self) -> dict[Item, tuple[str, str | None, str, str | None]]:
        """The records of the file that must name something else: id and parent, old and new."""
        found = {}
        for item, (ident, parent) in self._first.items():
            if (ident, parent) != (self.ids[item], self.parent[item]):
                found[item] = (ident, parent, self.ids[item], self.parent[item])
        return found
