"""Old results of tools that can be run again become one line (the document's microcompact)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from legato.edits import Edit, Request
from legato.errors import PolicyError
from legato.fit.shrink import MARKED
from legato.messages import Text, ToolResult, changed, text_of
from legato.rules.pair import BACKFILL
from legato.rules.violation import Rule

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
        places = self._results(request)
        new: dict[int, dict[int, ToolResult]] = {}
        reasons: dict[int, str] = {}
        for at, part, tool, result in places[: max(0, len(places) - self.keep)]:
            text = text_of(result.parts)
            line = self.placeholder.format(tool=tool)
            if not self.is_stale(tool, text, count) or text is None:
                continue
            if keep is not None:
                line = KEPT.format(tool=tool, tokens=count(text), handle=keep(text))
                if count(line) >= count(text):
                    continue
            new.setdefault(at, {})[part] = changed(result, parts=(Text(line, flat=True),))
            reasons[at] = f"a result of {tool} older than the newest {self.keep}"
        return [
            Edit(
                at,
                (
                    changed(
                        transcript[at], parts=tuple([parts.get(i, part) for i, part in enumerate(transcript[at].parts)])
                    ),
                ),
                STALE.code,
                reasons[at],
            )
            for at, parts in new.items()
        ]

    def results(self, request: Request) -> list[tuple[str, str | None]]:
        """The results in question in order, by their tool and text: None where they are no text."""
        return [(tool, text_of(result.parts)) for _, _, tool, result in self._results(request)]

    def is_stale(self, tool: str, text: str | None, count: Callable[[str], int]) -> bool:
        """Whether the result is replaced when it is old: long enough, not legato's own, and costlier than its line.

        The document's own line replaces it at any price.
        """
        line = self.placeholder.format(tool=tool)
        if text is None or len(text) < self.min_chars or text in (line, BACKFILL) or MARKED.search(text):
            return False
        return (self.placeholder, self.tools) == (PLACEHOLDER, TOOLS) or count(line) < count(text)

    def _results(self, request: Request) -> list[tuple[int, int, str, ToolResult]]:
        """The results of the tools in question, in order: message, part, tool and result."""
        found = []
        for call in request.pairs[0]:
            for at, part in call.results:
                result = request.transcript[at].parts[part]
                assert isinstance(result, ToolResult)
                tool = result.name or call.call.name
                if tool in self.tools:
                    found.append((at, part, tool, result))
        return sorted(found, key=lambda place: place[:2])
