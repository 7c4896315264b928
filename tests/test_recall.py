"""What was kept comes back exactly, whoever else writes, and whatever happens to the process or the disk."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import resource
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legato import GovernanceError, PolicyError
from legato.recall import FolderStore, SQLiteStore, Store, StoreError, UnknownHandle, open_store, sqlite
from legato.recall.folder import ABANDONED, LOOK, PART
from legato.recall.store import FRESH, RENEW, SLACK

AnyStore: TypeAlias = FolderStore | SQLiteStore
KINDS = ["store", "store.db"]
TEXTS = st.text(st.characters(codec=None))
both = pytest.mark.parametrize("kind", KINDS)


@dataclass
class Clock:
    """Stands still until it is moved."""

    time: float = 1_000_000.0

    def __call__(self) -> float:
        return self.time


def whole(store: Store, handle: str) -> str:
    return store.recall(handle, max_chars=None).text


def holds(store: Store, handle: str) -> bool:
    try:
        whole(store, handle)
    except UnknownHandle:
        return False
    return True


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def held_bytes(store: AnyStore) -> int:
    """What is kept, in bytes of text."""
    if isinstance(store, FolderStore):
        return sum(path.stat().st_size for path in Path(store.path).rglob("*.txt"))
    with closing(sqlite3.connect(store.path)) as database:
        return int(database.execute("SELECT TOTAL(LENGTH(data)) FROM legato_recall").fetchone()[0])


# -- what is kept ------------------------------------------------------------------------------------------------------


@both
@given(text=TEXTS)
def test_any_text_comes_back_under_the_start_of_its_hash(
    kind: str, text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = open_store(tmp_path_factory.getbasetemp() / kind)
    handle = store.keep(text)
    assert handle == sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16] == store.keep(text)
    assert whole(store, handle) == text


@both
def test_a_large_text_comes_back(kind: str, tmp_path: Path) -> None:
    store = open_store(tmp_path / kind)
    line = "\ud800 naïve 🙂" + "x" * 100 + "\r\n"
    text = "".join(f"{at}{line}" for at in range(410_000))
    assert len(text.encode("utf-8", "surrogatepass")) > 50_000_000
    handle = store.keep(text)
    assert whole(store, handle) == text
    assert store.recall(handle, start=409_999, lines=1).text == f"409998{line}"


@both
def test_a_part_is_read_back_by_lines_and_by_pattern(kind: str, tmp_path: Path) -> None:
    store = open_store(tmp_path / kind)
    handle = store.keep("one\ntwo\nthree\nfour")
    assert store.recall(handle, 2, 2).text == "two\nthree\n"
    assert store.recall(handle, 2, pattern="o").text == "2: two\n4: four\n"
    assert store.recall(handle, max_chars=9).next == 3


PROGRAM = """
import ast, sys
from legato.recall import open_store
store = open_store(sys.argv[1])
for line in sys.stdin:
    print(store.keep(ast.literal_eval(line)), flush=True)
