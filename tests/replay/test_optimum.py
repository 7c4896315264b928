"""The offline optimum against a search that tries every sequence of cuts on the messages themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product

import pytest

from legato.fit.units import units
from legato.messages import Message, Text, ToolResult, changed
from legato.replay import optimum
from legato.replay.cuts import Cuts
from legato.replay.play import replay, requests
from legato.replay.played import Asked
from legato.replay.policies import choose
from legato.replay.stage import Stage
from stories import random_story

SEEDS = range(8)
TURNS = 3


def stage_of(seed: int, turns: int = TURNS) -> Stage:
    return Stage.of(random_story(seed, turns), window=3_300, max_output=200, model="gpt-4o")


def cuts_of(stage: Stage, budget: int) -> Cuts:
    return Cuts.of(stage.script, tuple(requests(stage.script)), stage.price, budget)


def rendered(stage: Stage, end: int, clear: int, drop: int) -> list[tuple[object, int, frozenset[str]]]:
    """The messages before `end` under a cut, as what tells them apart, what they cost and the names in them."""
    script = stage.script
    found = units(tuple(line.message for line in script.lines), script.profile)
    lines: list[tuple[object, int, frozenset[str]]] = []
    for at, line in enumerate(script.lines[:end]):
        if line.message.is_system:
            lines.append((at, line.tokens, frozenset()))
            continue
        nth = next(nth for nth, unit in enumerate(found) if unit.start <= at < unit.end)
        first = nth == next(nth for nth, unit in enumerate(found) if unit.asks)
        if nth < drop and not first:
            continue
        short = shortened(stage, line.message) if nth < clear and not first else None
        if short is None or short[1] >= line.tokens:
            lines.append((at, line.tokens, line.names))
        else:
            lines.append(((at, "cleared"), short[1], frozenset()))
    return lines


def shortened(stage: Stage, message: Message) -> tuple[Message, int] | None:
    parts = []
    for part in message.parts:
        if isinstance(part, ToolResult):
            texts = [inner.text for inner in part.parts if isinstance(inner, Text)]
            count = sum(map(stage.script.ledger.text, texts))
            if count < 100:
                return None
            line = f"[tool was done. Its result, {count:,} tokens, was left out to save context.]"
            part = changed(part, parts=(Text(line, flat=True),))
        parts.append(part)
    short = changed(message, parts=tuple(parts))
    return short, stage.script.ledger.message(short)


def brute_force(stage: Stage, budget: int, pressed: bool = False) -> list[tuple[float, int]]:
    """Cost and names kept of every sequence of cuts that only moves forward and fits (`pressed`: only when it must)."""
    script = stage.script
    asked = tuple(requests(script))
    found = units(tuple(line.message for line in script.lines), script.profile)
    head = script.head_tokens(script.head)
    options = []
    for request in asked:
        there = sum(unit.start < request.at for unit in found)
        options.append([(clear, drop) for clear in range(max(1, there)) for drop in range(clear + 1)])
    outcomes = []
    for sequence in product(*options):
        if any(a[0] > b[0] or a[1] > b[1] for a, b in pairwise(sequence)):
            continue
        if pressed and any(_moves_early(stage, budget, head, asked, options, sequence)):
            continue
        cost, kept, before = 0.0, 0, None
        for request, (clear, drop) in zip(asked, sequence, strict=True):
            now = rendered(stage, request.at, clear, drop)
            size = head + sum(tokens for _, tokens, _ in now)
            if size > budget:
                break
            same = 0
            while before is not None and same < min(len(before), len(now)) and before[same][0] == now[same][0]:
                same += 1
            prefix = head + sum(tokens for _, tokens, _ in now[:same]) if before is not None else 0
            rules = stage.price.rules
            cached = prefix if prefix >= rules.minimum else 0
            cost += stage.price.cost(size, cached, size - cached if size >= rules.minimum else 0)
            there_now = frozenset().union(*(names for _, _, names in now))
            kept += sum(name in there_now for name, _ in request.names)
            before = now
        else:
            outcomes.append((cost, kept))
    return outcomes


def _moves_early(
    stage: Stage,
    budget: int,
    head: int,
    asked: Sequence[Asked],
    options: Sequence[Sequence[tuple[int, int]]],
    sequence: Sequence[tuple[int, int]],
) -> Iterator[bool]:
    """For each request whether the cut moved before it though it would have fitted as it was."""
    for nth, (old, new) in enumerate(pairwise([(0, 0), *sequence])):
        whole = head + sum(tokens for _, tokens, _ in rendered(stage, asked[nth].at, *old))
        yield old != new and old in options[nth] and whole <= budget


@pytest.mark.parametrize("pressed", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_exact_optimum_is_what_a_brute_force_search_finds(seed: int, pressed: bool) -> None:
    stage = stage_of(seed)
    whole = max(request.tokens for request in requests(stage.script))
    budget = whole * 3 // 4
    outcomes = brute_force(stage, budget, pressed)
    cuts = cuts_of(stage, budget)
    for floor in range(max((kept for _, kept in outcomes), default=0) + 2):
        wanted = min((cost for cost, kept in outcomes if kept >= floor), default=None)
        found = optimum.exact(cuts, floor, pressed)
        assert found == (None if wanted is None else pytest.approx(wanted)), (seed, floor)


@pytest.mark.parametrize("cells", [2, 3, 5, 20])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_bound_is_never_more_than_the_optimum(seed: int, cells: int) -> None:
    stage = stage_of(seed, turns=6)
    whole = max(request.tokens for request in requests(stage.script))
    for share in (0.5, 0.7, 1.0):
        cuts = cuts_of(stage, int(whole * share))
        names = sum(len(request.names) for request in cuts.requests)
        for floor in {0, names // 2, names * 3 // 4, names}:
            for pressed in (False, True):
                best = optimum.exact(cuts, floor, pressed)
                if best is not None:
                    lowest = optimum.bound(cuts, floor, cells, pressed)
                    assert lowest is not None
                    assert lowest <= best * (1 + 1e-9)


def test_more_cells_bring_the_bound_nearer() -> None:
    cuts = cuts_of(stage_of(1, turns=8), 1_500)
    bounds = [optimum.bound(cuts, 0, cells) for cells in (1, 9)]
    best = optimum.exact(cuts, 0)
    assert None not in (*bounds, best)
    assert (bounds[0] or 0) <= (bounds[1] or 0)
    assert (bounds[1] or 0) >= 0.95 * (best or 0)


def test_keeping_more_never_costs_less() -> None:
    cuts = cuts_of(stage_of(2, turns=6), 1_200)
    costs = [optimum.exact(cuts, floor) for floor in range(8)]
    known = [cost for cost in costs if cost is not None]
    assert known == sorted(known)
    assert known
    assert None not in costs[: len(known)]


def test_cutting_only_when_it_must_never_costs_less() -> None:
    cuts = cuts_of(stage_of(2, turns=6), 1_200)
    for floor in range(4):
        least, pressed = optimum.exact(cuts, floor), optimum.exact(cuts, floor, pressed=True)
        assert least is not None
        assert pressed is None or pressed >= least


def test_where_nothing_fits_there_is_no_optimum() -> None:
    cuts = cuts_of(stage_of(3), 10)
    assert optimum.exact(cuts, 0) is None
    assert optimum.bound(cuts, 0) is None
    assert optimum.best(cuts, 0) is None


def test_a_replay_sets_our_policy_against_the_optimum() -> None:
    played = replay(
        random_story(4, 8),
        choose(["cache-friendly"]),
        window=3_300,
        max_output=800,
        model="gpt-4o",
        beside="cache-friendly",
    )
    assert played.optimum is not None
    assert played.optimum["kind"] == "exact"
    assert played.optimum["cost"] > 0
    assert played.optimum["than"] == pytest.approx(played.policies[0].totals.cost)
