"""A store in a folder: one file a text, `ab/abcdef0123456789.txt`, as plain UTF-8 that any tool can read."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from tempfile import mkstemp
from threading import get_ident
from time import time

from legato.recall.store import MAX_AGE, MAX_BYTES, Entry, Kept, StoreError, TextStore

SHELF = re.compile(r"[0-9a-f]{1,2}")
TEXT = re.compile(r"[0-9a-f]{1,64}\.txt")
PART = ".recall-"
"""How the name of a file starts that is being written or removed."""
ABANDONED = 3600.0
"""So many seconds after it was last written to, such a file was left behind by a process that was killed."""
LOOK = 16
"""After writing one part in so many of the cap a process looks what others have written meanwhile."""


class FolderStore(TextStore):
    """Keeps texts in a folder, readable by its owner alone; other files in it are left alone.

    A file appears whole, on the disk, under its name or not at all; it carries the time when it was last kept.
    Between two looks at the folder each process may go over the cap by what others write, at most a `LOOK`th part each.
    What is older than `max_age` is removed when a text is kept.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_bytes: int = MAX_BYTES,
        max_age: float | None = MAX_AGE,
        now: Callable[[], float] = time,
    ) -> None:
        super().__init__(max_bytes, max_age, now)
        self.path = os.path.abspath(path)
        self._total: int | None = None
        self._unseen = 0
        with self._errors():
            os.makedirs(self.path, 0o700, exist_ok=True)

    def __repr__(self) -> str:
        return f"FolderStore({self.path!r})"

    def _read(self, handle: str) -> Kept | None:
        with self._errors():
            try:
                with open(self._file(handle), "rb") as stream:
                    return Kept(stream.read(), os.fstat(stream.fileno()).st_mtime)
            except FileNotFoundError:
                return None

    def _write(self, handle: str, data: bytes) -> None:
        with self._errors():
            self._make_room(len(data))
            file = self._file(handle)
            os.makedirs(os.path.dirname(file), 0o700, exist_ok=True)
            descriptor, part = mkstemp(prefix=PART, dir=self.path)
            try:
                with open(descriptor, "wb") as stream:
                    stream.write(data)
                    stream.flush()
                    os.fsync(stream.fileno())
                now = self.now()
                os.utime(part, (now, now))
                os.replace(part, file)
            except BaseException:
                with suppress(OSError):
                    os.unlink(part)
                raise

    def _stamp(self, handle: str) -> bool:
        now = self.now()
        with self._errors():
            try:
                os.utime(self._file(handle), (now, now))
            except FileNotFoundError:
                return False
        return True

    def _file(self, handle: str) -> str:
        return os.path.join(self.path, handle[:2], f"{handle}.txt")

    def _make_room(self, size: int) -> None:
        """Look what is there, and remove what must go, when the cap may be reached."""
        if self._total is None or self._total + size > self.max_bytes or self._unseen + size > self.max_bytes // LOOK:
            entries = list(self._entries())
            victims = self._victims(entries, size)
            for victim in victims:
                self._remove(victim)
            self._total = sum(entry.size for entry in entries) - sum(victim.size for victim in victims)
            self._unseen = 0
        self._total += size
        self._unseen += size

    def _entries(self) -> Iterator[Entry]:
        """The texts in the folder. What killed processes left behind is removed."""
        for name in os.listdir(self.path):
            inside = os.path.join(self.path, name)
            with suppress(FileNotFoundError):
                if name.startswith(PART) and self.now() - os.stat(inside).st_mtime > ABANDONED:
                    os.unlink(inside)
            if SHELF.fullmatch(name) and os.path.isdir(inside):
                for text in os.listdir(inside):
                    file = os.path.join(inside, text)
                    with suppress(FileNotFoundError):
                        if TEXT.fullmatch(text) and text.startswith(name):
                            found = os.stat(file)
                            yield Entry(found.st_mtime, found.st_size, file)

    def _remove(self, entry: Entry) -> None:
        """Remove a text, unless it was kept again since it was looked at."""
        gone = os.path.join(self.path, f"{PART}{os.getpid()}-{get_ident()}-{os.path.basename(entry.key)}")
        with suppress(FileNotFoundError):
            os.rename(entry.key, gone)
            if os.stat(gone).st_mtime == entry.stamp:
                os.unlink(gone)
            else:
                os.replace(gone, entry.key)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as problem:
            raise StoreError(f"{self.path}: {problem}") from problem
