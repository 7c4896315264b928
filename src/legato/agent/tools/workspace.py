"""The one folder that the file tools see. No path leads out of it: not `..`, not a link, not a race.

A path is walked one name at a time, each opened in the folder opened before it and never through a symbolic link; a
link is read and its target walked in the same way, `..` goes back to the folder that was opened before. So what is
checked is what is opened, whatever others rename or link meanwhile. Only regular files are opened; a FIFO or a device
is refused, and opening never blocks. Hard links and mounts inside the folder are taken for what they show.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO

from legato.agent.tool import ToolError

LINKS = 40
"""So many symbolic links in one path are followed, as the kernel does."""

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a symbolic link",
}
PART = ".legato-"
"""How the name of a file starts that is still being written."""


@dataclass(frozen=True, slots=True)
class Place:
    """A name in an open folder. `shown` is the path from the workspace on."""

    folder: int
    name: str
    shown: str

    def open(self) -> BinaryIO:
        """The regular file of this name, to be read. Raises `OSError`, `ToolError` for anything else."""
        self._require_file(os.stat(self.name, dir_fd=self.folder, follow_symlinks=False))  # before any side effect
        stream = open(os.open(self.name, FILE, dir_fd=self.folder), "rb")  # noqa: SIM115 -- the caller closes it
        with ExitStack() as undo:
            undo.callback(stream.close)
            self._require_file(os.fstat(stream.fileno()))
            undo.pop_all()
        return stream

    def replace(self, data: bytes, seen: os.stat_result | None = None) -> None:
        """Put a file under this name whole or not at all, with the permissions of the one before.

        `seen`: the state of the file that the new one is made from; if it is another by now, `ToolError` is raised.
        """
        old = self.state()
        if old is not None:
            self._require_file(old)
        part = PART + secrets.token_hex(8)
        mode = 0o666 if old is None else stat.S_IMODE(old.st_mode)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=self.folder)
        try:
            with open(descriptor, "wb") as stream:
                if old is not None:
                    os.fchmod(descriptor, mode)
                stream.write(data)
                stream.flush()
                os.fsync(descriptor)
            if seen is not None and _version(self.state()) != _version(seen):
                raise ToolError(f"{self.shown} was changed by someone else meanwhile; read it again")
            os.rename(part, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(part, dir_fd=self.folder)
        os.fsync(self.folder)

    def state(self) -> os.stat_result | None:
        """What is under this name; None: nothing."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _require_file(self, state: os.stat_result) -> None:
        if not stat.S_ISREG(state.st_mode):
            raise ToolError(f"{self.shown} is {KINDS.get(stat.S_IFMT(state.st_mode), 'no file')}, not a file")


class Workspace:
    """A folder that paths start from and stay in. Raises `OSError` if it is none."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        if os.open not in os.supports_dir_fd:
            raise NotImplementedError("the file tools need a system that opens a file relative to a folder")
        self.root = os.path.realpath(root)
        self._roots = tuple({self.root, os.path.abspath(root)})
        os.close(os.open(self.root, FOLDER))

    @contextmanager
    def place(self, path: str, *, make: bool = False) -> Iterator[Place]:
        """Where a path leads; its folder is open as long as the context. `make`: folders on the way are made.

        An `OSError` of the walk or of the caller becomes a `ToolError` that names the path.
        """
        with _named(path), _Walk(self.root, self._roots) as walk:
            walk.go(path, make)
            yield Place(walk.folders[-1], walk.name, "/".join([*walk.names, walk.name]))

    @contextmanager
    def folder(self, path: str) -> Iterator[tuple[int, str]]:
        """The folder a path leads to, opened, and its path from the workspace on."""
        with self.place(path) as place:
            descriptor = os.open(place.name, FOLDER, dir_fd=place.folder)
            try:
                yield descriptor, os.path.normpath(place.shown)
            finally:
                os.close(descriptor)


class _Walk:
    """The way from the root to a name: the folders that were opened, and what they are called."""

    def __init__(self, root: str, roots: Sequence[str]) -> None:
        self.folders = [os.open(root, FOLDER)]
        self.names: list[str] = []
        self.name = "."
        self._roots = roots

    def __enter__(self) -> _Walk:
        return self

    def __exit__(self, *_: object) -> None:
        while self.folders:
            os.close(self.folders.pop())

    def go(self, path: str, make: bool) -> None:
        """Walk to the folder of what the path names, and to its `name`: that of no link, or `.`."""
        todo = self._start(path)
        links = 0
        while todo:
            name = todo.pop()
            if name == "..":
                self._up(path)
                continue
            target = self._link(name)
            if target is not None:
                links += 1
                if links > LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                todo += self._start(target)
            elif todo:
                self._down(name, make)
            else:
                self.name = name

    def _start(self, path: str) -> list[str]:
        """The names of a path, last to first. An absolute one starts from the root again. Raises `ToolError`."""
        if path.startswith("/"):
            for root in self._roots:
                if path == root or path.startswith(root.rstrip("/") + "/"):
                    path = path[len(root) :]
                    break
            else:
                raise ToolError(f"{path} is outside the workspace")
            while self.names:
                self._up(path)
        return [name for name in reversed(path.split("/")) if name not in ("", ".")]

    def _up(self, path: str) -> None:
        if not self.names:
            raise ToolError(f"{path} is outside the workspace")
        self.names.pop()
        os.close(self.folders.pop())

    def _down(self, name: str, make: bool) -> None:
        if make:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=self.folders[-1])
        self.folders.append(os.open(name, FOLDER, dir_fd=self.folders[-1]))
        self.names.append(name)

    def _link(self, name: str) -> str | None:
        """Where a symbolic link points; None: it is none."""
        try:
            return os.readlink(name, dir_fd=self.folders[-1])
        except FileNotFoundError:
            return None
        except OSError as problem:
            if problem.errno == errno.EINVAL:
                return None
            raise


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Says which path it was that an `OSError` is about."""
    if "\0" in path:
        raise ToolError("a path has no NUL character")
    try:
        yield
    except OSError as problem:
        raise ToolError(f"{path}: {problem.strerror or problem}") from problem
    except UnicodeEncodeError:
        raise ToolError(f"{path!a} is not a path: half a surrogate pair is in it") from None


def _version(state: os.stat_result | None) -> tuple[int, ...] | None:
    return None if state is None else (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)
