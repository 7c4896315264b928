"""What an SDK's exception says: status, body as it came, a line for people, and whether to try again later."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from legato.messages import Json
from legato.profiles.overflow import overflow

LONGEST = 500
"""Characters of a provider's message that an exception's text repeats; its body holds the whole."""

TRANSPORTS = ("httpx2", "httpx")
"""The HTTP libraries that the SDKs stand on: one or the other, by their version."""

PASSING = frozenset((408, 409, 429, *range(500, 600)))
"""Statuses under which the same request may succeed later."""
PASSING_NAMES = frozenset(
    (
        "overloaded_error",  # Anthropic
        "api_error",  # Anthropic
        "rate_limit_error",  # Anthropic
        "server_error",  # OpenAI
        "rate_limit_exceeded",  # OpenAI
        "unavailable",  # Gemini
        "internal",  # Gemini
    )
)
"""The same, where an error inside a stream names only a type."""
SPENT = frozenset(("insufficient_quota", "exceeded_current_quota_error", "1113"))
"""Codes of OpenAI, Kimi and GLM for an empty account: a 429 that no waiting cures."""


def http_library() -> Any:
    """The HTTP library that a loaded SDK stands on."""
    return next(sys.modules[name] for name in TRANSPORTS if name in sys.modules)


def transport_errors() -> tuple[type[Exception], ...]:
    """What a connection raises that breaks or cannot be made."""
    loaded = [sys.modules[name] for name in TRANSPORTS if name in sys.modules]
    return (OSError, *[library.HTTPError for library in loaded], *[library.InvalidURL for library in loaded])


def body_of(error: Exception) -> tuple[int | None, Json]:
    """Status and body of the answer behind an exception of OpenAI's or Anthropic's SDK; (None, None) if none came."""
    status = getattr(error, "status_code", None)
    body = getattr(error, "body", None)
    if status is None:
        # OpenAI's SDK raises a bare APIError for an error in a stream, and keeps only what stood under `error`.
        return (None, None) if body is None else (200, {"error": body})
    try:
        return status, parsed(error.response.content)  # type: ignore[attr-defined] # every status error has one
    except RuntimeError:  # a stream: the answer was never read as a whole
        return status, body


def parsed(content: bytes | str) -> Json:
    """JSON if it is some, else text."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return content if isinstance(content, str) else content.decode("utf-8", "replace")


def server_of(error: Any) -> str:
    """The server that was asked, after a "to"; nothing where an exception does not say."""
    try:
        url = error.request.url
    except (AttributeError, RuntimeError):  # of one that was raised before there was a request
        return ""
    return f" to {url.scheme}://{url.netloc.decode()}"


def message_of(said: object) -> str:
    """One line for people, out of an exception or a body."""
    for _ in range(4):
        if isinstance(said, list) and said:
            said = said[0]
        elif isinstance(said, dict):
            said = next((said[key] for key in ("error", "message", "msg", "detail", "response") if said.get(key)), said)
    text = " ".join(str(said).split()) or type(said).__name__
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


def passes(status: int | None, body: object) -> bool:
    """Whether the same request may well succeed later. No answer at all: yes."""
    if overflow(status, body) is not None:
        return False
    codes = set(_codes(body))
    if not SPENT.isdisjoint(codes):
        return False
    if status is None or status in PASSING:
        return True
    numbers = {int(code) for code in codes if code.isdecimal() and len(code) == 3}
    return status == 200 and not (PASSING.isdisjoint(numbers) and PASSING_NAMES.isdisjoint(codes))


def _codes(body: object) -> Iterator[str]:
    """What stands under `code`, `type` and `status` of an error, in lower case."""
    for _ in range(4):
        if isinstance(body, list) and body:
            body = body[0]
        if not isinstance(body, dict):
            return
        for key in ("code", "type", "status"):
            value = body.get(key)
            if isinstance(value, str | int):
                yield str(value).lower()
        body = body.get("error") or body.get("response")
