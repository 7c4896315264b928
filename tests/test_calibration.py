"""Calibration: what providers report, in all its shapes, corrects what legato counts."""

from __future__ import annotations

from itertools import pairwise
from math import ceil
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato import overflow
from legato.calibration import GUESS, LEAP, LEAST, MOST, PATIENCE, STEPS, TINY, Calibration, input_tokens
from legato.profiles.overflow import Overflow, signs
from recorded import jsonl

STEP = 1 / STEPS

# What providers report


def sdk(**fields: Any) -> SimpleNamespace:
    """The objects of an SDK: attributes instead of fields, None for what is not there."""
    return SimpleNamespace(**fields)


USAGE: dict[str, tuple[Any, int]] = {
    "chat: what the cache gave is inside": (
        {"prompt_tokens": 2006, "completion_tokens": 300, "prompt_tokens_details": {"cached_tokens": 1920}},
        2006,
    ),
    "chat of DeepSeek: hits and misses are inside": (
        {"prompt_tokens": 563, "prompt_cache_hit_tokens": 512, "prompt_cache_miss_tokens": 51},
        563,
    ),
    "chat of Mistral": ({"prompt_tokens": 68, "num_cached_tokens": 64, "completion_tokens": 6}, 68),
    "chat of Kimi": ({"prompt_tokens": 16, "cached_tokens": 8}, 16),
    "chat of xAI: thoughts are in the total only": (
        {"prompt_tokens": 468, "completion_tokens": 82, "total_tokens": 870, "reasoning_tokens": 320},
        468,
    ),
    "chat of OpenRouter: what was written to Claude's cache is inside": (
        {"prompt_tokens": 2572, "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 2570}},
        2572,
    ),
    "chat of a gateway that adds Anthropic's fields: inside": (
        {"prompt_tokens": 5010, "cache_read_input_tokens": 5000, "cache_creation_input_tokens": 0},
        5010,
    ),
    "chat of a gateway that leaves the cache out: more than the whole cannot be inside": (
        {"prompt_tokens": 10, "cache_read_input_tokens": 5000, "cache_creation_input_tokens": 200},
        5210,
    ),
    "chat of a gateway with empty fields of the other API": (
        {"prompt_tokens": 41, "completion_tokens": 5, "input_tokens": 0, "output_tokens": 0},
        41,
    ),
    "responses of such a gateway": ({"prompt_tokens": 0, "input_tokens": 41, "output_tokens": 5}, 41),
    "responses": ({"input_tokens": 4020, "input_tokens_details": {"cached_tokens": 4012}, "output_tokens": 5}, 4020),
    "Anthropic: what the cache gave or took is outside": (
        {"input_tokens": 6, "cache_creation_input_tokens": 574, "cache_read_input_tokens": 20443, "output_tokens": 489},
        21023,
    ),
    "Anthropic, all of it from the cache": ({"input_tokens": 0, "cache_read_input_tokens": 9511}, 9511),
    "Anthropic, null for what is not there": (
        {"input_tokens": 48, "cache_creation_input_tokens": None, "cache_read_input_tokens": None},
        48,
    ),
    "Anthropic, several passes: the first is what was sent, and they are no sum": (
        {
            "input_tokens": 2390,
            "iterations": [
                {"type": "message", "input_tokens": 1120, "cache_read_input_tokens": 8},
                {"type": "advisor_message", "input_tokens": 2518},
                {"type": "message", "input_tokens": 1262},
            ],
        },
        1128,
    ),
    "Anthropic, compacted by the server": (
        {
            "input_tokens": 23_000,
            "iterations": [
                {"type": "compaction", "input_tokens": 180_000},
                {"type": "message", "input_tokens": 23_000},
            ],
        },
        180_000,
    ),
    "Anthropic's counting endpoint": ({"input_tokens": 1114}, 1114),
    "Bedrock: the cache is outside, and named twice": (
        {
            "inputTokens": 3,
            "cacheReadInputTokens": 1712,
            "cacheReadInputTokenCount": 1712,
            "cacheWriteInputTokens": 236,
            "cacheWriteInputTokenCount": 236,
            "outputTokens": 121,
            "totalTokens": 2072,
        },
        1951,
    ),
    "Bedrock without a cache": ({"inputTokens": 27, "outputTokens": 34, "totalTokens": 61}, 27),
    "Gemini: what was cached is inside, what its own tools gave is not counted": (
        {"promptTokenCount": 345, "cachedContentTokenCount": 230, "toolUsePromptTokenCount": 288},
        345,
    ),
    "Gemini's SDK": (sdk(prompt_token_count=345, cached_content_token_count=230, total_token_count=382), 345),
    "OpenAI's SDK": (sdk(prompt_tokens=48, prompt_tokens_details=sdk(cached_tokens=0), completion_tokens=14), 48),
    "Anthropic's SDK": (sdk(input_tokens=3, cache_creation_input_tokens=None, cache_read_input_tokens=9511), 9514),
    "LangChain's usage_metadata: inside": (
        {"input_tokens": 350, "output_tokens": 9, "input_token_details": {"cache_read": 100, "cache_creation": 200}},
        350,
    ),
    "a session of pi: outside": ({"input": 2, "output": 114, "cacheRead": 30_000, "cacheWrite": 3_636}, 33_638),
    "a session of opencode: outside": ({"input": 2, "output": 9, "cache": {"read": 700, "write": 50}}, 752),
    "a session of gemini-cli: inside": ({"input": 900, "output": 9, "cached": 600, "total": 909}, 900),
    "Cohere: what was counted, not what was billed": (
        {"billed_units": {"input_tokens": 5}, "tokens": {"input_tokens": 71, "output_tokens": 3}},
        71,
    ),
    "Ollama": ({"prompt_eval_count": 26, "eval_count": 290}, 26),
    "a count that came as a float": ({"prompt_tokens": 26.0}, 26),
    "a whole answer": ({"id": "x", "choices": [], "usage": {"prompt_tokens": 9}}, 9),
    "a whole answer of Gemini": ({"candidates": [], "usageMetadata": {"promptTokenCount": 9}}, 9),
    "a whole answer of an SDK": (sdk(id="x", usage=sdk(input_tokens=4, cache_read_input_tokens=5)), 9),
    "the note at a message": ({"role": "assistant", "content": "", "_usage": {"input": 9, "output": 1}}, 9),
    "the first event of Anthropic's stream": (
        {"type": "message_start", "message": {"usage": {"input_tokens": 4, "cache_read_input_tokens": 5}}},
        9,
    ),
    "the last event of a stream of Responses": (
        {"type": "response.completed", "response": {"usage": {"input_tokens": 9}}},
        9,
    ),
}


@pytest.mark.parametrize("shape", USAGE)
def test_the_whole_input_is_read_from_every_shape_of_usage(shape: str) -> None:
    usage, tokens = USAGE[shape]
    assert input_tokens(usage) == tokens


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        [],
        "prompt_tokens",
        7,
        {"prompt_tokens": None},
        {"prompt_tokens": 0, "completion_tokens": 0},
        {"prompt_tokens": -5},
        {"prompt_tokens": True},
        {"prompt_tokens": "12"},
        {"prompt_tokens": float("nan")},
        {"input_tokens": float("inf")},
        {"output_tokens": 15},
        {"totalTokenCount": 90},
        {"input": "a body of Responses"},
        {"input": [{"role": "user"}]},
        {"iterations": []},
        {"usage": {"usage": {"usage": {"prompt_tokens": 9}}}},
        sdk(usage=None),
        RuntimeError("prompt_tokens"),
    ],
    ids=repr,
)
def test_what_names_no_input_tells_nothing(usage: object) -> None:
    assert input_tokens(usage) is None


