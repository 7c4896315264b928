"""Searching files: both programs find the same, in the same words, and no pattern or file stalls them."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from legato.agent.tool import Output
from legato.agent.tools.grep import Grep
from legato.agent.tools.limits import Limits
from legato.agent.tools.workspace import Workspace

STALLS = "^(x|xx)+[yz]$"
"""Takes a backtracking search for ever on a line of `x`."""
RIPGREP = shutil.which("rg")
PROGRAMS = [None] if RIPGREP is None else [None, RIPGREP]


def grep(root: Path, program: str | None, limits: Limits = Limits(search_seconds=300), **arguments: Any) -> Output:  # noqa: B008
    [tool] = Grep(Workspace(root), limits, program).tools()
    return asyncio.run(tool.call(arguments))


@pytest.fixture(params=PROGRAMS, ids=["regex", "ripgrep"][: len(PROGRAMS)])
def program(request: pytest.FixtureRequest) -> str | None:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in {
        "a.py": "import os\nfoo = 1\nbar = 2\nbaz = 3\n",
        "b/c.txt": "Foo\r\nfoo bar\r\nlast foo",
        "b.txt": "nothing",
        "b/deep/d.py": "foo()\n" * 3,
        ".hidden": "foo\n",
        ".git/config": "foo\n",
        "node_modules/x.js": "foo\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(text.encode())
    (tmp_path / "binary").write_bytes(b"foo\0foo\n")
    (tmp_path / "link.txt").symlink_to("a.py")
    (tmp_path / "loop").symlink_to(".")
    os.mkfifo(tmp_path / "fifo")
    return tmp_path


CASES: list[tuple[dict[str, Any], str]] = [
    (
        {"pattern": "foo"},
        ".hidden:1:foo\na.py:2:foo = 1\nb/c.txt:2:foo bar\nb/c.txt:3:last foo\n"
        "b/deep/d.py:1:foo()\nb/deep/d.py:2:foo()\nb/deep/d.py:3:foo()\n[7 matching lines]",
    ),
    ({"pattern": "foo$", "path": "b"}, "b/c.txt:3:last foo\n[1 matching line]"),
    ({"pattern": "^foo", "glob": "*.py", "show": "count"}, "a.py:1\nb/deep/d.py:3\n[2 files]"),
    ({"pattern": "FOO", "ignore_case": True, "show": "files"}, ".hidden\na.py\nb/c.txt\nb/deep/d.py\n[4 files]"),
    (
        {"pattern": "foo(", "literal": True, "path": "b/deep"},
        "\n".join(f"b/deep/d.py:{i}:foo()" for i in (1, 2, 3)) + "\n[3 matching lines]",
    ),
    (
        {"pattern": "bar", "path": "a.py", "context": 1},
        "a.py-2-foo = 1\na.py:3:bar = 2\na.py-4-baz = 3\n[1 matching line]",
    ),
    ({"pattern": "(?<=last )foo"}, "b/c.txt:3:last foo\n[1 matching line]"),
    ({"pattern": "foo", "path": ".git"}, ".git/config:1:foo\n[1 matching line]"),
    ({"pattern": "foo", "glob": "/b/*.txt"}, "b/c.txt:2:foo bar\nb/c.txt:3:last foo\n[2 matching lines]"),
    ({"pattern": "no such thing"}, "[0 matching lines]"),
    (
        {"pattern": "import|bar", "glob": "a.py", "context": 1},
        "a.py:1:import os\na.py-2-foo = 1\na.py:3:bar = 2\na.py-4-baz = 3\n[2 matching lines]",
    ),
    ({"pattern": "import|baz", "glob": "a.py", "context": 0}, "a.py:1:import os\na.py:4:baz = 3\n[2 matching lines]"),
]


@pytest.mark.parametrize(("arguments", "found"), CASES)
def test_what_is_found_does_not_hang_on_the_program(
    root: Path, program: str | None, arguments: dict[str, Any], found: str
) -> None:
    assert grep(root, program, **arguments) == Output(found)


def test_more_than_can_be_shown_is_read_on_without_gap_or_repeat(root: Path, program: str | None) -> None:
    (root / "many").write_text("".join(f"match {number}\n" for number in range(450)))
    lines: list[str] = []
    skip = 0
    for _ in range(10):
        text = grep(root, program, pattern="^match", skip=skip).text
        *found, note = text.splitlines()
        lines += found
        if "skip=" not in note:
            break
        skip = int(note.rpartition("skip=")[2].rstrip("]"))
    assert lines == [f"many:{number + 1}:match {number}" for number in range(450)]
    files = grep(root, program, Limits(entries=2), pattern="foo", show="files", skip=2).text
    assert files == "b/c.txt\nb/deep/d.py\n[2 files after the first 2]"


def test_a_long_line_is_cut_and_says_so(root: Path, program: str | None) -> None:
    (root / "long").write_text("é" * 2_000_000 + "needle\n")
    text = grep(root, program, pattern="needle").text
    assert text == f"long:1:{'é' * 500} [… the line goes on]\n[1 matching line]"


@pytest.mark.parametrize(
    "arguments", [{"pattern": "("}, {"pattern": "a", "path": "nope"}, {"pattern": "a", "glob": "!x"}]
)
def test_what_cannot_be_searched_is_an_error(root: Path, program: str | None, arguments: dict[str, Any]) -> None:
    assert grep(root, program, **arguments).error


def test_a_pattern_that_backtracks_for_ever_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(("x" * 60 + "\n") * 5)
    text = grep(tmp_path, None, Limits(search_seconds=0.2), pattern=STALLS).text
    assert text == "[0 matching lines; stopped after 0.2 seconds, there may be more]"


def test_a_search_that_is_cancelled_leaves_no_program_and_no_open_file(root: Path, program: str | None) -> None:
    (root / "x").write_text(("x" * 60 + "\n") * 5)

    async def scenario() -> None:
        [tool] = Grep(Workspace(root), Limits(search_seconds=1), program).tools()
        before = len(os.listdir("/proc/self/fd"))
        task = asyncio.create_task(tool.call({"pattern": STALLS}))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.get_running_loop().shutdown_default_executor()
        assert len(os.listdir("/proc/self/fd")) <= before

    asyncio.run(scenario())


@pytest.mark.skipif(RIPGREP is None, reason="ripgrep is not installed")
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(st.text(st.sampled_from("ab. é"), max_size=6), max_size=12),
    pattern=st.sampled_from(["a", "b$", "^a", "a.b", "é+", "[ab]{2}", "^$", r"\bb"]),
    context=st.integers(0, 3),
)
def test_both_programs_agree_on_any_lines(root: Path, lines: list[str], pattern: str, context: int) -> None:
    (root / "made").mkdir(exist_ok=True)
    (root / "made" / "x").write_text("".join(f"{line}\n" for line in lines))
    asked: dict[str, Any] = {"pattern": pattern, "path": "made", "context": context}
    assert grep(root, None, **asked) == grep(root, RIPGREP, **asked)
