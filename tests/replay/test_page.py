"""The page of a replay without a browser: well-formed, self-contained, escaped, bounded."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legato.replay import policies
from legato.replay.page import render
from legato.replay.page.columns import CONTENTS, KINDS, columns, room
from legato.replay.play import replay
from legato.replay.played import Replay, Shown
from stories import call, recording, result, system, user

VOID = {"meta", "link", "br", "img", "input", "hr"}
HOSTILE = (
    "</script><script>window.hit=1</script>",
    "<!--<script>",
    "]]><!-- -->",
    "\u2028\u2029\u202e",
    "\ud800 alone",
    "<img src=x onerror=hit()>",
    "@@script@@",
    "&lt;/script&gt;",
    "\x00\x08",
    "javascript:hit()",
)


class Seen(HTMLParser):
    """All elements in order, with what is in them, and those that were not closed."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[tuple[str, int]] = []
        self.texts: dict[int, str] = {}
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append((tag, len(self.elements) - 1))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        number = self.open[-1][1] if self.open else -1
        self.texts[number] = self.texts.get(number, "") + data

    def of(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attrs, self.texts.get(at, "")) for at, (name, attrs) in enumerate(self.elements) if name == tag]

    def data(self, name: str) -> Any:
        [text] = [text for attrs, text in self.of("script") if attrs.get("id") == name]
        return json.loads(text)


def story(*texts: str) -> Replay:
    """A session in which what a file, a tool, its id, its arguments and everybody says can be chosen."""
    messages = [system("Be brief."), user(texts[0])]
    for number, text in enumerate(texts):
        messages += [
            call(f"c{number}{text}", "read", json.dumps({"path": text}), text=text),
            result(f"c{number}{text}", text * 20),
        ]
    messages += [user("and then?"), {"role": "assistant", "content": texts[-1]}]
    chosen = policies.choose(["none", "cache-friendly", "sliding-window"])
    return replay(recording(messages), chosen, window=2_000, max_output=200, contents=True)


PLAIN = story("src/parser.py", "tests/test_parser.py")


def still(played: Replay) -> Replay:
    """Without the milliseconds, which differ from run to run."""
    quiet = [
        replace(policy, rows=tuple(replace(row, ms=0.0) for row in policy.rows), totals=replace(policy.totals, ms=0.0))
        for policy in played.policies
    ]
    return replace(played, policies=tuple(quiet))


def test_the_page_is_well_formed_and_every_id_is_there_once() -> None:
    page = Seen(render([PLAIN]))
    names = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert page.open == []
    assert len(names) == len(set(names))
    assert {"overview", "replay-0", "timeline", "detail"} <= set(names)


def test_every_element_that_the_scripts_ask_for_is_in_the_page() -> None:
    text = render([PLAIN])
    page = Seen(text)
    names = {attrs["id"] for _, attrs in page.elements if "id" in attrs}
    own = page.of("script")[-1][1]
    assert set(re.findall(r'find\("([a-z-]+)"\)', own)) <= names


def test_nothing_is_loaded_from_anywhere() -> None:
    page = Seen(render([PLAIN]))
    links = [
        value
        for _, attrs in page.elements
        for name, value in attrs.items()
        if name in ("src", "href", "action", "data")
    ]
    assert [link for link in links if not (link or "").startswith(("data:image/svg+xml;base64,", "#"))] == []
    [(_, style)] = page.of("style")
    assert re.findall(r"url\(|@import", style) == []
    own = page.of("script")[-1][1]
    assert (
        re.findall(
            r"fetch\(|XMLHttpRequest|WebSocket|import\(|https?://|innerHTML|outerHTML|insertAdjacent|document\.write|eval\(",
            own,
        )
        == []
    )


