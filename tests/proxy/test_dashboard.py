"""The dashboard's files as they are served: types, headers, escaping, and the figures it draws.

`oracles/dashboard.py` looks at it in a browser.
"""

from __future__ import annotations

import json
import re
import zipfile
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from legato.proxy import pages
from legato.proxy.account import REASON, REASONS
from legato.proxy.savings import Sent, saved
from legato.replay.prices import price
from legato.report import CODES
from loopback import Running, answer, proxied, says

PATH = "/v1/chat/completions"
FILES = sorted(file.name for file in (resources.files("legato.proxy") / "page").iterdir())
KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
UNSAFE = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|setTimeout\(['\"]|srcdoc|DOMParser"
)


def text(name: str) -> str:
    return (resources.files("legato.proxy") / "page" / name).read_text(encoding="utf-8")


def get(running: Running, path: str, **headers: str) -> Any:
    return running.ask(path, method="GET", **headers)


def ask(running: Running, *more: Any, model: str = "gpt-4.1", words: int = 10) -> None:
    turns = [{"role": "user", "content": "word " * words}, *more]
    running.ask(PATH, {"model": model, "messages": turns})
    running.settled()


ORPHAN = {"role": "tool", "tool_call_id": "x", "content": "?"}


def test_every_file_is_served_with_its_type_and_may_load_nothing_from_elsewhere() -> None:
    with proxied() as running:
        for name in FILES:
            found = get(running, f"/_legato/{name}")
            assert (found.status, found.body.decode()) == (200, text(name)), name
            assert found.headers["content-type"].startswith(KINDS[name.rpartition(".")[2]])
            assert found.headers["x-content-type-options"] == "nosniff"
            policy = found.headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
            assert not re.search(r"unsafe|http|data:|\*", policy)
        assert get(running, "/_legato/").body == get(running, "/_legato/index.html").body
        moved = get(running, "/_legato")
        assert (moved.status, moved.headers["location"]) == (308, "/_legato/")
        assert running.upstream.seen == []


@pytest.mark.parametrize(
    "path",
    ["..%2fadmin.py", "page/style.css", "style.css/", "Style.css", "admin.py", "rules/../style.css", "rules/PAIR001"],
)
def test_nothing_but_these_files_is_served(path: str) -> None:
    with proxied() as running:
        assert get(running, f"/_legato/{path}").status == 404


def test_the_page_names_files_that_are_there_and_nothing_on_another_host() -> None:
    named = set(re.findall(r'(?:src|href)="([^"#]+)"', text("index.html")))
    named |= {found for name in FILES for found in re.findall(r'from "\./([^"]+)"', text(name))}
    assert {name for name in named if not name.startswith("api/")} == set(FILES) - {"index.html"}
    for name in FILES:
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text(name)), name
        assert not re.search(r"@import|url\(", text(name)), name


def test_nothing_makes_html_of_text_and_no_script_or_style_stands_in_the_page() -> None:
    for name in FILES:
        assert not UNSAFE.search(text(name)), name
    page = text("index.html")
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=", page)


def test_every_rule_has_a_line_and_a_page() -> None:
    with proxied() as running:
        listed = get(running, "/_legato/api/rules").json
        assert set(listed) == set(CODES)
        assert {code for code, rule in listed.items() if rule["fits"]} >= {"SIZE001", "SIZE002"}
        assert not listed["PAIR001"]["fits"]
        for code in CODES:
            found = get(running, f"/_legato/rules/{code}.md")
            assert found.status == 200
            assert found.headers["content-type"].startswith("text/markdown")
            assert found.body.startswith(f"# {code} ".encode())


def test_the_files_need_no_token_but_all_that_is_known_of_requests_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENS", "open sesame")
    with proxied(tokens_env="TOKENS") as running:
        for path in ("", "main.js", "rules/PAIR001.md"):
            assert get(running, f"/_legato/{path}").status == 200
        for path in ("summary", "requests", "requests/1", "events", "rules"):
            assert get(running, f"/_legato/api/{path}").status == 401
        assert get(running, "/_legato/api/summary", authorization="Bearer open sesame").status == 200


def test_the_files_answer_only_under_the_proxy_s_own_names() -> None:
    with proxied() as running:
        assert get(running, "/_legato/", host="evil.example").status == 403
        assert get(running, "/_legato/main.js", host="evil.example").status == 403


def test_what_a_client_names_leaves_as_json_that_no_browser_takes_for_a_page() -> None:
    hostile = "</script><img src=x onerror=alert(1)>"
    with proxied(contents=True, profile="openai") as running:
        ask(running, ORPHAN | {"content": hostile}, model=hostile)
        for path in ("requests", "requests/1", "summary"):
            found = get(running, f"/_legato/api/{path}")
            assert found.headers["content-type"] == "application/json"
            assert found.headers["x-content-type-options"] == "nosniff"
        assert get(running, "/_legato/api/requests/1").json["model"] == hostile
        assert get(running, "/_legato/api/requests").json["requests"][0]["diff"] is True


def test_totals_are_the_sums_over_the_records_and_outlive_the_ring() -> None:
    with proxied(records=2, profile="openai") as running:
        for number in range(4):
            ask(running, *([ORPHAN] if number % 2 else []), words=10 + number)
        running.ask(PATH, b"{")
        get(running, "/v1/models")
        running.settled()
        found = get(running, "/_legato/api/summary").json
        totals = found["totals"]
        assert totals["requests"] == 6
        assert totals["outcomes"] == {"untouched": 2, "governed": 2, "failed": 1, "passed": 1}
        requests, times, tokens, faults = totals["changes"]["PAIR001"]
        assert (requests, times, totals["mended"], totals["fitted"]) == (2, 2, 2, 0)
        assert faults == totals["faults"] == 2
        assert totals["tokens_in"] + tokens == totals["tokens_out"]
        assert (found["active"], found["under_way"]) == (0, [])


