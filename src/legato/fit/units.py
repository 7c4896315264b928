"""What stays or goes together.

A unit is a user message, or an assistant turn with its reasoning, its calls and all their results, and the media
that were moved out of these. System messages are pinned and belong to no unit. The transcript is one whose calls and
results are paired already.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from legato.messages import Message
from legato.profiles import Profile


class Unit(msgspec.Struct, frozen=True, gc=False):
    """The messages `start` to `end` (excluded), pinned ones among them apart. `asks`: a user says something in it."""

    start: int
    end: int
    asks: bool


def units(transcript: Sequence[Message], profile: Profile) -> list[Unit]:
    """The units in order. Between them they hold every message that is not system."""
    found = []
    at, size = 0, len(transcript)
    while at < size:
        message = transcript[at]
        end = at + 1
        if message.is_system:
            at = end
            continue
        if message.role == "assistant":
            while profile.pairs_by_run and end < size and transcript[end].role == "assistant":
                end += 1
            if [other for other in transcript[at:end] if other.calls]:
                while end < size and _answers(transcript[end]):
                    end += 1
        asking = [other for other in transcript[at:end] if other.role == "user" and other.asks]
        found.append(Unit(at, end, bool(asking)))
        at = end
    return found


def _answers(message: Message) -> bool:
    return message.role != "assistant" and (bool(message.results) or message.shows)
