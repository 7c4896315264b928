"""Which API a path is, which upstream a request goes to, and the URL it has there.

The scheme, host and port are always the operator's: nothing a client sends is ever parsed as a URL.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from urllib.parse import unquote, urlsplit

import msgspec

from legato.proxy.config import Upstream


class Api(msgspec.Struct, frozen=True):
    """An endpoint that is governed. `errors` is the shape in which it says what is wrong.

    `renames`: its answers can be read, so that names which had to change come back as the client's.
    """

    name: str
    format: str
    errors: str
    path: re.Pattern[str]
    renames: bool = True


APIS = tuple(
    Api(name, form, errors, re.compile(path), renames=name != "converse-stream")
    for name, form, errors, path in (
        ("chat", "openai-chat", "openai", r"(?:.*/deployments/(?P<model>[^/]+)|.*)/chat/completions"),
        ("responses", "openai-responses", "openai", r".*/responses"),
        ("messages", "anthropic", "anthropic", r".*/v1/messages|/messages"),
        ("count_tokens", "anthropic", "anthropic", r".*/v1/messages/count_tokens|/messages/count_tokens"),
        ("generateContent", "gemini", "gemini", r".*/(?P<model>[^/]+):(?:streamG|g)enerateContent"),
        ("converse", "bedrock", "bedrock", r".*/model/(?P<model>[^/]+)/converse"),
        ("converse-stream", "bedrock", "bedrock", r".*/model/(?P<model>[^/]+)/converse-stream"),
    )
)

SAFE = re.compile(r"/(?!/)[A-Za-z0-9\-._~!$&'()*+,;=:@%/]*")
"""A path: one slash, then what RFC 3986 lets a path have."""
DOTS = re.compile(r"(?:^|/)\.{1,2}(?:/|$)")


class Model(msgspec.Struct):
    """The one field of a body that a route may hang on."""

    model: str = ""


SIGNED = b"AWS4-"
"""How the authorization begins of a request whose body is signed: not a byte of it can be changed."""


def api_of(method: str, path: str, authorization: bytes) -> tuple[Api, str] | None:
    """The governed endpoint that a path is, and the model it names (empty: none); None: it passes through."""
    if method == "POST" and not authorization.startswith(SIGNED):
        path = (unquote(path) if "%3A" in path.upper() else path).rstrip("/")
        for api in APIS:
            match = api.path.fullmatch(path)
            if match:
                return api, unquote(match.groupdict().get("model") or "")
    return None


def is_safe(path: str) -> bool:
    """Whether a raw path stays under where it is put: no `//host`, no dots that climb, no control characters."""
    if not SAFE.fullmatch(path):
        return False
    plain = unquote(unquote(path))
    return not DOTS.search(plain) and "\\" not in plain and plain.isprintable()


def choose(upstreams: Sequence[Upstream], path: str, model: str) -> tuple[Upstream, str] | None:
    """The upstream of a request, and its path without what chose it: by path, else by model, else the general one."""
    for upstream in upstreams:
        stem = upstream.path.rstrip("/")
        below = stem and (path == stem or path.startswith(f"{stem}/"))
        if below and (not upstream.models or _matches(model, upstream)):
            return upstream, path[len(stem) :] or "/"
    others = [upstream for upstream in upstreams if not upstream.path.rstrip("/")]
    for upstream in others:
        if upstream.models and _matches(model, upstream):
            return upstream, path
    return next(((upstream, path) for upstream in others if not upstream.models), None)


def model_in(body: bytes) -> str:
    """The model that a body names, empty if none: nothing else of it is built."""
    try:
        return msgspec.json.decode(body, type=Model).model
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ""


def target(upstream: Upstream, path: str, query: bytes) -> str:
    """The URL at the upstream. What the upstream's path ends with is not repeated where the path starts with it.

    So `https://host/openai/v1` takes `/v1/models`, `/openai/v1/models` and `/models` to the same place.
    """
    parts = urlsplit(upstream.url)
    base = [step for step in parts.path.split("/") if step]
    asked = path.split("/")[1:]
    shared = next((n for n in range(min(len(base), len(asked)), 0, -1) if base[-n:] == asked[:n]), 0)
    whole = "".join(f"/{step}" for step in [*base, *asked[shared:]]) or "/"
    return f"{parts.scheme}://{parts.netloc}{whole}" + (f"?{query.decode('ascii', 'replace')}" if query else "")


def _matches(model: str, upstream: Upstream) -> bool:
    return any(fnmatchcase(model.lower(), pattern.lower()) for pattern in upstream.models)
