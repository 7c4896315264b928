"""What is done to a legal conversation before the repairers get it: one kind of damage at a time, and mixtures.

The conversations have what every repairer knows: texts, calls and results, no reasoning, no media. No two texts are the
same.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator

from accidents import History, cut_head, displace_result, duplicate_result, interleave, lose_result, restart_ids
from histories import CHOICES, conversation

PLAIN = CHOICES | {
    "lines": (1,),
    "reasoning": (False,),
    "parts": (False,),
    "image": (False,),
    "named": (False,),
    "steps": (1, 2, 3),
}
TURNS = (2, 3, 4)
Break = Callable[[History, random.Random], None]


def _missing(history: History, chance: random.Random) -> None:
    lose_result(history, chance.randrange(60), 0)


def _orphan(history: History, chance: random.Random) -> None:
    """A turn that called is gone, its results are not."""
    callers = [at for at, message in enumerate(history) if message.get("tool_calls")]
    if callers:
        del history[chance.choice(callers)]


def _duplicate(history: History, chance: random.Random) -> None:
    """The same again, another success or an error, next to the first or some messages later."""
    duplicate_result(history, chance.randrange(60), chance.choice((0, 1, 2)) + 4 * chance.randrange(4))


def _interleaved(history: History, chance: random.Random) -> None:
    """A user message stands right before a result."""
    interleave(history, 4 * chance.randrange(60), 0)


def _moved(history: History, chance: random.Random) -> None:
    """A result stands later than it should."""
    displace_result(history, chance.randrange(60), 3 + 2 * chance.randrange(5))


def _head_cut(history: History, chance: random.Random) -> None:
    """A window that slid: the first messages are gone, and at times a call without its results."""
    cut_head(history, chance.randrange(6), 0)


def _reused_ids(history: History, chance: random.Random) -> None:
    """`call_0`, `call_1` in every turn, as some models number them. The history stays legal."""
    del chance
    restart_ids(history, 0, 0)


def _missing_and_interleaved(history: History, chance: random.Random) -> None:
    _missing(history, chance)
    _interleaved(history, chance)


SINGLE: dict[str, Break] = {
    "missing": _missing,
    "orphan": _orphan,
    "duplicate": _duplicate,
    "interleaved": _interleaved,
    "moved": _moved,
    "head cut": _head_cut,
}


def _any_three(history: History, chance: random.Random) -> None:
    for damage in chance.choices(list(SINGLE.values()), k=3):
        damage(history, chance)


DAMAGES: dict[str, Break] = {
    **SINGLE,
    "reused ids": _reused_ids,
    "missing + interl.": _missing_and_interleaved,
    "any three": _any_three,
}


def broken_histories(damage: str, number: int) -> Iterator[History]:
    """So many histories that the damage has changed, the same ones in every run."""
    seed = found = 0
    while found < number:
        chance = random.Random(f"{damage} {seed}")
        seed += 1
        whole = _conversation(chance)
        broken = copy.deepcopy(whole)
        DAMAGES[damage](broken, chance)
        if broken != whole and any(message["role"] == "user" for message in broken):
            found += 1
            yield broken


def _conversation(chance: random.Random) -> History:
    return conversation(chance.choice(TURNS), lambda what: chance.choice(PLAIN[what]))
