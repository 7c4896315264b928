"""What Prometheus is told."""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from legato.proxy.records import Record

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
GOVERNING = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)


class Metrics:
    """The counters of one worker. With `PROMETHEUS_MULTIPROC_DIR` set, what is shown is the sum over all workers.

    Labels are the operator's own names, codes and statuses: nothing that a client chooses, so their number is bounded.
    """

    TYPE = b"text/plain; version=0.0.4; charset=utf-8"

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self._registry = registry
        self.requests = Counter(
            "legato_requests_total", "Requests.", ("upstream", "api", "outcome", "status"), registry=registry
        )
        self.changes = Counter("legato_changes_total", "Changes to requests, by rule.", ("code",), registry=registry)
        self.faults = Counter(
            "legato_faults_total", "Faults that were mended, each once a conversation.", ("code",), registry=registry
        )
        self.tokens = Counter(
            "legato_tokens_total", "Tokens of governed requests: in, out, and reported.", ("side",), registry=registry
        )
        self.folds = Counter("legato_folds_total", "Requests before which the cut moved.", registry=registry)
        self.retries = Counter("legato_retries_total", "Refusals for length that were retried.", registry=registry)
        self.active = Gauge(
            "legato_active_requests", "Requests in flight.", registry=registry, multiprocess_mode="livesum"
        )
        self.seconds = Histogram(
            "legato_request_seconds", "Request to last byte.", ("upstream",), buckets=SECONDS, registry=registry
        )
        self.governing = Histogram(
            "legato_governing_seconds", "Time to govern a request.", buckets=GOVERNING, registry=registry
        )

    def count(self, record: Record) -> None:
        """A finished request."""
        self.requests.labels(record.upstream, record.api, record.outcome, str(record.status)).inc()
        self.seconds.labels(record.upstream).observe(record.milliseconds / 1_000)
        if record.outcome in ("untouched", "governed", "failed"):
            self.governing.observe(record.governing / 1_000)
        for code, (times, _) in record.changes.items():
            self.changes.labels(code).inc(times)
        for code, times in record.new.items():
            self.faults.labels(code).inc(times)
        for side, tokens in (("in", record.tokens_in), ("out", record.tokens_out), ("reported", record.reported)):
            if tokens:
                self.tokens.labels(side).inc(tokens)
        if record.folded:
            self.folds.inc()
        if record.retried:
            self.retries.inc()

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self._registry)
        whole = CollectorRegistry()
        MultiProcessCollector(whole)  # type: ignore[no-untyped-call]
        return generate_latest(whole)
