"""Counting the tokens of one text: exact, remembered, and for any text at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from threading import Lock
from unicodedata import normalize

from legato.profiles import Profile
from legato.tokens import encodings

RUN = 200_000
"""The longest whitespace run handed to tiktoken, in characters: from about 1,000,000 its regular expression panics."""

ENTRY = 100
"""What a remembered text weighs besides its characters."""

SPACES = re.compile(r"\s+")


class TextCounter:
    """Counts the tokens of a text under an encoding, as tiktoken's `encode_ordinary` does.

    Counts are remembered by text. `bound` limits what is held, in characters (plus `ENTRY` a text): when half of it
    is full the older half is forgotten. A counter may be shared between threads, and pickles without what it remembers.
    The vocabulary is loaded by the first count, which raises `VocabularyError` if that is impossible.
    """

    __slots__ = ("_held", "_lock", "_new", "_old", "bound", "encoding")

    def __init__(self, encoding: str = "o200k_base", bound: int = 32_000_000) -> None:
        self.encoding = encoding
        self.bound = bound
        self._new: dict[str, int] = {}
        self._old: dict[str, int] = {}
        self._held = 0
        self._lock = Lock()

    def __call__(self, text: str) -> int:
        tokens = self._new.get(text)
        return self._recall(text) if tokens is None else tokens

    def most(self, text: str) -> int:
        """No less than the tokens of a text, told without counting: none is less than a byte."""
        if text.isascii():
            return len(text)
        if encodings.known(self.encoding).nfc:
            text = normalize("NFC", text)
        return len(text.encode("utf-8", "surrogatepass"))

    def __reduce__(self) -> tuple[type[TextCounter], tuple[str, int]]:
        return TextCounter, (self.encoding, self.bound)

    def __repr__(self) -> str:
        return f"TextCounter({self.encoding!r})"

    @property
    def held(self) -> int:
        """What is remembered now, in the units of `bound`."""
        with self._lock:
            return sum(len(text) + ENTRY for memo in (self._new, self._old) for text in memo)

    def _recall(self, text: str) -> int:
        tokens = self._old.get(text)
        if tokens is None:
            tokens = self._count(text)
        weight = len(text) + ENTRY
        if weight <= self.bound // 2:
            with self._lock:
                if self._held + weight > self.bound // 2:
                    self._old, self._new, self._held = self._new, {}, 0
                if text not in self._new:
                    self._new[text] = tokens
                    self._held += weight
        return tokens

    def _count(self, text: str) -> int:
        count = _engine(self.encoding)
        return count(text) if len(text) <= RUN else sum(map(count, _pieces(text)))


def counting(profile: Profile) -> tuple[TextCounter, float]:
    """The counter for a profile's models, and how many of their tokens one of its tokens may be.

    It is that of their own vocabulary where a package that has it is installed, else that of the public one which
    stands in.
    """
    if profile.vocabulary and encodings.find(profile.vocabulary):
        return counter(profile.vocabulary), 1.0
    return counter(profile.encoding), profile.token_factor


@cache
def counter(encoding: str) -> TextCounter:
    """The one counter of an encoding that all of this process share, with what it remembers."""
    return TextCounter(encoding)


@cache
def _engine(encoding: str) -> Callable[[str], int]:
    # The one import inside a function: tiktoken is loaded when something is counted, not by `import legato`.
    from legato.tokens.vocabulary import engine  # noqa: PLC0415

    return engine(encoding)


def _pieces(text: str) -> Iterator[str]:
    """The text, cut so that no whitespace run is longer than `RUN`."""
    start = 0
    for run in SPACES.finditer(text):
        for cut in range(run.start() + RUN, run.end(), RUN):
            yield text[start:cut]
            start = cut
    yield text[start:]
