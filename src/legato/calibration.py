"""What a provider's own numbers say about our counts: what earlier requests cost corrects the estimate of the next.

    calibration = Calibration(profile.token_factor)
    calibration = calibration.observe(counted, input_tokens(response.usage), messages)
    calibration.estimate(counted, prefix) <= calibration.budget(budget)

A calibration is a value: every report gives a new one, and the same reports give the same one. `counted` is always what
legato counts (`tokens.cost`) of a request, uncorrected; whatever is estimated, reported or budgeted is in the tokens of
the provider.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import overload

import msgspec
from msgspec.structs import force_setattr

from legato.profiles.overflow import Overflow

STEPS = 32
"""The factor is a whole number of these parts of one: it moves rarely, and what is computed with it is exact."""
LEAST, MOST = 0.5, 3.0
"""The bounds of the factor. What lies beyond is no matter of the vocabulary."""
TINY = 1_024
"""Requests that count for less do not move the factor: prompts that the provider adds would decide it."""
LEAP = 1.5
"""How many times itself the factor may become by one report: what a server's tool fetched may stand in it."""
PATIENCE = 3
"""How many reports in a row must be lower before the factor goes a quarter of the way down."""
GUESS = 0.75
"""The share of a refused request that is aimed at where the refusal names no numbers, or none that help."""


