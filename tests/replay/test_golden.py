"""The golden table of recorded sessions: whoever changes what it says sees it in the diff.

`python bench/replay.py short` writes the part that is made again here, `table` all of it.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from recorded import needs_transcripts

BENCH = Path(__file__).parents[2] / "bench" / "replay.py"


def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_replay", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclasses look for it
    spec.loader.exec_module(module)
    return module


def test_the_short_table_is_what_playing_the_sessions_gives() -> None:
    needs_transcripts("tau-bench/gpt-4o-airline.jsonl")
    made = bench()
    wanted = [line for line in made.SHORT.read_text(encoding="utf-8").splitlines() if not line.startswith("optimum")]
    found = "\n".join(made.table(made.FILES, made.WINDOWS, beside=False)).splitlines()
    assert found == wanted, "python bench/replay.py short writes it anew"


def test_the_whole_table_begins_with_the_short_one() -> None:
    made = bench()
    assert made.GOLDEN.read_text(encoding="utf-8").startswith(made.SHORT.read_text(encoding="utf-8"))


def test_the_page_shows_the_whole_table() -> None:
    made = bench()
    assert f"```text\n{made.GOLDEN.read_text(encoding='utf-8').rstrip()}\n```" in made.PAGE.read_text(encoding="utf-8")
