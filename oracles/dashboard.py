"""The dashboard in a real Chromium, over a proxy with the traffic of agents: what it shows, and that it is safe.

With `--pictures` it makes those in docs/ anew, else they go to .oracles/. Chromium has to be there (`apt-get install
chromium`); the browser is driven by Playwright. Alone: `PYTHONPATH=tests:tests/proxy python oracles/dashboard.py`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, Page, ViewportSize, expect, sync_playwright

from accidents import History, Wire
from damage import damaged_histories
from loopback import END, Running, Seen, Upstream, answer, chunk, events, proxied, says, start, wait_until
from tables import conclude, say
from written import Style, write

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / ("docs" if "--pictures" in sys.argv else ".oracles")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
WIDE: ViewportSize = {"width": 1440, "height": 1200}
PHONE: ViewportSize = {"width": 390, "height": 844}
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
HOSTILE = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>\u202e\'"&amp;'
TOKEN = "a token of the operator"


# -- traffic -----------------------------------------------------------------------------------------------------------


def upstream() -> Upstream:
    """Answers in the shape it is asked in, with the usage a provider would state. Some models have their moods."""

    def script(seen: Seen) -> Iterator[bytes]:
        try:
            body = json.loads(seen.body or b"{}")
        except ValueError:
            yield answer({"error": {"message": "We could not parse the JSON body of your request."}}, 400)
            return
        model, tokens = body.get("model"), len(seen.body) // 4
        if model == "gpt-5-nano":
            yield answer({"error": {"message": "Rate limit reached", "type": "requests"}}, 429)
        elif body.get("stream"):
            yield start()
            yield from map(chunk, events([{"choices": [{"index": 0, "delta": {"content": "So"}}]}]))
            if model == "qwen3-coder":
                held.wait()  # a stream that goes on while somebody looks
            yield END
        elif seen.target.startswith(MESSAGES):
            yield answer({"type": "message", "content": [], "usage": {"input_tokens": tokens, "output_tokens": 9}})
        else:
            yield answer({"choices": [], "usage": {"prompt_tokens": tokens, "completion_tokens": 9}})

    found = Upstream(script)
    held = found.left
    return found


UPSTREAMS = [
    {"name": "openai", "url": "UPSTREAM/v1", "models": ["gpt-*"], "profile": "openai", "window": 64_000},
    {"name": "anthropic", "url": "UPSTREAM", "models": ["claude-*"], "profile": "anthropic", "window": 40_000},
    {"name": "llama", "url": "UPSTREAM", "profile": "llama.cpp", "window": 16_384},
]


def session(name: str) -> History:
    found = json.loads((ROOT / "examples" / f"{name}.json").read_text(encoding="utf-8"))
    messages: History = found["messages"] if isinstance(found, dict) else found
    return messages


def growing(messages: History, every: int, most: int) -> Iterator[History]:
    """The requests of a session: all that was said before each answer, of which every so many-th is taken."""
    ends = [at for at, message in enumerate(messages) if message["role"] == "assistant" and at > 1]
    yield from (messages[:at] for at in ends[::every][:most])


def agents(tools: list[Wire]) -> list[tuple[str, Iterator[tuple[str, Wire]]]]:
    """Conversations by name, each as the requests of its agent: a path and a body."""
    coding, broken, shop = map(session, ("coding-session", "broken-session", "customer-service"))
    system, rest = coding[0]["content"], coding[1:]

    def chat(model: str, histories: Iterator[History], **more: Any) -> Iterator[tuple[str, Wire]]:
        yield from ((CHAT, {"model": model, "messages": each, **more}) for each in histories)

    def claude(model: str, histories: Iterator[History]) -> Iterator[tuple[str, Wire]]:
        for each in histories:
            items = write(each, "anthropic", Style(signed=False)).items
            declared = [{"name": t["function"]["name"], "input_schema": t["function"]["parameters"]} for t in tools]
            yield (
                MESSAGES,
                {"model": model, "max_tokens": 4_096, "system": system, "messages": items, "tools": declared},
            )

    damage = (each for each in damaged_histories(12, media=False))
    return [
        ("pairing-survey", chat("gpt-5.2", growing(coding, 2, 64), tools=tools)),
        ("nightly-refactor", claude("claude-sonnet-5", growing(rest, 1, 60))),
        ("triage-bot", chat("gpt-5.1", growing(coding[:2] + coding[60:], 2, 40), tools=tools)),
        ("resumed-elsewhere", chat("gpt-5-mini", iter(broken[:n] for n in range(8, len(broken), 2)))),
        ("airline-desk", chat("gpt-4.1", growing(shop, 1, 6))),
        ("fuzzed-agent", chat("qwen3-8b", damage)),
        ("local-notes", chat("qwen3-8b", growing(coding, 1, 30))),
    ]


def send(running: Running) -> None:
    """All agents work at once, in turns; between them other things happen."""
    tools = json.loads((ROOT / "examples" / "coding-session.json").read_text(encoding="utf-8"))["tools"]
    waiting = agents(tools)
    turn = 0
    while waiting:
        for agent in list(waiting):
            name, requests = agent
            if (request := next(requests, None)) is None:
                waiting.remove(agent)
                continue
            running.ask(request[0], request[1], x_legato_conversation=name)
        turn += 1
        if turn % 12 == 3:
            running.ask(
                CHAT,
                {"model": "gpt-5-nano", "messages": [{"role": "user", "content": "?"}]},
                x_legato_conversation="rate-limited",
            )
            running.ask("/v1/models", method="GET")
        if turn % 20 == 7:
            running.ask(CHAT, b'{"messages": [')
    wait_until(lambda: running.proxy.active == 0)


@contextmanager
def streaming(running: Running) -> Iterator[None]:
    """A stream that is under way."""
    body = json.dumps(
        {"model": "qwen3-coder", "stream": True, "messages": [{"role": "user", "content": "Explain slurs."}]}
    ).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\nx-legato-conversation: live-demo\r\ncontent-length: {len(body)}"
    with running.connect() as connection:
        connection.sendall(head.encode() + b"\r\n\r\n" + body)
        connection.recv(1)
        try:
            yield
        finally:
            running.upstream.left.set()


# -- the page ----------------------------------------------------------------------------------------------------------


class Looking:
    """A page that is looked at, and what it complained of."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.complaints: list[str] = []
        self.page: Page = context.new_page()
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda problem: self.complaints.append(str(problem)))
        self.page.on("request", self._asked)
        self.origin = url
        self.page.goto(f"{url}/_legato/")

    def _said(self, message: Any) -> None:
        # What a browser says of answers such as 401 by itself is no fault of the page.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(f"{self.origin}/_legato/"):
            self.complaints.append(f"asked for {request.url}")

    def expect(self, state: str) -> None:
        expect(self.page.locator("#state")).to_have_attribute("data-state", state, timeout=20_000)

    def fits(self) -> None:
        """Nothing has to be scrolled sideways."""
        assert self.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "wider than the screen"

    def is_clean(self) -> None:
        assert not self.complaints, self.complaints
        assert self.page.evaluate("window.hit") is None, "what a request says was run"


