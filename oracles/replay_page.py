"""The page of a replay in a real Chromium: clicked through, with hostile contents, with 2,000 requests.

It also makes the pictures in docs/, of a session in examples/. Alone:
`PYTHONPATH=tests:tests/replay .venv/bin/python oracles/replay_page.py`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from chromium import PHONE, WIDE, chromium, context
from legato.replay import policies
from legato.replay.page import render
from legato.replay.play import replay
from legato.replay.played import Replay, Row
from legato.transcripts import readers
from stories import call, recording, result, system, user
from tables import conclude, say

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
EXAMPLES = ROOT / "examples"
PLAYED = 250
RECORDED = ROOT.parent / "shared" / "transcripts" / "pi-mono" / "sessions.jsonl"
NASTY = (
    "</script><script>window.hit=1</script>",
    "<!--<script>window.hit=1//",
    '<img src=x onerror="window.hit=1">',
    "'\"><svg onload=window.hit=1>",
    "\u202egnp.exe\u2066",
    "\u2028window.hit=1\u2029",
    "javascript:window.hit=1",
    "\ud800" * 4,
    "__proto__",
    "x" * 300,
)


@cache
def example(name: str = "coding-session", window: int = 32_000) -> Replay:
    [played] = readers.recordings(str(EXAMPLES / f"{name}.json"))
    chosen = policies.choose(policies.DEFAULT)
    found = replay(played, chosen, window=window, contents=True, beside="cache-friendly")
    return replace(found, file=f"examples/{name}.json")


def hostile() -> Replay:
    """What is nasty stands wherever a transcript, a file or a policy can say something."""
    messages = [system(NASTY[0]), user(" ".join(NASTY))]
    for number, text in enumerate(NASTY):
        path = f"src/{number}/<b>{text}</b>.py"
        messages += [call(f"c{number}{text}", text or "read", json.dumps({"path": path}), text=text)]
        messages += [result(f"c{number}{text}", f"{path} {text} " * 60)]
    messages += [call("last", "read", json.dumps({"path": f"src/0/<b>{NASTY[0]}</b>.py src/1/x"}), text=NASTY[1])]
    chosen = [replace(each, name=f"{each.name}{NASTY[2]}") for each in policies.choose(["cache-friendly", "none"])]
    found = replay(recording(messages), chosen, window=3_000, max_output=200, contents=True)
    return replace(found, file=NASTY[0], label=NASTY[4], model=NASTY[2], notes=NASTY)


def long(times: int) -> Replay:
    """A session of so many times `PLAYED` requests: one is played and goes round, which the page cannot tell.

    Playing all of it takes minutes: some policies govern the whole history at every request, as peers do.
    """
    messages = [system("You change code."), user("Rename the field in every file.")]
    for number in range(PLAYED):
        path = f"src/part{number % 97}/module{number}.py"
        messages += [call(f"c{number}", "read_file", json.dumps({"path": path}), text=f"Next is {path}.")]
        messages += [result(f"c{number}", f"{path}: " + "def field(self): ... " * (15 + 37 * number % 120))]
    found = replay(recording(messages), policies.choose(policies.DEFAULT), window=64_000, contents=True)
    size, turns = len(found.messages), len(found.asked)
    asked = [
        replace(each, turn=each.turn + turns * nth, at=each.at + size * nth, end=each.end + size * nth)
        for nth in range(times)
        for each in found.asked
    ]
    chosen = tuple(replace(policy, rows=_round(policy.rows, times, turns, size)) for policy in found.policies)
    return replace(found, file="synthetic.json", messages=found.messages * times, asked=tuple(asked), policies=chosen)


def _round(rows: tuple[Row, ...], times: int, turns: int, size: int) -> tuple[Row, ...]:
    return tuple(
        replace(
            row,
            turn=row.turn + turns * nth,
            edits=tuple(replace(edit, at=None if edit.at is None else edit.at + size * nth) for edit in row.edits),
        )
        for nth in range(times)
        for row in rows
    )


@contextmanager
def opened(browser: Browser, replays: Sequence[Replay], complaint: str = "", **how: object) -> Iterator[Page]:
    """A page of these replays. It may complain of this alone, and ask no network for anything."""
    window = context(browser, **how)  # type: ignore[arg-type]
    page = window.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda problem: wrong.append(str(problem)))
    page.on(
        "request", lambda request: None if request.url.startswith(("file:", "data:")) else wrong.append(request.url)
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "page.html")
        file.write_bytes(render(replays).encode())
        page.goto(file.as_uri())
        yield page
        assert page.evaluate("window.hit") is None, "a transcript ran a script"
        window.close()
    if complaint:
        assert any(complaint in each for each in wrong), f"no complaint of {complaint}"
        wrong = [each for each in wrong if complaint not in each]
    assert not wrong, f"the page complained: {wrong[:3]}"


def number(page: Page) -> int:
    return int(page.locator("#context").get_attribute("aria-valuenow") or 0)


def clicked_through(browser: Browser) -> None:
    """A click chooses the request under it, keys move on, and policies are chosen in three places."""
    with opened(browser, [example()]) as page:
        expect(page.locator("#context")).to_have_attribute("aria-valuemax", str(len(example().asked)))
        over = page.locator("#context .u-over")
        box = over.bounding_box()
        assert box is not None
        over.click(position={"x": box["width"] / 2, "y": box["height"] / 2})
        expect(page.locator("#context")).to_have_attribute("aria-valuenow", "70")
        expect(page.locator("#request-title")).to_have_text("Request 70 of 139 under cache-friendly")
        page.locator("#context").focus()
        for key, wanted in (("ArrowRight", 71), ("ArrowLeft", 70), ("Home", 1), ("End", 139), ("PageUp", 119)):
            page.keyboard.press(key)
            expect(page.locator("#context")).to_have_attribute("aria-valuenow", str(wanted))
        ours = next(policy for policy in example().policies if policy.name == "cache-friendly")
        first = next(at for at, row in enumerate(ours.rows) if row.broke)
        page.keyboard.press("Home")
        page.keyboard.press("ArrowDown")
        expect(page.locator("#context")).to_have_attribute("aria-valuenow", str(first + 1))
        expect(page.locator(".broken")).to_be_visible()
        expect(page.locator(".edits > li").first).to_contain_text(ours.rows[first].edits[0].reason)
        page.locator(".edits summary").first.click()
        at = ours.rows[first].edits[0].at
        assert at is not None
        expect(page.locator(".edits pre").first).to_have_text(example().messages[at].text or "")
        for place, name in (("#policies", "sticky-85"), ("#money-values", "none"), ("#detail .beside", "document")):
            page.locator(place).get_by_text(name, exact=True).click()
            expect(page.locator("#timeline-title")).to_have_text(f"The context under {name}")
        page.locator("#money-values").get_by_text("none", exact=True).click()
        page.locator("#context").press("End")
        expect(page.locator("#detail .wrong").first).to_contain_text("More than the window takes")


def empty_states(browser: Browser) -> None:
    """No session, one policy, nothing changed, one request, no price, many sessions: nothing is broken or blank."""
    with opened(browser, []) as page:
        expect(page.locator("#nothing")).to_be_visible()
        expect(page.locator("#played")).to_be_hidden()
    brief = replay(recording([user("hello"), {"role": "assistant", "content": "hi"}]), policies.choose(["none"]))
    with opened(browser, [brief]) as page:
        expect(page.locator("#request-title")).to_have_text("Request 1 of 1 under none")
        expect(page.locator("#detail")).to_contain_text("Nothing new.")
        expect(page.locator("#notes")).to_contain_text("no price is known")
        expect(page.locator(".picker")).to_be_hidden()
    with opened(browser, [example(), brief, example("customer-service", 16_000)]) as page:
        expect(page.locator("#all-title")).to_contain_text("All 3 sessions")
        page.locator("#session").select_option(index=2)
        expect(page.locator("#title")).to_have_text("examples/customer-service.json")


def hostile_contents(browser: Browser) -> None:
    """What a transcript says is shown as it is, runs nothing, and cannot turn or leave its place."""
    with opened(browser, [hostile(), hostile()]) as page:
        expect(page.locator("#title")).to_contain_text(NASTY[0])
        page.locator("#context").press("Home")
        for number in range(1, len(hostile().asked) + 1):
            expect(page.locator("#request-title")).to_contain_text(f"Request {number} of")  # it is drawn a moment later
            for each in page.locator("#detail summary").all():
                each.click()
            page.locator("#context").press("ArrowRight")
        for nth in range(2):
            page.locator("#policies .pick").nth(nth).click()
            page.locator("#context").press("Home")
            page.locator("#context").press("ArrowDown")
        assert page.locator("main script, main img, main b:has(b), main [onload], main [onerror]").count() == 0
        assert "\u202e" not in page.locator("body").inner_text()


def other_scripts(browser: Browser) -> None:
    """A script that got into the page after all would not run: the page allows its own, by their hashes."""
    with opened(browser, [example()], complaint="Content Security Policy") as page:
        page.evaluate("""() => {
          const made = document.createElement("script");
          made.textContent = "window.hit = 1";
          document.body.append(made);
          document.body.setAttribute("onclick", "window.hit = 1");
          document.body.click();
        }""")


def colours_and_paper(browser: Browser) -> None:
    """The switch changes colours and is kept, paper is light whatever was chosen, and nothing is wider than a phone."""
    ground = "getComputedStyle(document.body).backgroundColor"
    with opened(browser, [example()], dark=True) as page:
        dark = page.evaluate(ground)
        page.locator("[data-choice=light]").click()
        light = page.evaluate(ground)
        assert dark != light
        page.reload()
        assert page.evaluate(ground) == light
        page.locator("[data-choice=dark]").click()
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.evaluate("document.documentElement.dataset.theme") == "light"
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert len(page.pdf()) > 10_000
    with opened(browser, [example()], size=PHONE, scale=2) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]


def two_thousand_requests(browser: Browser) -> None:
    """A session of 2,000 requests: the page opens, and a hundred steps through it are drawn."""
    played = long(8)
    assert len(played.asked) == 2_000
    text = render([played])
    with opened(browser, [played]) as page:
        loaded = page.evaluate("performance.timing.loadEventEnd - performance.timing.navigationStart")
        took = page.evaluate("""async () => {
          const plot = document.getElementById("context"), frames = [];
          for (let n = 0; n < 100; n++) {
            const start = performance.now();
            plot.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
            await new Promise(requestAnimationFrame);
            await new Promise((done) => setTimeout(done));
            frames.push(performance.now() - start);
          }
          return frames.sort((a, b) => a - b);
        }""")
        moved = number(page)
        choose = page.evaluate("""() => { const start = performance.now();
          document.querySelectorAll("#policies .pick")[0].click(); return performance.now() - start; }""")
    assert moved > 100
    say(
        f"  {len(text) / 1e6:.1f} MB, {len(played.policies)} policies: opened in {loaded:.0f} ms, a step until it is "
        f"painted {took[50]:.1f} ms (slowest {took[-1]:.1f}), another policy {choose:.0f} ms"
    )


def recorded_sessions(browser: Browser) -> None:
    """Recorded sessions of a real agent, where they are at hand."""
    if not RECORDED.exists():
        say("  the recorded sessions are not here")
        return
    found = islice((each for each in readers.recordings(str(RECORDED)) if len(each.turns) > 20), 3)
    chosen = policies.choose(["none", "cache-friendly", "sliding-window"])
    replays = [replay(each, chosen, window=64_000, contents=True) for each in found]
    with opened(browser, replays) as page:
        for nth, played in enumerate(replays):
            page.locator("#session").select_option(index=nth)
            expect(page.locator("#context")).to_have_attribute("aria-valuemax", str(len(played.asked)))
            page.locator("#context").press("End")
    say(f"  {len(replays)} sessions, {sum(len(each.asked) for each in replays)} requests")


def pictures(browser: Browser) -> None:
    """The pictures in docs/."""
    tall = (WIDE[0], 1_420)
    for name, size, scale, dark in (("light", tall, 1.5, False), ("dark", tall, 1.5, True), ("phone", PHONE, 2, False)):
        with opened(browser, [example()], size=size, scale=scale, dark=dark) as page:
            if size == PHONE:
                page.evaluate("document.getElementById('timeline').scrollIntoView()")
            page.screenshot(path=DOCS / f"replay-{name}.png")


CHECKS: tuple[Callable[[Browser], None], ...] = (
    clicked_through,
    empty_states,
    hostile_contents,
    other_scripts,
    colours_and_paper,
    recorded_sessions,
    two_thousand_requests,
    pictures,
)


def main(names: Sequence[str]) -> int:
    """Run the checks (those that are named)."""
    failures: list[str] = []
    with chromium() as browser:
        for check in CHECKS:
            if names and check.__name__ not in names:
                continue
            try:
                check(browser)
                say(f"{check.__name__}: {check.__doc__}")
            except AssertionError as problem:
                failures.append(f"{check.__name__}: {problem}")
    return conclude(failures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
