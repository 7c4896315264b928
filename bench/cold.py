"""What a first call of `govern` costs in time and memory, against what cannot be done without: `make bench`.

Nothing is asserted: the numbers are for people. Times are those of the processor, the best of several runs in this one
process, taken in turn; memory is that of a process of its own, as `tracemalloc` sees it. The columns:

    govern    without a window, so that nothing is counted, as a multiple of `json.dumps` of the same messages
    tiktoken  with a window that holds all of it and nothing counted before, until the report has its tokens: the
              throughput, as a share of that of tiktoken alone over the same texts, each as often as a message holds it
    engine    as a share of that of what counts: tiktoken, or a faster one that is installed
    memory    the most that is held besides the history, as a multiple of what the history holds; nothing counted
    kept      what of that is still held with the answer
    memory*   as `memory`, with everything counted
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from time import process_time

from measured import History, histories

import legato
from legato.tokens import TextCounter
from legato.tokens.vocabulary import encoding, engine

RUNS = 7
PATIENCE = 4.0
"""Seconds after which the measurements of a history are not run again."""
ENCODING = "o200k_base"
COUNTED = "counted"


def policy(counter: Callable[[str], int]) -> legato.Policy:
    """One under which nothing is cut."""
    return legato.Policy(window=10**9, counter=counter)


def fastest(*works: Callable[[], object]) -> list[float]:
    """The least seconds of each, run in turn, so that what else the machine does falls on all of them."""
    times = [float("inf")] * len(works)
    start = process_time()
    for _ in range(RUNS):
        for at, work in enumerate(works):
            gc.collect()
            begun = process_time()
            work()
            times[at] = min(times[at], process_time() - begun)
        if process_time() - start > PATIENCE:
            break
    return times


def texts_of(history: History) -> list[str]:
    """Every text that is counted, as often as it is."""
    texts: list[str] = []

    def count(text: str) -> int:
        texts.append(text)
        return 1

    legato.govern(history, policy=policy(count))
    return texts


def measure(history: History) -> str:
    """The times of one history as columns."""
    encode, count = encoding(ENCODING).encode_ordinary, engine(ENCODING)
    texts = texts_of(history)
    dumps, govern, tiktoken, tokens, counted = fastest(
        lambda: json.dumps(history),
        lambda: legato.govern(history),
        lambda: [len(encode(text)) for text in texts],
        lambda: [count(text) for text in texts],
        lambda: legato.govern(history, policy=policy(TextCounter(ENCODING))).report.tokens_out,
    )
    return f"{dumps * 1000:>10.2f} ms{f'x{govern / dumps:.1f}':>9}{tiktoken / counted:>10.0%}{tokens / counted:>9.0%}"


def memory(nth: int, counted: bool) -> str:
    """The memory of one history, the nth of all, as columns. Imports and vocabulary are there before."""
    rule = policy(TextCounter(ENCODING)) if counted else legato.Policy()
    legato.govern([{"role": "user", "content": "warm"}], policy=rule)
    source = json.dumps([history for _, history in histories()][nth])
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    history = json.loads(source)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    governed = legato.govern(history, policy=rule)
    if counted:
        assert governed.report.tokens_out
    kept, peak = tracemalloc.get_traced_memory()
    del governed
    size = held - before
    return f"{f'x{(peak - held) / size:.2f}':>9}" + ("" if counted else f"{f'x{(kept - held) / size:.2f}':>9}")


def apart(nth: int, *flags: str) -> str:
    """`memory` in a process of its own."""
    done = subprocess.run([sys.executable, __file__, str(nth), *flags], capture_output=True, text=True, check=True)
    return done.stdout


def main() -> None:
    if sys.argv[1:]:
        sys.stdout.write(memory(int(sys.argv[1]), COUNTED in sys.argv[2:]))
        return
    columns = "".join(f"{column:>9}" for column in ("engine", "memory", "kept", "memory*"))
    sys.stdout.write(f"{'history':<12}{'messages':>10}{'json.dumps':>13}{'govern':>9}{'tiktoken':>10}{columns}\n")
    for nth, (name, history) in enumerate(histories()):
        times = measure(history)
        sys.stdout.write(f"{name:<12}{len(history):>10,}{times}{apart(nth)}{apart(nth, COUNTED)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