def test_an_error_that_was_prevented_counts_once_a_conversation() -> None:
    user: Any = [{"role": "user", "content": text} for text in ("start", "a", "b", "c")]
    later = {**ORPHAN, "tool_call_id": "y"}
    requests = [
        ([user[0], ORPHAN], {"PAIR001": 1}),
        ([user[0], ORPHAN, user[1]], {}),
        ([user[0], ORPHAN, user[1], later, user[2]], {"PAIR001": 1}),
        ([user[0], ORPHAN, user[1], later, user[2], user[3]], {}),
        ([{**user[0], "content": "another"}, ORPHAN], {"PAIR001": 1}),
    ]
    with proxied(profile="openai") as running:
        for messages, new in requests:
            running.ask(PATH, {"model": "m", "messages": messages})
            assert running.settled().new == new
        totals = running.proxy.records.totals
        assert totals.changes["PAIR001"][::3] == (5, 3)
        assert (totals.faults, totals.mended) == (3, 5)
        assert b'legato_faults_total{code="PAIR001"} 3.0' in get(running, "/metrics").body


def test_what_failed_all_the_same_counts_once_it_is_taken() -> None:
    statuses = iter((429, 200, 200))
    with proxied(lambda _: [answer({}, next(statuses))], profile="openai") as running:
        found = []
        for _ in range(3):
            ask(running, ORPHAN)
            found.append(running.settled().new)
        assert found == [{}, {"PAIR001": 1}, {}]
        assert running.proxy.records.totals.faults == 1


def test_a_record_says_where_and_why_and_bounds_that() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    orphans = [{**ORPHAN, "tool_call_id": f"x{number}", "content": "secret"} for number in range(9)]
    again = [orphans[0], orphans[0]]
    with proxied(profile="openai") as running:
        ask(running, {"role": "assistant", "content": None, "tool_calls": [call]}, *again, *orphans[1:])
        (found,) = get(running, "/_legato/api/requests").json["requests"]
        first, *others = found["reasons"]["PAIR001"]
        assert first == ["[2..3]", "no call before it has the id 'x0'"]
        assert len(others) == REASONS
        assert others[-1] == ["", "3 more reasons"]
        long = "n" * 1_000
        ask(running, {"role": "assistant", "tool_calls": [{**call, "function": {"name": long, "arguments": "{}"}}]})
        reasons = running.settled().reasons
        assert max(len(why) for told in reasons.values() for _, why in told) == REASON


def test_records_of_two_processes_are_told_apart() -> None:
    with proxied() as one, proxied() as other:
        names = [get(running, "/_legato/api/requests").json["instance"] for running in (one, other)]
        get(one, "/v1/models")
        one.settled()
        assert get(one, "/_legato/api/requests/1").json["instance"] == names[0] != names[1]


def test_money_is_saved_where_the_model_has_a_price_and_the_answer_was_one() -> None:
    with proxied(profile="openai", window=4_000, max_output=100, calibrate=False) as running:
        for model in ("gpt-4.1", "of-ones-own"):
            ask(running, *[{"role": "user", "content": "word " * 300}] * 20, model=model)
        priced, unknown = running.proxy.records.newest(2)
        spared = (priced.tokens_in or 0) - (priced.tokens_out or 0)
        assert spared > 0
        known = price("gpt-4.1")
        assert known is not None
        assert priced.saved == pytest.approx(spared * known.input / 1e6)
        assert unknown.saved is None
        assert running.proxy.records.totals.saved == priced.saved
    with proxied(says({"error": {}}, 500), profile="openai") as running:
        ask(running)
        assert running.proxy.records.newest(1)[0].saved is None


def test_a_cut_that_breaks_the_cached_prefix_costs_and_the_tokens_it_spares_come_back_cheap() -> None:
    known = price("claude-sonnet-5")
    assert known is not None
    assert (known.cached, known.write) != (None, None)
    read, write = known.cached or 0, known.write or 0
    before = Sent(0.0, 100_000, 100_000)
    broke = saved(Sent(60.0, 101_000, 50_000), before, 0.0, known)
    assert broke == pytest.approx((100_000 * read + 1_000 * write - 50_000 * write) / 1e6)
    assert broke < 0
    later = saved(Sent(120.0, 102_000, 51_000), Sent(60.0, 101_000, 50_000), 1.0, known)
    assert later == pytest.approx(51_000 * read / 1e6)
    cold = saved(Sent(10_000.0, 102_000, 51_000), Sent(60.0, 101_000, 50_000), 1.0, known)
    assert cold == pytest.approx(51_000 * write / 1e6)


def test_the_page_is_small_and_its_files_are_short() -> None:
    for name in FILES:
        assert len(text(name).splitlines()) < 300, name
    assert sum(len(text(name)) for name in FILES) < 80_000


def test_a_wheel_holds_the_page(tmp_path: Path) -> None:
    hatchling = pytest.importorskip("hatchling.builders.wheel")
    root = Path(__file__).parents[2]
    wheel = next(iter(hatchling.WheelBuilder(str(root)).build(directory=str(tmp_path), versions=["standard"])))
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"legato/proxy/page/{name}" for name in FILES} <= names
    assert {f"legato/rules/pages/{code}.md" for code in CODES} <= names


def test_what_is_not_a_file_of_the_page_is_nothing() -> None:
    assert pages.find("none.js") is None
    assert pages.find("rules/NONE001.md") is None
    assert json.loads(json.dumps(pages.catalogue()))["PAIR002"]["name"] == "missing-tool-result"
