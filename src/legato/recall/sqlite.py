"""A store in one SQLite file, for where one file is easier to carry about, or the cap must be exact."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import time
from typing import Any

from legato.recall.store import MAX_AGE, MAX_BYTES, Entry, Kept, StoreError, TextStore

SCHEMA = (
    """CREATE TABLE IF NOT EXISTS legato_recall
    (handle TEXT PRIMARY KEY, stamp REAL NOT NULL, size INTEGER NOT NULL, data BLOB NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS legato_recall_oldest ON legato_recall (stamp, size, handle)",
)
WAIT = 60.0
"""Seconds to wait for other processes that are writing."""

_INHERITED: list[Connection] = []
"""Connections that a fork copied into this process: SQLite forbids to use them, and to close them."""


class Connection(sqlite3.Connection):
    """A connection that is closed when nothing refers to it any more, in the process that opened it."""

    def __init__(self, path: str) -> None:
        self.process = os.getpid()
        super().__init__(path, timeout=WAIT, isolation_level=None, check_same_thread=False)

    def __del__(self) -> None:
        if self.process != os.getpid():
            _INHERITED.append(self)
            return
        with suppress(sqlite3.Error):
            self.close()


class SQLiteStore(TextStore):
    """Keeps texts in a table of an SQLite file, readable by its owner alone; other tables in it are left alone.

    Every thread has a connection of its own, and so has a process after a fork. The cap is exact, in any number of
    processes; the file does not shrink, new texts take the place of evicted ones. What is older than `max_age` is
    removed when a text is kept. Write-ahead logging needs shared memory: the file must be on a local disk.
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
        self._local = threading.local()
        with self._database():
            pass

    def __repr__(self) -> str:
        return f"SQLiteStore({self.path!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_local"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _local=threading.local())

    def close(self) -> None:
        """Close this thread's connection; the next use opens another. A thread that ends closes its own."""
        vars(self._local).pop("connection", None)

    def _read(self, handle: str) -> Kept | None:
        with self._database() as database:
            row = database.execute(
                "SELECT CAST(data AS BLOB), stamp FROM legato_recall WHERE handle = ?", (handle,)
            ).fetchone()
        return None if row is None else Kept(*row)

    def _write(self, handle: str, data: bytes) -> None:
        with self._database() as database, database:
            database.execute("BEGIN IMMEDIATE")
            total, oldest = database.execute("SELECT TOTAL(size), MIN(stamp) FROM legato_recall").fetchone()
            if total + len(data) > self.max_bytes or (oldest is not None and self._is_expired(oldest)):
                entries = database.execute("SELECT stamp, size, handle FROM legato_recall")
                victims = [(victim.key,) for victim in self._victims(map(Entry._make, entries), len(data))]
                database.executemany("DELETE FROM legato_recall WHERE handle = ?", victims)
            row = (handle, self.now(), len(data), data)
            database.execute("INSERT OR REPLACE INTO legato_recall VALUES (?, ?, ?, ?)", row)

    def _stamp(self, handle: str) -> bool:
        with self._database() as database:
            update = "UPDATE legato_recall SET stamp = ? WHERE handle = ?"
            return database.execute(update, (self.now(), handle)).rowcount > 0

    @contextmanager
    def _database(self) -> Iterator[Connection]:
        """This thread's connection. Raises `StoreError` for whatever goes wrong with it."""
        try:
            yield self._connection()
        except (sqlite3.Error, OSError, ValueError, OverflowError) as problem:
            raise StoreError(f"{self.path}: {problem}") from problem

    def _connection(self) -> Connection:
        known: Connection | None = getattr(self._local, "connection", None)
        if known is not None and known.process == os.getpid():
            return known
        os.makedirs(os.path.dirname(self.path), 0o700, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        connection = Connection(self.path)
        _write_ahead(connection)
        for statement in SCHEMA:
            connection.execute(statement)
        self._local.connection = connection
        return connection


def _write_ahead(connection: Connection) -> None:
    """Turn on write-ahead logging, which fails at once while another process writes or does the same: wait for it."""
    while connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as problem:
            if problem.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
        connection.execute("BEGIN IMMEDIATE")  # which does wait
        connection.execute("COMMIT")
