"""Long results: the model gets head and tail, the recall store the whole, `recall` any part of it.

What `recall` returns is a page of bounded size that says how to read on. It is never put in a store itself, so reading
back cannot go round in circles.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

from legato.agent.tool import Output, Tool, ToolError, tool
from legato.errors import GovernanceError
from legato.fit.cutting import Count, cut
from legato.messages import Json
from legato.recall import MAX_CHARS, Store, StoreError
from legato.tokens import counter

PREVIEW = 4
"""Characters of a token, at least: by this a preview is made no longer than the result that it stands for may be."""


def recall_tool(store: Store, max_chars: int = MAX_CHARS) -> Tool:
    """The tool that reads back what was cut or left out of the conversation."""

    def recall(handle: str, start: int = 1, lines: int | None = None, pattern: str | None = None) -> str:
        """Read back a result that was cut, or left out of the conversation, under the handle that stands in its place.

        Args:
            handle: The handle, 16 hexadecimal digits.
            start: Number of the first line, from 1.
            lines: How many lines at most; without it as many as can be shown at once.
            pattern: Only lines that match this regular expression.
        """
        try:
            return str(store.recall(handle, start, lines, pattern, max_chars=max_chars))
        except GovernanceError as problem:
            raise ToolError(str(problem)) from None

    return tool(recall, reads_only=True, bounded=True)


def kept(tools: Iterable[Tool], store: Store | None, max_chars: int, count: Count | None = None) -> list[Tool]:
    """The tools, with results of no more than about `max_chars` characters; the whole of a longer one is in the store.

    Without a store it says that the rest is gone. `count` counts tokens; None: by the vocabulary of OpenAI's models.
    """
    counts = count or counter("o200k_base")
    return [each if each.bounded else _kept(each, store, max_chars, counts) for each in tools]


def _kept(inner: Tool, store: Store | None, max_chars: int, count: Count) -> Tool:
    async def run(**arguments: Json) -> Output | str:
        result = await inner.run(**arguments)
        output = Output(result) if isinstance(result, str) else result
        if not isinstance(output, Output) or len(output.text) <= max_chars:
            return output
        return await asyncio.to_thread(shorten, output, store, max_chars, count)

    return msgspec.structs.replace(inner, run=run)


def shorten(output: Output, store: Store | None, max_chars: int, count: Count) -> Output:
    """A preview of an output, with the handle of the whole."""
    text = output.text
    preview = cut(text, max_chars // PREVIEW, count)
    size = f"{len(text):,} characters, {count(text):,} tokens"
    if store is None:
        note = f"this result was cut; it has {size}, and the rest was not kept"
    else:
        try:
            handle = store.keep(text)
            note = f'this result was cut; it has {size}, and recall("{handle}") returns the whole of it, page by page'
        except StoreError as problem:
            note = f"this result was cut; it has {size}, and the rest could not be kept: {problem}"
    return Output(f"{preview}\n[{note}]", output.error)
