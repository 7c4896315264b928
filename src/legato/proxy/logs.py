"""Logs as JSON, a line an event, without contents and keys: they hold names, numbers and codes."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

import msgspec

from legato.proxy.records import Record

LOG = logging.getLogger("legato.proxy")

LEFT_OUT = frozenset(("time", "diff", "reasons", "bytes_in", "bytes_out"))
PLACES = {"governing": 3, "first_byte": 3, "milliseconds": 3, "saved": 6, "prefix_kept": 6}
"""Decimal places that are worth reading."""


class Lines(logging.Formatter):
    """A record of `logging` as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line. Of an exception its type is told, not its text."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = getattr(record, "fields", {})
        line = {"time": time, "level": record.levelname.lower(), "event": record.getMessage(), **fields}
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__name__
        return json.dumps(line)


def set_up() -> None:
    """Everything the proxy and its server have to say goes to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    for name in ("legato.proxy", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO if name == "legato.proxy" else logging.WARNING)


def finished(record: Record) -> None:
    """A request that is done."""
    level = logging.WARNING if record.error else logging.INFO
    if not LOG.isEnabledFor(level):
        return
    whole = msgspec.to_builtins(record)
    fields = {key: value for key, value in whole.items() if key not in LEFT_OUT and value not in ("", None, {}, False)}
    fields |= {key: round(fields[key], places) for key, places in PLACES.items() if key in fields}
    if record.changes:
        fields["changes"] = {code: times for code, (times, _) in record.changes.items()}
    LOG.log(level, "request", extra={"fields": fields})


def say(event: str, level: int = logging.INFO, **fields: object) -> None:
    """Anything else that happens."""
    LOG.log(level, event, extra={"fields": fields})
