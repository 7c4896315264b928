"""Cutting one text to a number of tokens: what stays of it, and what its markers say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from legato.fit.cutting import MARKED, MARKER_TOKENS, cut
from legato.fit.jsontree import tree
from legato.fit.lines import ESCAPE, Lines
from legato.tokens import counter
from recorded import jsonl
from texts import strings

tiktoken = counter("o200k_base")

MARKER_LINE = re.compile(rf"\n?{MARKED.pattern}\n?")
ROOMS = st.integers(0, 120)


def words(text: str) -> int:
    return len(text.split())


def letters(text: str) -> int:
    """A count that adds up wherever a text is cut."""
    return len("".join(text.split()))


def quarters(text: str) -> int:
    return len(text) // 4 + 1


COUNTS = (tiktoken, words, letters, quarters)
counts = st.sampled_from(COUNTS)


def numbers(text: str) -> list[int]:
    """What the markers of a text say, in order."""
    return [int(marker[1].replace(",", "")) for marker in MARKED.finditer(text)]


def kept(text: str) -> list[str]:
    """The pieces of a cut text between its markers; the line breaks around a marker may be the marker's."""
    return MARKER_LINE.sub("\0", text).split("\0")


def gone(text: str, short: str) -> list[str]:
    """What each marker of the short text stands for, if no line of the text comes twice."""
    first, *pieces = re.split(r"\[… [0-9]+ tokens omitted …\]\n?", short.replace(",", ""))
    at = len(first) if text.startswith(first) else len(first) - 1
    found = []
    for piece in pieces[:-1]:
        whole = piece if text.find(piece, at) >= 0 else piece.removesuffix("\n")
        start = text.index(whole, at)
        found.append(text[at:start])
        at = start + len(whole)
    found += [text[at : len(text) - len(piece)] for piece in pieces[-1:]]
    return found


numbered = st.lists(st.text("abcdef 错误", max_size=18), min_size=1, max_size=120).map(
    lambda lines: "".join(f"{at}: {line}\n" for at, line in enumerate(lines))
)
"""Texts of short lines, no two alike."""

logs = st.lists(
    st.sampled_from(["ok", "step done", "ERROR: it broke", "test failed", "exit code 1", "0 errors", "进程异常退出"]),
    min_size=1,
    max_size=150,
).map(lambda lines: "".join(f"{at} {line}\n" for at, line in enumerate(lines)))
"""The same, some of them about errors."""

FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
PIECES = ["word ", "\n", "\r\n", "错误", "é", "e\u0301", FAMILY, "🇳🇴", "👍🏽", "\x1b[31m", "\x1b[0m", "\ud83d\ude00"]
PIECES += ["\x1b]8;;https://example.org\x1b\\", "error: no", "[… 7 tokens omitted …]", "[… 7 tok", '{"a": 1}', "["]
PIECES += ["a" * 60, " " * 40]
mixed = st.lists(st.sampled_from(PIECES), max_size=120).map("".join)
anything = st.one_of(st.text(max_size=400), mixed, numbered, logs)

long = st.integers(0, 80).map(lambda lines: "".join(f"{at} é line of {lines}\n" for at in range(lines)))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12) | long
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=4), inner, max_size=6)
)
numerous = st.integers(0, 200).map(lambda items: [{"at": at, "error": at % 7 == 3 or None} for at in range(items)])
containers = st.tuples(values, numerous, long).map(list) | st.dictionaries(st.text(max_size=8), values | numerous)


# -- Length ------------------------------------------------------------------------------------------------------------


@given(anything, ROOMS, counts)
def test_the_result_is_no_longer_than_the_room_or_no_shorter_can_be(
    text: str, room: int, count: Callable[[str], int]
) -> None:
    short = cut(text, room, count)
    assert count(short) <= max(room + MARKER_TOKENS, count("[… 9,999 tokens omitted …]"))
    assert count(short) <= count(text)


@given(anything, ROOMS, counts)
def test_a_text_that_fits_is_left_alone(text: str, room: int, count: Callable[[str], int]) -> None:
    if count(text) <= room + MARKER_TOKENS:
        assert cut(text, room, count) is text
    elif count(text) > count("[… 9,999 tokens omitted …]"):
        assert MARKED.search(cut(text, room, count))


@given(anything, ROOMS, counts)
def test_cutting_again_changes_nothing(text: str, room: int, count: Callable[[str], int]) -> None:
    short = cut(text, room, count)
    assert cut(short, room, count) is short


