"""Old results of tools that can be run again become one line (the document's microcompact)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from legato.edits import Edit, Request
from legato.errors import PolicyError
from legato.fit.cutting import unmarked
from legato.messages import Message, Opaque, Text, ToolResult, changed, text_of
from legato.pairing import Call
from legato.rules.pair import BACKFILL
from legato.rules.violation import Rule
from legato.wire import shape

STALE = Rule("SIZE001", "stale-tool-result", "An old result of a tool that can be run again fills the window.")

TOOLS = (
    "read_file",
    "exec",
    "grep",
    "find_files",
    "web_search",
    "web_fetch",
    "list_dir",
    "list_exec_sessions",
)
PLACEHOLDER = "[{tool} result omitted from context]"
RECALL = "recall"
"""The tool that reads the store, which `KEPT` tells the model to call."""
KEPT = '[{tool} was done. Its result, {tokens:,} tokens, was left out to save context: recall("{handle}") returns it.]'
"""What stands for a result that is kept in a store."""

Keep = Callable[[str], str]
"""Keeps a text and returns the handle under which it can be had again."""


class Place(msgspec.Struct, frozen=True):
    """Where a result stands: its message and its part there; and the tool it is of."""

    at: int
    part: int
    tool: str


def said(result: ToolResult) -> str | None:
    """The text of a result, or the JSON of one that is an object (Gemini's are). None where it is media or blocks."""
    value = result.parts[0].raw if len(result.parts) == 1 and isinstance(result.parts[0], Opaque) else None
    if isinstance(value, dict) and "type" not in value:
        return shape.dump(value)
    return text_of(result.parts)


class Microcompact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which results are replaced, and by what. The defaults are the document's, and only they replace at any price."""

    tools: tuple[str, ...] = TOOLS
    """The tools whose results are replaced."""
    keep: int = 10
    """So many of their newest results are kept whole, counted over the whole history."""
    min_chars: int = 500
    """Shorter texts are left alone."""
    placeholder: str = PLACEHOLDER
    """What stands for a result; `{tool}` is the tool's name."""

    def __post_init__(self) -> None:
        if self.keep < 0 or self.min_chars < 0:
            raise PolicyError(f"keep and min_chars must not be negative: {self.keep}, {self.min_chars}")
        try:
            self.placeholder.format(tool="")
        except (KeyError, IndexError, ValueError) as problem:
            raise PolicyError(f"the placeholder {self.placeholder!r} may only name {{tool}}") from problem

    def plan(self, request: Request, count: Callable[[str], int], keep: Keep | None = None) -> list[Edit]:
        """One edit a message that holds a stale result. With `keep` the placeholder says how to get it back."""
        transcript = request.transcript
        found = self.results(request.pairs[0], transcript)
        new: dict[int, Message] = {}
        reasons: dict[int, str] = {}
        for place in found[: max(0, len(found) - self.keep)]:
            at = place.at
            message = self.compacted(new.get(at, transcript[at]), place, count, keep)
            if message is not None:
                new[at] = message
                reasons[at] = f"a result of {place.tool} older than the newest {self.keep}"
        return [Edit(at, (message,), STALE.code, reasons[at]) for at, message in new.items()]

    def results(self, calls: Iterable[Call], transcript: Sequence[Message], offset: int = 0) -> list[Place]:
        """The results of the tools in question, in order. `offset` is added to their places."""
        found = []
        for call in calls:
            for at, part in call.results:
                result = transcript[at].parts[part]
                assert isinstance(result, ToolResult)
                tool = result.name or call.call.name
                if tool in self.tools:
                    found.append(Place(at + offset, part, tool))
        return sorted(found, key=lambda place: (place.at, place.part))

    def compacted(
        self, message: Message, place: Place, count: Callable[[str], int], keep: Keep | None = None
    ) -> Message | None:
        """The message with a line for its result there, which is old. None where that stays.

        A result that is short, no text, or legato's own does; and one that costs no more than its line, which the
        document's own line replaces at any price.
        """
        result = message.parts[place.part]
        assert isinstance(result, ToolResult)
        text = said(result)
        line = self.placeholder.format(tool=place.tool)
        if text is None or text in (line, BACKFILL) or len(unmarked(text)) < self.min_chars:
            return None
        if (self.placeholder, self.tools) != (PLACEHOLDER, TOOLS) and count(line) >= count(text):
            return None
        if keep is not None:
            line = KEPT.format(tool=place.tool, tokens=count(text), handle=keep(text))
            if count(line) >= count(text):
                return None
        new = changed(result, parts=(Text(line, flat=True),))
        return changed(message, parts=(*message.parts[: place.part], new, *message.parts[place.part + 1 :]))