def test_an_answer_that_holds_itself_tells_nothing() -> None:
    answer: dict[str, Any] = {}
    answer["usage"] = answer["message"] = answer
    assert input_tokens(answer) is None


@pytest.mark.parametrize("name", ["bedrock-converse", "openai-responses"])
def test_input_and_output_are_the_total_the_provider_names(name: str) -> None:
    usages = [record["usage"] for record in jsonl(f"provider-requests/{name}.jsonl") if record["usage"]]
    totals = [(usage, usage["totalTokens"] - usage["outputTokens"]) for usage in usages if "totalTokens" in usage]
    totals += [(usage, usage["total_tokens"] - usage["output_tokens"]) for usage in usages if "total_tokens" in usage]
    assert len(totals) > 80
    assert [usage for usage, tokens in totals if (input_tokens(usage) or 0) != tokens] == []


# A calibration

FACTORS = st.integers(int(LEAST * STEPS), int(MOST * STEPS)).map(lambda steps: steps / STEPS)
COUNTS = st.integers(1, 2_000_000)
REPORTS = st.tuples(COUNTS, st.integers(0, 6_000_000))
CALIBRATIONS = st.builds(
    Calibration, FACTORS, st.none() | COUNTS, st.none() | COUNTS, st.just(0), st.just(0), st.just(0), st.integers(0, 2)
)