@pytest.mark.parametrize("text", ["", "one line of a text", "[1, 2, 3]", "x" * 29, "a\nb\n" * 40])
def test_a_text_is_left_alone_where_a_marker_is_no_shorter(text: str) -> None:
    """Under a count by which a marker alone costs more than there is room for."""
    short = cut(text, 0, len)
    assert len(short) <= len(text)
    assert short is text or MARKED.fullmatch(short)
    assert cut(short, 0, len) is short


@given(numbered, st.integers(20, 300))
def test_the_room_is_used(text: str, room: int) -> None:
    """Save for a line at each border, and where markers are short."""
    short = cut(text, room, quarters)
    assert short is text or quarters(short) >= room - 8


# -- Head, tail and lines ----------------------------------------------------------------------------------------------


@given(logs | numbered, st.integers(24, 200))
def test_head_and_tail_stay(text: str, room: int) -> None:
    short = cut(text, room, tiktoken)
    first, *_, last = kept(short) if short is not text else (text, text)
    assert first
    assert last
    assert text.startswith(first)
    assert text.endswith(last)


@given(logs | numbered, st.integers(80, 300))
def test_lines_stay_whole_and_in_order(text: str, room: int) -> None:
    rest = iter(text.splitlines())
    for line in cut(text, room, quarters).splitlines():
        assert MARKED.fullmatch(line) or line in rest, line


@given(logs | numbered, ROOMS)
def test_every_gap_has_one_marker(text: str, room: int) -> None:
    assert all(kept(cut(text, room, tiktoken))[1:-1])


@pytest.mark.parametrize(
    ("text", "room", "short"),
    [
        ("a " * 200, 20, "a a a a a a a a a a a a \n[… 178 tokens omitted …]\na a a a a a a a a a a "),
        ("系统" * 400, 10, "系统系统系统系统系统系统系统\n[… 386 tokens omitted …]\n系统系统系统系统系统系统系统"),
        ("head " + "QUJD" * 900 + " tail", 8, None),
        ("first line\n" + "<p>text</p>" * 900 + "\nlast line", 60, None),
    ],
    ids=["words", "Chinese", "base64", "minified"],
)
def test_a_line_that_is_too_long_is_cut_inside(text: str, room: int, short: str | None) -> None:
    found = cut(text, room, tiktoken)
    head, tail = kept(found)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert tiktoken(found) >= room
    assert short in (None, found)


# -- Markers -----------------------------------------------------------------------------------------------------------


@given(logs | numbered, st.integers(20, 200), st.sampled_from([tiktoken, words]))
def test_the_markers_say_how_many_tokens_the_removed_texts_have(
    text: str, room: int, count: Callable[[str], int]
) -> None:
    short = cut(text, room, count)
    assert numbers(short) == [count(removed) for removed in gone(text, short)]


@given(anything, st.lists(st.integers(0, 200), min_size=1, max_size=4))
def test_the_account_holds_however_often_a_text_is_cut(text: str, rooms: list[int]) -> None:
    assume(tree(text) is None)
    short = text
    for room in rooms:
        short = cut(short, room, letters)
    assert letters(MARKED.sub("", short)) + sum(numbers(short)) == letters(MARKED.sub("", text)) + sum(numbers(text))


def test_long_gaps_share_what_is_left_of_the_whole() -> None:
    lines = [f"line {at} of the log" for at in range(40_000)]
    lines[10_000] = "ERROR: one"
    text = "\n".join(lines)
    short = cut(text, 500, tiktoken)
    assert "\nERROR: one\n" in short
    left = sum(tiktoken(piece) for piece in re.split(rf"{MARKED.pattern}\n", short)[::2])
    assert sum(numbers(short)) == tiktoken(text) - left
    assert numbers(short)[1] == pytest.approx(3 * numbers(short)[0], rel=0.1)


def test_a_marker_is_never_cut_and_two_never_stand_side_by_side() -> None:
    text = "\n".join(f"line {at}" if at % 3 else f"[… {at:,} tokens omitted …]" for at in range(3_000))
    for room in range(0, 200, 7):
        short = cut(text, room, tiktoken)
        assert short.count("[…") == short.count("…]") == len(numbers(short))
        assert not re.search(rf"{MARKED.pattern}\s*{MARKED.pattern}", short)


def test_a_line_break_before_a_marker_is_the_texts_own_where_it_has_one() -> None:
    (gap,) = Lines("a" * 10 + "\n" + "b" * 200).gaps(20)
    assert (gap.start, gap.before) == (11, "")


