"""What it costs to prepare the next request of a long session, as a multiple of `orjson.dumps` of what is sent.

An agent appends one exchange (a call and its result, 1 KB a message) to a history of so many messages and prepares
again, window 200,000 tokens. What is measured is time on the processor, so that others on the machine do not count
(nor does waiting for a disk). Nothing is asserted: the numbers are for people. The rows: the cache-friendly policy; the
same with a store for what is cut; the document's, which snips at every request, and which compacts one more result as
well; and a provider for which every id and every tool name has to be rewritten. The columns:

    messages, MB   the history
    sent           `orjson.dumps` of what `prepare` returns, in milliseconds
    append         the median `prepare`, as a multiple of that
    90 %           nine of ten are no slower
    slowest        a fold, or the first, when what is known of the history is put together
    mean           all of them
"""

from __future__ import annotations

import gc
import random
import statistics
import sys
from collections.abc import Callable
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, NamedTuple

import orjson

import legato

Wire = dict[str, Any]

SIZES = (1_000, 10_000, 100_000)
EXCHANGES = 200
WINDOW = 200_000
WORDS = [f"word{at}" for at in range(3_000)]


class Case(NamedTuple):
    """A row: who is sent to, under which policy, and the tool that is called."""

    name: str
    policy: Callable[..., legato.Policy]
    profile: str = "openai"
    tool: str = "search"
    sizes: tuple[int, ...] = SIZES
    stored: bool = False


CASES = (
    Case("cache-friendly", legato.Policy.cache_friendly),
    Case("with a store", legato.Policy.cache_friendly, sizes=SIZES[:2], stored=True),
    Case("document", legato.Policy),
    Case("compacting", legato.Policy, tool="grep"),
    Case("renaming", legato.Policy.cache_friendly, "mistral", "web.search", SIZES[:2]),
)


def exchange(at: int, chance: random.Random, tool: str) -> list[Wire]:
    function = {"name": tool, "arguments": orjson.dumps({"query": chance.choices(WORDS, k=80)}).decode()}
    call = {"id": f"call_{at}", "type": "function", "function": function}
    result = " ".join(chance.choices(WORDS, k=125))
    return [
        {"role": "assistant", "content": "Looking further.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{at}", "content": result},
    ]


def measure(case: Case, size: int, store: str) -> str:
    """The row of one case and one length of history."""
    chance = random.Random(size)
    history: list[Wire] = [{"role": "system", "content": "You search."}, {"role": "user", "content": "Find it."}]
    for at in range(size // 2 - 1):
        history += exchange(at, chance, case.tool)
    policy = case.policy(window=WINDOW, recall=store if case.stored else None)
    session = legato.Session(case.profile, policy)
    session.prepare(history)
    times, dumps = [], []
    gc.collect()
    for at in range(size, size + EXCHANGES):
        history = [*history, *exchange(at, chance, case.tool)]
        start = process_time()
        governed = session.prepare(history)
        middle = process_time()
        orjson.dumps(governed.body)
        times.append(middle - start)
        dumps.append(process_time() - middle)
    sent = statistics.median(dumps)
    append, slow = statistics.median(times), sorted(times)[len(times) * 9 // 10]
    cells = (append / sent, slow / sent, max(times) / sent, statistics.mean(times) / sent)
    size_mb = len(orjson.dumps(history)) / 1e6
    return f"{case.name:<15}{size:>9,}{size_mb:>8.1f}{sent * 1000:>9.2f} ms" + "".join(
        f"{cell:>10.1f}" for cell in cells
    )


def main() -> None:
    columns = ("append", "90 %", "slowest", "mean")
    say(f"{'case':<15}{'messages':>9}{'MB':>8}{'sent':>12}" + "".join(f"{column:>10}" for column in columns))
    for case in CASES:
        for size in case.sizes:
            with TemporaryDirectory() as store:
                say(measure(case, size, store))


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
