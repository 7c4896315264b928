"""Conversations that are trees: each record names the one before it, and an edit or a retry starts a branch.

What was sent is the path from the record that was written last up to its root.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from legato.messages import Json
from legato.transcripts.recording import Item
from legato.transcripts.source import Source


@dataclass(frozen=True, slots=True)
class Node:
    """One record of the tree: where it stands, its id and its parent's. `says`: it is a message. `calls` and `answers`
    are the ids of the calls in it, and of those it brings the results of; `part` is the id of the answer it belongs to.
    """

    item: Item
    id: str | None
    parent: str | None
    says: bool
    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    part: str | None = None


class Seen:
    """The ids of a file, to find those that come again."""

    def __init__(self) -> None:
        self._first: dict[str, Item] = {}

    def again(self, source: Source, item: Item, ident: str | None, value: Json) -> bool:
        """Note an id that was there before. True where it is the very same record."""
        if ident is None:
            return False
        first = self._first.setdefault(ident, item)
        if first is item:
            return False
        same: bool = source.load(first) == value
        source.note(item.line, f"{'the same line again' if same else 'another line with the same id'}: {ident}", True)
        return same


def parents(nodes: Sequence[Node]) -> list[int | None]:
    """The index of each node's parent: the newest before it of that id, else the first after it; None for a root.

    Where most have no parent the file is a list: each follows the one before it. One whose parent is nowhere follows
    the nearest one before it that does not come of it.
    """
    if sum(node.parent is None for node in nodes) > len(nodes) / 2:
        return [at - 1 if at else None for at in range(len(nodes))]
    newest: dict[str, int] = {}
    found: list[int | None] = []
    later: dict[str, list[int]] = {}
    for at, node in enumerate(nodes):
        found.append(newest.get(node.parent) if node.parent is not None else None)
        if node.parent is not None and node.parent not in newest:
            later.setdefault(node.parent, []).append(at)
        if node.id is not None:
            for child in later.pop(node.id, ()):
                found[child] = at if child != at else None
            newest[node.id] = at
    backwards = any(above is not None and above > at for at, above in enumerate(found))
    for at in sorted(at for lost in later.values() for at in lost):
        found[at] = next(
            (place for place in range(at - 1, -1, -1) if not (backwards and _comes_of(place, at, found))), None
        )
    return found


def _comes_of(at: int | None, root: int, above: Sequence[int | None]) -> bool:
    seen: set[int] = set()
    while at is not None and at not in seen:
        if at == root:
            return True
        seen.add(at)
        at = above[at]
    return False


def paths(nodes: Sequence[Node]) -> list[list[int]]:
    """The path to the last message under each root, in the order of those messages. The last one is live."""
    above = parents(nodes)
    root: list[int | None] = [None] * len(nodes)
    for at in range(len(nodes)):
        walk = _up(at, above, root)
        if walk:
            top = above[walk[-1]]
            found = walk[-1] if top is None or root[top] is None else root[top]
            for each in walk:
                root[each] = found
    leaves = {root[at]: at for at, node in enumerate(nodes) if node.says}
    return [_up(leaf, above, [None] * len(nodes))[::-1] for leaf in sorted(leaves.values())]


def _up(at: int | None, above: Sequence[int | None], known: Sequence[int | None]) -> list[int]:
    """From a node up to its root, or to one whose root is known, or once around a circle."""
    walk: dict[int, None] = {}
    while at is not None and at not in walk and known[at] is None:
        walk[at] = None
        at = above[at]
    return list(walk)


def adopt(source: Source, nodes: Sequence[Node]) -> None:
    """Note the nodes that name a parent which is nowhere, save the first: it may go on where another file ends."""
    ids = {node.id for node in nodes}
    above: Sequence[int | None] = ()
    for at, node in enumerate(nodes):
        if at and node.parent is not None and node.parent not in ids:
            above = above or parents(nodes)
            parent = above[at]
            before = None if parent is None else nodes[parent].item
            instead = "" if before is None else f"; it is taken to follow line {before.line}"
            source.adopt(node.item, before, f"its parent is nowhere in the file: {node.parent}{instead}")


def with_results(nodes: Sequence[Node], path: Sequence[int]) -> list[int]:
    """The path with what hangs beside it of parallel calls: they may be parts of one answer that are records of their
    own, and the result of each a leaf."""
    path = _with_parts(nodes, path)
    on = set(path)
    answered = {answer for at in path for answer in nodes[at].answers}
    missing = {call for at in path for call in nodes[at].calls} - answered
    beside: dict[str, int] = {}
    for at, node in enumerate(nodes):
        if at not in on and node.answers and missing.issuperset(node.answers):
            beside.update(dict.fromkeys(node.answers, at))
    if not beside:
        return list(path)
    found: list[int] = []
    for at in path:
        found.append(at)
        found += [beside[call] for call in nodes[at].calls if call in beside and beside[call] not in found]
    return found


def _with_parts(nodes: Sequence[Node], path: Sequence[int]) -> list[int]:
    """The path with the other calls of its answers, each after the last part of its answer."""
    on = set(path)
    last = {nodes[at].part: at for at in path if nodes[at].part is not None}
    known = {call for at in path for call in nodes[at].calls}
    beside: dict[int, list[int]] = {}
    for at, node in enumerate(nodes):
        if at not in on and node.calls and node.part in last and known.isdisjoint(node.calls):
            beside.setdefault(last[node.part], []).append(at)
            known.update(node.calls)
    return [each for at in path for each in (at, *beside.get(at, ()))]
