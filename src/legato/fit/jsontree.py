"""What to leave out of a text that is one JSON value, so that it stays one: parts of strings, items of containers.

What stays is not written anew: numbers, escapes, white space and the order of keys are those of the text.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from operator import attrgetter

import msgspec

from legato.fit.lines import ALARM, ALARMS, HINT, MARKED, MARKER_CHARS, SHARE, Gap, Lines, Span

MOST = 1_000_000
"""Longer texts, in characters, are not taken for JSON."""

DEEPEST = 64
"""Nor are values that are nested deeper."""

LEAST = 80
"""Items are not shortened to fewer characters than that: some go instead."""

OPENING = re.compile(r'\s*["\[{]')
TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)
DOTS = re.compile(r'"(?:…|\\u2026)+"')
ESCAPED = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.")


FIRST = attrgetter("first")

Cost = Callable[[int], int]
"""What an item costs that stays, by its number."""


class Value(msgspec.Struct):
    """A value by its characters. In an object it begins with its key, and the value itself at `start`."""

    first: int
    start: int
    stop: int
    items: list[Value] | None
    between: int = 0
    """The characters that are not in its items."""
    dots: frozenset[str] = frozenset()
    """The keys that are nothing but dots, as those of markers."""

    @property
    def size(self) -> int:
        return self.stop - self.first


class Tree:
    """Plans the gaps of a JSON text."""

    def __init__(self, text: str, root: Value) -> None:
        self.text = text
        self.root = root
        self._alarms: list[int] | None = None
        self._strings: dict[int, String] = {}

    def gaps(self, keep: int) -> list[Gap]:
        """The gaps that leave about `keep` characters with their markers."""
        found: list[Gap] = []
        todo = [(self.root, keep)]
        while todo:
            value, room = todo.pop()
            room -= value.start - value.first
            if value.stop - value.start <= room:
                continue
            if value.items:
                spans, level = self._kept(value, value.items, room)
                found += self._dropped(value, value.items, spans)
                todo += [(item, level) for start, stop in spans for item in value.items[start:stop]]
            elif self.text[value.start] == '"':
                found += self._shortened(value, room)
        return sorted(found)

    def _kept(self, value: Value, items: list[Value], room: int) -> tuple[list[Span], int]:
        """The items of a list or object that stay, as ranges, and how many characters each may have."""
        if len(items) <= room:
            level = _level([item.size for item in items], room - value.between)
            if level >= LEAST:
                return [(0, len(items))], level
        level = max(LEAST, room // 4)
        room -= MARKER_CHARS

        def cost(at: int) -> int:
            return min(items[at].size, level) + value.between // len(items)

        first, last = _ends(len(items), cost, room)
        if chosen := self._telling(items, cost, first, last, room // SHARE):
            left = room - sum(cost(at) + MARKER_CHARS for at in chosen)
            first, last = _ends(len(items), cost, max(left, room // 2))
            chosen = self._telling(items, cost, first, last, room // SHARE)
        return [(0, first), *((at, at + 1) for at in chosen), (last, len(items))], level

    def _telling(self, items: list[Value], cost: Cost, first: int, last: int, room: int) -> list[int]:
        """Which items between these tell of an error."""
        if first >= last:
            return []
        if self._alarms is None:
            self._alarms = _alarms(self.text)
        chosen: list[int] = []
        for place in islice(self._alarms, bisect_left(self._alarms, items[first].first), None):
            at = bisect_right(items, place, key=FIRST) - 1
            if at >= last or place >= items[at].stop or len(chosen) == ALARMS:
                break
            needed = cost(at) + (MARKER_CHARS if chosen else 0)
            if needed <= (room if chosen else 2 * room) and at not in chosen[-1:]:
                chosen.append(at)
                room -= needed
        return chosen

    def _dropped(self, value: Value, items: list[Value], spans: list[Span]) -> Iterator[Gap]:
        """The gaps between the items that stay. In an object a marker needs a key that no other has."""
        name, before = '"…"', '"'
        for (_, first), (last, _) in pairwise(spans):
            while first > 0 and self._is_marker(items[first - 1]):
                first -= 1
            while last < len(items) and self._is_marker(items[last]):
                last += 1
            if first >= last or items[last - 1].stop - items[first].first < MARKER_CHARS:
                continue
            if self.text[value.start] == "{":
                while name in value.dots:
                    name = name.replace("…", "……", 1)
                before, name = f'{name}: "', name.replace("…", "……", 1)
            yield Gap(items[first].first, items[last - 1].stop, before, '"')

    def _is_marker(self, item: Value) -> bool:
        return MARKED.fullmatch(self.text, item.start + 1, item.stop - 1) is not None

    def _shortened(self, value: Value, room: int) -> Iterator[Gap]:
        """The gaps of a string: those of the text it stands for, in places of the JSON text."""
        if value.start not in self._strings:
            self._strings[value.start] = String(self.text[value.start : value.stop])
        string, start = self._strings[value.start], value.start + 1
        for gap in string.gaps(room - MARKER_CHARS):
            before, after = (white.replace("\n", "\\n") for white in (gap.before, gap.after))
            yield Gap(start + string.place(gap.start), start + string.place(gap.stop), before, after)


class String:
    """A string of a JSON text and the text it stands for."""

    def __init__(self, written: str) -> None:
        self.size = len(written)
        self.lines = Lines(json.loads(written))
        self._ends: list[int] = []
        self._shifts = [0]
        for escape in ESCAPED.finditer(written):
            self._shifts.append(self._shifts[-1] + len(escape[0]) - 1)
            self._ends.append(escape.end() - 1 - self._shifts[-1])

    def gaps(self, keep: int) -> list[Gap]:
        """The gaps of the text that leave about so many characters of the JSON."""
        return self.lines.gaps(max(0, keep) * len(self.lines.text) // self.size)

    def place(self, at: int) -> int:
        """Where a place of the text is in the JSON, from behind the quotation mark on."""
        return at + self._shifts[bisect_right(self._ends, at)]


def tree(text: str) -> Tree | None:
    """The planner of a text that is one JSON value, short and shallow enough and no bare number or constant."""
    if len(text) > MOST or not OPENING.match(text):
        return None
    try:
        json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return None
    root = _parsed(text)
    return None if root is None else Tree(text, root)


def _parsed(text: str) -> Value | None:
    """The value of a text that is known to be JSON; None if it is nested too deep. Walked without recursion."""
    whole = Value(0, 0, 0, [])
    path, first = [whole], -1
    for token in TOKEN.finditer(text):
        start, stop = token.span()
        items = path[-1].items
        assert items is not None
        match text[start]:
            case "]" | "}":
                _close(path.pop(), text, stop)
            case ":":
                first = items.pop().first
            case ",":
                pass
            case char:
                value = Value(start if first < 0 else first, start, stop, [] if char in "[{" else None)
                items.append(value)
                first = -1
                if char in "[{":
                    path.append(value)
                    if len(path) > DEEPEST + 1:
                        return None
    assert whole.items
    return whole.items[0]


def _close(value: Value, text: str, stop: int) -> None:
    """Note what is known of a list or object when its end is found."""
    value.stop = stop
    items = value.items or []
    value.between = stop - value.start - sum([item.size for item in items])
    if text[value.start] == "{":
        keys = [key[0] for item in items if (key := DOTS.match(text, item.first))]
        value.dots = frozenset(key.replace(r"\u2026", "…") for key in keys)


def _level(sizes: list[int], room: int) -> int:
    """The common size, as great as can be, to which the greatest of these must come down to fit the room together."""
    for left, size in zip(range(len(sizes), 0, -1), sorted(sizes), strict=True):
        if size * left > room:
            return room // left
        room -= size
    return max(sizes)


def _ends(count: int, cost: Cost, room: int) -> Span:
    """How many items fit half of the room from the start on, and from which on they fit the rest to the end."""
    first, last = 0, count
    left = room - room // 2
    while first < last and cost(first) <= left:
        left -= cost(first)
        first += 1
    left += room // 2
    while first < last and cost(last - 1) <= left:
        left -= cost(last - 1)
        last -= 1
    return first, last


def _alarms(text: str) -> list[int]:
    """The places that tell of an error, or of an exit code that is not 0."""
    found = []
    for hint in HINT.finditer(text):
        alarm = ALARM.search(text, max(0, hint.start() - 8), hint.end() + 64)
        if alarm and alarm.start() < hint.end() and alarm["code"] != "0":
            found.append(alarm.start())
    return found
