"""What governing a history costs, as a multiple of `json.dumps` of the same messages: `make bench`.

Nothing is asserted: the numbers are for people. Each is the best of several runs in this one process, with the
vocabulary loaded. The columns:

    check    the rules alone
    rules    `govern` without a window: repaired and microcompacted, nothing counted
    known    `govern` with a window that holds half of it, every text counted before
    cold     the same with nothing counted before: what a first call pays
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import legato
from legato.tokens import TextCounter

Wire = dict[str, Any]
History = list[Wire]

SIZES = (200, 2_000, 20_000)
TRANSCRIPTS = Path(__file__).parents[2] / "shared" / "transcripts"
RECORDED = {"tau-bench": "tau-bench/gpt-4o-airline.jsonl", "pi-mono": "pi-mono/sessions.jsonl"}
PATIENCE = 1.0
"""Seconds after which a measurement is not run again."""
RUNS = 7
COLUMNS = ("check", "rules", "known", "cold")
HEADINGS = "".join(f"{column:>9}" for column in COLUMNS)


class Row(NamedTuple):
    """One history: `dumps` is seconds, `ratios` the columns as multiples of it."""

    name: str
    messages: int
    characters: int
    tokens: int
    dumps: float
    ratios: dict[str, float]

    def seconds(self, column: str) -> float:
        """A column's own time."""
        return self.dumps * self.ratios[column]


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


def best(work: Callable[[], object]) -> float:
    """The least seconds of up to `RUNS` runs."""
    times: list[float] = []
    gc.collect()
    while len(times) < RUNS and sum(times) < PATIENCE:
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return min(times)


def measure(name: str, history: History) -> Row:
    """Every column for one history."""
    known = TextCounter()
    tokens = legato.govern(history, policy=legato.Policy(counter=known)).report.tokens_in
    window = tokens // 2 + 2_048

    def govern(counter: TextCounter) -> object:
        return legato.govern(history, policy=legato.Policy(window=window, max_output=1_024, counter=counter))

    govern(known)
    dumps = best(lambda: json.dumps(history))
    times = {
        "check": best(lambda: legato.check(history)),
        "rules": best(lambda: legato.govern(history)),
        "known": best(lambda: govern(known)),
        "cold": best(lambda: govern(TextCounter())),
    }
    ratios = {column: time / dumps for column, time in times.items()}
    return Row(name, len(history), len(json.dumps(history)), tokens, dumps, ratios)


def table(rows: list[Row]) -> Iterator[str]:
    """The rows as lines of text."""
    yield f"{'history':<12}{'messages':>10}{'KB':>8}{'tokens':>11}{'json.dumps':>13}" + HEADINGS
    for row in rows:
        size = f"{row.messages:>10,}{row.characters // 1024:>8,}{row.tokens:>11,}{row.dumps * 1000:>10.2f} ms"
        yield f"{row.name:<12}{size}" + "".join(f"{f'x{row.ratios[column]:.1f}':>9}" for column in COLUMNS)


def growth(rows: list[Row]) -> Iterator[str]:
    """How the time grows from one size of a history to the next; linear is as much as the text grows."""
    for small, large in pairwise(rows):
        if small.name == large.name:
            grown = f"{small.messages:,} -> {large.messages:,} messages"
            text = f"{f'x{large.characters / small.characters:.1f}':>8}"
            yield f"{small.name:<12}{grown:<34}{text}" + "".join(
                f"{f'x{large.seconds(column) / small.seconds(column):.1f}':>9}" for column in COLUMNS
            )


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


def main() -> None:
    rows = []
    for name, history in histories():
        sys.stderr.write(f"\r{name}, {len(history):,} messages … ")
        sys.stderr.flush()
        rows.append(measure(name, history))
    sys.stderr.write("\r" + " " * 40 + "\r")
    header = f"{'growth':<12}{'':<34}{'text':>8}{HEADINGS}"
    sys.stdout.write("\n".join([*table(rows), "", header, *growth(rows), ""]))


if __name__ == "__main__":
    main()
