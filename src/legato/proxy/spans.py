"""OpenTelemetry spans, for who wants them: `spans = true`, and run it under `opentelemetry-instrument`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from legato.errors import GovernanceError
from legato.proxy.headers import Headers
from legato.proxy.records import Record


class Spans:
    """A span a request, a child of the one that the client's `traceparent` names. What is sent on is not touched."""

    def __init__(self) -> None:
        try:
            # The late import: only who asks for spans needs the library.
            from opentelemetry import propagate, trace  # noqa: PLC0415
        except ImportError:
            raise GovernanceError("spans = true needs OpenTelemetry: pip install 'legato[otel]'") from None
        self._extract: Any = propagate.extract
        self._kind = trace.SpanKind.SERVER
        self._tracer = trace.get_tracer("legato.proxy")

    @contextmanager
    def around(self, record: Record, headers: Headers) -> Iterator[None]:
        """The span of a request; its attributes are what the record says in the end."""
        carrier = {key.decode("latin-1"): value.decode("latin-1") for key, value in headers}
        context = self._extract(carrier)
        with self._tracer.start_as_current_span(f"legato {record.method}", context=context, kind=self._kind) as span:
            try:
                yield
            finally:
                span.set_attributes(attributes(record))


def attributes(record: Record) -> dict[str, str | int | float | bool]:
    """What a span says: names and numbers, no contents."""
    said: dict[str, str | int | float | bool | None] = {
        "http.request.method": record.method,
        "url.path": record.path,
        "http.response.status_code": record.status,
        "gen_ai.request.model": record.model,
        "gen_ai.usage.input_tokens": record.reported,
        "legato.upstream": record.upstream,
        "legato.profile": record.profile,
        "legato.outcome": record.outcome,
        "legato.tokens_in": record.tokens_in,
        "legato.tokens_out": record.tokens_out,
        "legato.budget": record.budget,
        "legato.changes": sum(times for times, _ in record.changes.values()),
        "legato.folded": record.folded,
        "legato.retried": record.retried,
        "legato.governing_ms": record.governing,
    }
    return {key: value for key, value in said.items() if value is not None and value != ""}