def test_only_the_scripts_and_styles_that_were_written_here_may_run() -> None:
    page = Seen(render([story(*HOSTILE[:3])]))
    [rules] = [
        attrs["content"] or "" for attrs, _ in page.of("meta") if attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    parts = dict(rule.split(" ", 1) for rule in rules.split("; "))
    running = [text for attrs, text in page.of("script") if "type" not in attrs]
    hashes = [f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in running]
    assert parts["script-src"].split() == hashes
    assert len(hashes) == 2
    assert parts["default-src"] == "'none'"
    assert "unsafe" not in rules
    assert not [name for _, attrs in page.elements for name in attrs if name.startswith("on") or name == "style"]


@pytest.mark.parametrize("nasty", HOSTILE)
def test_hostile_contents_stay_data(nasty: str) -> None:
    played = replace(story(nasty), file=nasty, label=nasty, model=nasty, notes=(nasty,))
    text = render([played, PLAIN])
    page = Seen(text)
    plain = Seen(render([PLAIN, PLAIN]))
    assert page.open == []
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in plain.elements]
    found = page.data("replay-0")
    assert found["where"] == f"{nasty}#{nasty}"
    assert found["notes"] == [nasty]
    assert any(nasty in each for each in found["texts"])
    assert page.data("overview")["sessions"][0][0] == f"{nasty}#{nasty}"


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(categories=None, exclude_categories=()), max_size=40))
def test_a_text_comes_out_as_it_went_in(text: str) -> None:
    """Any text at all, lone surrogates too, and no character of it is one that HTML gives a meaning."""
    page = render([replace(PLAIN, notes=(text,))])
    [block] = re.findall(r'<script type="application/json" id="replay-0">(.*)</script>', page)
    assert json.loads(block)["notes"] == [text]
    assert not re.search(r"[<>&\u0080-\U0010ffff]", block)


def test_the_same_replays_make_the_same_bytes() -> None:
    first, second = (still(story("a/b.py", "c/d.py")) for _ in range(2))
    assert render([first]) == render([second])


def test_the_columns_say_what_the_rows_say() -> None:
    data: Any = columns(PLAIN, 4_000)
    for given_policy, policy in zip(data["policies"], PLAIN.policies, strict=True):
        assert given_policy["tokens"] == [row.tokens for row in policy.rows]
        assert given_policy["broke"] == [at for at, row in enumerate(policy.rows) if row.broke]
        for at, row in enumerate(policy.rows):
            assert [kinds[at] for kinds in given_policy["kinds"]] == [row.kinds.get(kind, 0) for kind in KINDS]
            lost = given_policy["lost"].get(str(at), [])
            assert tuple(data["texts"][name] for name in lost) == row.lost
            edits = given_policy["edits"].get(str(at), [])
            assert [(data["texts"][edit[0]], edit[1], edit[2], data["texts"][edit[3]]) for edit in edits] == [
                (edit.code, edit.at, edit.tokens, edit.reason) for edit in row.edits
            ]
            table = given_policy["tables"][given_policy["changes"][at]]
            assert {data["texts"][code]: times for code, times in table} == dict(row.changes)


def test_every_kind_that_a_request_holds_is_drawn() -> None:
    kinds = {kind for policy in PLAIN.policies for row in policy.rows for kind in row.kinds}
    assert kinds <= set(KINDS)


def test_contents_are_cut_so_that_the_page_stays_of_a_size_to_open() -> None:
    long = replace(PLAIN, messages=tuple(Shown("tool", "tool", 1_000, f"{at:06}" * 600) for at in range(5_000)))
    most = room([long])
    assert 0 < most * 5_000 <= CONTENTS
    assert len(render([long])) < CONTENTS + 1_500_000
    assert room([PLAIN]) == max(len(shown.text or "") for shown in PLAIN.messages)


def test_without_data_the_page_is_small() -> None:
    assert len(render([])) < 150_000


def test_a_page_of_no_session_has_no_session_in_it() -> None:
    page = Seen(render([]))
    assert page.data("overview")["sessions"] == []
    assert [attrs["id"] for attrs, _ in page.of("script") if "type" in attrs] == ["overview"]


def test_many_sessions_are_summed_by_policy() -> None:
    page = Seen(render([PLAIN, PLAIN]))
    sums = {policy["name"]: policy["totals"]["tokens"] for policy in page.data("overview")["policies"]}
    assert sums == {policy.name: 2 * policy.totals.tokens for policy in PLAIN.policies}


def test_contents_that_were_not_asked_for_are_not_in_the_page() -> None:
    secret = "a sentence that stands nowhere else"
    played = story("x.py", secret)
    bare = replace(played, messages=tuple(replace(shown, text=None) for shown in played.messages))
    assert secret in render([played])
    assert secret not in render([bare])


def test_the_charts_come_with_their_licence() -> None:
    page = render([])
    assert "Permission is hereby granted, free of charge" in page
    assert "Leon Sorokin" in page
