"""Which headers pass, in which order, and what legato adds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Headers = Sequence[tuple[bytes, bytes]]

OURS = b"x-legato-"
HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te")
) | frozenset((b"trailer", b"transfer-encoding", b"upgrade", b"expect"))
"""What holds for one connection only, and is never passed on (RFC 9110, 7.6.1)."""
LONGEST = 300
"""Characters of a reason that is put into a header."""


def get(headers: Headers, name: bytes) -> bytes:
    """The value of a header, empty if there is none; of several the first."""
    return next((value for key, value in headers if key == name), b"")


def told(headers: Headers, name: str) -> str | None:
    """What the client says in a header of ours, None if it does not."""
    value = get(headers, OURS + name.encode())
    return value.decode("latin-1").strip() or None


def forwarded(headers: Headers, *, length: int | None = None, plain: bool = False) -> list[tuple[str, str]]:
    """The request's headers for the upstream, in their order, without hops and ours.

    `length`: the body is another one, of so many bytes and not compressed. `plain`: the answer must not be compressed.
    """
    gone = _hops(headers) | {b"host"}
    if length is not None:
        gone |= {b"content-encoding"}
    found: list[tuple[str, str]] = []
    for key, value in headers:
        if key in gone or key.startswith(OURS):
            continue
        if length is not None and key == b"content-length":
            value = b"%d" % length
        elif plain and key == b"accept-encoding":
            value = b"identity"
        found.append((key.decode("latin-1"), _text(value)))
    if plain and not get(headers, b"accept-encoding"):
        found.append(("accept-encoding", "identity"))
    return found


def returned(
    headers: Headers, added: Iterable[tuple[str, str]], *, rewritten: bool = False
) -> list[tuple[bytes, bytes]]:
    """The upstream's headers for the client, and what is added. `rewritten`: the body is not the one that came."""
    gone = _hops(headers)
    if rewritten:
        gone |= {b"content-length", b"content-encoding"}
    kept = [(key.lower(), value) for key, value in headers if key.lower() not in gone]
    return kept + [(key.encode(), value.encode("latin-1")) for key, value in added]


def reason(text: str) -> str:
    """A reason as a header's value: printable ASCII, and short."""
    plain = "".join(char if " " <= char <= "~" else "?" for char in " ".join(text.split()))
    return plain if len(plain) <= LONGEST else f"{plain[: LONGEST - 3]}..."


def _hops(headers: Headers) -> frozenset[bytes]:
    named = [value for key, value in headers if key.lower() == b"connection"]
    return HOP | {token.strip().lower() for value in named for token in value.split(b",") if token.strip()}


def _text(value: bytes) -> str:
    """A value as the client library writes it again: it encodes as UTF-8."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")
