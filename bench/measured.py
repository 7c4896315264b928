"""The histories that are measured: an agent's loop made here, and recorded sessions where they are at hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

Wire = dict[str, Any]
History = list[Wire]

SIZES = (200, 2_000, 20_000)
TRANSCRIPTS = Path(__file__).parents[2] / "shared" / "transcripts"
RECORDED = {"tau-bench": "tau-bench/gpt-4o-airline.jsonl", "pi-mono": "pi-mono/sessions.jsonl"}


def synthetic(size: int) -> History:
    """An agent loop: a task, then calls and results of about 540 characters, each its own text."""
    history: History = [{"role": "system", "content": "You mend code."}, {"role": "user", "content": "Find the leak."}]
    for at in range((size - 2) // 2):
        call = {"name": "read_log", "arguments": json.dumps({"path": f"logs/{at}.txt", "lines": 40})}
        lines = "\n".join(f"{at:06d}.{line} worker {at + line} closed {line * at} of {at} files" for line in range(11))
        history.append(
            {
                "role": "assistant",
                "content": f"Log {at - 1} is clean; log {at} is next.",
                "tool_calls": [{"id": f"call{at:05d}", "type": "function", "function": call}],
            }
        )
        history.append({"role": "tool", "tool_call_id": f"call{at:05d}", "content": lines})
    return history


def recorded(path: Path, size: int) -> History:
    """The recorded conversations one after the other as one history, its first so many messages."""
    return list(islice(_messages(path), size))


def _messages(path: Path) -> Iterator[Wire]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield from json.loads(line)["messages"]


def histories() -> Iterator[tuple[str, History]]:
    """The synthetic loop in every size; of the recordings every size there is, and all of it."""
    for size in SIZES:
        yield "loop", synthetic(size)
    for name, file in RECORDED.items():
        if not (TRANSCRIPTS / file).exists():
            continue
        whole = sum(1 for _ in _messages(TRANSCRIPTS / file))
        for size in sorted({min(size, whole) for size in SIZES}):
            yield name, recorded(TRANSCRIPTS / file, size)
