"""Whole histories for property tests: legal agent conversations, and the same after accidents.

A history is a list of OpenAI Chat messages made of plain JSON values. It starts legal; then accidents are applied one
by one, so that a failing example shrinks to few turns and few accidents. Every text of the legal conversation carries a
number of its own: a text that got lost cannot hide behind an equal one. The same accidents serve the hypothesis
strategies and the plain seeded builders.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

from accidents import ACCIDENTS, IMAGE, History, Wire, cut_head, cut_tail, only_one_role

COMPACTABLE = ("read_file", "exec", "grep", "web_fetch")
OTHERS = ("message", "book_flight")
PHRASES = ("ok", "see the log", "查看日志文件", "Error: no such file", "def f(x): return x + 1", "naïve 🙂 “quotes”")
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Use {name}.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
    for name in (*COMPACTABLE, *OTHERS)
]


PLACES = 60
"""How far apart two accidents can be; a history of a strategy is shorter."""


class Numbers:
    """Hands out texts, ids and arguments that are each unique in one history."""

    def __init__(self) -> None:
        self.next = 0

    def text(self, phrase: str, lines: int) -> str:
        self.next += 1
        return "\n".join([f"#{self.next} {phrase}", *[f"#{self.next}.{line} {phrase}" for line in range(1, lines)]])

    def call_id(self) -> str:
        self.next += 1
        return f"call{self.next:05d}"

    def arguments(self, phrase: str, lines: int) -> str:
        return json.dumps({"path": self.text(phrase, lines)}, ensure_ascii=False)


# -- a legal conversation, drawn by `pick` -----------------------------------------------------------------------------

Pick = Callable[[str], Any]
"""Answers one question about the conversation ("calls", "lines", …): by hypothesis or by a seeded generator."""

CHOICES: dict[str, tuple[Any, ...]] = {
    "phrase": PHRASES,
    "lines": (1, 1, 1, 2, 30, 120),
    "tool": (*COMPACTABLE, *OTHERS),
    "system": (True, True, False),
    "steps": (0, 1, 2, 3),
    "calls": (1, 1, 2, 3),
    "said": (True, False),
    "reasoning": (False, False, True),
    "named": (False, True),
    "parts": (False, False, False, True),
    "image": (False, False, False, False, True),
    "closed": (True, True, False),
}


def _said(text: str, pick: Pick) -> Any:
    return [{"type": "text", "text": text}] if pick("parts") else text


def _step(numbers: Numbers, pick: Pick) -> Iterator[Wire]:
    """One round of the agent's loop: an assistant message with calls, and all their results."""
    calls = [(numbers.call_id(), pick("tool")) for _ in range(pick("calls"))]
    turn: Wire = {"role": "assistant", "content": numbers.text(pick("phrase"), 1) if pick("said") else None}
    if pick("reasoning"):
        turn["reasoning_content"] = numbers.text(pick("phrase"), pick("lines"))
    turn["tool_calls"] = [
        {
            "id": call_id,
            "type": "function",
            "function": {"name": tool, "arguments": numbers.arguments(pick("phrase"), pick("lines"))},
        }
        for call_id, tool in calls
    ]
    yield turn
    for call_id, tool in calls:
        result = {"role": "tool", "tool_call_id": call_id}
        if pick("named"):
            result["name"] = tool
        yield result | {"content": _said(numbers.text(pick("phrase"), pick("lines")), pick)}


def conversation(turns: int, pick: Pick) -> History:
    """A legal conversation of that many user turns; only the last may lack its closing answer."""
    numbers = Numbers()
    history: History = []
    if pick("system"):
        history.append({"role": "system", "content": numbers.text(pick("phrase"), pick("lines"))})
    for turn in range(turns):
        last = turn == turns - 1
        said = _said(numbers.text(pick("phrase"), pick("lines")), pick)
        if isinstance(said, list) and pick("image"):
            said.append(copy.deepcopy(IMAGE))
        history.append({"role": "user", "content": said})
        steps = pick("steps")
        for _ in range(steps):
            history += _step(numbers, pick)
        if not last or (steps and pick("closed") and turns > 1):
            history.append({"role": "assistant", "content": _said(numbers.text(pick("phrase"), pick("lines")), pick)})
    if history and history[-1]["role"] == "assistant":
        history.append({"role": "user", "content": numbers.text(pick("phrase"), 1)})
    return history


# -- by hypothesis -----------------------------------------------------------------------------------------------------


@st.composite
def clean_histories(draw: st.DrawFn, max_turns: int = 3) -> History:
    """Legal for every profile the walker knows: nine-letter ids, no user right after a result, no reasoning."""

    def pick(what: str) -> Any:
        fixed = {"reasoning": False}
        return fixed[what] if what in fixed else draw(st.sampled_from(CHOICES[what]))

    return conversation(draw(st.integers(1, max_turns)), pick)


@st.composite
def histories(draw: st.DrawFn, max_turns: int = 3, max_accidents: int = 8) -> History:
    """A conversation after up to `max_accidents` accidents; what is left of it may be an empty list."""
    places = st.integers(0, PLACES - 1)
    accidents = draw(st.lists(st.tuples(st.sampled_from(ACCIDENTS), places, places), max_size=max_accidents))
    history = conversation(draw(st.integers(1, max_turns)), lambda what: draw(st.sampled_from(CHOICES[what])))
    for accident, at, to in accidents:
        accident(history, at, to)
    return history


# -- by a seed ---------------------------------------------------------------------------------------------------------


def long_history(n: int, seed: int) -> History:
    """A legal conversation of exactly `n` (two or more) messages, the same for the same seed."""
    chance = random.Random(seed)
    history = conversation(1 + n // 2, lambda what: chance.choice(CHOICES[what]))
    end = max(at for at in range(n) if history[at]["role"] == "user")
    roles = ["assistant", "user"] * n
    padding = [{"role": role, "content": f"<padding {at}>"} for at, role in enumerate(roles)]
    second_system = [{"role": "system", "content": "<padding>"}] * ((n - 1 - end) % 2)
    return [*second_system, *history[: end + 1], *padding][:n]


def damaged(history: History, seed: int, accidents: int) -> History:
    """A copy of the history after that many accidents, none of which shortens it to a piece."""
    chance = random.Random(seed)
    spare = [accident for accident in ACCIDENTS if accident not in (cut_head, cut_tail, only_one_role)]
    history = copy.deepcopy(history)
    for _ in range(accidents):
        chance.choice(spare)(history, chance.randrange(len(history) + 1), chance.randrange(PLACES))
    return history
