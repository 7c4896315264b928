"""Promise 8: the work of one cold call is linear in the history. Operations are counted, not time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from msgspec import structs

import legato
from accidents import History, Wire
from histories import long_history

Shape = Callable[[int], History]
SIZE = 150
ROOM = 2.3
"""Twice the history may cost this much: a little over two, far below the four of a quadratic step."""


def _text(at: int) -> str:
    return f"#{at} " + "words and more words " * 40


def _turn(*call_ids: str) -> Wire:
    calls = [
        {"id": call_id, "type": "function", "function": {"name": "message", "arguments": "{}"}} for call_id in call_ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _result(call_id: str, at: int) -> Wire:
    return {"role": "tool", "tool_call_id": call_id, "content": _text(at)}


def _says(role: str, at: int) -> Wire:
    return {"role": role, "content": _text(at)}


def loop(n: int) -> History:
    return [_says("user", 0), *[m for at in range(n) for m in (_turn(f"call{at:05d}"), _result(f"call{at:05d}", at))]]


def one_id(n: int) -> History:
    return [_says("user", 0), *[m for at in range(n) for m in (_turn("call_0"), _result("call_0", at))]]


def parallel(n: int) -> History:
    ids = [f"call{at:05d}" for at in range(n)]
    return [_says("user", 0), _turn(*ids), *[_result(call_id, at) for at, call_id in enumerate(ids)]]


def late_results(n: int) -> History:
    ids = [f"call{at:05d}" for at in range(n)]
    return [_says("user", 0), *map(_turn, ids), *[_result(call_id, at) for at, call_id in enumerate(ids)]]


def late_results_backwards(n: int) -> History:
    messages = late_results(n)
    return [*messages[: n + 1], *reversed(messages[n + 1 :])]


def late_results_of_one_id(n: int) -> History:
    return [_says("user", 0), *[_turn("call_0") for _ in range(n)], *[_result("call_0", at) for at in range(n)]]


def results_without_an_id(n: int) -> History:
    messages = late_results(n)
    for message in messages:
        for value in [message, *message.get("tool_calls", ())]:
            for key in ("id", "tool_call_id"):
                if key in value:
                    value[key] = None
    return messages


def unanswered(n: int) -> History:
    return [_says("user", 0), *[_turn(f"call{at:05d}") for at in range(n)]]


def orphans(n: int) -> History:
    return [_says("user", 0), *[_result(f"call{at:05d}", at) for at in range(n)]]


def duplicates(n: int) -> History:
    return [_says("user", 0), _turn("call00000"), *[_result("call00000", at) for at in range(n)]]


def users(n: int) -> History:
    return [_says("user", at) for at in range(n)]


def assistants(n: int) -> History:
    return [_says("assistant", at) for at in range(n)]


def systems_between(n: int) -> History:
    return [m for at in range(n) for m in (_says("user", at), _says("system", at), _says("assistant", at))]


def conversation(n: int) -> History:
    """Twice the size is the same conversation twice over."""
    return [message for part in range(n // SIZE) for message in long_history(SIZE, seed=part)]


SHAPES: tuple[Shape, ...] = (
    loop,
    one_id,
    parallel,
    late_results,
    late_results_backwards,
    late_results_of_one_id,
    results_without_an_id,
    unanswered,
    orphans,
    duplicates,
    users,
    assistants,
    systems_between,
    conversation,
)


class Work:
    """What one call did: characters given to the counter, calls of it, lines of legato's code that ran."""

    def __init__(self, messages: History, profile: str, budget: int | None) -> None:
        self.characters = self.counts = self.lines = 0
        policy = legato.Policy(counter=self.count)
        if budget is not None:
            policy = structs.replace(policy, window=budget + 12, max_output=8, reserve=4)
        tracer = sys.gettrace()
        sys.settrace(self.enter)
        try:
            legato.govern(messages, profile=profile, policy=policy).report.to_dict()
        except (legato.OverBudget, legato.Unrepairable):
            pass
        finally:
            sys.settrace(tracer)

    def count(self, text: str) -> int:
        self.counts += 1
        self.characters += len(text)
        return len(text) // 4 + 1

    def enter(self, frame: FrameType, _event: str, _arg: Any) -> Callable[..., Any] | None:
        return self.line if "legato" in frame.f_code.co_filename else None

    def line(self, _frame: FrameType, _event: str, _arg: Any) -> Callable[..., Any]:
        self.lines += 1
        return self.line


def _work(messages: History, share: float | None, profile: str) -> Work:
    size = sum(len(str(message)) for message in messages) // 4
    return Work(messages, profile, None if share is None else int(share * size))


@pytest.mark.parametrize("profile", ["portable", "mistral"])
@pytest.mark.parametrize("share", [None, 0.9, 0.1], ids=["no window", "a little too long", "ten times too long"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_twice_the_history_is_twice_the_work(shape: Shape, share: float | None, profile: str) -> None:
    once, twice = (_work(shape(size), share, profile) for size in (SIZE, 2 * SIZE))
    assert twice.characters <= ROOM * once.characters
    assert twice.counts <= ROOM * once.counts
    assert twice.lines <= ROOM * once.lines
