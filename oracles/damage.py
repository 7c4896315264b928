"""The histories that the oracles judge: short conversations after up to six accidents, the same ones in every run."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from accidents import ACCIDENTS, History
from histories import CHOICES, PLACES, conversation
from texts import nothing_to_send

MOST_ACCIDENTS = 6
SHORT = CHOICES | {"lines": (1, 1, 2)}


def damaged_history(seed: int) -> History:
    """A conversation of one to three turns; every seventh is whole."""
    chance = random.Random(seed)
    history = conversation(chance.randint(1, 3), lambda what: chance.choice(SHORT[what]))
    for _ in range(seed % (MOST_ACCIDENTS + 1)):
        chance.choice(ACCIDENTS)(history, chance.randrange(PLACES), chance.randrange(PLACES))
    return history


def damaged_histories(number: int, *, media: bool = True) -> Iterator[History]:
    """Those of that many seeds, save the ones of which nothing is left to send."""
    for seed in range(number):
        history = damaged_history(seed)
        if not media:
            _drop_media(history)
        if not nothing_to_send(history):
            yield history


def smallest(history: History, fails: Callable[[History], bool]) -> History:
    """The history without the messages that a failure does not need."""
    at = 0
    while at < len(history):
        fewer = [*history[:at], *history[at + 1 :]]
        if not nothing_to_send(fewer) and fails(fewer):
            history = fewer
        else:
            at += 1
    return history


def _drop_media(history: History) -> None:
    for message in history:
        if isinstance(message.get("content"), list):
            message["content"] = [part for part in message["content"] if part["type"] == "text"]
