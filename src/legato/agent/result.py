"""What a run comes to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from legato.messages import Json
from legato.report import Report

Ending: TypeAlias = Literal["completed", "max_iterations", "tool_error", "error", "empty", "over_budget", "cancelled"]
"""Why a run stopped.

`completed`: the model answered. `max_iterations`: so many rounds of tool work were done, and the text is what it said
when it was asked to answer without tools. `tool_error`: a tool failed and the runner was told to stop at that. `error`:
the provider answered with an error, or the answer outgrew every continuation. `empty`: the model said nothing, three
times, or refused without a word. `over_budget`: what must be sent does not fit. `cancelled`: `cancel()` was called.
"""

Purpose: TypeAlias = Literal["turn", "retry", "continuation", "final", "smaller"]
"""Why a request is made: the next turn; again, as the answer was empty or malformed; to go on after the output limit;
for an answer without tools; smaller, as the provider found it too long."""


class Iteration(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `number` counts from 1 through the life of the runner.

    `prefix_share` is how much of the request before it this one begins with, unchanged, by characters: 1.0 where only
    something was appended, which is what a provider's prompt cache pays for. None: it is the first.
    """

    number: int
    purpose: Purpose
    report: Report
    prefix_share: float | None


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The final text, the transcript as raw wire items, the summed usage, why it stopped, and every request made.

    `error` says what went wrong where `stop` is not `completed`.
    """

    text: str
    stop: Ending
    transcript: list[Json]
    usage: dict[str, Json]
    iterations: tuple[Iteration, ...]
    error: str | None = None

    @property
    def reports(self) -> tuple[Report, ...]:
        """One governance report a request."""
        return tuple(iteration.report for iteration in self.iterations)

    def to_dict(self) -> dict[str, Json]:
        """As JSON, without the transcript and what the reports say in full."""
        return {
            "text": self.text,
            "stop": self.stop,
            "error": self.error,
            "usage": self.usage,
            "requests": len(self.iterations),
        }


def summed(total: Mapping[str, Json], usage: Json) -> dict[str, Json]:
    """Usage on top of usage: numbers are added, objects field by field, of anything else the newest stays."""
    added = dict(total)
    for key, value in usage.items() if isinstance(usage, dict) else ():
        old = added.get(key)
        if isinstance(value, dict):
            added[key] = summed(old if isinstance(old, dict) else {}, value)
        elif _is_number(value) and _is_number(old):
            added[key] = old + value
        elif value is not None or key not in added:
            added[key] = value
    return added


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
