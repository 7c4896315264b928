"""The JSON of a stream: pieces of an object that comes bit by bit."""

from __future__ import annotations

from collections.abc import Iterator

from legato.messages import Json

LABELS = frozenset(("id", "type", "role", "name", "index", "format"))
"""Fields that come whole. A server may send them in every piece."""
GROWING = LABELS | {"text", "thinking", "summary", "signature"}
"""Fields of a block that comes in pieces. A block with any other field came whole."""


def fields(value: Json) -> dict[str, Json]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def rows(value: Json) -> Iterator[dict[str, Json]]:
    """The objects of a list; none of anything else."""
    return (row for row in value if isinstance(row, dict)) if isinstance(value, list) else iter(())


def text(value: Json) -> str | None:
    """The value if it is text."""
    return value if isinstance(value, str) else None


class Growing:
    """A text that is still coming: put together once, as putting it together at each piece would be quadratic."""

    __slots__ = ("pieces",)

    def __init__(self, *pieces: str) -> None:
        self.pieces = list(pieces)


def join(old: Json, new: Json, field: str = "") -> Json:
    """What has come so far of a field, with its next piece. Texts grow, objects grow field by field, labels stay.

    `old` may be changed, `new` never is. What comes out is to be `settled`.
    """
    if new is None or old is None:
        return _copy(new) if old is None else old
    if isinstance(old, str | Growing) and isinstance(new, str):
        return _label(old, new) if field in LABELS and isinstance(old, str) else _grown(old, new)
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{key: join(old.get(key), value, key) for key, value in new.items()}}
    if isinstance(old, list) and isinstance(new, list):
        return _blocks(old, new)
    if field == "content" and isinstance(old, str | Growing | list) and isinstance(new, str | list):
        return _blocks(_as_blocks(old), _as_blocks(new))
    return new


def settled(value: Json) -> Json:
    """The JSON of what has come."""
    if isinstance(value, Growing):
        return "".join(value.pieces)
    if isinstance(value, dict):
        return {key: settled(part) for key, part in value.items()}
    return [settled(part) for part in value] if isinstance(value, list) else value


def _grown(old: str | Growing, new: str) -> Growing:
    if isinstance(old, str):
        return Growing(old, new)
    old.pieces.append(new)
    return old


def _label(old: str, new: str) -> str:
    """A name that comes again, or again and longer, or in two halves."""
    return new if new.startswith(old) else old if old.startswith(new) else old + new


def _blocks(old: list[Json], new: list[Json]) -> list[Json]:
    """Blocks of text grow into each other if they are of one kind and index; others follow each other."""
    grown = list(old)
    for block in new:
        last = grown[-1] if grown else None
        if isinstance(last, dict) and isinstance(block, dict) and _continues(last, block):
            grown[-1] = join(last, block)
        else:
            grown.append(_copy(block))
    return grown


def _continues(last: dict[str, Json], block: dict[str, Json]) -> bool:
    same = all(last.get(label) == block.get(label) for label in ("type", "index", "id"))
    return same and "type" in block and GROWING.issuperset(last) and GROWING.issuperset(block)


def _as_blocks(content: Json) -> list[Json]:
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []


def _copy(value: Json) -> Json:
    """A value of its own, for what grows: no event is changed."""
    if isinstance(value, dict):
        return {key: join(None, part, key) for key, part in value.items()}
    if isinstance(value, list):
        return _blocks([], value)
    return value