def observed(calibration: Calibration, reports: list[tuple[int, int]]) -> Calibration:
    for counted, reported in reports:
        calibration = calibration.observe(counted, reported)
    return calibration


@given(CALIBRATIONS, st.lists(REPORTS, max_size=30))
def test_the_factor_stays_within_bounds_and_on_steps(calibration: Calibration, reports: list[tuple[int, int]]) -> None:
    factor = observed(calibration, reports).factor
    assert LEAST <= factor <= MOST
    assert (factor * STEPS).is_integer()


@given(st.floats(0.01, 100))
def test_a_factor_is_rounded_up_to_a_step_within_bounds(factor: float) -> None:
    made = Calibration(factor).factor
    assert made == Calibration(made).factor
    assert made in (LEAST, MOST) or factor <= made < factor + STEP


@given(CALIBRATIONS, st.lists(REPORTS, max_size=10))
def test_the_same_reports_make_the_same_calibration_also_by_way_of_json(
    calibration: Calibration, reports: list[tuple[int, int]]
) -> None:
    once, again = observed(calibration, reports), calibration
    for report in reports:
        again = msgspec.json.decode(msgspec.json.encode(again.observe(*report)), type=Calibration)
    assert once == again
    assert hash(once) == hash(again)


@given(CALIBRATIONS, st.integers(TINY, 2_000_000), st.floats(0.1, 5))
def test_a_higher_report_counts_at_once(calibration: Calibration, counted: int, ratio: float) -> None:
    reported = ceil(counted * ratio)
    after = calibration.observe(counted, reported)
    assert after.tokens(counted) >= min(reported, counted * MOST, counted * calibration.factor * LEAP)
    if reported > calibration.tokens(counted):
        assert after.factor >= calibration.factor


@given(CALIBRATIONS, st.integers(TINY, 2_000_000), st.integers(0, 6_000_000), st.integers(0, 6_000_000))
def test_what_is_reported_higher_is_never_expected_lower(
    calibration: Calibration, counted: int, one: int, other: int
) -> None:
    low, high = sorted((one, other))
    assert low == 0 or calibration.observe(counted, low).factor <= calibration.observe(counted, high).factor


@given(FACTORS, st.floats(0.1, 3), st.integers(100_000, 2_000_000))
def test_lower_reports_bring_it_down_slowly_to_where_they_are_and_no_further(
    start: float, ratio: float, counted: int
) -> None:
    reports = [(counted, int(counted * ratio))]
    target = Calibration(reports[0][1] / counted).factor
    factors = [start]
    calibration = Calibration(start)
    for _ in range(300):
        calibration = observed(calibration, reports)
        factors.append(calibration.factor)
    assert all(after >= min(before, target) for before, after in pairwise(factors))
    if target <= start:
        assert factors[:PATIENCE] == [start] * PATIENCE
    for before, after in pairwise(factors):
        if after < before:
            assert before - after <= max((before - target) / 4, STEP)
    assert target - STEP <= factors[-1] <= target + STEP