def busy(context: BrowserContext) -> None:
    """An empty page, then traffic as it comes: the figures are the API's, and every way through the page works."""
    with proxied(upstream(), upstreams=UPSTREAMS, contents=True, calibrate=False, records=1_000) as running:
        looking = Looking(context, running.url)
        page = looking.page
        looking.expect("live")
        page.emulate_media(reduced_motion="reduce")
        assert page.evaluate("getComputedStyle(document.querySelector('.dot')).animationName") == "none"
        page.emulate_media(reduced_motion="no-preference")
        expect(page.locator("#nothing")).to_contain_text(f"OPENAI_BASE_URL={running.url}/v1")
        send(running)
        with streaming(running):
            expect(page.locator("#under-way tr")).to_have_count(1, timeout=20_000)
            _figures(page, running)
            _pictures(looking)
        expect(page.locator("#under-way tr")).to_have_count(0, timeout=20_000)
        _walk(page)
        _narrow(page)
        looking.is_clean()


def _figures(page: Page, running: Running) -> None:
    totals = running.proxy.records.totals
    tiles = page.locator(".tile .value")
    expect(tiles.nth(0)).to_have_text(f"{totals.requests:,}")
    expect(tiles.nth(4)).to_have_text(f"{totals.faults:,}")
    assert totals.saved > 0
    expect(tiles.nth(2)).to_contain_text(f"${totals.saved:.2f}"[:-1])
    expect(page.locator("#changes li")).to_have_count(len(totals.changes))
    expect(page.locator(".card")).to_have_count(len({r.conversation for r in _governed(running)}))
    gauges = page.locator(".card [role=meter]")
    for gauge in gauges.all():
        assert 0 < int(gauge.get_attribute("aria-valuenow") or 0) <= int(gauge.get_attribute("aria-valuemax") or 0)


