"""Bedrock's SDK takes and gives media as bytes: they are governed, reported, kept and moved like any other."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import legato
from legato import Policy

PICTURE = b"\x89PNG\r\n\x1a\n1234"
ENCODED = base64.b64encode(PICTURE).decode()


def pictures(count: int) -> list[Any]:
    """So many questions with a picture each, and a last one without."""
    image = {"image": {"format": "png", "source": {"bytes": PICTURE}}}
    messages: list[Any] = []
    for at in range(count):
        messages.append({"role": "user", "content": [{"text": f"q{at} " + "word " * 60}, image]})
        messages.append({"role": "assistant", "content": [{"text": "done"}]})
    return [*messages, {"role": "user", "content": [{"text": "last"}]}]


def small(**fields: Any) -> Policy:
    return Policy(window=900, max_output=8, reserve=4, **fields)


def test_a_report_of_dropped_bytes_is_json_that_holds_them() -> None:
    report = legato.govern(pictures(8), profile="bedrock", policy=small()).report
    assert ENCODED in json.dumps(report.to_dict(contents=True))
    assert ENCODED in report.diff()


def test_dropped_bytes_are_kept_in_the_store(tmp_path: Path) -> None:
    governed = legato.govern(pictures(8), profile="bedrock", policy=small(recall=str(tmp_path / "kept")))
    assert any("kept as" in change.reason for change in governed.report.changes)
    assert any(ENCODED.encode() in file.read_bytes() for file in (tmp_path / "kept").rglob("*") if file.is_file())


def test_a_session_with_bytes_summarises_and_verifies_them() -> None:
    assert isinstance(legato.Session("bedrock", small(summarise=True)).prepare(pictures(8)), legato.NeedsSummary)
    session = legato.Session("bedrock", verify=True)
    messages = pictures(2)
    session.prepare(messages)
    messages[0]["content"][1]["image"]["source"]["bytes"] = b"another"
    assert session.prepare(messages).messages[0]["content"][1]["image"]["source"]["bytes"] == b"another"
    assert session.broke_at == 0


def test_bytes_move_to_another_format_as_base64() -> None:
    moved = legato.govern(pictures(1), format="bedrock", to="anthropic").messages
    assert moved[0]["content"][1]["source"] == {"type": "base64", "media_type": "image/png", "data": ENCODED}
