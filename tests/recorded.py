"""Recorded conversations and provider answers, kept beside the repository and never inside it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def transcripts() -> Path:
    """The folder of recordings: `../shared/transcripts` seen from the repository, or what LEGATO_TRANSCRIPTS names."""
    named = os.environ.get("LEGATO_TRANSCRIPTS")
    return Path(named) if named else Path(__file__).parents[2] / "shared" / "transcripts"


def needs_transcripts(name: str = "") -> Path:
    """The recordings, or one file of them. Absent: the test is skipped, in CI it fails."""
    path = transcripts() / name
    if not path.exists():
        reason = f"no recordings at {path}; LEGATO_TRANSCRIPTS can name their folder"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason, allow_module_level=True)
    return path


def jsonl(name: str) -> Iterator[Any]:
    """The objects of a JSONL file of the recordings."""
    with needs_transcripts(name).open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)
