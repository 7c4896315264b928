"""What a store promises, and what a folder and a database do alike to keep it."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import ClassVar, NamedTuple, Protocol

from legato.errors import GovernanceError, PolicyError
from legato.recall.page import MAX_CHARS, Recalled, page

MAX_BYTES = 1 << 30
MAX_AGE = 30 * 24 * 3600.0

FRESH = 60.0
"""What was stamped so many seconds ago or less is never evicted: a request that names it is still being written."""
RENEW = 30.0
"""A text that is kept again this soon is not stamped anew: one that was just kept is safe for `FRESH - RENEW`."""
SLACK = 8
"""A full store is emptied until one part in so many is free, so that not every text has to look for the oldest."""


class StoreError(GovernanceError):
    """The store cannot do it: disk full, not writable, larger than the cap, damaged. What it held before, it holds."""


class UnknownHandle(GovernanceError, LookupError):
    """Nothing is kept under this handle, or no longer."""

    def __init__(self, handle: str, problem: str) -> None:
        super().__init__(f"{handle[:80]!r} {problem}; run the tool again if its result is needed")
        self.handle = handle


class Store(Protocol):
    """Keeps texts. Safe under several threads and processes at once."""

    def keep(self, text: str) -> str:
        """Keep a text and return its handle: the same for the same text, everywhere. Raises `StoreError`."""

    def recall(
        self,
        handle: str,
        start: int = 1,
        lines: int | None = None,
        pattern: str | None = None,
        *,
        max_chars: int | None = MAX_CHARS,
    ) -> Recalled:
        """The text, or a part of it: see `page`. Raises `UnknownHandle`, `QueryError`, `StoreError`."""


class Kept(NamedTuple):
    """What is kept under a handle, and when it was kept last, in seconds."""

    data: bytes
    stamp: float


class Entry(NamedTuple):
    """One text of a store, as eviction sees it: the oldest is the smallest."""

    stamp: float
    size: int
    key: str


class TextStore(ABC):
    """A store of texts as UTF-8 (half a surrogate pair is written as if it were a character).

    A handle is the start of the SHA-256 of those bytes, or all of it if another text holds the short one. `max_bytes`
    caps what is kept, counted in those bytes: beyond it the texts go that were kept longest ago. `max_age` is in
    seconds since a text was last kept; None: for ever. `now` is the clock, in seconds.
    """

    digits: ClassVar[int] = 16
    """Hexadecimal digits of a handle."""

    def __init__(self, max_bytes: int, max_age: float | None, now: Callable[[], float]) -> None:
        if max_bytes <= 0 or (max_age is not None and max_age <= 0):
            raise PolicyError(f"max_bytes and max_age must be more than nothing: {max_bytes}, {max_age}")
        self.max_bytes = max_bytes
        self.max_age = max_age
        self.now = now

    def keep(self, text: str) -> str:
        """Keep a text and return its handle. Raises `StoreError`."""
        data = text.encode("utf-8", "surrogatepass")
        if len(data) > self.max_bytes:
            raise StoreError(f"a text of {len(data):,} bytes is more than max_bytes {self.max_bytes:,}")
        digest = sha256(data).hexdigest()
        for handle in (digest[: self.digits], digest):
            if self._claim(handle, data):
                return handle
        raise StoreError(f"{digest} is the SHA-256 of two texts")

    def recall(
        self,
        handle: str,
        start: int = 1,
        lines: int | None = None,
        pattern: str | None = None,
        *,
        max_chars: int | None = MAX_CHARS,
    ) -> Recalled:
        """The text, or a part of it: see `page`. Raises `UnknownHandle`, `QueryError`, `StoreError`."""
        return page(self._text(handle), start, lines, pattern, max_chars)

    def _text(self, handle: str) -> str:
        if not re.fullmatch(rf"[0-9a-f]{{{self.digits}}}|[0-9a-f]{{64}}", handle):
            raise UnknownHandle(handle, f"is no handle: that is {self.digits} hexadecimal digits")
        kept = self._read(handle)
        if kept is None:
            raise UnknownHandle(handle, "is not in this store: it was never kept here, has expired or was evicted")
        if self._is_expired(kept.stamp):
            raise UnknownHandle(handle, f"has expired: it was last kept more than {self.max_age:,.0f} seconds ago")
        if not sha256(kept.data).hexdigest().startswith(handle):
            raise StoreError(f"what is kept under {handle} is damaged: its SHA-256 is another")
        return kept.data.decode("utf-8", "surrogatepass")

    def _claim(self, handle: str, data: bytes) -> bool:
        """Keep the bytes under a handle and return True, unless another text is there by right. Damage is mended."""
        kept = self._read(handle)
        if kept is None:
            self._write(handle, data)
        elif kept.data != data:
            if sha256(kept.data).hexdigest().startswith(handle):
                return False
            self._write(handle, data)
        elif self._is_stale(kept.stamp) and not self._stamp(handle):
            self._write(handle, data)
        return True

    def _is_expired(self, stamp: float) -> bool:
        return self.max_age is not None and self.now() - stamp > self.max_age

    def _is_stale(self, stamp: float) -> bool:
        """Whether a text that is kept again must be stamped anew."""
        enough = RENEW if self.max_age is None else min(RENEW, self.max_age / 10)
        return not 0 <= self.now() - stamp < enough

    def _victims(self, entries: Iterable[Entry], size: int) -> list[Entry]:
        """What must go before `size` more bytes are kept. Raises `StoreError` if too much of it is fresh."""
        oldest = sorted(entries)
        total = sum(entry.size for entry in oldest)
        full, room = total + size > self.max_bytes, max(size, self.max_bytes // SLACK)
        victims, now = [], self.now()
        for entry in oldest:
            needed = full and total + room > self.max_bytes and now - entry.stamp > FRESH
            if not (needed or self._is_expired(entry.stamp)):
                break
            victims.append(entry)
            total -= entry.size
        if total + size > self.max_bytes:
            raise StoreError(
                f"the store is full: {total:,} bytes were kept in the last {FRESH:.0f} seconds, which leaves no room "
                f"for {size:,} more under max_bytes {self.max_bytes:,}; raise it"
            )
        return victims

    @abstractmethod
    def _read(self, handle: str) -> Kept | None:
        """What is kept under a handle. Raises `StoreError`."""

    @abstractmethod
    def _write(self, handle: str, data: bytes) -> None:
        """Make room, and put the bytes under the handle all at once. Raises `StoreError`."""

    @abstractmethod
    def _stamp(self, handle: str) -> bool:
        """Note that it was kept now. False if it is not there any more. Raises `StoreError`."""
