"""The file tools see one folder: every way out that we know is tried, and what is written is whole or not there."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from legato.agent.tool import Output, Tool, ToolError
from legato.agent.tools import Limits, workspace_tools
from legato.agent.tools.workspace import Workspace

SECRET = "the secret of another folder"
TRIES = 1_000_000
"""After so many a race that was not seen from both sides is taken for none."""


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text(SECRET)
    return folder


@pytest.fixture
def root(tmp_path: Path, outside: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.py").write_text("one\ntwo\nthree\n")
    assert outside.is_dir()
    return folder


def tools(root: Path, **limits: int) -> dict[str, Tool]:
    return {each.name: each for each in workspace_tools(root, limits=Limits(**limits))}


def call(root: Path, name: str, /, **arguments: object) -> Output:
    return asyncio.run(tools(root)[name].call(arguments))


def ways(path: str) -> list[tuple[str, dict[str, object]]]:
    """A call of every file tool with a path."""
    return [
        ("read_file", {"path": path}),
        ("write_file", {"path": path, "text": "x"}),
        ("edit_file", {"path": path, "old": "secret", "new": "x"}),
        ("list_dir", {"path": path}),
        ("find_files", {"path": path, "pattern": "*"}),
        ("grep", {"path": path, "pattern": "secret"}),
    ]


# -- the ways out ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../outside",
        "../outside/secret.txt",
        "src/../../outside/secret.txt",
        "src/./../src/../../outside/secret.txt",
        "/etc/passwd",
        "{outside}/secret.txt",
        "{root}/../outside/secret.txt",
        "{root}work/x",
        "link",
        "link/secret.txt",
        "file-link",
        "chain",
        "up/outside/secret.txt",
        "absolute-up/secret.txt",
        "dangling",
        "src/into/../../secret.txt",
    ],
)
def test_no_path_leads_out(root: Path, outside: Path, path: str) -> None:
    (root / "link").symlink_to(outside)
    (root / "file-link").symlink_to(outside / "secret.txt")
    (root / "chain").symlink_to("src/../file-link")
    (root / "up").symlink_to("../")
    (root / "absolute-up").symlink_to(f"{root}/../outside")
    (root / "dangling").symlink_to(outside / "new.txt")
    (root / "src" / "into").symlink_to("../../outside/x")
    path = path.replace("{root}", str(root)).replace("{outside}", str(outside))
    for name, arguments in ways(path):
        output = call(root, name, **arguments)
        assert output.error, name
        assert output.text.endswith("is outside the workspace"), name
    assert os.listdir(outside) == ["secret.txt"]
    assert (outside / "secret.txt").read_text() == SECRET


def test_links_that_stay_inside_are_followed(root: Path) -> None:
    (root / "relative").symlink_to("src/a.py")
    (root / "absolute").symlink_to(root / "src")
    (root / "src" / "back").symlink_to("..")
    for path in ("relative", "absolute/a.py", "src/back/src/a.py", str(root / "relative"), "./src//../src/a.py"):
        assert call(root, "read_file", path=path).text.startswith("one\n"), path
    assert call(root, "write_file", path="relative", text="new").text == "replaced src/a.py: 3 bytes"
    assert (root / "relative").is_symlink()
    assert (root / "src" / "a.py").read_text() == "new"


def test_a_root_that_is_reached_through_a_link_is_known_by_both_names(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    for path in (root / "src" / "a.py", tmp_path / "alias" / "src" / "a.py"):
        assert call(tmp_path / "alias", "read_file", path=str(path)).text.startswith("one\n")


def test_links_in_a_circle_end(root: Path) -> None:
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one")
    assert call(root, "read_file", path="one") == Output("one: Too many levels of symbolic links", error=True)


@pytest.mark.parametrize("path", ["a\0b", "\ud800", "x" * 300, "d/" * 3_000 + "x", ""])
def test_a_path_that_is_none_is_refused(root: Path, path: str) -> None:
    for name, arguments in ways(path):
        if path == "" and name in ("list_dir", "find_files", "grep"):
            continue  # the workspace itself
        if len(path) > 300 and name == "write_file":
            continue  # such a deep path can be made
        assert call(root, name, **arguments).error, name


PARTS = st.sampled_from(["src", "..", ".", "", "link", "in", "a.py", "deep", "up"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(PARTS, min_size=1, max_size=7), absolute=st.booleans())
def test_a_path_leads_where_the_kernel_says_or_nowhere(root: Path, parts: list[str], absolute: bool) -> None:
    for name, target in (("link", "../outside"), ("in", "src"), ("src/up", "../in"), ("src/deep", "up/../src")):
        with suppress(FileExistsError):
            (root / name).symlink_to(target)
    path = "/".join(parts).lstrip("/")
    path = f"{root}/{path}" if absolute else path
    try:
        with Workspace(root).place(path) as place:
            shown, reached = os.path.normpath(root / place.shown), place.state() is not None
    except ToolError:
        assert not os.path.exists(root / path) or leaves(root, parts)
    else:
        assert shown == os.path.realpath(root / path)
        assert reached == os.path.exists(shown)
        assert os.path.commonpath([shown, str(root)]) == str(root)


def leaves(root: Path, parts: list[str]) -> bool:
    """Whether the way is outside at any time, as the kernel goes it."""
    return any(
        os.path.commonpath([os.path.realpath(root.joinpath(*parts[:count])), str(root)]) != str(root)
        for count in range(1, len(parts) + 1)
    )


# -- races -------------------------------------------------------------------------------------------------------------


@contextmanager
def racing(step: Callable[[], None]) -> Iterator[None]:
    """Another thread that does it over and over."""
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            step()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_a_file_that_is_swapped_for_a_link_is_never_read_through(root: Path, outside: Path) -> None:
    target = root / "swapped.txt"

    def swap() -> None:
        (root / "new").write_text("harmless")
        os.replace(root / "new", target)
        os.symlink(outside / "secret.txt", root / "new")
        os.replace(root / "new", target)

    swap()
    read_file = tools(root)["read_file"]
    seen = {"harmless": 0, "refused": 0}

    async def look() -> None:
        for _ in range(TRIES):
            output = await read_file.call({"path": "swapped.txt"})
            assert SECRET not in output.text
            seen["refused" if output.error else "harmless"] += 1
            if min(seen.values()) >= 300:
                return

    with racing(swap):
        asyncio.run(look())
    assert min(seen.values()) >= 300, "the race was not seen from both sides"


def test_a_folder_that_is_swapped_for_a_link_is_never_gone_through(root: Path, outside: Path) -> None:
    (root / "real").mkdir()
    (root / "real" / "secret.txt").write_text("harmless")
    (root / "link").symlink_to(outside)
    at = root / "at"

    def swap() -> None:
        with suppress(OSError):
            os.rename(root / "real", at)
            os.rename(at, root / "real")
            os.rename(root / "link", at)
            os.rename(at, root / "link")

    box = tools(root)
    seen = {"harmless": 0, "refused": 0}

    async def look() -> None:
        for _ in range(TRIES):
            output = await box["read_file"].call({"path": "at/secret.txt"})
            assert SECRET not in output.text
            seen["refused" if output.error else "harmless"] += 1
            found = await box["grep"].call({"path": "at", "pattern": "secret"})
            assert SECRET not in found.text
            await box["edit_file"].call({"path": "at/secret.txt", "old": "secret", "new": "gone"})
            if min(seen.values()) >= 100:
                return

    with racing(swap):
        asyncio.run(look())
    assert min(seen.values()) >= 100, "the race was not seen from both sides"
    assert (outside / "secret.txt").read_text() == SECRET


def test_a_folder_that_is_made_is_never_the_one_a_raced_link_points_to(root: Path, outside: Path) -> None:
    at, forbidden = root / "at", outside.stat()

    def swap() -> None:
        with suppress(OSError):
            os.symlink(outside, root / "new")
        with suppress(OSError):
            os.rename(root / "new", at)
        with suppress(OSError):
            os.unlink(at)

    workspace = Workspace(root)
    made = refused = 0
    with racing(swap):
        for _ in range(TRIES):
            try:
                with workspace.place("at/x.txt", make=True) as place:
                    assert not os.path.samestat(os.fstat(place.folder), forbidden)
                made += 1
            except ToolError:
                refused += 1
            with suppress(OSError):
                os.rmdir(at)
            if min(made, refused) >= 1_000:
                break
    assert min(made, refused) >= 1_000, "the race was not seen from both sides"


# -- what is no file ---------------------------------------------------------------------------------------------------


def test_fifos_sockets_devices_and_folders_are_refused_at_once(root: Path) -> None:
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(root)  # the path of a socket is short
        try:
            listener.bind("socket")
        finally:
            os.chdir(here)
        kinds = {"fifo": "a FIFO", "socket": "a socket", "src": "a folder"}
        if os.geteuid() == 0:
            with suppress(PermissionError):
                os.mknod(root / "device", stat.S_IFCHR | 0o600, os.makedev(1, 5))
                kinds["device"] = "a device"
        for path, kind in kinds.items():
            for name in ("read_file", "write_file", "edit_file"):
                arguments = dict(ways(path))[name]
                assert call(root, name, **arguments) == Output(f"{path} is {kind}, not a file", error=True)
        assert call(root, "grep", pattern="x", path="fifo").error
        assert "0 matching lines" in call(root, "grep", pattern="anything").text
        assert "fifo  (no file)" in call(root, "list_dir").text


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n....", "PNG image"),
        (b"\xff\xd8\xff\xe0", "JPEG image"),
        (b"%PDF-1.7", "PDF document"),
        (b"ELF\0\0\1", "binary file"),
    ],
)
def test_what_is_no_text_is_named_not_shown(root: Path, data: bytes, kind: str) -> None:
    (root / "x").write_bytes(data)
    assert call(root, "read_file", path="x").text == f"x is a {kind} of {len(data)} bytes; read_file reads text only"


def test_a_file_over_the_limit_is_refused_before_it_is_read(root: Path) -> None:
    with open(root / "huge", "wb") as stream:
        stream.truncate(1 << 40)  # a terabyte that takes no room
    for name, arguments in ways("huge")[:3]:
        if name != "write_file":
            output = call(root, name, **arguments)
            assert output.error
            assert "1,099,511,627,776 bytes" in output.text
    output = asyncio.run(tools(root, file=100)["write_file"].call({"path": "new", "text": "x" * 101}))
    assert output.error
    assert not (root / "new").exists()


# -- reading -----------------------------------------------------------------------------------------------------------


def test_reading_on_by_the_notes_gives_the_whole_file(root: Path) -> None:
    text = "".join(f"line {number} é\r\n" for number in range(5_000))
    (root / "long.txt").write_bytes(text.encode())
    got, start = "", 1
    for _ in range(100):
        output = call(root, "read_file", path="long.txt", start=start)
        assert len(output.text) < 16_200
        body, _, note = output.text.rpartition("[")
        got += body
        if "start=" not in note:
            break
        start = int(note.rpartition("start=")[2].rstrip("]"))
    assert got == text


def test_bytes_that_are_no_text_are_admitted(root: Path) -> None:
    (root / "latin").write_bytes(b"caf\xe9\n")
    output = call(root, "read_file", path="latin")
    assert output.text.startswith("caf\ufffd\n")
    assert "byte 3 and maybe others are not UTF-8" in output.text
    assert call(root, "edit_file", path="latin", old="caf", new="tea").error
    assert (root / "latin").read_bytes() == b"caf\xe9\n"
    (root / "wide").write_bytes("héllo".encode("utf-16"))
    assert call(root, "read_file", path="wide").text.startswith("héllo")


def test_names_are_listed_as_what_they_are(root: Path) -> None:
    (root / "link").symlink_to("src")
    (root / os.fsdecode(b"b\xff")).write_text("x")
    assert call(root, "list_dir").text == "b\\xff  1\nlink -> src\nsrc/\n[3 entries]"
    for number in range(450):
        (root / "src" / f"{number:03}").touch()
    assert call(root, "list_dir", path="src").text.endswith(
        "198  0\n199  0\n[451 entries, 1-200 shown; go on with skip=200]"
    )
    assert call(root, "list_dir", path="src", skip=400).text.endswith("a.py  14\n[451 entries, 401-451 shown]")


def test_files_are_found_as_gitignore_would(root: Path) -> None:
    (root / "src" / "deep").mkdir()
    (root / "src" / "deep" / "test_b.py").touch()
    (root / ".git").mkdir()
    (root / ".git" / "c.py").touch()
    assert call(root, "find_files", pattern="*.py").text == (
        "src/a.py\nsrc/deep/test_b.py\n[2 files]\n[not searched: .git]"
    )
    assert call(root, "find_files", pattern="/src/**/test_*.py").text.startswith("src/deep/test_b.py\n[1 file]")
    assert call(root, "find_files", pattern="*.py", path=".git").text == ".git/c.py\n[1 file]"
    os.utime(root / "src" / "a.py", (1, 1))
    assert call(root, "find_files", pattern="*.py", sort="newest").text.startswith("src/deep/test_b.py\nsrc/a.py")


# -- writing -----------------------------------------------------------------------------------------------------------


def test_a_write_keeps_permissions_and_makes_folders(root: Path) -> None:
    (root / "src" / "a.py").chmod(0o750)
    assert call(root, "write_file", path="src/a.py", text="ü\n").text == "replaced src/a.py: 3 bytes"
    assert stat.S_IMODE((root / "src" / "a.py").stat().st_mode) == 0o750
    assert call(root, "write_file", path="new/deep/b.txt", text="").text == "wrote new/deep/b.txt: 0 bytes"
    assert (root / "new" / "deep" / "b.txt").read_bytes() == b""
    output = call(root, "write_file", path="src/a.py", text="half \ud800")
    assert output.error
    assert (root / "src" / "a.py").read_text() == "ü\n"


def test_whoever_reads_while_a_file_is_written_sees_one_of_the_two(root: Path) -> None:
    texts = {"a" * 100_000, "b" * 50_000}
    (root / "x").write_text("a" * 100_000)
    wrong: list[int] = []

    def look() -> None:
        text = (root / "x").read_text()
        if text not in texts:
            wrong.append(len(text))

    write_file = tools(root)["write_file"]

    async def write() -> None:
        for _ in range(100):
            for text in texts:
                await write_file.call({"path": "x", "text": text})

    with racing(look):
        asyncio.run(write())
    assert wrong == []
    assert sorted(os.listdir(root)) == ["src", "x"]


def test_a_disk_that_is_full_leaves_the_old_file_and_nothing_else(root: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    write_file = tools(root)["write_file"]
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))  # the nearest thing to a full disk
    try:
        output = asyncio.run(write_file.call({"path": "src/a.py", "text": "x" * 60_000}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert output == Output("src/a.py: File too large", error=True)
    assert (root / "src" / "a.py").read_text() == "one\ntwo\nthree\n"
    assert os.listdir(root / "src") == ["a.py"]


@pytest.mark.parametrize("path", [".git/config", ".git/hooks/pre-commit", "src/../.GIT/config", "link", "src/.git"])
def test_what_makes_git_run_programs_is_not_written(root: Path, path: str) -> None:
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("old")
    (root / "link").symlink_to(".git/config")
    for name, arguments in ways(path)[1:3]:
        assert call(root, name, **arguments).text.endswith("is version control's own; it was not changed")
    assert (root / ".git" / "config").read_text() == "old"
    assert call(root, "read_file", path="link").text.startswith("old")


def test_a_write_that_comes_too_late_leaves_the_old_file_and_nothing_else(root: Path) -> None:
    with Workspace(root).place("src/a.py") as place:
        old = place.state()
        (root / "src" / "a.py").write_text("changed meanwhile")
        with pytest.raises(ToolError, match="was changed by someone else"):
            place.replace(b"new", seen=old)
    assert (root / "src" / "a.py").read_text() == "changed meanwhile"
    assert os.listdir(root / "src") == ["a.py"]


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"one\ntwo\n", "two", "2", b"one\n2\n"),
        (b"one\r\ntwo\r\n", "one\ntwo", "1\n2\n3", b"1\r\n2\r\n3\r\n"),
        (b"one\r\ntwo\r\n", "two", "2\n3", b"one\r\n2\r\n3\r\n"),
        (b"one\ntwo", "one\r\ntwo", "1\r\n2", b"1\n2"),
        (b"one\rtwo", "one\ntwo", "1\n2", b"1\r2"),
        (b"\xef\xbb\xbfone", "one", "1", b"\xef\xbb\xbf1"),
        (b"unix\ndos\r\nend", "dos\nend", "d\ne", b"unix\nd\r\ne"),
        (b"\\1 \\g<0>", "\\1", "\\g<0>\\n", b"\\g<0>\\n \\g<0>"),
    ],
)
def test_an_edit_changes_the_passage_and_keeps_the_line_endings(
    root: Path, before: bytes, old: str, new: str, after: bytes
) -> None:
    (root / "x").write_bytes(before)
    assert call(root, "edit_file", path="x", old=old, new=new) == Output("edited x: 1 place")
    assert (root / "x").read_bytes() == after


def test_an_edit_that_is_not_clear_changes_nothing(root: Path) -> None:
    (root / "x").write_text("a b\na\n")
    cases: list[tuple[dict[str, object], str]] = [
        ({"old": "c", "new": "d"}, "the passage is not in x: read the file again and copy it exactly"),
        ({"old": "", "new": "d"}, "old is empty; to write a whole file use write_file"),
        ({"old": "a", "new": "a"}, "old and new are the same: nothing was changed"),
        (
            {"old": "a", "new": "d"},
            "the passage stands 2 times in x (lines 1, 2): give more of the lines around it, or set replace_all",
        ),
    ]
    for arguments, complaint in cases:
        assert call(root, "edit_file", path="x", **arguments) == Output(complaint, error=True)
    assert (root / "x").read_text() == "a b\na\n"
    assert call(root, "edit_file", path="x", old="a", new="d", replace_all=True) == Output("edited x: 2 places")
    assert (root / "x").read_text() == "d b\nd\n"
