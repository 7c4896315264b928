"""What the proxy itself says when it cannot serve, in the shape of the API that was asked."""

from __future__ import annotations

import json
from http import HTTPStatus

import msgspec


class Refusal(Exception):
    """Why a request is not served. `code` is a name that stays, `status` the HTTP status, `why` the operator's."""

    def __init__(self, status: int, code: str, message: str, why: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.why = why


class Shape(msgspec.Struct, frozen=True):
    """How an API says what kind of error it is, by status; other statuses have the kind under 0, or under 500."""

    kinds: dict[int, str]

    def kind(self, status: int) -> str:
        return self.kinds.get(status) or self.kinds[500 if status >= 500 else 0]


SHAPES = {
    "bedrock": Shape({0: "ValidationException", 500: "InternalServerException"}),
    "openai": Shape({0: "invalid_request_error", 401: "authentication_error", 500: "server_error"}),
    "anthropic": Shape(
        {
            0: "invalid_request_error",
            401: "authentication_error",
            404: "not_found_error",
            413: "request_too_large",
            500: "api_error",
            503: "overloaded_error",
            504: "timeout_error",
        }
    ),
    "gemini": Shape(
        {
            0: "INVALID_ARGUMENT",
            401: "UNAUTHENTICATED",
            404: "NOT_FOUND",
            500: "INTERNAL",
            502: "UNAVAILABLE",
            503: "UNAVAILABLE",
            504: "DEADLINE_EXCEEDED",
        }
    ),
}


def answer(refusal: Refusal, shape: str = "openai") -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Status, headers and body."""
    kind = SHAPES[shape].kind(refusal.status)
    message = f"legato: {refusal.message}"
    if shape == "anthropic":
        said: object = {"type": "error", "error": {"type": kind, "message": message}}
    elif shape == "bedrock":
        said = {"message": message}
    elif shape == "gemini":
        said = {"error": {"code": refusal.status, "message": message, "status": kind}}
    else:
        said = {"error": {"message": message, "type": kind, "param": None, "code": refusal.code}}
    body = json.dumps(said).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    headers.append((b"x-legato-error", refusal.code.encode()))
    if shape == "bedrock":
        headers.append((b"x-amzn-errortype", kind.encode()))
    if refusal.status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
        headers.append((b"retry-after", b"1"))
    return refusal.status, headers, body