def test_numbers_too_long_to_be_ones_are_text() -> None:
    text = f"[… {'9' * 5_000} tokens omitted …]\n" + "line\n" * 5_000
    assert sum(numbers(cut(text, 10, tiktoken))) < tiktoken(text)


# -- Errors ------------------------------------------------------------------------------------------------------------


def between(*lines: str, around: int = 400) -> str:
    """A log with these lines in the middle."""
    step = "[{:4}/800] compiling src/module_{}.c"
    before, after = (range(around), range(around, 2 * around))
    log = [step.format(at, at) for at in before] + list(lines) + [step.format(at, at) for at in after]
    return "\n".join(log) + "\n"


TELLING = [
    "src/net.c:12:5: error: expected ';' before 'return'",
    "make[1]: *** [Makefile:10: net.o] Error 1",
    "FAILED tests/test_net.py::test_close - AssertionError: assert 3 == 4",
    "E   AssertionError: assert 3 == 4",
    "ValueError: invalid literal for int() with base 10: 'x'",
    "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='example.org', port=443)",
    "java.lang.NullPointerException: null",
    "thread 'main' panicked at src/main.rs:2:5:",
    "panic: runtime error: index out of range [5] with length 3",
    "--- FAIL: TestClose (0.00s)",
    "fatal: not a git repository (or any of the parent directories): .git",
    "error[E0308]: mismatched types",
    "src/a.ts(3,14): error TS2322: Type 'string' is not assignable to type 'number'.",
    "npm ERR! code ELIFECYCLE",
    "2024-05-01 10:00:01 ERROR worker.pool: connection lost",
    "10:00:01 the connection to db-1 failed, trying again",
    "\x1b[31mERROR\x1b[0m could not resolve dependencies",
    "Segmentation fault (core dumped)",
    "Process exited with code 137",
    "exit status 2",
    "Command returned non-zero exit status 1.",
    "exit_code: 3",
    "3 failed, 97 passed in 4.21s",
    "KeyboardInterrupt",
    "Test run: 12 tests, Errors: 2",
    "错误：无法连接到数据库",
    "2024-05-01 10:00:01 [严重] 任务执行失败，请检查网络",
    "系统异常，请联系管理员",
    "进程已退出，退出码：1",
]

SILENT = [
    "0 errors, 0 warnings",
    "Failures: 0, Errors: 0",
    "no errors found",
    '"error": null,',
    "error_count is a field of the report",
    "tests/test_errors.py::test_one PASSED",
    "            raise ValueError(name)",
    "  412\t        except KeyError as error:",
    "    this.showError(",
    "// an error is shown here",
    "from legato.errors import WireError",
    "the terrorist failover exceptional exit",
    "没有错误",
    "运行正常，无异常",
    "isError: event.isError,",
]


@pytest.mark.parametrize("line", TELLING)
def test_a_line_that_tells_of_an_error_stays(line: str) -> None:
    short = cut(between(line), 150, tiktoken)
    assert line in short.splitlines()
    assert len(numbers(short)) == 2


@pytest.mark.parametrize("line", SILENT)
def test_a_line_that_only_looks_like_it_goes(line: str) -> None:
    short = cut(between(line), 150, tiktoken)
    assert line not in short.splitlines()
    assert len(numbers(short)) == 1


def test_errors_take_a_quarter_of_the_room() -> None:
    names = ["".join(name) for name in product("abcdefghij", repeat=3)]
    text = "".join(f"step {at} done\n" * 5 + f"ERROR {name} went wrong\n" for at, name in enumerate(names))
    head, *middle, tail = kept(cut(text, 1_000, tiktoken))
    assert middle
    assert tiktoken("\n".join(middle)) <= 300
    assert min(tiktoken(head), tiktoken(tail)) >= 250


def test_twenty_lines_at_most_are_kept_for_their_errors() -> None:
    text = "".join(f"step {at} done\n" * 9 + f"ERROR {'x' * (at % 90)} went wrong\n" for at in range(2_000))
    assert len(numbers(cut(text, 5_000, tiktoken))) in (20, 21)


def test_an_error_that_comes_again_makes_way_for_another() -> None:
    again = [f"ERROR attempt {at}: connection refused" for at in range(300)]
    short = cut(between(*again, "ERROR out of memory", "Process exited with code 0"), 200, tiktoken)
    assert "ERROR attempt 0: connection refused\n" in short
    assert "ERROR out of memory\n" in short


