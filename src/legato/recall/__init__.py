"""What was cut is kept: under a handle that every process computes alike, and read back whole or in part.

    store = open_store("~/.cache/legato")           # or sqlite:PATH, or a path that ends in .db or .sqlite
    handle = store.keep(text)
    print(store.recall(handle, start=1, lines=40))  # or pattern="error.*timeout"

`store.py` says what a store promises, `folder.py` and `sqlite.py` are the two there are, `page.py` cuts the part that
was asked for, `pattern.py` searches it in linear time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from time import time

from legato.errors import PolicyError
from legato.recall.folder import FolderStore
from legato.recall.page import MAX_CHARS, QueryError, Recalled
from legato.recall.sqlite import SQLiteStore
from legato.recall.store import MAX_AGE, MAX_BYTES, Store, StoreError, UnknownHandle

__all__ = [
    "MAX_CHARS",
    "FolderStore",
    "QueryError",
    "Recalled",
    "SQLiteStore",
    "Store",
    "StoreError",
    "UnknownHandle",
    "open_store",
]

SQLITE = "sqlite:"
"""What a specification starts with that names a database whatever its file is called."""
SUFFIXES = (".db", ".sqlite", ".sqlite3")


def open_store(
    spec: str | os.PathLike[str],
    *,
    max_bytes: int = MAX_BYTES,
    max_age: float | None = MAX_AGE,
    now: Callable[[], float] = time,
) -> FolderStore | SQLiteStore:
    """The store of a path: a database for `sqlite:PATH` and names such as `recall.db`, else a folder. `~` is the home.

    It is made if it is not there. Raises `StoreError`, and `PolicyError` for limits that no store can have.
    """
    path = os.fspath(spec)
    database = path.startswith(SQLITE) or path.lower().endswith(SUFFIXES)
    path = os.path.expanduser(path.removeprefix(SQLITE))
    if not path:
        raise PolicyError(f"{os.fspath(spec)!r} names no store: give a folder, a .db file or sqlite:PATH")
    kind = SQLiteStore if database else FolderStore
    return kind(path, max_bytes=max_bytes, max_age=max_age, now=now)
