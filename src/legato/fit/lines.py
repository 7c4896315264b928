"""What to leave out of a text: whole lines of its middle, but not those that tell of an error or an exit code.

Where lines are too long for that the border falls between words, else between characters as a reader sees them, and
never inside an escape sequence of a terminal.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from itertools import islice
from typing import NamedTuple

MARKED = re.compile(r"\[… ([0-9][0-9,]{0,24}) tokens omitted …\]")
"""The marker of a gap, with its number."""

MARKER_CHARS = 32
"""About as long is a marker: it does not stand for less."""

SHARE = 4
"""One part in so many is for what tells of an error, two if it is one line."""

ALARMS = 20
"""So many lines that tell of an error are kept at most, each with a gap around it."""

LONGEST = 1_000
"""Longer lines, in characters, are not looked at for errors."""

MOST = 50_000
"""So many lines are looked at for errors."""

WORD = 24
"""A word that is longer may be cut."""

HINT = re.compile(
    r"rror|RROR|xcept|XCEPT|nterrupt|fail|Fail|FAIL|atal|ATAL|anic|ANIC|bort|BORT|gmentation|umped|xit|XIT"
    r"|turn[ _-]?code|ERR!|错误|失败|异常|致命|退出|返回"
)
"""Part of everything that `ALARM` finds, four times as fast."""

ALARM = re.compile(
    r"""(?ix)
    (?: (?<![a-z_]) | (?<=\\n) ) (?<!\b0\ ) (?<!\bno\ )
    (?: (?: error | exception | failure | abort | panic ) s? | failed | fail | fatal | aborted | panicked )
    (?![a-z_]) (?! ["']? \s* [:=] \s* (?: 0\b | null | none | nil | false | \[\] | \{\} | "" | '' ) )
    | (?: \b | (?<=\\n) ) (?-i: [A-Z][A-Za-z]* (?: Error | Exception | Exit | Interrupt ) ) (?![a-z_])
    | segmentation\ fault | core\ dumped | \bERR!
    | (?<!无) (?<!没有) (?: 错误 | 失败 | 异常 | 致命 )
    | (?: (?<![a-z]) exit(?:ed|s)? (?:[ _-]with)? (?:[ _-]an?)? (?:[ _-]non-?zero)? (?:[ _-]exit)?
          (?: [ _-]? (?: code | status ) )?
        | return[ _-]?code
        | (?: 退出 | 返回 ) (?: 代?码 | 状态码? | 值 )?
      ) ["']? \s* [:：=为是]? \s* (?P<code> -?\d+ )
    """
)
"""What tells of an error or an exit code; `0 errors` and `"error": null` do not."""

REPORT = re.compile(
    r"""(?x)
    \b (?: ERROR | FATAL | FAILED | FAILURE | FAIL | PANIC | EXCEPTION | ABORTED )S? \b
    | (?i: \b (?: error | exception | failure | failed | fatal | panic )s?
           (?: \s* [\]:!\[] | \s [A-Z]{0,3}\d | \s code ) )
    | \b [A-Z][A-Za-z]* (?: Error | Exception | Exit | Interrupt ) (?: :\s | $ )
    | ^ \W* (?i: error | exception | failed | fatal | panic )s? \b
    | [1-9] \s (?i: errors? | failed | failures? | exceptions? ) \b
    | segmentation\ fault | core\ dumped | \bERR! | [\u4e00-\u9fff]
    """
)
"""Which of the lines that `ALARM` finds report an error, rather than speak of one."""

NUMBERED = re.compile(r"[\s>]*\d+\s*(?::(?!\d)|[→|│\t])")
"""A line of a file that is shown with line numbers."""

SOURCE = re.compile(
    rf"(?:{NUMBERED.pattern})?[\s}}]*(?:(?:raise|except|throw|catch|import|from|class|def|if|elif|else|for|while|assert|await"
    r"|const|let|var|func|fn|return(?!\s*code))\b|//|/\*|\* |#(?!\d)|\||<!--|\"\"\")|.*[{(;]\s*$"
)
"""A line of a program, a comment or a table."""

NUMBER = re.compile("[0-9]+")

ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-Z\\^-~]", re.ASCII
)
"""An escape sequence of a terminal."""

SEALED = re.compile(rf"(?P<marker>\n?{MARKED.pattern}\n?)|{ESCAPE.pattern}")
WINDOW = 256
"""So far around a border a marker or an escape sequence is looked for."""

CLUSTER = 16
"""So many characters are taken for one at most, as a reader sees them."""

JOINER = "\u200d"

Span = tuple[int, int]


class Gap(NamedTuple):
    """What is left out, by its characters, and what stands before and after its marker."""

    start: int
    stop: int
    before: str
    after: str


class Lines:
    """Plans the gaps of a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._alarms: tuple[list[Span], list[Span]] | None = None

    def gaps(self, keep: int) -> list[Gap]:
        """The gaps that leave about `keep` characters, those of lines that tell of an error with their markers'."""
        head, tail = self._ends(keep)
        if head >= tail:
            return []
        if kept := self._chosen(head, tail, keep // SHARE):
            cost = sum(stop - start + MARKER_CHARS for start, stop in kept)
            head, tail = self._ends(max(keep - cost, keep // 2))
            kept = self._chosen(head, tail, keep // SHARE)
        borders = [head, *(border for span in kept for border in span), tail]
        found: list[Gap] = []
        for start, stop in zip(borders[::2], borders[1::2], strict=True):
            start, stop = _border(self.text, start, -1), _border(self.text, stop, 1)
            if stop - start >= MARKER_CHARS or not kept:
                if start and self.text[start] == "\n" != self.text[start - 1]:
                    start += 1  # The line break before the marker is the text's own.
                before = "" if start == 0 or self.text[start - 1] == "\n" else "\n"
                found.append(Gap(start, stop, before, "" if stop == len(self.text) else "\n"))
        return found

    def _ends(self, keep: int) -> Span:
        """Where the head ends and where the tail starts."""
        return _head(self.text, keep - keep // 2), _tail(self.text, keep // 2)

    def _chosen(self, head: int, tail: int, room: int) -> list[Span]:
        """Lines of the middle that tell of an error, the first of each kind sooner than its repetitions."""
        if self._alarms is None:
            self._alarms = _alarms(self.text)
        kept: list[Span] = []
        for spans in self._alarms:
            for start, stop in islice(spans, bisect_left(spans, (head, head)), None):
                if stop > tail or len(kept) == ALARMS:
                    break
                cost = stop - start + (MARKER_CHARS if kept and kept[-1][1] != start else 0)
                if cost <= (room if kept else 2 * room):
                    kept.append((start, stop))
                    room -= cost
        return sorted(kept)


def _alarms(text: str) -> tuple[list[Span], list[Span]]:
    """The lines that report an error; apart from them those that are one again but for its numbers, or less sure."""
    first: list[Span] = []
    again: list[Span] = []
    seen: set[str] = set()
    at = 0
    for _ in range(MOST):
        hint = HINT.search(text, at)
        if hint is None:
            break
        start = text.rfind("\n", at, hint.start()) + 1 or at
        at = text.find("\n", hint.end()) + 1 or len(text)
        if at - start > LONGEST:
            continue
        line = ESCAPE.sub("", text[start:at]).strip("\n")
        rank = _rank(line)
        if rank is not None:
            kind = NUMBER.sub("0", line.strip())
            (again if kind in seen or rank else first).append((start, at))
            seen.add(kind)
    return first, again


def _rank(line: str) -> int | None:
    """0 for a line that reports an error, 1 for one that speaks of one and for exit code 0."""
    alarm = ALARM.search(line)
    if alarm is None or SOURCE.match(line):
        return None
    if alarm["code"]:
        return int(alarm["code"] == "0")
    if REPORT.search(line):
        return 0
    return None if NUMBERED.match(line) else 1


def _head(text: str, room: int) -> int:
    """Where a head of at most so many characters ends: behind a line or a word, if that uses half of the room."""
    if room >= len(text):
        return len(text)
    line = text.rfind("\n", room // 2, room) + 1
    return line or text.rfind(" ", max(room // 2, room - WORD), room) + 1 or room


def _tail(text: str, room: int) -> int:
    """Where a tail of at most so many characters starts: see `_head`."""
    start, latest = max(0, len(text) - room), len(text) - room // 2
    if start == 0 or room == 0:
        return start
    line = text.find("\n", start - 1, latest) + 1
    return line or text.find(" ", start - 1, min(start + WORD, latest)) + 1 or start


def _border(text: str, at: int, step: int) -> int:
    """The nearest place in that direction where the text may be cut. A gap takes in the markers that it touches."""
    for _ in range(CLUSTER):
        if not 0 < at < len(text) or not _is_joined(text[at - 1], text[at]):
            break
        at += step
    for sealed in SEALED.finditer(text, max(0, at - WINDOW), at + WINDOW):
        start, stop = sealed.span()
        touched = sealed["marker"] and at == (stop if step < 0 else start)
        if start < at < stop or touched:
            return start if step < 0 else stop
    return at


def _is_joined(before: str, after: str) -> bool:
    """Whether two characters are one to a reader: combining marks, emoji, flags, CR LF, halves of a surrogate pair."""
    if after < "\u0300":
        return before == "\r" and after == "\n"
    return (
        JOINER in (before, after)
        or unicodedata.category(after)[0] == "M"
        or "\U0001f3fb" <= after <= "\U0001f3ff"
        or "\U000e0020" <= after <= "\U000e007f"
        or ("\U0001f1e6" <= before <= "\U0001f1ff" and "\U0001f1e6" <= after <= "\U0001f1ff")
        or ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")
    )
