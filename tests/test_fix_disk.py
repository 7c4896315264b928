"""`legato fix` of a file that is read-only, another's or in use, or on a full disk: nothing is lost; it says why."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from legato.transcripts import rewrite
from sessions import SAMPLES

WHOLE = SAMPLES["nanobot"].data
TORN = b'{"role": "user", "content": "' + b"x" * 200_000
NOBODY = 65534
ROUNDS = 150


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user of the machine can reach."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


COMMAND = [sys.executable, "-m", "legato", "fix", "--write"]
SOMEONE = f"""
import contextlib, os, sys
from legato.cli import main
with contextlib.redirect_stdout(open(os.devnull, "w")):
    main(["fix", sys.argv[1]])  # all modules are loaded: another user may not be allowed to read them
if os.geteuid() == 0:  # root may write everywhere
    os.setgroups([])
    os.setgid({NOBODY})
    os.setuid({NOBODY})
sys.exit(main(["fix", "--write", sys.argv[1]]))
"""


def fix(file: Path, limit: int | None = None) -> subprocess.CompletedProcess[str]:
    """Repair it, where no file can grow beyond the limit: an error in the middle of a write, as of a full disk."""
    bound = None if limit is None else partial(limited, limit)
    return subprocess.run(
        [*COMMAND, str(file)], capture_output=True, text=True, check=False, timeout=120, preexec_fn=bound
    )


def fix_as_someone(file: Path) -> subprocess.CompletedProcess[str]:
    """Repair it as a user who has no rights beyond those that the file and its folder give."""
    command = [sys.executable, "-c", SOMEONE, str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def limited(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_there_need_be_room_for_the_repaired_file_only(place: Path) -> None:
    file = place / "session"
    file.write_bytes(WHOLE + TORN)
    done = fix(file, limit=len(TORN) // 2)
    assert (done.returncode, done.stderr) == (0, "")
    assert file.read_bytes() == WHOLE
    assert (place / "session.bak").read_bytes() == WHOLE + TORN


def test_without_room_for_it_nothing_is_left_behind(place: Path) -> None:
    file = place / "session"
    file.write_bytes(WHOLE + TORN)
    done = fix(file, limit=len(WHOLE) // 2)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"legato: {file}: File too large\n"
    assert file.read_bytes() == WHOLE + TORN
    assert os.listdir(place) == ["session"]


def test_a_folder_that_cannot_be_written_to_is_named(place: Path) -> None:
    folder = place / "folder"
    folder.mkdir()
    file = folder / "session"
    file.write_bytes(WHOLE + TORN)
    file.chmod(0o666)
    folder.chmod(0o555)
    done = fix_as_someone(file)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"legato: {folder}: Permission denied: the repaired file has to be written into")
    folder.chmod(0o755)
    assert (os.listdir(folder), file.read_bytes()) == (["session"], WHOLE + TORN)


def test_a_file_that_cannot_be_written_to_is_named(place: Path) -> None:
    file = place / "session"
    file.write_bytes(WHOLE + TORN)
    file.chmod(0o444)
    place.chmod(0o777)
    done = fix_as_someone(file)
    assert (done.returncode, done.stderr) == (2, f"legato: {file}: Permission denied\n")
    assert (os.listdir(place), file.read_bytes()) == (["session"], WHOLE + TORN)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_a_file_stays_with_its_owner(place: Path) -> None:
    file = place / "session"
    file.write_bytes(WHOLE + TORN)
    os.chown(file, 1, 1)
    file.chmod(0o666)
    place.chmod(0o777)
    done = fix_as_someone(file)
    assert (done.returncode, done.stdout) == (2, "")
    assert "belongs to another user" in done.stderr
    assert (os.listdir(place), file.read_bytes()) == (["session"], WHOLE + TORN)
    file.chmod(0o640)
    assert fix(file).returncode == 0
    for name in ("session", "session.bak"):
        found = os.stat(place / name)
        assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1, 1, 0o640)


def test_what_is_no_file_is_refused_at_once(place: Path) -> None:
    os.mkfifo(place / "pipe")
    for name in (place / "pipe", place, Path(os.devnull)):
        done = fix(name)
        assert (done.returncode, done.stderr) == (2, f"legato: {name}: only a file can be repaired in place\n")


# -- others at work on the same file -----------------------------------------------------------------------------------


def test_what_an_agent_writes_to_a_file_it_has_open_goes_on_in_the_backup(place: Path) -> None:
    file = place / "session"
    file.write_bytes(WHOLE + TORN + b"\n")
    with file.open("ab") as agent:
        assert fix(file).returncode == 0
        agent.write(b"later\n")
    assert file.read_bytes() == WHOLE
    assert (place / "session.bak").read_bytes() == WHOLE + TORN + b"\nlater\n"


def test_what_is_appended_while_it_is_replaced_is_never_lost(place: Path) -> None:
    """One line after the other by its name, as most agents write, while the file is replaced again and again."""
    file = place / "session"
    file.write_bytes(b"")
    written = 0
    done = threading.Event()

    def agent() -> None:
        nonlocal written
        while not done.is_set():
            with file.open("ab") as stream:
                stream.write(b"%d\n" % written)
            written += 1

    thread = threading.Thread(target=agent)
    thread.start()
    replaced = 0
    for _ in range(ROUNDS):
        try:
            with rewrite.locked(str(file)) as stream:
                seen = os.fstat(stream.fileno())
                rewrite.replace(str(file), [stream.read(seen.st_size)], seen)
                replaced += 1
        except OSError as problem:
            assert "meanwhile" in str(problem)  # noqa: PT017
    done.set()
    thread.join()
    kept = {line for name in os.listdir(place) for line in (place / name).read_bytes().splitlines()}
    assert kept == {b"%d" % number for number in range(written)}
    assert replaced + 1 == len(os.listdir(place))


def test_a_run_that_was_killed_before_it_was_done_is_taken_up(place: Path) -> None:
    file = place / "session"
    file.write_bytes(WHOLE + TORN)
    os.link(file, place / "session.bak")
    (place / ".session.legato-part").write_bytes(WHOLE[:10])
    assert fix(file).returncode == 0
    assert sorted(os.listdir(place)) == ["session", "session.bak"]
    assert (file.read_bytes(), (place / "session.bak").read_bytes()) == (WHOLE, WHOLE + TORN)


def test_of_two_runs_at_once_one_repairs_it(place: Path) -> None:
    file = place / "session"
    for _ in range(3):
        file.write_bytes(WHOLE + TORN)
        runs = [
            subprocess.Popen([*COMMAND, str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)
        ]
        said = [run.communicate(timeout=120) for run in runs]
        assert file.read_bytes() == WHOLE
        assert sorted(os.listdir(place)) == ["session", "session.bak"], said
        assert (place / "session.bak").read_bytes() == WHOLE + TORN
        assert {run.returncode for run in runs} <= {0, 2}
        assert sum(b"repaired" in out for out, _ in said) == 1
        (place / "session.bak").unlink()
