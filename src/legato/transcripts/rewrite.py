"""Changing a session file in place so that at any moment, whatever happens, it is the old one or the new one, whole.

The file is locked while it is read and written, for programs that lock it too; one that does not is noticed if it
wrote meanwhile. The old file gets a second name first, so what an agent that still has it open writes to it later is
not lost. What a killed run leaves behind has a name of its own, and the next run takes it away.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

BACKUP = ".bak"
PART = ".legato-part"
"""The ends of the names of the old file, and of a file that is being written."""


@contextmanager
def locked(name: str) -> Iterator[BinaryIO]:
    """The file, open and locked; of a link, what it links to. Raises `OSError`: `EAGAIN` where another has the lock."""
    path = os.path.realpath(name)
    with open(path, "r+b") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            if problem.errno in (errno.EAGAIN, errno.EACCES):
                raise OSError(errno.EAGAIN, "another program has it locked; stop that first", name) from None
            raise
        _same(path, os.fstat(stream.fileno()), name)
        yield stream


def replace(name: str, pieces: Iterable[bytes], seen: os.stat_result) -> str:
    """Put the pieces where the locked file is, and return the name under which the old one is kept.

    `seen` is what the file was when it was read. Raises `OSError`, with the file as it was.
    """
    path = os.path.realpath(name)
    part = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}{PART}")
    placed = False
    try:
        _write(part, pieces, seen, name)
        _same(path, seen, name)
        backup = _keep(path)
        os.replace(part, path)
        placed = True  # from now on a file of that name is another run's
    finally:
        if not placed:
            with suppress(FileNotFoundError):
                os.unlink(part)
    _catch_up(backup, path, seen)
    _sync_folder(path)
    return backup


def _same(path: str, seen: os.stat_result, name: str) -> None:
    """Raises `OSError` if the file is another one by now, or was written to."""
    now = os.stat(path)
    if _marks(now) != _marks(seen):
        raise OSError(errno.EBUSY, "it was written to meanwhile; nothing was changed: stop its agent first", name)


def _marks(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _write(part: str, pieces: Iterable[bytes], seen: os.stat_result, name: str) -> None:
    """Write a file to the disk, with the permissions and the owner of the old one."""
    try:
        with suppress(FileNotFoundError):
            os.unlink(part)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as problem:
        why = f"{problem.strerror}: the repaired file has to be written into this folder"
        raise OSError(problem.errno, why, os.path.dirname(part)) from None
    with open(descriptor, "wb") as stream:
        _own(stream.fileno(), seen, name)
        stream.writelines(pieces)
        os.fchmod(stream.fileno(), stat.S_IMODE(seen.st_mode))
        stream.flush()
        os.fsync(stream.fileno())


def _own(descriptor: int, seen: os.stat_result, name: str) -> None:
    """Give a new file the owner of the old one. Raises `PermissionError` where it would belong to somebody else."""
    if (seen.st_uid, seen.st_gid) == (os.geteuid(), os.getegid()):
        return
    try:
        os.fchown(descriptor, seen.st_uid, seen.st_gid)
    except PermissionError as problem:
        if seen.st_uid != os.geteuid():
            why = "it belongs to another user, who would not own the repaired one; run this as that user"
            raise PermissionError(problem.errno, why, name) from None


def _keep(path: str) -> str:
    """Give the old file a second name, the first that is free, or that a run which was killed gave it."""
    number = 0
    while True:
        backup = f"{path}{BACKUP}{number or ''}"
        try:
            os.link(path, backup)
        except FileExistsError:
            if os.path.samestat(os.lstat(path), os.lstat(backup)):
                return backup
            number += 1
        except OSError as problem:
            raise OSError(problem.errno, f"{problem.strerror}: it cannot be kept as {backup}", path) from None
        else:
            return backup


def _catch_up(backup: str, path: str, seen: os.stat_result) -> None:
    """Append to the new file what was appended to the old one between the last look at it and the rename."""
    with open(backup, "rb") as old:
        old.seek(seen.st_size)
        late = old.read(1)
        if late:
            with open(path, "ab") as new:
                new.write(late)
                shutil.copyfileobj(old, new)
                new.flush()
                os.fsync(new.fileno())


def _sync_folder(path: str) -> None:
    """Have the new name on the disk too."""
    descriptor = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
