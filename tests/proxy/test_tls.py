"""Upstreams over TLS: one whose certificate is trusted is served, any other is a 502, and the log says why."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest
import trustme

from legato.errors import PolicyError
from legato.proxy.config import made
from loopback import CHAT, Upstream, answer, proxied, says
from test_serve_command import before

PATH = "/v1/chat/completions"
PLAIN = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca(authority: trustme.CA, tmp_path: Path) -> str:
    """The file in which the operator has the authority's certificate."""
    file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    return str(file)


def secured(certificate: trustme.LeafCert) -> Upstream:
    """An upstream with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return Upstream(says(), context)


def test_an_upstream_that_an_authority_of_the_operator_s_signed_is_served(authority: trustme.CA, ca: str) -> None:
    with proxied(secured(authority.issue_cert("127.0.0.1")), ca=ca) as running:
        for path in (PATH, "/v1/files"):
            assert running.ask(path, PLAIN).json == CHAT
        assert [seen.json for seen in running.upstream.seen] == [PLAIN] * 2
        assert running.upstream.connections == 1


def test_an_authority_can_be_named_by_the_environment_too(
    authority: trustme.CA, ca: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", ca)
    with secured(authority.issue_cert("127.0.0.1")).serving() as url, before(url) as process:
        assert process.ask() == (200, json.dumps(CHAT).encode())


def test_the_log_says_why_a_certificate_is_not_taken(authority: trustme.CA) -> None:
    with secured(authority.issue_cert("127.0.0.1")).serving() as url, before(url) as process:
        assert process.ask()[0] == 502
        assert process.stop() == 0
        (line,) = [line for line in process.lines if line["event"] == "request"]
        assert (line["level"], line["error"]) == ("warning", "upstream-untrusted")
        assert line["why"] == "unable to get local issuer certificate"


@pytest.mark.parametrize(
    ("name", "trusts", "why"),
    [
        ("127.0.0.1", False, "unable to get local issuer certificate"),
        ("127.0.0.2", True, "IP address mismatch, certificate is not valid for '127.0.0.1'."),
    ],
)
def test_a_certificate_that_cannot_be_verified_is_a_502_and_the_record_says_why(
    authority: trustme.CA, ca: str, name: str, trusts: bool, why: str
) -> None:
    fields: dict[str, Any] = {"ca": ca} if trusts else {}
    with proxied(secured(authority.issue_cert(name)), **fields) as running:
        for path in (PATH, "/v1/files"):
            found = running.ask(path, PLAIN)
            assert (found.status, found.headers["x-legato-error"]) == (502, "upstream-untrusted")
            assert found.json["error"]["message"] == "legato: the upstream's certificate cannot be verified"
            record = running.settled()
            assert (record.error, record.why) == ("upstream-untrusted", why)
        assert running.upstream.seen == []


def test_what_does_not_speak_tls_is_unreachable_over_it() -> None:
    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(2**16)
            connection.sendall(answer({}, 400))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        with proxied(url=f"https://127.0.0.1:{listening.getsockname()[1]}") as running:
            assert running.ask(PATH, PLAIN).headers["x-legato-error"] == "upstream-unreachable"
            assert "SSL" in running.settled().why
        thread.join()


@pytest.mark.parametrize(("text", "said"), [(None, "No such file"), ("", "no certificate in PEM")])
def test_a_file_without_certificates_is_refused_with_its_name(text: str | None, said: str, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    if text is not None:
        file.write_text(text)
    with pytest.raises(PolicyError, match=said) as failure:
        made({"upstream": [{"url": "https://h"}], "ca": str(file)})
    assert str(file) in str(failure.value)