BAND = st.lists(st.tuples(st.integers(1, 500), st.integers(0, TINY // STEPS - 1)))
"""Requests in units of `TINY` tokens, and by how many of its parts their ratio is above the lowest."""


@given(FACTORS, st.integers(int(TINY * LEAST), int(TINY * MOST) - TINY // STEPS), BAND)
def test_reports_that_differ_by_less_than_a_step_move_it_up_twice_at_the_most_and_never_down(
    start: float, ratio: int, reports: list[tuple[int, int]]
) -> None:
    calibration = Calibration(max(start, (ratio / TINY + STEP) / LEAP))
    factors = [calibration.factor]
    for units, more in reports:
        calibration = calibration.observe(units * TINY, units * (ratio + more))
        factors.append(calibration.factor)
    assert sum(after > before for before, after in pairwise(factors)) <= 2
    if factors[0] <= Calibration(ratio / TINY).factor:
        assert factors == sorted(factors)


@given(CALIBRATIONS, st.integers(1, TINY - 1), st.integers(1, 500_000))
def test_tiny_requests_do_not_move_it(calibration: Calibration, counted: int, reported: int) -> None:
    assert calibration.observe(counted, reported).factor == calibration.factor


@pytest.mark.parametrize("reported", [None, 0, -1])
def test_an_answer_without_usage_changes_nothing(reported: int | None) -> None:
    calibration = Calibration(1.25, limit=9_000, messages=3, counted=5_000, reported=6_000)
    assert calibration.observe(4_000, reported, 5) is calibration


def test_one_report_that_is_far_off_does_not_decide() -> None:
    """A server's tool fetched 400,000 tokens into one request; the next ones are as before."""
    calibration = Calibration(1.25).observe(20_000, 420_000)
    assert calibration.factor == 1.25 * LEAP
    assert observed(calibration, [(20_000, 25_000)] * 25).factor < 1.4


@given(CALIBRATIONS, st.integers(0, 3_000_000), st.integers(0, 3_000_000))
def test_what_there_is_room_for_is_exactly_what_stays_within_the_budget(
    calibration: Calibration, counted: int, budget: int
) -> None:
    assert (calibration.tokens(counted) <= calibration.budget(budget)) == (counted <= calibration.room(budget))
    assert calibration.budget(budget) <= budget


# What was reported, and what is new


@given(FACTORS, COUNTS, st.integers(1, 6_000_000), st.integers(0, 500_000))
def test_what_is_new_is_added_to_what_was_reported(factor: float, counted: int, reported: int, new: int) -> None:
    calibration = Calibration(factor).observe(counted, reported, 7)
    assert calibration.estimate(counted + new, counted) == reported + calibration.tokens(new)
    assert calibration.messages == 7


@given(FACTORS, COUNTS, st.integers(1, 6_000_000), COUNTS, COUNTS)
def test_another_prefix_is_estimated_from_nothing(
    factor: float, counted: int, reported: int, prefix: int, total: int
) -> None:
    calibration = Calibration(factor).observe(counted, reported)
    if prefix != counted:
        assert calibration.estimate(total, prefix) == calibration.tokens(total)
    assert Calibration(factor).estimate(total) == Calibration(factor).tokens(total)


# What was refused

KINDS = st.sampled_from(["window", "output", "bytes", "throttle"])
NUMBER = st.none() | st.integers(1, 3_000_000)


@st.composite
def refusals(draw: st.DrawFn) -> Overflow:
    return Overflow(
        kind=draw(KINDS),  # type: ignore[arg-type]
        pattern="x",
        text="",
        limit=draw(NUMBER),
        used=draw(NUMBER),
        output=draw(NUMBER),
        over=draw(NUMBER),
        exact=draw(st.booleans()),
    )


@given(CALIBRATIONS, COUNTS, refusals(), st.integers(0, 5_000_000))
def test_after_a_refusal_there_is_room_for_less_than_what_was_refused(
    calibration: Calibration, counted: int, refusal: Overflow, budget: int
) -> None:
    after = calibration.overflowed(counted, refusal)
    assert after.room(budget) < counted
    assert after.estimate(counted, counted) > after.budget(budget)
    assert after.factor >= calibration.factor
    assert after.room(budget) <= calibration.room(budget) or after.aim != calibration.aim
    again = after.overflowed(max(after.room(budget), 1), refusal)
    assert again.room(budget) < max(after.room(budget), 1)


@given(CALIBRATIONS, COUNTS, refusals(), COUNTS, COUNTS)
def test_the_limit_that_was_learnt_stays_and_only_falls(
    calibration: Calibration, counted: int, refusal: Overflow, smaller: int, reported: int
) -> None:
    after = calibration.overflowed(counted, refusal)
    assert calibration.limit is None or (after.limit is not None and after.limit <= calibration.limit)
    assert after.observe(smaller, reported).limit == after.limit
    assert after.observe(smaller, reported).aim is None


@pytest.mark.parametrize("sign", signs().pattern, ids=lambda sign: sign.name)
def test_every_refusal_that_is_known_makes_the_next_request_smaller(sign: Any) -> None:
    found = overflow(None, sign.example)
    assert found is not None
    for counted in (400, 5_000, 180_000, 1_500_000):
        after = Calibration(1.25).overflowed(counted, found)
        assert after.room(10**7) < counted


def refused(text: str, counted: int, factor: float = 1.25) -> Calibration:
    found = overflow(400, {"error": {"message": text}})
    assert found is not None
    return Calibration(factor).overflowed(counted, found)


def test_a_refusal_with_numbers_teaches_the_limit_and_the_factor() -> None:
    after = refused("prompt is too long: 210000 tokens > 200000 maximum", 150_000)
    assert after == Calibration(1.40625, limit=200_000, aim=200_000)
    assert after.budget(10**6) == 200_000
    assert after.room(10**6) == int(200_000 / 1.40625)


@pytest.mark.parametrize(
    ("named", "factor"),
    [
        ({"limit": 100_000, "used": 125_000}, 1.40625),
        ({"limit": 100_000, "over": 25_000}, 1.40625),
        ({"used": 125_000, "over": 25_000}, 1.40625),
        ({"limit": 100_000}, 1.125),  # it was more than the limit, if by no more than one
    ],
    ids=["both", "the limit, and by how much", "the use, and by how much", "the limit alone"],
)
def test_the_limit_and_the_use_follow_from_what_is_named(named: dict[str, Any], factor: float) -> None:
    after = Calibration().overflowed(90_000, Overflow(kind="window", pattern="x", text="", **named))
    assert (after.factor, after.limit) == (factor, 100_000)


def test_the_output_that_was_asked_for_shares_the_limit() -> None:
    text = "input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, decrease input length"
    assert refused(text, 160_000).limit == 200_000 - 8_192


def test_a_refusal_without_numbers_teaches_three_quarters_of_what_was_sent() -> None:
    after = Calibration(1.25).overflowed(100_000, Overflow(kind="window", pattern="x", text=""))
    assert after == Calibration(1.25, limit=int(GUESS * 125_000), aim=int(GUESS * 125_000))


@pytest.mark.parametrize(
    ("kind", "counted", "limit"),
    [
        ("bytes", 100_000, None),  # a body too large says nothing of the window
        ("window", 800, None),  # a window of less than a thousand tokens there is not
        ("window", 800, 200_000),  # what was too long stands where legato cannot see it
    ],
)
def test_what_cannot_be_the_window_is_aimed_at_once_and_forgotten_with_the_next_answer(
    kind: Any, counted: int, limit: int | None
) -> None:
    refusal = Overflow(kind=kind, pattern="x", text="", limit=limit, used=limit and limit + 10_000)
    after = Calibration(1.25).overflowed(counted, refusal)
    assert (after.limit, after.room(10**6)) == (limit, int(counted * GUESS))
    assert after.observe(300, 375).room(10**5) == 80_000


def test_numbers_that_are_no_counts_do_not_move_the_factor() -> None:
    refusal = Overflow(kind="window", pattern="x", text="", limit=100_000, used=125_000, exact=False)
    after = Calibration(1.25).overflowed(40_000, refusal)
    assert (after.factor, after.limit, after.aim) == (1.25, 100_000, 40_000)


def test_one_refusal_with_both_numbers_is_enough_however_far_the_counts_are_apart() -> None:
    refusal = Overflow(kind="window", pattern="x", text="", limit=6_144, used=11_863)
    after = Calibration(1.0).overflowed(3_000, refusal)
    assert after.factor < 11_863 / 3_000  # no further in one leap
    assert after.room(10**6) <= 3_000 * 6_144 // 11_863
