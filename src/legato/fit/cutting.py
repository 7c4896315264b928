"""Cutting one text: what matters of it stays, and markers say how many tokens went.

`cut` finds out how many characters may stay. A planner says for such a number which gaps the text then has: `Tree` for
a text that is one JSON value, which it stays; else, or where no such value is small enough, `Lines`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from legato.fit.jsontree import tree
from legato.fit.lines import MARKED, Gap, Lines

__all__ = ["MARKED", "MARKER", "MARKER_TOKENS", "Count", "cut", "unmarked"]

MARKER = "[… {tokens:,} tokens omitted …]"

MARKER_TOKENS = 12
"""What a marker costs at most, for choosing a length; the cut itself is counted."""


def unmarked(text: str) -> str:
    """The text without the markers of what was cut from it before."""
    return MARKED.sub("", text)


MEASURED = 20_000
"""Longer gaps, in characters, are not counted: they share what is left of the whole by their length."""

Count = Callable[[str], int]
Plan = Callable[[int], list[Gap]]


def cut(text: str, tokens: int, count: Count) -> str:
    """At most `tokens + MARKER_TOKENS` of the text; the text itself if it is no longer, or if nothing would be saved.

    What stays, in this order: head and tail; whole lines; lines of the middle that tell of an error or an exit code,
    for a quarter of the room; whole characters and escape sequences. JSON stays JSON: its longest strings and the
    middle of its longest lists and objects go. Cutting what was cut changes nothing; cut to less, its old numbers are
    added to the new ones.

    `count` sees the whole text once, else only texts in the order of size of the result, and not often: some 20
    candidates, then the pieces, then gaps of up to `MEASURED` characters. Where a marker alone costs more than
    `tokens + MARKER_TOKENS` under it, a marker alone is the result.
    """
    total = count(text)
    if total <= tokens + MARKER_TOKENS:
        return text
    found = text
    for plan in _plans(text):
        found = _largest(text, plan, tokens, total, count)
        if count(found) <= tokens + MARKER_TOKENS:
            break
    return found if count(found) < total else text


def _plans(text: str) -> Iterator[Plan]:
    value = tree(text)
    if value is not None:
        yield value.gaps
    yield Lines(text).gaps


def _largest(text: str, plan: Plan, tokens: int, total: int, count: Count) -> str:
    """The text with the gaps of the greatest number of characters that fits, or with those of none at all."""
    limit, most = tokens + MARKER_TOKENS, 2 * len(text)
    fitting = [0]

    def fits(keep: int) -> bool:
        gaps = plan(keep)
        if count(_written(text, gaps, [total] * len(gaps))) > limit:
            return False
        fitting.append(keep)
        return True

    high = max(16, tokens)
    while high < most and fits(high):
        high = min(2 * high, most)
    while high - fitting[-1] > max(1, fitting[-1] // 64):
        middle = (fitting[-1] + high) // 2
        if not fits(middle):
            high = middle
    while True:
        gaps = plan(fitting.pop())
        written = _written(text, gaps, _gone(text, gaps, total, count))
        if not fitting or count(written) <= limit:
            return written


def _written(text: str, gaps: Sequence[Gap], gone: Sequence[int]) -> str:
    """The text with a marker in place of each gap."""
    pieces, done = [], 0
    for gap, tokens in zip(gaps, gone, strict=True):
        pieces += [text[done : gap.start], gap.before, MARKER.format(tokens=tokens), gap.after]
        done = gap.stop
    return "".join([*pieces, text[done:]])


def _gone(text: str, gaps: Sequence[Gap], total: int, count: Count) -> list[int]:
    """The tokens of each gap, in which an older marker stands for its number."""
    gone = [count(unmarked(text[gap.start : gap.stop])) if _is_measured(gap) else 0 for gap in gaps]
    long = sum(gap.stop - gap.start for gap in gaps if not _is_measured(gap))
    if long:
        rest = max(0, total - sum(gone) - sum(count(piece) for piece in _kept(text, gaps)))
        for at, gap in enumerate(gaps):
            if not _is_measured(gap):
                gone[at] = rest * (gap.stop - gap.start) // long
                rest, long = rest - gone[at], long - (gap.stop - gap.start)
    return [tokens + _carried(text, gap) for tokens, gap in zip(gone, gaps, strict=True)]


def _is_measured(gap: Gap) -> bool:
    return gap.stop - gap.start <= MEASURED


def _kept(text: str, gaps: Sequence[Gap]) -> Iterator[str]:
    done = 0
    for gap in gaps:
        if done < gap.start:
            yield text[done : gap.start]
        done = gap.stop
    if done < len(text):
        yield text[done:]


def _carried(text: str, gap: Gap) -> int:
    return sum(int(marker[1].replace(",", "")) for marker in MARKED.finditer(text, gap.start, gap.stop))
