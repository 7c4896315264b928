"""Changing a session file in place so that at any moment, whatever happens, it is the old one or the new one, whole.

The file is locked while it is read and written, for programs that lock it too; one that does not is noticed if it
wrote meanwhile. The old file is kept beside it first. What a killed run leaves behind has names of its own, and the
next run takes it away.
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
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(errno.EINVAL, "no regular file, so it cannot be repaired in place", name)
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            if problem.errno in (errno.EAGAIN, errno.EACCES):
                raise OSError(errno.EAGAIN, "another program has it locked", name) from None
            raise
        _same(path, os.fstat(stream.fileno()), name)
        yield stream


def replace(name: str, pieces: Iterable[bytes], seen: os.stat_result) -> str:
    """Put the pieces where the locked file is, and return the name under which the old one is kept.

    `seen` is what the file was when it was read. Raises `OSError`, with the file as it was.
    """
    path = os.path.realpath(name)
    part = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}{PART}")
    try:
        _write(part, pieces, seen)
        backup = _keep(path, seen)
        _same(path, seen, name)
        os.replace(part, path)
        _sync_folder(path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(part)
    return backup


def _same(path: str, seen: os.stat_result, name: str) -> None:
    """Raises `OSError` if the file is another one by now, or was written to."""
    now = os.stat(path)
    if _marks(now) != _marks(seen):
        raise OSError(errno.EBUSY, "it was written to meanwhile; nothing was changed", name)


def _marks(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _write(part: str, pieces: Iterable[bytes], seen: os.stat_result) -> None:
    """Write a file to the disk, with the permissions and the owner of the old one."""
    with suppress(FileNotFoundError):
        os.unlink(part)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as stream:
        stream.writelines(pieces)
        if (seen.st_uid, seen.st_gid) != (os.geteuid(), os.getegid()):
            with suppress(PermissionError):
                os.fchown(stream.fileno(), seen.st_uid, seen.st_gid)
        os.fchmod(stream.fileno(), stat.S_IMODE(seen.st_mode))
        stream.flush()
        os.fsync(stream.fileno())


def _keep(path: str, seen: os.stat_result) -> str:
    """Keep the old file beside itself under the first name that is free."""
    copy = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}{BACKUP}{PART}")
    with open(path, "rb") as old:
        _write(copy, iter(lambda: old.read(shutil.COPY_BUFSIZE), b""), seen)  # type: ignore[attr-defined]
    try:
        os.utime(copy, ns=(seen.st_atime_ns, seen.st_mtime_ns))
        number = 0
        while True:
            backup = f"{path}{BACKUP}{number or ''}"
            try:
                os.link(copy, backup)
            except FileExistsError:
                number += 1
            else:
                return backup
    finally:
        os.unlink(copy)


def _sync_folder(path: str) -> None:
    """Have the new name on the disk too."""
    descriptor = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
