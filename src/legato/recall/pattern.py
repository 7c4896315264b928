"""Regular expressions in time linear in the text, whatever the pattern: a lazily built automaton, no backtracking.

Python's `re` takes for ever over patterns such as `(a+)+$`, and there is no way to stop it. Here it only reads single
characters and classes, so that what they match is the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from operator import getitem
from typing import TypeAlias

from legato.errors import GovernanceError

LONGEST = 200
"""Characters of a pattern."""
NODES = 2_000
"""What a pattern may amount to when its counted repeats are written out."""
WORK = 3_000_000
"""Nodes looked at while states are made: about a second. Few patterns need more than thousands."""
OVERHEAD = 5
"""What making a state costs besides, in nodes."""

TOKEN = re.compile(
    r"""(?P<repeat>(?:[*+?]|\{(?P<low>[0-9]*),(?P<high>[0-9]*)\}|\{(?P<exact>[0-9]+)\})(?P<mode>[?+]?))
    |(?P<edge>[\^$]|\\[AbBZz])
    |(?P<char>\[\^?\]?(?:\\.|[^\]\\])*\]|\\(?:x..|u.{4}|U.{8}|N\{[^}]*\}|0[0-7]{0,2}|[0-3][0-7]{2}|[^0-9])|[^\\()|*+?])
    |(?P<group>\((?:\?:|\?P<\w+>|(?!\?)))""",
    re.VERBOSE | re.DOTALL,
)
FLAGS = re.compile(r"(?:\(\?[aimsu]+\))+")
REFUSED = "lookaround, backreferences, atomic groups, possessive repeats, flags other than (?i) in front are refused"
SAME = {"\\A": "^", "\\Z": "$", "\\z": "$"}
EDGE, WORD, OTHER = "edge", "word", "other"
"""What stands beside a place in a line: nothing, a character that `\\w` matches, another one."""

Build: TypeAlias = Callable[["Node"], "Node"]
"""Makes the nodes of an expression before the node that follows it."""


class QueryError(GovernanceError, ValueError):
    """What was asked of a text is refused: a line number that is none, or a pattern."""


class Node:
    """Reads a character that `reads` accepts, or stands at an `edge`, or neither; then goes on to any of `then`."""

    __slots__ = ("edge", "reads", "then")

    def __init__(
        self, then: Iterable[Node], reads: Callable[[str], object] | None = None, edge: str | None = None
    ) -> None:
        self.then = tuple(then)
        self.reads = reads
        self.edge = edge


class State(dict[str, "State"]):
    """Where a search may be: the state after each character that it has met here before. Others are worked out."""

    __slots__ = ("before", "nodes", "pattern")

    def __init__(self, pattern: Pattern, nodes: frozenset[Node], before: str) -> None:
        super().__init__()
        self.pattern = pattern
        self.nodes = nodes
        self.before = before

    def __missing__(self, char: str) -> State:
        self[char] = after = self.pattern.after(self, char)
        return after


class Pattern:
    """A pattern in the syntax of `re`, without what needs backtracking: lookaround, backreferences, atomic groups.

    `(?i)` in front ignores case. Raises `QueryError`.
    """

    def __init__(self, source: str) -> None:
        if not isinstance(source, str) or len(source) > LONGEST:
            raise QueryError(f"a pattern is text of at most {LONGEST} characters")
        try:
            self._flags = re.compile(source).flags & (re.IGNORECASE | re.ASCII)
        except (re.error, OverflowError, RecursionError) as problem:
            raise QueryError(f"the pattern {source!r} is no regular expression: {problem}") from None
        self._source = source
        flags = FLAGS.match(source)
        self._at = flags.end() if flags else 0
        self._word = re.compile(r"\w", self._flags).match
        self._nodes = self._work = 0
        self._states: dict[tuple[frozenset[Node], str], State] = {}
        self._end = Node(())
        self._start = self._either()(self._end)
        self._found = self._state(frozenset((self._end,)), OTHER)
        self._fresh = {kind: self._state(frozenset((self._start,)), kind) for kind in (EDGE, WORD, OTHER)}

    def pieces(self, line: str, width: int) -> Iterator[int]:
        """The numbers, from 0, of the pieces of `width` characters in which a match ends.

        After a match the search goes on with the next piece, and what is before that is only looked at as an edge.
        """
        state, running = self._fresh[EDGE], False
        for start in range(0, len(line), width):
            piece = line[start : start + width]
            if running and state[piece[0]] is self._found:
                yield start // width - 1
                state = self._fresh[self._kind(line[start - 1])]
            state = reduce(getitem, piece, state)
            running = state is not self._found
            if not running:
                yield start // width
                state = self._fresh[self._kind(piece[-1])]
        if (running or not line) and state[""] is self._found:
            yield max(0, len(line) - 1) // width

    def after(self, state: State, char: str) -> State:
        """The state after one more character, or the end (empty); for ever the same once a match has ended."""
        reached = self._reached(state, self._kind(char))
        if self._end in reached:
            return self._found
        nodes = {after for node in reached if node.reads and node.reads(char) for after in node.then}
        return self._state(frozenset((*nodes, self._start)), self._kind(char))

    def _state(self, nodes: frozenset[Node], before: str) -> State:
        known = self._states.get((nodes, before))
        if known is None:
            known = self._states[nodes, before] = State(self, nodes, before)
        return known

    def _kind(self, char: str) -> str:
        return EDGE if not char else WORD if self._word(char) else OTHER

    def _reached(self, state: State, after: str) -> set[Node]:
        """The nodes that a state comes to without reading, when such a character is the next. Raises `QueryError`."""
        reached: set[Node] = set()
        todo = list(state.nodes)
        while todo:
            node = todo.pop()
            if node not in reached and (node.edge is None or _holds(node.edge, state.before, after)):
                reached.add(node)
                if node.reads is None:
                    todo += node.then
        self._work += len(reached) + OVERHEAD
        if self._work > WORK:
            raise QueryError(f"the pattern {self._source!r} is too costly for this text; make it simpler")
        return reached

    def _either(self) -> Build:
        """What is read up to the end of the group: one of several, with `|` between them."""
        options = [self._sequence()]
        while self._source.startswith("|", self._at):
            self._at += 1
            options.append(self._sequence())
        return options[0] if len(options) == 1 else lambda then: self._node([option(then) for option in options])

    def _sequence(self) -> Build:
        items: list[Build] = []
        while self._at < len(self._source) and self._source[self._at] not in "|)":
            token = TOKEN.match(self._source, self._at)
            if token is None or token["mode"] == "+":
                raise QueryError(f"the pattern has {self._source[self._at :][:8]!r}: {REFUSED}")
            self._at = token.end()
            if token["repeat"]:
                items[-1] = self._repeat(items[-1], *_counts(token))
            elif token["edge"]:
                items.append(self._stand(SAME.get(token[0], token[0])))
            elif token["char"]:
                items.append(self._read(token[0]))
            else:
                items.append(self._either())
                self._at += 1
        return lambda then: reduce(lambda after, item: item(after), reversed(items), then)

    def _repeat(self, item: Build, low: int, high: int | None) -> Build:
        def build(then: Node) -> Node:
            entry = then
            if high is None:
                entry = self._node([])
                entry.then = (item(entry), then)
            for _ in range(low, low if high is None else high):
                entry = self._node([item(entry), then])
            for _ in range(low):
                entry = self._node([item(entry)])
            return entry

        return build

    def _read(self, source: str) -> Build:
        reads = re.compile(source, self._flags | re.DOTALL).match
        return lambda then: self._node([then], reads)

    def _stand(self, edge: str) -> Build:
        return lambda then: self._node([then], edge=edge)

    def _node(
        self, then: Iterable[Node], reads: Callable[[str], object] | None = None, edge: str | None = None
    ) -> Node:
        self._nodes += 1
        if self._nodes > NODES:
            raise QueryError(f"the pattern {self._source!r} repeats too much: more than {NODES:,} characters to read")
        return Node(then, reads, edge)


def _counts(token: re.Match[str]) -> tuple[int, int | None]:
    """How often at least and at most (None: any number) the item before a repeat is read."""
    if token["exact"]:
        return int(token["exact"]), int(token["exact"])
    if token["low"] is not None:
        return int(token["low"] or 0), int(token["high"]) if token["high"] else None
    return {"*": (0, None), "+": (1, None), "?": (0, 1)}[token[0][0]]


def _holds(edge: str, before: str, after: str) -> bool:
    """Whether an edge is between two such neighbours."""
    if edge in "^$":
        return (before if edge == "^" else after) == EDGE
    return ((before == WORD) != (after == WORD)) == (edge == "\\b")
