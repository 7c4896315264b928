"""No relay for strangers, no secrets in records and logs, and nothing a client says moves a request elsewhere."""

from __future__ import annotations

import json
import logging
import socket
import sys
from typing import Any

import pytest

from loopback import CHAT, Upstream, answer, proxied, says

PATH = "/v1/chat/completions"
PLAIN = {"model": "gpt-4o", "messages": [{"role": "user", "content": "the question is secret"}]}
BROKEN = {
    "model": "gpt-4o",
    "messages": [*PLAIN["messages"], {"role": "tool", "tool_call_id": "x", "content": "secret"}],
}


@pytest.mark.parametrize(
    "path",
    [
        "//127.0.0.1:{port}/x",
        "/..//127.0.0.1:{port}/x",
        "/v1/../../x",
        "/v1/%2e%2e/x",
        "/v1/.%2E/x",
        "/v1/%252e%252e/x",
        "/v1/..",
        "/v1\\..\\x",
        "/v1/%5c..%5cx",
        "/v1/%00",
        "/v1/a%0d%0aX-Evil:%201",
    ],
)
def test_paths_that_climb_or_lead_elsewhere_are_refused(path: str) -> None:
    trap = Upstream(says())
    with trap.serving() as address, proxied() as running:
        found = running.ask(path.format(port=address.rpartition(":")[2]), PLAIN)
        assert found.status == 400
        assert trap.connections == running.upstream.connections == 0


@pytest.mark.parametrize("target", ["http://{host}/v1/x", "http://user@{host}/v1/x", "https://{host}/v1/x"])
def test_an_absolute_target_goes_to_the_operator_s_upstream_all_the_same(target: str) -> None:
    trap = Upstream(says())
    with trap.serving() as address, proxied() as running:
        host = address.removeprefix("http://")
        line = f"GET {target.format(host=host)} HTTP/1.1\r\nhost: {host}\r\nx-forwarded-host: {host}\r\n\r\n"
        assert running.raw(line.encode()).status == 200
        assert trap.connections == 0
        assert running.upstream.seen[0].target == "/v1/x"
        assert running.upstream.seen[0].header("host") != host


def test_connect_and_upgrade_open_no_tunnel() -> None:
    trap = Upstream(says())
    with trap.serving() as address, proxied() as running:
        host = address.removeprefix("http://")
        assert running.raw(f"CONNECT {host} HTTP/1.1\r\nhost: {host}\r\n\r\n".encode()).status in (400, 405, 501)
        upgrade = b"GET /v1/realtime HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
        running.raw(upgrade)
        assert trap.connections == 0
        assert all(seen.header("upgrade") is None for seen in running.upstream.seen)


def test_a_token_is_wanted_compared_and_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENS", "one, two")
    with proxied(tokens_env="TOKENS") as running:
        assert running.ask(PATH, PLAIN).status == 401
        assert running.ask(PATH, PLAIN, x_legato_token="three").status == 401
        assert running.ask(PATH, PLAIN, authorization="Bearer one").status == 401
        assert running.ask("/v1/models", method="GET").status == 401
        assert running.upstream.seen == []
        assert running.ask(PATH, PLAIN, x_legato_token="two").status == 200
        assert b"two" not in running.upstream.seen[0].head
        assert running.ask("/_legato/api/requests", method="GET").status == 401
        assert running.ask("/metrics", method="GET").status == 401
        assert running.ask("/_legato/api/requests", method="GET", authorization="Bearer one").status == 200
        assert running.ask("/_legato/health", method="GET").status == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8787", "127.0.0.1.evil.example"])
def test_a_page_elsewhere_cannot_read_what_went_by_under_a_name_of_its_own(host: str) -> None:
    with proxied(hosts=["legato.internal"]) as running:
        assert running.ask("/_legato/api/requests", method="GET", host=host).status == 403
        assert running.ask("/metrics", method="GET", host=host).status == 403
        for known in ("legato.internal", "localhost:1", "[::1]:1", "127.0.0.1"):
            assert running.ask("/_legato/api/requests", method="GET", host=known).status == 200


