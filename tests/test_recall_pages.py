"""Reading back what was kept: by lines, bit by bit, and by a search that no pattern can stall."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from legato import GovernanceError
from legato.recall import QueryError
from legato.recall.page import MAX_CHARS, WIDTH, Recalled, page

ENDS = ("\n", "\r\n", "\r")
SHORT = st.text(st.sampled_from("ab é_1-\n\r\x0b\x1c\u2028\ud800"), max_size=40)
LONG = st.lists(
    st.sampled_from([*ENDS, "a", "\u2028", "x" * (WIDTH - 1), "é" * WIDTH, "y" * (2 * WIDTH + 1), "z\r\n"]), max_size=8
).map("".join)


def lines_of(text: str) -> list[str]:
    """The lines as Python's own reader of files sees them, with their endings."""
    return list(io.StringIO(text, newline=""))


def pages(text: str, **asked: Any) -> list[Recalled]:
    """What comes back when the notes are followed to the end."""
    found = [page(text, **asked)]
    while (start := found[-1].next) is not None:
        assert f"start={start}" in found[-1].note
        assert start > found[-1].last
        found.append(page(text, **{**asked, "start": start}))
        assert found[-1].first == start
    return found


# -- lines -------------------------------------------------------------------------------------------------------------


@given(text=SHORT, start=st.integers(1, 12), count=st.none() | st.integers(1, 12))
def test_a_slice_is_the_lines_that_python_reads_from_a_file(text: str, start: int, count: int | None) -> None:
    lines = lines_of(text)
    got = page(text, start, count)
    wanted = lines[start - 1 :][:count]
    assert got.text == "".join(wanted)
    assert (got.first, got.last) == ((start, start + len(wanted) - 1) if wanted else (0, 0))
    assert (got.lines, got.chars, got.truncated) == (len(lines), len(text), False)
    assert got.next == (start + len(wanted) if wanted and start + len(wanted) <= len(lines) else None)


@given(text=LONG | SHORT, max_chars=st.sampled_from([1, 7, WIDTH, 2 * WIDTH + 5]), count=st.none() | st.integers(1, 5))
def test_reading_on_gives_the_whole_text_in_bounded_pieces(text: str, max_chars: int, count: int | None) -> None:
    found = pages(text, max_chars=max_chars, lines=count)
    assert "".join(part.text for part in found) == text
    assert all(len(part.text) <= max(max_chars, WIDTH + 2) for part in found)
    assert all(part.truncated == (part.next is not None and part.last - part.first + 1 != count) for part in found)
    assert page(text, max_chars=None).text == text
    assert found[-1].last == found[0].lines


def test_no_more_than_the_default_cap_comes_back_unless_it_is_asked_for() -> None:
    text = "0123456789\n" * 5_000
    part = page(text)
    assert MAX_CHARS - 11 < len(part.text) <= MAX_CHARS
    assert part.truncated
    assert (
        str(part) == f"{part.text}[lines 1-{part.last}; 5,000 lines, 55,000 characters in all; read on with start=1455]"
    )


def test_a_note_says_what_there_is() -> None:
    assert page("").note == "no line 1; 0 lines, 0 characters in all"
    assert page("a\nb", 3).note == "no line 3; 2 lines, 3 characters in all"
    assert page("a\nb", 2).note == "lines 2-2; 2 lines, 3 characters in all"
    assert (
        page("a\nb", 1, 1, "[ab]").note
        == "1 matching line from line 1 on; 2 lines, 3 characters in all; read on with start=2"
    )
    assert page("a\nb", pattern="c").note == "no matching lines from line 1 on; 2 lines, 3 characters in all"
    assert "lines counted in pieces of 2,000 characters" in page("a" * 2_001).note


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "1"])
@pytest.mark.parametrize("name", ["start", "lines", "max_chars"])
def test_a_number_that_is_none_is_refused(name: str, value: Any) -> None:
    with pytest.raises(QueryError, match=f"{name} must be a number from 1 on"):
        page("a", **{name: value})
    assert issubclass(QueryError, GovernanceError)


# -- patterns ----------------------------------------------------------------------------------------------------------

