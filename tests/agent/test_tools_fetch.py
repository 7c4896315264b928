"""Pages as text, from public addresses only: by literal, by name, by redirect, by a name that changes its mind."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import threading
from http.server import BaseHTTPRequestHandler
from ipaddress import IPv4Address, ip_address
from pathlib import Path

import pytest
import trustme

from legato.agent.tool import Output
from legato.agent.tools import workspace_tools
from legato.agent.tools.fetch import Fetch
from legato.agent.tools.limits import Limits
from legato.agent.tools.public import Address, Guard, Resolve, is_any, is_public
from web_server import Answer, nobody, page, redirect, serving, serving_twice

SECRET = "what only this machine may see"
OPEN = "127.0.0.2"
"""An address that these tests take for a public one."""


def is_open(address: Address) -> bool:
    return address == IPv4Address(OPEN)


def fetch(url: str, guard: Guard | None = None, limits: Limits = Limits(fetch_seconds=300)) -> Output:  # noqa: B008
    [tool] = Fetch(limits, lambda: guard or Guard(permits=is_any)).tools()
    return asyncio.run(tool.call({"url": url}))


def answering(*answers: list[str]) -> tuple[Resolve, list[str]]:
    """A resolver that gives these answers in turn, the last for ever; and the names it was asked for."""
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        assert port > 0
        asked.append(host)
        return answers[min(len(asked), len(answers)) - 1]

    return resolve, asked


# -- where it may go ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254"),
        *(
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "192.0.0.170",
            "198.18.0.1",
            "192.0.2.1",
        ),
        *("::", "::1", "fe80::1", "fe80::1%lo", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1"),
        *(
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
        ),
        *("2002:a9fe:a9fe::1", "2001:0:7f00:1::", "64:ff9b:1::1", "100::1", "4000::1"),
    ],
)
def test_an_address_that_is_not_of_the_open_internet_is_known(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101", "2002:101:101::1"]
)
def test_an_address_of_the_open_internet_is_known(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
    ],
)
def test_loopback_is_refused_however_it_is_written(tmp_path: Path, host: str) -> None:
    with serving({"/": page(SECRET)}) as server:
        [tool] = [each for each in workspace_tools(tmp_path) if each.name == "web_fetch"]
        output = asyncio.run(tool.call({"url": f"http://{host}:{server.port}/"}))
        assert output.error
        assert SECRET not in output.text
        assert server.asked == []
        assert "not a public address" in output.text or "cannot be" in output.text


def test_private_addresses_are_fetched_where_that_is_allowed(tmp_path: Path) -> None:
    with serving({"/": page("<p>hello</p>")}) as server:
        [tool] = [each for each in workspace_tools(tmp_path, private_network=True) if each.name == "web_fetch"]
        url = f"http://127.0.0.1:{server.port}/"
        assert asyncio.run(tool.call({"url": url})) == Output(f"hello\n[{url}, status 200]")


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://127.0.0.1/x",
        "gopher://x",
        "//x",
        "nonsense",
        "",
        "http://",
        "data:,x",
        "http://a\0b/",
    ],
)
def test_only_http_is_fetched(url: str) -> None:
    output = fetch(url)
    assert output.error
    assert "root:" not in output.text


@pytest.mark.parametrize(
    "to", ["http://127.0.0.1:{port}/", "//127.0.0.1:{port}/", "http://localhost:{port}/", "file:///etc/passwd"]
)
def test_a_redirect_leads_to_nothing_that_could_not_be_asked_for(to: str) -> None:
    answers: dict[str, Answer] = {}
    with serving({"/": page(SECRET)}) as inner, serving(answers, OPEN) as outer:
        answers["/"] = redirect(to.format(port=inner.port))
        output = fetch(f"http://{OPEN}:{outer.port}/", Guard(permits=is_open))
        assert output.error
        assert SECRET not in output.text
        assert inner.asked == []
        assert len(outer.asked) == 1


def test_what_is_connected_to_is_the_address_that_was_checked() -> None:
    """The name means the public address when it is checked, and loopback whenever it is asked for again."""
    with serving_twice({"/": page("public")}, {"/": page(SECRET)}, OPEN, "127.0.0.1") as (outer, inner):
        resolve, asked = answering([OPEN], ["127.0.0.1"])
        output = fetch(f"http://rebind.test:{outer.port}/", Guard(resolve, is_open))
        assert output.text.startswith("public\n")
        assert asked == ["rebind.test"]
        assert inner.asked == []
        assert outer.asked == [(f"rebind.test:{outer.port}", "/")]


def test_a_name_that_turns_private_between_redirects_is_refused() -> None:
    answers = {"/": redirect("/next"), "/next": page("public")}
    refused = Output("rebind.test is at 127.0.0.1, which is not a public address: it is not fetched", error=True)
    with serving_twice(answers, {"/next": page(SECRET)}, OPEN, "127.0.0.1") as (outer, inner):
        resolve, asked = answering([OPEN], ["127.0.0.1"])
        assert fetch(f"http://rebind.test:{outer.port}/", Guard(resolve, is_open)) == refused
        assert asked == ["rebind.test", "rebind.test"]
        assert inner.asked == []


def test_a_name_with_one_private_address_is_refused_and_the_next_is_tried_when_one_does_not_answer() -> None:
    with serving({"/": page("public")}, OPEN) as outer:
        url = f"http://two.test:{outer.port}/"
        mixed, _ = answering([OPEN, "127.0.0.1"])
        assert "127.0.0.1, which is not a public address" in fetch(url, Guard(mixed, is_open)).text
        assert outer.asked == []
        silent, _ = answering(["127.0.0.3", OPEN])
        assert fetch(url, Guard(silent, is_any)).text.startswith("public\n")
        nowhere, _ = answering([])
        assert fetch(url, Guard(nowhere, is_any)) == Output("two.test has no address", error=True)


def test_tls_is_verified_against_the_name_not_the_address() -> None:
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("good.test").configure_cert(server)
    authority.configure_trust(client)
    with serving({"/": page("over tls")}, OPEN, tls=server) as outer:
        resolve, _ = answering([OPEN])
        good, bad = (
            fetch(f"https://{name}.test:{outer.port}/", Guard(resolve, is_open, verify=client))
            for name in ("good", "bad")
        )
        assert good.text.startswith("over tls\n")
        assert bad.error
        assert "certificate" in bad.text
        assert len(outer.asked) == 1


def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving({"/": page("direct")}) as server, serving({}) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert fetch(f"http://127.0.0.1:{server.port}/").text.startswith("direct\n")
        assert proxy.asked == []


# -- limits ------------------------------------------------------------------------------------------------------------


def endless(request: BaseHTTPRequestHandler) -> None:
    """Answers without end."""
    request.send_response(200)
    request.send_header("content-type", "text/plain")
    request.end_headers()
    while True:
        request.wfile.write(b"x" * 65_536)


def test_a_page_without_end_is_cut() -> None:
    with serving({"/": endless}) as server:
        output = fetch(f"http://127.0.0.1:{server.port}/", limits=Limits(fetched=100_000))
        assert (
            output.text == "x" * 100_000 + f"\n[http://127.0.0.1:{server.port}/, status 200, cut after 100,000 bytes]"
        )


def test_the_body_of_a_redirect_is_not_read() -> None:
    def endless_redirect(request: BaseHTTPRequestHandler) -> None:
        request.send_response(302)
        request.send_header("location", "/end")
        request.end_headers()
        while True:
            request.wfile.write(b"x" * 65_536)

    with serving({"/": endless_redirect, "/end": page("there")}) as server:
        assert fetch(f"http://127.0.0.1:{server.port}/").text.startswith("there\n")


def test_a_server_that_says_nothing_is_given_up() -> None:
    stop = threading.Event()

    def silent(_: BaseHTTPRequestHandler) -> None:
        stop.wait(30)

    with serving({"/": silent}) as server:
        url = f"http://127.0.0.1:{server.port}/"
        assert fetch(url, limits=Limits(fetch_seconds=0.3)) == Output(f"{url} took more than 0.3 seconds", error=True)
        stop.set()


def test_redirects_in_a_circle_end() -> None:
    with serving({"/": redirect("/")}) as server:
        output = fetch(f"http://127.0.0.1:{server.port}/")
        assert output.text.endswith("redirects more than 5 times")
        assert len(server.asked) == 6


def test_a_compressed_page_is_read_and_one_that_could_grow_without_bound_is_not() -> None:
    bomb = gzip.compress(b"0" * 20_000_000)
    answers: dict[str, Answer] = {
        "/": page(gzip.compress(b"hello"), "text/plain", content_encoding="gzip"),
        "/bomb": page(bomb, "text/plain", content_encoding="gzip"),
        "/twice": page(gzip.compress(bomb), "text/plain", content_encoding="gzip, gzip"),
        "/br": page(b"x", "text/plain", content_encoding="br"),
        "/broken": page(b"no gzip", "text/plain", content_encoding="gzip"),
    }
    with serving(answers) as server:
        base = f"http://127.0.0.1:{server.port}"
        assert fetch(f"{base}/").text.startswith("hello\n")
        assert len(fetch(f"{base}/bomb", limits=Limits(fetched=1_000)).text) < 1_200
        assert "compressed as gzip, gzip" in fetch(f"{base}/twice").text
        assert "compressed as br" in fetch(f"{base}/br").text
        assert fetch(f"{base}/broken").error


def test_nobody_there_is_said_so() -> None:
    with nobody() as address:
        assert "cannot be fetched" in fetch(address).text
    assert "cannot be resolved" in fetch(f"http://{'no-such-host.' * 20}invalid/").text  # too long to be asked for


# -- what comes back ---------------------------------------------------------------------------------------------------

HTML = """<html><head><title>T</title><script>bad()</script><style>p{}</style></head><body>
<h1>Head</h1><p>Some <b>bold</b> <a href="/q?x=1">link</a></p><pre><code>def f():
    return 1</code></pre><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