def test_errors_side_by_side_have_no_marker_between_them() -> None:
    short = cut(between("a.c:1:2: error: no such file", "make: *** [a.o] Error 1"), 150, tiktoken)
    assert "…]\na.c:1:2: error: no such file\nmake: *** [a.o] Error 1\n[…" in short


def test_an_error_of_a_thousand_characters_is_no_line_to_keep() -> None:
    assert len(numbers(cut(between("ERROR " + "x" * 900, around=4_000), 3_000, tiktoken))) == 2
    assert len(numbers(cut(between("ERROR " + "x" * 1_100, around=4_000), 3_000, tiktoken))) == 1


# -- Characters --------------------------------------------------------------------------------------------------------

CLUSTERS = ["e\u0301", FAMILY, "🇳🇴", "👍🏽", "\u2764\ufe0f", "षि", "\ud83d\ude00", "\r\n", "x", "错", "1\ufe0f\u20e3"]
CLUSTERS += ["\U0001f3f4\U000e0067\U000e007f"]
ESCAPES = ["\x1b[31;1m", "\x1b[0m", "\x1b]0;a title\x07", "\x9b2J", "\x1b(B"]


@given(st.lists(st.sampled_from(CLUSTERS), min_size=20, max_size=200), st.integers(0, 60))
def test_what_is_one_character_to_a_reader_stays_whole(clusters: list[str], room: int) -> None:
    text = "".join(clusters)
    for piece in re.split(MARKED, cut(text, room, quarters))[::2]:
        rest = piece.strip("\r\n")
        for cluster in sorted(CLUSTERS, key=len, reverse=True):
            rest = rest.replace(cluster, "")
        assert rest == ""


@given(st.lists(st.sampled_from([*ESCAPES, "ab", "错误"]), max_size=200))
def test_an_escape_sequence_stays_whole_or_goes(parts: list[str]) -> None:
    short = ESCAPE.sub("", cut("".join(parts), 10, quarters))
    assert not re.search(r"[\x1b\x9b\x07;]|\[[0-9]", short)


def test_a_cluster_without_end_is_cut() -> None:
    assert len(numbers(cut("e" + "\u0301" * 4_000, 20, quarters))) == 1
    assert len(numbers(cut("\x1b]" + "x" * 4_000, 20, quarters))) == 1


# -- JSON --------------------------------------------------------------------------------------------------------------


def agree(whole: Any, short: Any) -> bool:
    """Whether the short value is the whole one with markers in place of items, members and parts of strings."""
    if isinstance(whole, str) and isinstance(short, str) and MARKED.search(short):
        head, *_, tail = kept(short)
        return whole.startswith(head) and whole.endswith(tail)
    if isinstance(whole, list) and isinstance(short, list):
        rest = iter(whole)
        return all(is_marker(item) or any(agree(other, item) for other in rest) for item in short)
    if isinstance(whole, dict) and isinstance(short, dict):
        return all(is_marker(item) if key not in whole else agree(whole[key], item) for key, item in short.items())
    return type(whole) is type(short) and whole == short


def is_marker(value: Any) -> bool:
    return isinstance(value, str) and MARKED.fullmatch(value) is not None


