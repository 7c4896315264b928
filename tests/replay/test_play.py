"""A session played again: tokens, prefix, dollars and evidence as they come out by hand."""

from __future__ import annotations

import json

import pytest

import legato
from legato.replay import prices
from legato.replay.play import replay
from legato.replay.played import Replay, Totals
from legato.replay.policies import DEFAULT, choose
from legato.replay.watch import prefix
from stories import call, random_story, recording, result, system, user

WORD = "alpha "
"""One token each in o200k_base, wherever it stands."""


def story() -> Replay:
    """Three requests. By the published chat rules a message is 3 + its role (1) + its text, a request 3 more.

    system 2,000 words: 2,004; user 10 words: 14; each answer 5 words: 9; each result as long as it says.
    """
    messages = [
        system(WORD * 1999 + "alpha"),
        user(WORD * 9 + "alpha"),
        {"role": "assistant", "content": WORD * 4 + "alpha"},
        user(WORD * 999 + "alpha"),
        {"role": "assistant", "content": WORD * 4 + "alpha"},
        user(WORD * 99 + "alpha"),
        {"role": "assistant", "content": WORD * 4 + "alpha"},
    ]
    played = recording(messages, model="gpt-4o", times=[0.0, 60.0, 1_000.0])
    return replay(played, choose(["none"]), window=128_000, max_output=4_096)


def test_the_tokens_of_each_request_are_those_counted_by_hand() -> None:
    rows = story().policies[0].rows
    assert [row.tokens for row in rows] == [3 + 2004 + 14, 3 + 2004 + 14 + 9 + 1004, 3 + 2004 + 14 + 9 + 1004 + 9 + 104]