def _governed(running: Running) -> list[Any]:
    return [record for record in running.proxy.records.newest(1_000) if record.tokens_out is not None]


def _pictures(looking: Looking) -> None:
    page = looking.page
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme="light" if theme == "light" else "dark")
        page.screenshot(path=PICTURES / f"dashboard-{theme}.png", animations="disabled")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(PHONE)
    looking.fits()
    page.screenshot(path=PICTURES / "dashboard-phone.png", animations="disabled")
    page.set_viewport_size(WIDE)
    looking.fits()


def _walk(page: Page) -> None:
    """With the keyboard alone: a request, its diff, a rule and the rule it names, and all the way back."""
    page.keyboard.press("/")
    page.keyboard.type("resumed")
    rows = page.locator("#rows tr")
    expect(rows.first.locator(".conversation")).to_have_text("resumed-elsewhere")
    rows.first.locator(".time a").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    detail = page.locator("#detail")
    expect(detail).to_be_visible()
    expect(detail.locator(".codes li")).not_to_have_count(0)
    page.get_by_role("button", name="Show before and after").press("Enter")
    expect(detail.locator(".piece")).not_to_have_count(0)
    expect(detail.locator(".piece .new").first).to_be_visible()
    page.screenshot(path=PICTURES / "dashboard-diff.png", animations="disabled")
    detail.locator(".codes .code").first.press("Enter")
    rule = page.locator("#rule")
    expect(rule.locator("h1")).to_contain_text("PAIR")
    expect(rule.locator("pre").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(rule).to_be_hidden()
    assert page.evaluate("location.hash").startswith("#request/")
    page.keyboard.press("Escape")
    expect(detail).to_be_hidden()
    assert page.evaluate("location.hash") == ""


def _narrow(page: Page) -> None:
    """One conversation alone, what failed alone, and all again."""
    page.locator("#search").fill("")
    rows = page.locator("#rows tr")
    page.locator(".card", has_text="airline-desk").click()
    expect(rows).to_have_count(6)
    page.locator("#only").click()
    page.get_by_role("button", name="Failed").click()
    expect(rows.locator(".badge.wrong").first).to_be_visible()
    assert rows.count() == rows.locator(".badge.wrong").count()
    page.get_by_role("button", name="All", exact=True).click()
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate("getComputedStyle(document.body).colorScheme") == "dark"
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).colorScheme") == "dark", "the choice is forgotten"
    page.get_by_role("button", name="Auto").click()


