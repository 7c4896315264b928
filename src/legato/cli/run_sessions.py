"""Where `legato run` keeps its sessions: one folder a workspace, one file a session, named by the time it began."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from itertools import count
from pathlib import Path

import msgspec

from legato.agent.sessionfile import Header
from legato.cli.failure import Failure

SUFFIX = ".jsonl"
NAME = re.compile(r"[^\w.-]+")


def data_folder() -> Path:
    """The user's data folder by the XDG rules, for what is legato's. It need not be there."""
    home = os.environ.get("XDG_DATA_HOME", "")
    return Path(home if os.path.isabs(home) else os.path.expanduser("~/.local/share")) / "legato"


def folder_of(workspace: Path) -> Path:
    """The folder of the sessions of a workspace. It need not be there."""
    whole = str(workspace.resolve())
    mark = sha256(os.fsencode(whole)).hexdigest()[:8]
    return data_folder() / "sessions" / f"{NAME.sub('-', workspace.resolve().name)}-{mark}"


def create(workspace: Path, now: datetime) -> Path:
    """A new, empty session file of a workspace, which nobody else was given. Raises `OSError`."""
    folder = folder_of(workspace)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    stem = now.strftime("%Y-%m-%dT%H-%M-%S")
    path = folder / f"{stem}{SUFFIX}"
    for nth in count(2):
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            break
        path = folder / f"{stem}-{nth}{SUFFIX}"
    return path


def newest(workspace: Path) -> Path:
    """The session of a workspace that was written last, of those in which something was said.

    Raises `Failure` if there is none, `OSError`.
    """
    folder = folder_of(workspace)
    found = [path for path in folder.glob(f"*{SUFFIX}") if _is_begun(path)]
    if not found:
        raise Failure(f"no session of {workspace.resolve()} in {folder}")
    return max(found, key=lambda path: (path.stat().st_mtime_ns, path.name))


def _is_begun(path: Path) -> bool:
    """Whether there is more than the first line: a run that is stopped at once leaves no more than that."""
    with path.open("rb") as file:
        return bool(file.readline() and file.readline())


def header(path: Path) -> Header:
    """The first line of a session file. Raises `Failure` where it is none, `OSError`."""
    with path.open("rb") as file:
        line = file.readline()
    try:
        return msgspec.json.decode(line, type=Header)
    except msgspec.DecodeError:
        raise Failure(f"{path}: is no session file of legato") from None
