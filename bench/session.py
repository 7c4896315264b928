"""What it costs to prepare the next request of a long session, as a multiple of `orjson.dumps` of what is sent.

An agent appends one exchange (a call and its result, 1 KB a message) to a history of so many messages and prepares
again, window 200,000 tokens. Nothing is asserted: the numbers are for people. The columns:

    messages, MB   the history
    sent           `orjson.dumps` of what `prepare` returns, in milliseconds
    append         the median `prepare`, as a multiple of that
    90 %           nine of ten are no slower
    fold           the slowest: the window was full, and the whole history was governed anew
    mean           all of them, the folds too
"""

from __future__ import annotations

import gc
import random
import statistics
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import orjson

import legato

Wire = dict[str, Any]

SIZES = (1_000, 10_000, 100_000)
EXCHANGES = 200
WORDS = [f"word{at}" for at in range(3_000)]
POLICIES: dict[str, Callable[..., legato.Policy]] = {
    "cache-friendly": legato.Policy.cache_friendly,
    "document": legato.Policy,
}


def exchange(at: int, chance: random.Random) -> list[Wire]:
    function = {"name": "search", "arguments": orjson.dumps({"query": chance.choices(WORDS, k=80)}).decode()}
    call = {"id": f"call_{at}", "type": "function", "function": function}
    result = " ".join(chance.choices(WORDS, k=125))
    return [
        {"role": "assistant", "content": "Looking further.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{at}", "content": result},
    ]


def measure(name: str, size: int) -> str:
    """The row of one policy and one length of history."""
    chance = random.Random(size)
    history: list[Wire] = [{"role": "system", "content": "You search."}, {"role": "user", "content": "Find it."}]
    for at in range(size // 2 - 1):
        history += exchange(at, chance)
    session = legato.Session("openai", POLICIES[name](window=200_000))
    session.prepare(history)
    times, dumps = [], []
    exchanges = EXCHANGES if name == "cache-friendly" else EXCHANGES // 20
    gc.collect()
    for at in range(size, size + exchanges):
        history = [*history, *exchange(at, chance)]
        start = perf_counter()
        governed = session.prepare(history)
        middle = perf_counter()
        orjson.dumps(governed.body)
        times.append(middle - start)
        dumps.append(perf_counter() - middle)
    sent = statistics.median(dumps)
    append, slow = statistics.median(times), sorted(times)[len(times) * 9 // 10]
    cells = (append / sent, slow / sent, max(times) / sent, statistics.mean(times) / sent)
    size_mb = len(orjson.dumps(history)) / 1e6
    return f"{name:<15}{size:>9,}{size_mb:>8.1f}{sent * 1000:>9.2f} ms" + "".join(f"{cell:>10.1f}" for cell in cells)


def main() -> None:
    columns = ("append", "90 %", "fold", "mean")
    say(f"{'policy':<15}{'messages':>9}{'MB':>8}{'sent':>12}" + "".join(f"{column:>10}" for column in columns))
    for name in POLICIES:
        for size in SIZES:
            if name == "cache-friendly" or size <= 10_000:
                say(measure(name, size))


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