@pytest.mark.parametrize("contents", [False, True])
def test_records_hold_contents_only_if_the_operator_says_so(contents: bool) -> None:
    with proxied(contents=contents, profile="openai") as running:
        running.ask(PATH, BROKEN, authorization="Bearer sk-secret-key")
        running.settled()
        listed = running.ask("/_legato/api/requests", method="GET")
        number = listed.json["requests"][0]["id"]
        one = running.ask(f"/_legato/api/requests/{number}", method="GET")
        assert b"secret" not in listed.body
        assert listed.json["requests"][0]["diff"] is contents
        assert (b"secret" in one.body) is contents
        assert b"sk-secret-key" not in one.body


def test_logs_say_what_was_done_and_nothing_that_was_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="legato.proxy")
    with proxied(profile="openai", contents=True) as running:
        running.ask(f"{PATH}?key=secret-in-query", BROKEN, authorization="Bearer sk-secret-key")
        running.ask(PATH, b'{"messages": "secret', authorization="Bearer sk-secret-key")
        running.ask("/v1/messages", {"messages": [{"role": "secret-role", "content": "secret"}]})
        running.settled()
    fields: list[Any] = [vars(record)["fields"] for record in caplog.records if record.getMessage() == "request"]
    assert [line["outcome"] for line in fields[:2]] == ["governed", "failed"]
    assert fields[0]["changes"] == {"PAIR001": 1}
    assert (fields[1]["error"], fields[1]["why"]) == (
        "JSONDecodeError",
        "no JSON: Unterminated string starting at 13",
    )
    assert "secret" not in json.dumps(fields)


def test_it_listens_on_loopback_unless_told_otherwise() -> None:
    from legato.proxy.config import made  # noqa: PLC0415

    config = made({"upstream": [{"url": "http://127.0.0.1:1"}]})
    assert (config.host, config.is_local, made({"upstream": [{"url": "http://a"}], "host": "0.0.0.0"}).is_local) == (
        "127.0.0.1",
        True,
        False,
    )


def test_no_cookie_is_kept_for_others_and_no_credential_added() -> None:
    with proxied(lambda _: [answer(CHAT, set_cookie="session=secret")]) as running:
        assert running.ask(PATH, PLAIN).headers["set-cookie"] == "session=secret"
        running.ask(PATH, PLAIN)
        assert running.upstream.seen[1].header("cookie") is None
        assert running.upstream.seen[1].header("authorization") is None


def test_a_client_s_policy_is_a_name_and_never_a_file(tmp_path: Any) -> None:
    file = tmp_path / "p.toml"
    file.write_text("window = 10000")
    with proxied() as running:
        found = running.ask(PATH, PLAIN, x_legato_policy=str(file))
        assert found.headers["x-legato-failed"].startswith("no policy")
        assert running.upstream.seen[0].json == PLAIN


def test_a_refusal_can_be_wanted_where_governing_fails() -> None:
    with proxied(on_failure="refuse") as running:
        chat = running.ask(PATH, b"{")
        assert (chat.status, chat.json["error"]["type"]) == (422, "invalid_request_error")
        messages = running.ask("/v1/messages", {"messages": [{"role": "user", "content": ""}], "max_tokens": 9})
        assert (messages.status, messages.json["type"]) == (422, "error")
        gemini = running.ask("/v1beta/models/g:generateContent", {"contents": 3})
        assert (gemini.status, gemini.json["error"]["code"]) == (422, 422)
        assert running.upstream.seen == []
        record = running.settled()
        assert (record.outcome, record.error) == ("refused", "not-governed")
        assert record.why == "WireError: contents: must be a list, not a number"


def test_the_port_is_free_again_at_once() -> None:
    # Where there is one, an address that nobody else has: on the usual one another test may take the port meanwhile.
    host = "127.0.0.2" if sys.platform == "linux" else "127.0.0.1"
    with proxied(host=host) as running:
        port = running.port
        running.ask(PATH, PLAIN)
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind((host, port))


def test_json_that_is_nested_without_end_is_a_400() -> None:
    with proxied() as running:
        for deep in (b"[" * 100_000, b'{"messages":[{"role":"user","content":' + b'[{"a":' * 50_000):
            found = running.ask(PATH, deep)
            assert (found.status, found.headers["x-legato-error"]) == (400, "nested-too-deeply")
        assert running.upstream.seen == []