@given(containers, st.integers(10, 150), st.sampled_from([None, 1]), st.booleans())
def test_json_stays_json_with_what_is_left_of_the_same_values(
    value: Any, room: int, indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    short = cut(text, room, quarters)
    assert agree(json.loads(text), json.loads(short))
    assert quarters(short) <= room + MARKER_TOKENS


@given(containers, st.integers(10, 150))
def test_the_account_of_json_holds(value: Any, room: int) -> None:
    """But for quotation marks, keys and line breaks of the markers."""
    text = json.dumps(value)
    short = cut(text, room, letters)
    assert 0 <= letters(MARKED.sub("", short)) + sum(numbers(short)) - letters(text) <= 10 * len(numbers(short))


def test_numbers_keys_and_escapes_are_left_as_they_are_written() -> None:
    text = '{"a": 1.10, "a": 1E+400, "b": 123456789012345678901234567890, "s": "\\/\\u00e9\\ud83d", "long": "%s"}'
    text %= "\\u4f60\\n" * 2_000
    short = cut(text, 100, tiktoken)
    assert short.startswith(text[:90])
    assert json.loads(short)["long"].startswith("你\n你\n")
    assert short.isascii() is False
    assert MARKED.sub("", short).isascii()


def test_the_long_string_goes_and_the_short_fields_stay() -> None:
    log = between("src/net.c:12:5: error: expected ';' before 'return'")
    text = json.dumps({"command": "make", "exit_code": 2, "stdout": log, "seconds": 4.5}, ensure_ascii=False)
    short = json.loads(cut(text, 200, tiktoken))
    assert {**short, "stdout": ""} == {"command": "make", "exit_code": 2, "stdout": "", "seconds": 4.5}
    assert "src/net.c:12:5: error: expected ';' before 'return'" in short["stdout"].splitlines()
    assert short["stdout"].splitlines()[0] == "[   0/800] compiling src/module_0.c"


def test_of_a_long_list_both_ends_stay_and_the_item_that_tells_of_an_error() -> None:
    rows = [{"test": f"test_{at}", "outcome": "passed", "error": None} for at in range(500)]
    rows[300] = {"test": "test_300", "outcome": "failed", "error": "AssertionError: 3 != 4"}
    short = json.loads(cut(json.dumps(rows), 200, tiktoken))
    assert short[0] == rows[0]
    assert short[-1] == rows[-1]
    assert rows[300] in short
    assert sum(map(is_marker, short)) == 2


def test_an_item_with_exit_code_0_tells_of_no_error() -> None:
    rows = [{"command": f"step {at}", "exit_code": 0} for at in range(400)]
    rows[300]["exit_code"] = 2
    assert rows[300] in json.loads(cut(json.dumps(rows), 200, tiktoken))


def test_of_a_large_object_both_ends_stay_under_keys_of_their_own() -> None:
    value = {f"file_{at}.py": {"lines": at, "status": "ok"} for at in range(400)}
    value["file_200.py"]["status"] = "failed: syntax error"
    value["…"] = {"lines": 1, "status": "ok"}
    pairs: list[tuple[str, Any]] = json.loads(cut(json.dumps(value), 200, tiktoken), object_pairs_hook=list)
    keys = [key for key, _ in pairs]
    assert len(set(keys)) == len(keys)
    assert keys[0] == "file_0.py"
    assert keys[-1] == "…"
    assert "file_200.py" in keys
    assert [key for key, item in pairs if is_marker(item)] == ["……", "………"]


def test_a_cut_list_that_is_cut_again_has_one_marker() -> None:
    text = json.dumps(list(range(3_000)))
    once = cut(text, 300, tiktoken)
    twice = cut(once, 100, tiktoken)
    assert [sum(map(is_marker, json.loads(short))) for short in (once, twice)] == [1, 1]
    assert numbers(twice)[0] == pytest.approx(tiktoken(text) - tiktoken(twice), abs=20)


def test_in_a_list_two_markers_never_stand_side_by_side() -> None:
    text = json.dumps([at if at % 3 else f"[… {at + 1:,} tokens omitted …]" for at in range(900)], ensure_ascii=False)
    for room in range(20, 200, 7):
        marks = [is_marker(item) for item in json.loads(cut(text, room, tiktoken))]
        assert any(marks)
        assert (True, True) not in pairwise(marks)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 50_000 + "1" + "}" * 50_000,
        "[" * 65 + "1," * 5_000 + "1" + "]" * 65,
        "[" * 100_000,
        '["' + "a" * 1_000_000 + '"]',
        '{"a": 1}\n' * 3_000,
        "[INFO] start\n" * 3_000,
        '["unfinished ' * 3_000,
        "1" * 20_000,
    ],
    ids=[
        "deep lists",
        "deep objects",
        "one too deep",
        "never closed",
        "too long",
        "lines of JSON",
        "log",
        "broken",
        "number",
    ],
)
def test_what_is_no_json_or_too_deep_or_too_long_is_cut_as_text(text: str) -> None:
    short = cut(text, 60, quarters)
    assert tree(text) is None
    assert len(numbers(short)) == 1
    assert quarters(short) <= 60 + MARKER_TOKENS


def test_lines_of_json_stay_lines_of_json() -> None:
    text = "".join(json.dumps({"at": at, "text": "word " * 5}) + "\n" for at in range(500))
    lines = cut(text, 200, tiktoken).splitlines()
    assert [line for line in lines if not MARKED.fullmatch(line) and not json.loads(line)] == []
    assert len(lines) > 5


# -- Real outputs ------------------------------------------------------------------------------------------------------

