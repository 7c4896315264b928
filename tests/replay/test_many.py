"""Many sessions in little memory, long ones in linear work."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest

from legato.replay.play import replay
from legato.replay.policies import choose
from legato.replay.script import Line, Script
from stories import random_story

POLICIES = ("none", "sliding-window", "cache-friendly", "clear-at-least")


def test_memory_does_not_grow_with_the_number_of_sessions() -> None:
    choices = choose(POLICIES)
    for seed in range(6):
        replay(random_story(seed, 15), choices, window=4_000, max_output=500)
    gc.collect()
    tracemalloc.start()
    peaks = []
    for half in range(2):
        tracemalloc.reset_peak()
        for seed in range(12):
            replay(random_story(seed, 15), choices, window=4_000, max_output=500)
        gc.collect()
        peaks.append(tracemalloc.get_traced_memory()[1])
        assert half == 0 or peaks[1] < 1.2 * peaks[0]
    tracemalloc.stop()


@pytest.mark.parametrize("name", ["none", "cache-friendly", "watermarks-70-40"])
def test_messages_are_counted_once_however_many_requests_send_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    whole = Script.line

    def line(self: Script, item: Any, at: int = -1) -> Line:
        read.append(at)
        return whole(self, item, at)

    monkeypatch.setattr(Script, "line", line)
    counts = []
    for turns in (50, 100):
        read.clear()
        replay(random_story(1, turns), choose([name]), window=6_000, max_output=500)
        counts.append(len(read))
    assert counts[1] <= 2.3 * counts[0]