def hostile(context: BrowserContext) -> None:
    """Names, ids, models, paths and contents that are HTML are text on the page, and nothing else."""
    call = {"id": HOSTILE, "type": "function", "function": {"name": HOSTILE, "arguments": HOSTILE}}
    turns = [{"role": "user", "content": HOSTILE}, {"role": "assistant", "content": HOSTILE, "tool_calls": [call]}]
    body = {"model": HOSTILE, "messages": [*turns, {"role": "user", "content": "@@ [0] user @@\n-x\n+y"}]}
    with proxied(contents=True, profile="openai") as running:
        named = HOSTILE.encode("ascii", "xmlcharrefreplace").decode()
        running.ask(CHAT, body, x_legato_conversation=named, x_legato_profile="openai")
        running.ask(f"/v1/{'%3Cscript%3E'}/'onload=alert(1)", method="GET")
        looking = Looking(context, running.url)
        page = looking.page
        looking.expect("live")
        expect(page.locator(".card .title")).to_have_text(named[:64])
        expect(page.locator("#rows tr .model").nth(1)).to_have_text(HOSTILE)
        page.locator("#rows .time a").nth(1).click()
        page.get_by_role("button", name="Show before and after").click()
        expect(page.locator("#detail .piece").first).to_be_visible()
        expect(page.locator("#detail")).to_contain_text("onerror")
        assert page.locator("img:not([src='icon.svg']), body script, iframe").count() == 0
        page.goto(f"{running.url}/_legato/#rule/{HOSTILE}")
        expect(page.locator("#rule h1")).to_have_text("There is no such rule")
        looking.is_clean()


def guarded(context: BrowserContext) -> None:
    """Where tokens are set the page asks for one, and says when it is wrong."""
    os.environ["LEGATO_TOKENS"] = TOKEN
    with proxied(tokens_env="LEGATO_TOKENS") as running:
        looking = Looking(context, running.url)
        page = looking.page
        looking.expect("token")
        page.locator("#token-value").fill("another")
        page.keyboard.press("Enter")
        expect(page.locator("#token-wrong")).to_be_visible()
        page.locator("#token-value").fill(TOKEN)
        page.keyboard.press("Enter")
        looking.expect("live")
        running.ask("/v1/models", method="GET", x_legato_token=TOKEN)
        expect(page.locator("#rows tr")).to_have_count(1)
        looking.is_clean()


def restarted(context: BrowserContext) -> None:
    """A proxy that ends and comes back: the page says so, keeps what it had, and goes on."""
    with Upstream(says()).serving() as address, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        with served(address, port):
            looking = Looking(context, f"http://127.0.0.1:{port}")
            looking.expect("live")
            ask(port)
            expect(looking.page.locator("#rows tr")).to_have_count(1)
        looking.expect("lost")
        with served(address, port):
            looking.expect("live")
            ask(port)
            expect(looking.page.locator("#rows tr")).to_have_count(2)
        refused = [each for each in looking.complaints if "ERR_" not in each]
        assert not refused, refused


@contextmanager
def served(address: str, port: int) -> Iterator[None]:
    """`legato serve`, until it listens."""
    command = [sys.executable, "-m", "legato", "serve", "--upstream", address, "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: connects(port))
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)


def connects(port: int) -> bool:
    with socket.socket() as trying:
        return trying.connect_ex(("127.0.0.1", port)) == 0


def ask(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        while connection.recv(4_096):
            pass


CHECKS: Sequence[Callable[[BrowserContext], None]] = (busy, hostile, guarded, restarted)


def main() -> int:
    if not CHROMIUM:
        say("no Chromium here: the dashboard is not looked at")
        return conclude([])
    PICTURES.mkdir(exist_ok=True)
    failures = []
    with ExitStack() as stack:
        room = stack.enter_context(tempfile.TemporaryDirectory())
        playwright = stack.enter_context(sync_playwright())
        for check in CHECKS:
            context = playwright.chromium.launch_persistent_context(
                f"{room}/{check.__name__}", executable_path=CHROMIUM, args=FLAGS, viewport=WIDE, device_scale_factor=1.5
            )
            try:
                check(context)
                say(f"{check.__name__}: {(check.__doc__ or '').splitlines()[0]}")
            except AssertionError as problem:
                failures.append(f"{check.__name__}: {problem}")
            finally:
                context.close()
    return conclude(failures)


if __name__ == "__main__":
    sys.exit(main())