PYTEST = (
    "============================= test session starts ==============================\n"
    + "".join(f"tests/test_{at}.py::test_case PASSED [{at:3}%]\n" for at in range(60))
    + """=================================== FAILURES ===================================
__________________________________ test_close __________________________________

    def test_close():
        net = Net()
>       assert net.close() == 4
E       AssertionError: assert 3 == 4

tests/test_net.py:12: AssertionError
"""
    + "----------------------------- Captured stdout call -----------------------------\n"
    + "".join(f"packet {at} sent to 10.0.0.{at % 7}\n" for at in range(200))
    + """=========================== short test summary info ============================
FAILED tests/test_net.py::test_close - AssertionError: assert 3 == 4
========================= 1 failed, 60 passed in 2.10s =========================
"""
)
TRACE = (
    "".join(f"epoch {at} loss {1 / (at + 1):.4f}\n" for at in range(300))
    + """Traceback (most recent call last):
  File "/srv/train.py", line 90, in <module>
    main()
  File "/srv/train.py", line 71, in main
    raise RuntimeError(f"no such device: {name}")
RuntimeError: no such device: cuda:1
"""
    + "".join(f"cleaning up shard {at}\n" for at in range(300))
)
CHINESE = (
    "".join(f"2024-05-01 10:{at // 60:02}:{at % 60:02} [信息] 正在处理第 {at} 个文件，请稍候\n" for at in range(300))
    + "2024-05-01 10:05:00 [错误] 数据库连接失败：用户名或密码不正确\n"
    + "".join(f"2024-05-01 10:{at // 60:02}:{at % 60:02} [信息] 已处理第 {at} 个文件\n" for at in range(300, 600))
)


@pytest.mark.parametrize(
    ("text", "room", "lines"),
    [
        (
            PYTEST,
            250,
            [
                "E       AssertionError: assert 3 == 4",
                "========================= 1 failed, 60 passed in 2.10s =========================",
            ],
        ),
        (TRACE, 120, ["RuntimeError: no such device: cuda:1", "epoch 0 loss 1.0000", "cleaning up shard 299"]),
        (CHINESE, 200, ["2024-05-01 10:05:00 [错误] 数据库连接失败：用户名或密码不正确"]),
    ],
    ids=["pytest", "traceback", "Chinese log"],
)
def test_the_lines_that_matter_stay(text: str, room: int, lines: list[str]) -> None:
    short = cut(text, room, tiktoken)
    assert [line for line in lines if line not in short.splitlines()] == []
    assert room - 30 <= tiktoken(short) <= room + MARKER_TOKENS


def recorded_texts() -> Iterator[str]:
    """Long texts of recorded sessions: outputs of commands, files, bodies."""
    for name in ("swe-agent/trajectories.jsonl", "pi-mono/sessions.jsonl", "openhands-events/multi_swe_bench.jsonl"):
        found = dict.fromkeys(text for row in jsonl(name) for text in strings(row) if 3_000 < len(text) < 100_000)
        yield from list(found)[:40]


def test_recorded_outputs_are_cut_to_the_room_and_stay_so() -> None:
    texts = list(recorded_texts())
    assert len(texts) > 60
    for text in texts:
        short = cut(text, 300, tiktoken)
        assert tiktoken(short) <= 300 + MARKER_TOKENS
        assert cut(short, 300, tiktoken) is short
        assert tree(text) is None or tree(short) is not None
        assert tiktoken(short) > 150


# -- Cost --------------------------------------------------------------------------------------------------------------


class Counted:
    """A count that notes what it was given."""

    def __init__(self) -> None:
        self.calls = self.characters = 0

    def __call__(self, text: str) -> int:
        self.calls += 1
        self.characters += len(text)
        return quarters(text)


LARGE = {
    "log": between(around=16_000),
    "errors": "".join(f"{at} ERROR number {at} of many\n" for at in range(40_000)),
    "line": "QUJDREVG" * 130_000,
    "spaces": " " * 1_000_000,
    "line breaks": "\n" * 1_000_000,
    "one error": "error " * 170_000,
    "list": json.dumps(list(range(120_000))),
    "string": json.dumps({"out": between(around=10_000)}),
}


@pytest.mark.parametrize("room", [50, 2_000])
@pytest.mark.parametrize("name", LARGE)
def test_the_whole_is_counted_once_and_besides_only_what_is_as_long_as_the_result(name: str, room: int) -> None:
    text, count = LARGE[name], Counted()
    short = cut(text, room, count)
    assert quarters(short) > room // 2
    assert count.calls <= 80
    assert count.characters - len(text) <= 25 * len(short)