"""


def writer(spec: Path, program: str = PROGRAM, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, str(spec)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **env},
    )


def test_the_same_text_has_the_same_handle_in_any_process_and_store(tmp_path: Path) -> None:
    texts = ["", "a", "a\n", "naïve 🙂", "\ud800\udc00", "\udfff", "\0", "x" * 100_000]
    ours = [open_store(tmp_path / "ours").keep(text) for text in texts]
    for kind, seed in zip(KINDS, "12", strict=True):
        with writer(tmp_path / kind, PYTHONHASHSEED=seed) as process:
            theirs, _ = process.communicate("".join(ascii(text) + "\n" for text in texts))
        assert theirs.split() == ours
        store = open_store(tmp_path / kind)
        assert [whole(store, handle) for handle in ours] == texts


class TinyFolder(FolderStore):
    digits = 1


class TinyDatabase(SQLiteStore):
    digits = 1


@pytest.mark.parametrize("tiny", [TinyFolder, TinyDatabase])
def test_two_texts_with_one_short_handle_are_told_apart(tiny: Callable[[Path], AnyStore], tmp_path: Path) -> None:
    store = tiny(tmp_path / "tiny")
    texts = [f"text {at}" for at in range(40)]
    handles = [store.keep(text) for text in texts]
    assert sorted({len(handle) for handle in handles}) == [1, 64]
    assert [store.keep(text) for text in texts] == handles
    assert [whole(store, handle) for handle in handles] == texts


@both
@pytest.mark.parametrize(
    "handle", ["", "0123456789abcdef", "0" * 64, "../../etc/passwd", "ABCDEF0123456789", "a" * 10_000]
)
def test_a_handle_that_is_not_there_is_said_to_be_so(kind: str, handle: str, tmp_path: Path) -> None:
    store = open_store(tmp_path / kind)
    store.keep("a")
    with pytest.raises(UnknownHandle, match=r"is not in this store|is no handle") as caught:
        store.recall(handle)
    assert len(str(caught.value)) < 250
    assert isinstance(caught.value, GovernanceError)


# -- the cap and expiry ------------------------------------------------------------------------------------------------


@both
def test_over_the_cap_the_texts_go_that_were_kept_longest_ago(kind: str, tmp_path: Path) -> None:
    clock = Clock()
    store = open_store(tmp_path / kind, max_bytes=1_000, now=clock)
    handles = []
    for at in range(10):
        handles.append(store.keep(f"{at}" * 100))
        clock.time += FRESH
    store.keep("0" * 100)
    store.recall(handles[1])
    handles.append(store.keep("x" * 100))
    assert [holds(store, handle) for handle in handles] == [True, False, False] + [True] * 8
    assert held_bytes(store) == 900 > 1_000 - 1_000 // SLACK


@both
@settings(max_examples=40)
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 30), st.integers(1, 120), st.sampled_from([0.0, 5.0, RENEW, FRESH, 500.0])),
        max_size=25,
    )
)
def test_the_cap_holds_and_what_was_just_kept_is_there(
    kind: str, steps: list[tuple[int, int, float]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    clock = Clock()
    store = open_store(tmp_path_factory.mktemp("cap") / kind, max_bytes=400, max_age=900.0, now=clock)
    kept: dict[str, float] = {}
    for which, size, pause in steps:
        text = f"{which:02}"[:size] * size
        try:
            handle = store.keep(text)
        except StoreError:
            assert held_bytes(store) + len(text) > 400
        else:
            kept[handle] = clock.time
        assert held_bytes(store) <= 400
        clock.time += pause
        for handle, when in kept.items():
            if clock.time - when <= FRESH - RENEW:
                assert holds(store, handle)
            if clock.time - when > 900:
                assert not holds(store, handle)


@both
def test_what_was_just_kept_is_never_evicted_and_a_full_store_says_so(kind: str, tmp_path: Path) -> None:
    clock = Clock()
    store = open_store(tmp_path / kind, max_bytes=1_000, now=clock)
    handles = [store.keep(letter * 300) for letter in "abc"]
    clock.time += FRESH
    with pytest.raises(StoreError, match=r"full: 900 bytes .* no room for 200 more under max_bytes 1,000"):
        store.keep("d" * 200)
    with pytest.raises(StoreError, match="a text of 1,001 bytes is more than max_bytes 1,000"):
        store.keep("d" * 1_001)
    assert all(holds(store, handle) for handle in handles)
    clock.time += 1
    assert holds(store, store.keep("d" * 200))


@both
def test_a_text_expires_unless_it_is_kept_again(kind: str, tmp_path: Path) -> None:
    clock = Clock()
    store = open_store(tmp_path / kind, max_age=3_600, now=clock)
    old, renewed = store.keep("old"), store.keep("renewed")
    clock.time += 3_600
    assert store.keep("renewed") == renewed
    assert whole(store, old) == "old"
    clock.time += 1
    with pytest.raises(UnknownHandle, match="expired: it was last kept more than 3,600 seconds ago"):
        store.recall(old)
    assert whole(store, renewed) == "renewed"
    open_store(store.path, max_age=3_600, now=clock).keep("new")
    assert held_bytes(store) == len("renewed" + "new")
    assert store.keep("old") == old
    assert whole(store, old) == "old"


@both
def test_a_text_that_is_kept_again_and_again_does_not_expire_however_short_the_age(kind: str, tmp_path: Path) -> None:
    clock = Clock()
    store = open_store(tmp_path / kind, max_age=20, now=clock)
    for _ in range(10):
        handle = store.keep("a")
        clock.time += 18
        assert whole(store, handle) == "a"


@both
def test_the_cap_holds_for_two_who_know_nothing_of_each_other(kind: str, tmp_path: Path) -> None:
    clock = Clock()
    stores = [open_store(tmp_path / kind, max_bytes=10_000, now=clock) for _ in range(2)]
    for at in range(300):
        handle = stores[at % 2].keep(f"{at:04}" * 25)
        assert holds(stores[0], handle)
        assert held_bytes(stores[0]) <= 10_000 + (2 * 10_000 // LOOK if kind == "store" else 0)
        clock.time += 2 * FRESH


def test_what_is_kept_again_after_it_was_chosen_to_go_stays(tmp_path: Path) -> None:
    clock = Clock()
    store = FolderStore(tmp_path, now=clock)
    again, gone = store.keep("again"), store.keep("gone")
    chosen = list(store._entries())
    clock.time += FRESH
    store.keep("again")
    for entry in chosen:
        store._remove(entry)
    assert whole(store, again) == "again"
    assert not holds(store, gone)
    assert [path.name for path in files(tmp_path)] == [f"{again}.txt"]


@pytest.mark.parametrize("limits", [{"max_bytes": 0}, {"max_bytes": -1}, {"max_age": 0}, {"max_age": -1.0}])
@both
def test_limits_that_no_store_can_have_are_refused(kind: str, limits: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="more than nothing"):
        open_store(tmp_path / kind, **limits)


def test_what_else_is_in_a_folder_or_database_is_left_alone(tmp_path: Path) -> None:
    others = ["notes.txt", "ab/notes.txt", "ab/cd0123456789abcd.txt", "ab/deep/abcd.txt", "abc/abcd.txt", "cd"]
    for other in others:
        (tmp_path / other).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / other).write_text("mine" * 100)
        os.utime(tmp_path / other, (0, 0))
    with closing(sqlite3.connect(tmp_path / "mine.db")) as database:
        database.execute("CREATE TABLE mine AS SELECT 1")
    clock = Clock()
    for spec in (tmp_path, tmp_path / "mine.db"):
        store = open_store(spec, max_bytes=300, max_age=60, now=clock)
        for letter in "abcdef":
            store.keep(letter * 200)
            clock.time += 2 * FRESH
    assert [(tmp_path / other).read_text() for other in others] == ["mine" * 100] * len(others)
    with closing(sqlite3.connect(tmp_path / "mine.db")) as database:
        assert database.execute("SELECT * FROM mine").fetchall() == [(1,)]


# -- many at once ------------------------------------------------------------------------------------------------------


def keep_all(store: AnyStore, texts: list[str]) -> list[str]:
    return [store.keep(text) for text in texts]


@contextmanager
def pool(kind: type[Executor] = ProcessPoolExecutor) -> Iterator[Executor]:
    spawned: dict[str, Any] = (
        {"mp_context": multiprocessing.get_context("spawn")} if kind is ProcessPoolExecutor else {}
    )
    with kind(max_workers=3, **spawned) as executor:  # type: ignore[call-arg]
        yield executor


@pytest.mark.parametrize("workers", [ProcessPoolExecutor, ThreadPoolExecutor])
@both
def test_many_may_keep_the_same_texts_at_once(kind: str, workers: type[Executor], tmp_path: Path) -> None:
    store = open_store(tmp_path / kind)
    texts = [f"{at} " * 2_000 for at in range(60)]
    with pool(workers) as executor:
        runs = [executor.submit(keep_all, store, texts[at:] + texts[:at]) for at in (0, 1, 30)]
        handles = [run.result() for run in runs]
    assert handles[0] == handles[1][-1:] + handles[1][:-1] == handles[2][30:] + handles[2][:30]
    assert [whole(store, handle) for handle in handles[0]] == texts
    assert held_bytes(store) == sum(map(len, texts))


@both
def test_many_may_open_a_new_store_at_once(kind: str, tmp_path: Path) -> None:
    with pool() as executor:
        stores = [executor.submit(open_store, tmp_path / f"{at}-{kind}") for at in [0, 0, 0, 1, 1, 1, 2, 2, 2] * 3]
        assert {run.result().keep("a") for run in stores} == {sha256(b"a").hexdigest()[:16]}


def test_a_database_that_another_process_writes_to_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turning on write-ahead logging fails at once, whatever the time to wait."""
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        class Waiting(sqlite.Connection):
            def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
                if sql.startswith("BEGIN") and other.in_transaction:
                    other.execute("COMMIT")
                return super().execute(sql, *parameters)

        monkeypatch.setattr(sqlite, "Connection", Waiting)
        store = SQLiteStore(tmp_path / "store.db")
        assert whole(store, store.keep("a")) == "a"
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@both
def test_while_others_evict_what_is_kept_again_stays(kind: str, tmp_path: Path) -> None:
    clock, size = Clock(), 1_000
    store = open_store(tmp_path / kind, max_bytes=320 * size, now=clock)
    old = [f"{at:04}" * (size // 4) for at in range(300)]
    again = old[::3]
    handles = keep_all(store, old)
    clock.time += 2 * FRESH
    new = [[f"{who}{at:03}" * (size // 4) for at in range(70)] for who in "ab"]
    with pool() as executor:
        runs = [executor.submit(keep_all, store, texts) for texts in (new[0], again, new[1])]
        for run in runs:
            handles += run.result()
    there = [handle for handle in handles if holds(store, handle)]
    assert set(handles[300:]) <= set(there)
    assert [whole(store, handle) for handle in handles[300:]] == new[0] + again + new[1]
    over = 0 if kind == "store.db" else 3 * (store.max_bytes // LOOK)
    assert held_bytes(store) <= store.max_bytes + over
    assert held_bytes(store) < 440 * size
    assert not list(tmp_path.rglob(PART + "*"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_database_is_used_on_both_sides_of_a_fork(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "store.db")
    before = store.keep("before")
    inherited = store._connection()
    child = os.fork()
    if child == 0:
        ok = whole(store, before) == "before" and bool(store.keep("child")) and store._connection() is not inherited
        os._exit(0 if ok else 1)
    ours = store.keep("parent")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (whole(store, ours), whole(store, store.keep("child"))) == ("parent", "child")
    store.close()
    assert whole(store, before) == "before"


def keep_what_fits(store: AnyStore, texts: list[str]) -> int:
    refused = 0
    for text in texts:
        try:
            store.keep(text)
        except StoreError:
            refused += 1
    return refused


def test_the_cap_of_a_database_is_exact_however_many_reach_it_at_once(tmp_path: Path) -> None:
    with pool() as executor:
        for at in range(8):
            store = SQLiteStore(tmp_path / f"{at}.db", max_bytes=2_000, now=Clock())
            texts = [[f"{who}{at:03}" * 25 for at in range(12)] for who in "abc"]
            refused = executor.map(keep_what_fits, [store] * 3, texts)
            assert (sum(refused), held_bytes(store)) == (16, 2_000)


@both
def test_a_store_can_be_sent_to_another_process(kind: str, tmp_path: Path) -> None:
    store = open_store(tmp_path / kind, max_bytes=500)
    again = pickle.loads(pickle.dumps(store))
    assert again.max_bytes == 500
    assert whole(again, store.keep("a")) == "a"


# -- accidents ---------------------------------------------------------------------------------------------------------

ENDLESS = """
import sys
from legato.recall import open_store
store = open_store(sys.argv[1])
for at in range(int(sys.stdin.readline()), 10_000):
    print(store.keep(f"{at} " * 40_000), flush=True)
"""


@both
def test_a_process_that_is_killed_leaves_whole_texts_only(kind: str, tmp_path: Path) -> None:
    texts = {sha256(text.encode()).hexdigest()[:16]: text for text in (f"{at} " * 40_000 for at in range(200))}
    promised = []
    for number, lines in enumerate([1, 4, 2, 7, 3, 1, 5, 2]):
        with writer(tmp_path / kind, ENDLESS) as process:
            assert process.stdin
            assert process.stdout
            process.stdin.write(f"{number * 20}\n")
            process.stdin.flush()
            promised += [process.stdout.readline().strip() for _ in range(lines)]
            process.kill()
    clock = Clock(0)
    store = open_store(tmp_path / kind, now=clock)
    assert len(promised) == 25
    assert all(whole(store, handle) == texts[handle] for handle in promised)
    there = [handle for handle in texts if holds(store, handle)]
    assert all(whole(store, handle) == texts[handle] for handle in there)
    assert held_bytes(store) == sum(len(texts[handle]) for handle in there)


def test_what_a_killed_process_was_writing_is_removed_an_hour_later(tmp_path: Path) -> None:
    clock = Clock()
    part = tmp_path / f"{PART}abcd"
    part.write_text("half")
    os.utime(part, (clock.time, clock.time))
    FolderStore(tmp_path, now=clock).keep("a")
    assert part.exists()
    clock.time += ABANDONED + 1
    FolderStore(tmp_path, now=clock).keep("b")
    assert not part.exists()


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """A disk on which no file may be larger."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@both
def test_a_full_disk_is_an_error_and_what_was_there_stays(kind: str, tmp_path: Path) -> None:
    store = open_store(tmp_path / kind)
    before = store.keep("before")
    text = "x" * 3_000_000
    with file_size_limit(1_000_000), pytest.raises(StoreError, match="store"):
        store.keep(text)
    assert held_bytes(store) == len("before")
    assert not list(tmp_path.rglob(PART + "*"))
    assert whole(store, before) == "before"
    assert whole(store, store.keep(text)) == text


@contextmanager
def without_privileges(path: Path) -> Iterator[None]:
    """As a user whom permissions bind, and to whom everything under the path belongs."""
    if os.geteuid() != 0:
        yield
        return
    for inside in [path, *path.rglob("*")]:
        os.chown(inside, 65534, 65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@both
def test_a_store_that_may_not_be_written_is_an_error_and_can_still_be_read(kind: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = open_store(folder / kind)
        before = store.keep("before")
        shut = [path for path in [folder, *folder.rglob("*")] if path.is_dir() or path.suffix == ".db"]
        with without_privileges(folder):
            try:
                for path in shut:
                    path.chmod(0o500 if path.is_dir() else 0o400)
                fresh = open_store(folder / kind)
                with pytest.raises(StoreError, match=r"denied|readonly"):
                    fresh.keep("after")
                with pytest.raises(StoreError, match=r"denied|unable"):
                    open_store(folder / "new" / kind)
                assert whole(fresh, before) == "before"
            finally:
                for path in shut:
                    path.chmod(0o700)
        assert whole(open_store(folder / kind), before) == "before"


def test_a_path_that_can_hold_no_store_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "file.db").write_text("no database " * 100)
    (tmp_path / "folder.db").mkdir()
    for spec in ["file", "file/inside", "file.db", "folder.db", "file/inside.db", "nul\0", "nul\0.db"]:
        with pytest.raises(StoreError, match=r"file|folder|nul"):
            open_store(f"{tmp_path}/{spec}")


@pytest.mark.parametrize("damage", [b"", b"a tex", b"a texT", b"\xff\xfe", b"a text that is longer"])
@both
def test_a_damaged_text_is_an_error_until_it_is_kept_again(kind: str, damage: bytes, tmp_path: Path) -> None:
    store = open_store(tmp_path / kind)
    handle = store.keep("a text")
    if isinstance(store, FolderStore):
        (file,) = files(tmp_path)
        file.write_bytes(damage)
    else:
        with closing(sqlite3.connect(store.path)) as database, database:
            database.execute("UPDATE legato_recall SET data = ?", (damage,))
    with pytest.raises(StoreError, match=f"{handle} is damaged"):
        store.recall(handle)
    assert store.keep("a text") == handle
    assert whole(store, handle) == "a text"
    assert held_bytes(store) == len("a text")


def test_only_the_owner_can_read_what_is_kept(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        for kind in KINDS:
            open_store(tmp_path / "made" / kind).keep("secret")
    finally:
        os.umask(mask)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "made").rglob("*")}
    assert len(modes) >= 4
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}


# -- which store -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "kind", "path"),
    [
        ("a", FolderStore, "a"),
        ("a.dbx/b", FolderStore, "a.dbx/b"),
        ("a.db", SQLiteStore, "a.db"),
        ("a.SQLITE", SQLiteStore, "a.SQLITE"),
        ("a.sqlite3", SQLiteStore, "a.sqlite3"),
        ("sqlite:a", SQLiteStore, "a"),
        ("sqlite::memory:", SQLiteStore, ":memory:"),
        ("~/a", FolderStore, "a"),
        ("sqlite:~/a", SQLiteStore, "a"),
        (Path("a.db"), SQLiteStore, "a.db"),
    ],
)
def test_a_path_says_which_store_it_is(
    spec: str | Path, kind: type[AnyStore], path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    store = open_store(spec)
    assert type(store) is kind
    assert store.path == str(tmp_path / path)
    monkeypatch.chdir("/")
    assert whole(store, store.keep("a")) == "a"


@pytest.mark.parametrize("spec", ["", "sqlite:"])
def test_a_path_that_is_none_is_refused(spec: str) -> None:
    with pytest.raises(PolicyError, match="names no store"):
        open_store(spec)