ATOMS = [
    "a",
    "b",
    ".",
    "é",
    r"\d",
    r"\w",
    r"\W",
    r"\s",
    "[ab]",
    "[^a]",
    "[]a-]",
    r"\.",
    r"\x61",
    r"\u00e9",
    r"[\d_]",
    "-",
]
EDGES = ["^", "$", r"\b", r"\B", r"\A", r"\Z"]
REPEATS = ["*", "+", "?", "{2}", "{1,}", "{,2}", "{1,2}", "*?", "+?", "??", "{1,2}?"]
PATTERNS = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["", "(?i)", "(?a)", "(?im)(?s)"]),
        st.sampled_from(["", "^"]),
        st.recursive(
            st.sampled_from([*ATOMS, *EDGES]),
            lambda inner: st.one_of(
                st.lists(inner, max_size=3).map("".join),
                st.lists(inner, min_size=1, max_size=3).map("|".join).map("(?:{})".format),
                st.builds("{}{}".format, inner.map("({})".format) | st.sampled_from(ATOMS), st.sampled_from(REPEATS)),
            ),
            max_leaves=8,
        ),
        st.sampled_from(["", "$"]),
    ),
)
ANYTHING = st.text(st.sampled_from(r"ab.*+?|()[]^$\bdW{}12,-:P<>=!iéA"), max_size=12)
LINES = st.lists(st.text(st.sampled_from("abAé_1-. \u2028"), max_size=8), min_size=1, max_size=3)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@example("^a*$", ["aaa", "aab"])
@example("a{+b{}{1{,", ["a{{b{}{1{,"])
@example("(?i)^[a-c]é$", ["BÉ", "b"])
@example(r"(?a)^\w$", ["é", "a"])
@given(pattern=PATTERNS | ANYTHING, lines=LINES)
def test_a_search_finds_the_lines_that_re_finds(pattern: str, lines: list[str]) -> None:
    text = "\n".join(lines)
    try:
        got = page(text, pattern=pattern)
    except QueryError:
        assume(False)
    expected = re.compile(pattern)
    contents = [line.removesuffix("\n") for line in lines_of(text)]
    assume(r"\B" not in pattern or all(contents))  # Python 3.14 changed its mind about \B in an empty line
    assert got.text == "".join(f"{at}: {line}\n" for at, line in enumerate(contents, 1) if expected.search(line))


@given(pattern=PATTERNS)
def test_what_needs_no_backtracking_is_not_refused(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error:
        assume(False)
    page("a", pattern=pattern)


@given(text=SHORT, count=st.none() | st.integers(1, 3), max_chars=st.sampled_from([1, 12, 100]))
def test_reading_on_in_a_search_gives_each_match_once(text: str, count: int | None, max_chars: int) -> None:
    found = pages(text, pattern="a|é", lines=count, max_chars=max_chars)
    wanted = [
        f"{at}: " + line.rstrip("\r\n") + "\n" for at, line in enumerate(lines_of(text), 1) if set(line) & set("aé")
    ]
    assert "".join(part.text for part in found) == "".join(wanted)


@given(before=st.integers(WIDTH - 8, WIDTH + 8), gap=st.integers(0, 2 * WIDTH), tail=st.integers(0, WIDTH))
def test_in_a_long_line_a_match_is_found_where_it_ends(before: int, gap: int, tail: int) -> None:
    text = "é" * before + "needle" + "-" * gap + "needle" + "é" * tail
    first, second = (before + 5) // WIDTH + 1, (before + 6 + gap + 5) // WIDTH + 1
    starts_later = before + 6 + gap >= first * WIDTH  # the search goes on with the piece after a hit
    got = page(text, pattern="needle", max_chars=None)
    assert [int(line.split(":")[0]) for line in got.text.splitlines()] == [first, *([second] if starts_later else [])]


def test_in_a_long_line_only_its_own_ends_are_edges() -> None:
    text = "a" * (3 * WIDTH)
    assert page(text, pattern="^a").text == f"1: {'a' * WIDTH}\n"
    assert page(text, pattern="a$").text == f"3: {'a' * WIDTH}\n"
    assert page(text, pattern=r"\ba\b|a\b.").first == 0
    assert page(text, pattern="", max_chars=None).text.count("\n") == 3


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"(a+)+$", "a" * 50_000 + "b"),
        (r"(a|a)*b", "a" * 50_000),
        (r"(.*a){12}b", "a" * 50_000),
        (r".*.*.*.*.*x", "a" * 50_000),
        (r"(a?){60}a{60}$", "a" * 50_000 + "b"),
        (r"((a*)*)*b", "a" * 50_000),
        (r"(?i)(\w+\s?)*:$", "word " * 10_000),
        (r"a?" * 60 + "b", "a" * 50_000),
    ],
)
def test_a_pattern_that_stalls_re_is_answered(pattern: str, text: str) -> None:
    assert page(text, pattern=pattern).first == 0


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(?=a)", "lookaround"),
        ("(?<!a)b", "lookaround"),
        (r"(a)\1", "backreferences"),
        ("(?P<x>a)(?P=x)", "backreferences"),
        ("(?>a)", "atomic groups"),
        ("a++", "possessive repeats"),
        ("^a{2}+$", "possessive repeats"),
        ("(?x) a", "flags other than"),
        ("(?i:a)", "flags other than"),
        ("(a", "no regular expression"),
        ("*", "no regular expression"),
        ("a{99999999999}", "no regular expression"),
        ("((a{100}){100}){100}", "repeats too much"),
        ("(){3000}", "repeats too much"),
        ("((){1000}){1000}", "repeats too much"),
        ("a" * 201, "at most 200 characters"),
        (b"a", "at most 200 characters"),
    ],
)
def test_a_pattern_that_could_stall_is_refused_and_says_why(pattern: Any, problem: str) -> None:
    with pytest.raises(QueryError, match=problem):
        page("a", pattern=pattern)


def test_a_search_that_costs_too_much_is_given_up() -> None:
    text = "".join("ab"[at * at % 7919 % 2] for at in range(200_000))
    with pytest.raises(QueryError, match="too costly"):
        page(text, pattern="(a|b)*a(a|b){300}c")