def test_the_cached_prefix_is_the_request_before_in_whole_blocks_until_it_is_forgotten() -> None:
    rows = story().policies[0].rows
    assert [row.cached for row in rows] == [0, 2021 // 128 * 128, 0], "the third came after 940 seconds"


def test_the_cost_is_the_tokens_times_their_prices() -> None:
    first, second, third = story().policies[0].rows
    assert first.cost == pytest.approx(2021 * 2.5 / 1e6)
    assert second.cost == pytest.approx((1920 * 1.25 + (3034 - 1920) * 2.5) / 1e6)
    assert third.cost == pytest.approx(3147 * 2.5 / 1e6)
    assert story().policies[0].totals.answers == pytest.approx(3 * 9 * 10 / 1e6)


def test_none_is_refused_from_where_it_overflows() -> None:
    messages = [system("Go."), user("Read it.")]
    for nth in range(4):
        messages += [call(f"c{nth}"), result(f"c{nth}", WORD * 1000)]
    messages.append({"role": "assistant", "content": "Done."})
    played = replay(recording(messages), choose(["none"]), window=4_000, max_output=1_000)
    rows = played.policies[0].rows
    assert [row.over for row in rows] == [False, False, False, True, True]
    assert [row.cost > 0 for row in rows] == [True, True, True, False, False]
    assert played.policies[0].totals.refused == 2


def test_what_was_dropped_is_lost_to_the_answer_that_used_it() -> None:
    messages = [system("Go."), user("What is in the files?")]
    messages += [call("c0"), result("c0", f"key_1 {WORD * 900}")]
    messages += [call("c1"), result("c1", f"key_2 {WORD * 900}")]
    messages += [call("c2"), result("c2", f"key_3 {WORD * 900}")]
    messages.append({"role": "assistant", "content": "It is key_1, key_2 and key_3."})
    played = replay(recording(messages), choose(["none", "sliding-window"]), window=4_000, max_output=600)
    none, sliding = played.policies
    assert none.rows[-1].kept == 3
    assert set(sliding.rows[-1].lost) == {"key_1"}
    assert sliding.totals.evidence == pytest.approx(2 / 3)
    assert sliding.rows[-1].broke
    assert not none.rows[-1].broke


def test_an_answer_that_used_many_names_counts_as_much_as_one_that_used_one() -> None:
    messages = [system("Go."), user("What is in the files?")]
    messages += [call("c0"), result("c0", f"key_1 {WORD * 900}")]
    messages += [call("c1"), result("c1", f"key_2 {WORD * 900}")]
    messages += [call("c2", arguments='{"name": "key_2"}'), result("c2", f"key_3 {WORD * 900}")]
    messages.append({"role": "assistant", "content": "It is key_1, key_2 and key_3."})
    played = replay(recording(messages), choose(["none", "sliding-window"]), window=4_000, max_output=600)
    none, sliding = (policy.totals for policy in played.policies)
    assert (sliding.informed, sliding.used, sliding.kept) == (2, 4, 3)
    assert sliding.evidence == pytest.approx(3 / 4)
    assert sliding.per_answer == pytest.approx((1 + 2 / 3) / 2)
    assert (sliding + none).per_answer == pytest.approx((1 + 2 / 3 + 1 + 1) / 4)


def test_a_fault_of_the_recording_is_named_in_every_request_that_has_it() -> None:
    messages = [system("Go."), user("Read."), call("c0"), user("And?"), {"role": "assistant", "content": "Well."}]
    messages += [user("So?"), {"role": "assistant", "content": "Yes."}]
    asked = replay(recording(messages), choose(["none"]), window=8_000).asked
    assert [request.refused for request in asked] == [(), ("PAIR002",), ("PAIR002",)]


@pytest.mark.parametrize("name", [name for name in DEFAULT if name != "none"])
def test_what_every_policy_sends_the_provider_would_take(name: str) -> None:
    for seed in range(6):
        played = replay(random_story(seed, 12), choose([name]), window=4_000, max_output=500)
        assert all(not row.refused for row in played.policies[0].rows), name


@pytest.mark.parametrize("name", ["document", "cache-friendly"])
def test_the_sum_of_our_own_policies_is_that_of_their_report(name: str) -> None:
    told = random_story(3, 12)
    played = replay(told, choose([name]), window=4_000, max_output=500)
    policy = legato.Policy.load(name)
    for row, turn in zip(played.policies[0].rows, told.turns, strict=True):
        sizes = {field: getattr(policy, field) for field in ("microcompact", "fold")}
        sized = legato.Policy(window=4_000, max_output=500, **sizes)
        report = legato.govern(told.messages[: turn.at], profile="portable", policy=sized).report
        assert row.tokens == report.tokens_out
        assert row.changes == {code: [each.code for each in report.changes].count(code) for code in row.changes}


def test_the_json_holds_every_request_and_nothing_that_was_said_unless_asked() -> None:
    played = replay(random_story(1), choose(DEFAULT), window=4_000, beside="cache-friendly")
    written = json.loads(json.dumps(played.to_dict()))
    assert len(written["policies"]) == len(DEFAULT)
    for policy in written["policies"]:
        assert [row["turn"] for row in policy["requests"]] == [row["turn"] for row in written["requests"]]
        assert policy["totals"]["kept"] == sum(row["kept"] for row in policy["requests"])
    assert all(message["text"] is None for message in written["messages"])
    told = replay(random_story(1), choose(["none"]), window=4_000, contents=True).to_dict()
    assert told["messages"][0]["text"] == "You look things up."


def test_playing_twice_gives_the_same_but_for_the_milliseconds() -> None:
    def played() -> object:
        found = replay(random_story(2), choose(DEFAULT), window=4_000).to_dict()
        for policy in found["policies"]:
            policy["totals"].pop("ms")
            for row in policy["requests"]:
                row.pop("ms")
        return found

    assert played() == played()


def test_an_unknown_model_is_played_at_the_reference_prices_and_says_so() -> None:
    played = replay(recording([user("Hi."), {"role": "assistant", "content": "Hi."}], model="x-1"), choose(["none"]))
    assert played.price == prices.reference()
    assert any("x-1" in note for note in played.notes)
    assert any("window" in note for note in played.notes)


def test_sums_add_up_over_recordings() -> None:
    totals = [replay(random_story(seed), choose(["none"])).policies[0].totals for seed in (1, 2)]
    both = sum(totals, Totals())
    assert both.tokens == totals[0].tokens + totals[1].tokens
    assert both.used == totals[0].used + totals[1].used == sum(used for used, _ in both.ages)


def test_the_common_prefix_is_counted_in_whole_messages() -> None:
    a, b, c = {"x": 1}, {"x": 2}, {"x": 3}
    assert prefix([], [a]) == 0
    assert prefix([a, b], [dict(a), b, c]) == 2
    assert prefix([a, b, c], [a, c, c]) == 1
    assert prefix([a, b, c], [a, b]) == 2