<img src="data:image/png;base64,AAAA" alt="a chart"></body></html>"""


def test_html_becomes_markdown_with_links_that_lead_somewhere() -> None:
    with serving({"/docs/": page(HTML)}) as server:
        text = fetch(f"http://127.0.0.1:{server.port}/docs/").text
        assert "# Head\n\nSome **bold** " in text
        assert f"[link](http://127.0.0.1:{server.port}/q?x=1)" in text
        assert "```\ndef f():\n    return 1\n```" in text
        assert "| 1 | 2 |" in text
        assert "a chart" in text
        assert not {"bad()", "base64", "p{}"} & set(text.split())
        assert "base64" not in text


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        ('{"a": [1]}', "application/json", '{"a": [1]}'),
        ("plain <b>", "text/plain", "plain <b>"),
        ("caf\u00e9".encode("latin-1"), "text/plain; charset=latin-1", "café"),
        ("<meta charset=latin-1><p>caf\u00e9".encode("latin-1"), "text/html", "café"),
        (b"caf\xe9", "text/plain; charset=nonsense", "caf\ufffd"),
        ("<p>x</p>", "", "x"),
        ("x", "", "x"),
    ],
)
def test_text_is_read_in_its_own_charset(body: bytes | str, kind: str, text: str) -> None:
    with serving({"/": page(body, kind)}) as server:
        assert fetch(f"http://127.0.0.1:{server.port}/").text.partition("\n")[0] == text


def test_what_is_no_text_and_what_is_no_success_is_said() -> None:
    with serving({"/": page(b"\x89PNG\0", "image/png"), "/gone": page("<p>no", status=410)}) as server:
        base = f"http://127.0.0.1:{server.port}"
        assert fetch(f"{base}/") == Output(f"[{base}/, status 200: image/png, 5 bytes, which is no text]")
        assert fetch(f"{base}/gone") == Output(f"no\n[{base}/gone, status 410]", error=True)


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 100_000 + "x",
        "<b>" * 50_000 + "x",
        "<p <<a <b>x</i>&#xD800;&#0;",
        "<table>" * 3_000 + "x",
        "<!--" * 9_999,
    ],
)
def test_broken_or_absurd_html_is_no_trouble(html: str) -> None:
    with serving({"/": page(html)}) as server:
        output = fetch(f"http://127.0.0.1:{server.port}/")
        assert output.text.endswith("status 200]")
        output.text.encode("utf-8")