class Calibration(msgspec.Struct, frozen=True):
    """How a provider's counts relate to ours, and what it was found to take.

    `factor` multiplies our counts; it is rounded up to a step, within bounds. `limit` is the most tokens of input, if a
    refusal taught it; `aim` what to come down to until there is an answer again. `counted` and `reported` are what the
    newest request came to here and at the provider: its head and `messages` messages; 0 if that is not known. `lower`
    is the number of reports in a row that were lower.
    """

    factor: float = 1.0
    limit: int | None = None
    aim: int | None = None
    messages: int = 0
    counted: int = 0
    reported: int = 0
    lower: int = 0

    def __post_init__(self) -> None:
        force_setattr(self, "factor", _step(self.factor))

    def tokens(self, counted: int) -> int:
        """What the provider will count where legato counts `counted`."""
        return ceil(counted * self.factor)

    @overload
    def budget(self, budget: int) -> int: ...

    @overload
    def budget(self, budget: int | None) -> int | None: ...

    def budget(self, budget: int | None) -> int | None:
        """The budget, or less where a refusal taught it; None where neither is known."""
        return min([bound for bound in (budget, self.limit, self.aim) if bound is not None], default=None)

    def room(self, budget: int) -> int:
        """The most that may be counted for `tokens` of it to be within the budget, and within what was learnt."""
        return int(self.budget(budget) // self.factor)

    def estimate(self, counted: int, prefix: int = 0) -> int:
        """What the provider will count of a request: what it reported of the newest one, and what came since.

        `prefix` is what legato counts of its head and first `self.messages` messages. If that is not what it was when
        the provider reported, the request begins otherwise, and all of it is estimated.
        """
        if not self.reported or prefix != self.counted or counted < prefix:
            return self.tokens(counted)
        return self.reported + self.tokens(counted - prefix)

    def observe(self, counted: int, reported: int | None, messages: int = 0) -> Calibration:
        """After an answer that came with usage: up at once, down slowly. Without usage nothing is learnt."""
        if not reported or reported < 0 or counted <= 0:
            return self
        factor, lower = self._moved(counted, reported)
        return Calibration(factor, self.limit, None, messages, counted, reported, lower)

    def overflowed(self, counted: int, overflow: Overflow) -> Calibration:
        """After a refusal: the factor goes up if it says so, and the `room` of any budget is less than `counted`.

        The limit is what the refusal names, less the output that shares it. Where it names none, and it is the tokens
        that were too many, it is `GUESS` of what was sent.
        """
        limit, used = _named(overflow)
        factor = self.factor
        if overflow.exact and overflow.kind in ("window", "output"):
            factor = max(factor, self._moved(counted, used if used is not None else (limit or 0) + 1)[0])
        aim = limit
        if limit is not None and used and (counted >= TINY or not overflow.exact):
            share = ceil(counted * factor) * limit // used
            aim = min(limit, share) if overflow.exact else share  # the factor may not have gone all the way
        if aim is None or aim // factor >= counted:
            aim = int(GUESS * counted * factor)
            if limit is None and overflow.kind != "bytes" and counted >= TINY:
                limit = aim
        if self.limit is not None:
            limit = self.limit if limit is None else min(limit, self.limit)
        return Calibration(factor, limit, aim, lower=self.lower)

    def _moved(self, counted: int, reported: int) -> tuple[float, int]:
        """The factor after a report, and how many in a row were lower now."""
        if counted < TINY:
            return self.factor, self.lower
        wanted = _step(min(reported / counted, self.factor * LEAP))
        if wanted > self.factor:
            return wanted, 0
        if wanted >= self.factor - 1 / STEPS:
            return self.factor, 0
        if self.lower + 1 < PATIENCE:
            return self.factor, self.lower + 1
        return min(_step(self.factor - (self.factor - wanted) / 4), self.factor - 1 / STEPS), 0


def _named(overflow: Overflow) -> tuple[int | None, int | None]:
    """The limit of the input and what was used of it, as far as a refusal names them or what they follow from."""
    limit, used = overflow.limit, overflow.used
    if overflow.over is not None:
        if used is None and limit is not None:
            used = limit + overflow.over
        elif limit is None and used is not None:
            limit = used - overflow.over
    if limit is not None and overflow.output is not None and overflow.output < limit:
        limit -= overflow.output
    return (None if limit is None or limit <= 0 else limit), used


def _step(factor: float) -> float:
    """A factor rounded up to a step, within the bounds."""
    return min(max(ceil(factor * STEPS) / STEPS, LEAST), MOST)


SHAPES: tuple[tuple[str, tuple[str, ...], bool], ...] = (
    ("prompt_tokens", ("cache_read_input_tokens", "cache_creation_input_tokens"), False),
    ("input_tokens", ("cache_read_input_tokens", "cache_creation_input_tokens"), True),
    ("inputTokens", ("cacheReadInputTokens", "cacheWriteInputTokens"), True),
    ("promptTokenCount", ("cachedContentTokenCount",), False),
    ("prompt_token_count", ("cached_content_token_count",), False),
    ("input", ("cacheRead", "cacheWrite", "cache.read", "cache.write"), True),
    ("tokens.input_tokens", (), False),
    ("prompt_eval_count", (), False),
)
"""The field that holds the input, the fields of what the cache gave or took, and whether these are to be added.

Chat Completions (and gateways that name Anthropic's fields beside it), Anthropic and Responses, Bedrock, Gemini's JSON
and its SDK, coding agents' session files (pi, opencode), Cohere, Ollama. What counts for more than the whole cannot be
in it, and is added wherever it stands. Gemini's `toolUsePromptTokenCount` is left out: the results of its own tools are
no part of the request.
"""

HOLDERS = ("usage", "usageMetadata", "usage_metadata", "_usage", "response", "message")
"""Where an answer, or an event of its stream, keeps the usage."""


def input_tokens(usage: object) -> int | None:
    """The tokens of the whole input as the provider counted it, from its usage or answer; None if it does not say.

    `usage` is JSON or an SDK's object. Where a server made several passes of one request, the first is what was sent.
    """
    return _input(usage, 2)


def _input(usage: object, depth: int) -> int | None:
    passes = _field(usage, "iterations")
    if isinstance(passes, list | tuple) and passes and depth:
        return _input(passes[0], depth - 1)
    for name, parts, outside in SHAPES:
        whole = _number(_field(usage, name))
        if whole is not None:
            cached = sum(_number(_field(usage, part)) or 0 for part in parts)
            total = whole + cached if outside or cached > whole else whole
            if total > 0:
                return total
    inner = (_field(usage, holder) for holder in HOLDERS) if depth else ()
    return next((found for each in inner if each is not None and (found := _input(each, depth - 1))), None)


def _field(value: object, path: str) -> object:
    """A field of JSON, or an attribute of an object, by its path."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    return value


def _number(value: object) -> int | None:
    """A count of tokens, None if it is none."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
