"""The promises of the specification (section 3), over damaged histories, profiles, policies and budgets.

Legality is judged twice: by legato's own checker, and by a walker that shares no code with it.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import structs

import legato
from accidents import ACCIDENTS, SPOILED, Accident, History
from histories import COMPACTABLE, TOOLS, clean_histories, damaged, histories, long_history
from legato.policy import PRESETS as POLICIES
from texts import dump, leaves, nothing_to_send, pool, said, without_notes
from walker import PRESETS, faults

AMPLE = 1_000_000


@dataclass(frozen=True)
class Case:
    """One history and how it is to be governed. `budget` None: no window."""

    messages: History
    profile: str
    policy: str
    budget: int | None
    tools: bool

    def govern(self, messages: History | None = None) -> legato.Governed:
        policy = POLICIES[self.policy]()
        if self.budget is not None:
            policy = structs.replace(policy, window=self.budget + 12, max_output=8, reserve=4)
        given = self.messages if messages is None else messages
        return legato.govern(given, profile=self.profile, policy=policy, tools=TOOLS if self.tools else None)

    def attempt(self) -> legato.Governed | legato.OverBudget | legato.Unrepairable:
        """The result, or the refusal."""
        try:
            return self.govern()
        except (legato.OverBudget, legato.Unrepairable) as error:
            return error

    def governed(self) -> legato.Governed | None:
        """None where it is refused; whether rightly is a promise of its own."""
        outcome = self.attempt()
        return outcome if isinstance(outcome, legato.Governed) else None


budgets = st.one_of(st.just(AMPLE), st.none(), st.integers(30, 4_000), st.integers(30, 400))


def cases(messages: st.SearchStrategy[History] | None = None) -> st.SearchStrategy[Case]:
    return st.builds(
        Case,
        messages=histories() if messages is None else messages,
        profile=st.sampled_from(tuple(PRESETS)),
        policy=st.sampled_from(tuple(POLICIES)),
        budget=budgets,
        tools=st.booleans(),
    )


def errors(messages: History, profile: str) -> list[str]:
    return [str(found) for found in legato.check(messages, profile=profile) if found.severity == "error"]


# -- 1. Legal ----------------------------------------------------------------------------------------------------------


@given(cases())
def test_a_walker_that_shares_no_code_finds_nothing_in_what_is_sent(case: Case) -> None:
    if governed := case.governed():
        assert faults(governed.messages, **PRESETS[case.profile]) == []


@pytest.mark.parametrize("profile", PRESETS)
@pytest.mark.parametrize("accident", ACCIDENTS, ids=lambda accident: accident.__name__)
def test_every_accident_alone_is_mended(accident: Accident, profile: str) -> None:
    """In all its variants, at three places: what chance may miss."""
    for at, to in product(range(3), range(len(SPOILED))):
        messages = long_history(16, seed=1)
        accident(messages, at, to)
        governed = Case(messages, profile, "document", AMPLE, tools=False).governed()
        if governed is None:
            assert nothing_to_send(messages), (at, to)
        else:
            assert faults(governed.messages, **PRESETS[profile]) == [], (at, to)


@given(cases())
def test_the_checker_finds_no_error_in_what_is_sent(case: Case) -> None:
    if governed := case.governed():
        assert errors(governed.messages, case.profile) == []


@given(cases())
def test_only_a_history_with_nothing_to_send_is_unrepairable(case: Case) -> None:
    error = case.attempt()
    if isinstance(error, legato.Unrepairable):
        assert error.violations
        assert nothing_to_send(case.messages)


# -- 2. Fits -----------------------------------------------------------------------------------------------------------


@given(cases())
def test_what_is_sent_fits_or_the_error_names_a_need_above_the_budget(case: Case) -> None:
    outcome = case.attempt()
    if isinstance(outcome, legato.OverBudget):
        assert case.budget == outcome.budget < outcome.needed
        assert case.budget != AMPLE
    elif isinstance(outcome, legato.Governed):
        assert case.budget in (None, outcome.report.budget)
        assert outcome.report.budget is None or outcome.report.tokens_out <= outcome.report.budget


@given(cases())
def test_one_token_less_than_the_error_asks_for_is_too_little_as_well(case: Case) -> None:
    error = case.attempt()
    if isinstance(error, legato.OverBudget):
        with pytest.raises(legato.OverBudget):
            replace(case, budget=error.needed - 1).govern()


@given(cases())
def test_the_count_of_what_is_sent_is_that_of_counting_it_afresh(case: Case) -> None:
    if governed := case.governed():
        assert case.govern(copy.deepcopy(governed.messages)).report.tokens_in == governed.report.tokens_out


# -- 3. Untouched input ------------------------------------------------------------------------------------------------


@given(cases())
def test_the_input_is_never_changed(case: Case) -> None:
    before = copy.deepcopy(case.messages)
    governed = case.governed()
    if governed:
        governed.report.to_dict(contents=True)
    assert case.messages == before
    assert [list(message) for message in case.messages] == [list(message) for message in before]


@given(cases())
def test_every_message_that_no_change_made_is_the_object_that_came_in(case: Case) -> None:
    if governed := case.governed():
        kept = {id(message) for message in case.messages if message == without_notes(message)}
        made = Counter(dump(without_notes(message)) for change in contents(governed) for message in change["after"])
        noted = Counter(dump(without_notes(message)) for message in case.messages if id(message) not in kept)
        new = Counter(dump(message) for message in governed.messages if id(message) not in kept)
        assert new - made - noted == Counter()


@given(cases(clean_histories()))
def test_a_clean_history_with_room_comes_back_as_the_same_object(case: Case) -> None:
    assume(case.budget in (None, AMPLE))
    assume(sum(_compactable(case.messages)) <= 10)
    governed = case.govern()
    assert governed.body is case.messages
    assert list(governed.report.changes) == []


def _compactable(messages: History) -> Iterator[bool]:
    for message in messages:
        for call in message.get("tool_calls") or ():
            yield call["function"]["name"] in COMPACTABLE


# -- 4. Idempotent and deterministic -----------------------------------------------------------------------------------


@given(cases())
def test_governing_the_output_again_changes_nothing(case: Case) -> None:
    if governed := case.governed():
        again = case.govern(governed.messages)
        assert again.body is governed.messages, str(again.report)


@given(cases())
def test_an_equal_history_gives_the_same_bytes(case: Case) -> None:
    if governed := case.governed():
        again = case.govern(copy.deepcopy(case.messages))
        assert json.dumps(again.body) == json.dumps(governed.body)
        assert json.dumps(again.report.to_dict(contents=True)) == json.dumps(governed.report.to_dict(contents=True))


GOVERN_SAMPLE = """
import json, sys, legato
for messages, profile, budget in json.load(sys.stdin):
    policy = legato.Policy(window=budget + 12, max_output=8, reserve=4)
    try:
        governed = legato.govern(messages, profile=profile, policy=policy)
        print(json.dumps([governed.body, governed.report.to_dict(contents=True), str(governed.report)]))
    except legato.OverBudget as error:
        print(error)
"""


def test_another_process_with_other_hashes_gives_the_same_bytes() -> None:
    sample = [
        (damaged(long_history(40, seed), seed, 15), profile, budget)
        for seed, profile in enumerate(PRESETS)
        for budget in (200, 4_000, AMPLE)
    ]
    printed = {_run_sample(json.dumps(sample), hash_seed) for hash_seed in ("0", "1", "2")}
    assert len(printed) == 1


def _run_sample(sample: str, hash_seed: str) -> str:
    env = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", GOVERN_SAMPLE]
    done = subprocess.run(command, input=sample, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# -- 5. Nothing lost in silence ----------------------------------------------------------------------------------------


def contents(governed: legato.Governed) -> list[dict[str, Any]]:
    """The changes with the messages they took away (`before`) and put in their place (`after`)."""
    changes: list[dict[str, Any]] = governed.report.to_dict(contents=True)["changes"]
    return changes


@given(cases())
def test_every_text_is_in_the_output_or_under_the_change_that_removed_it(case: Case) -> None:
    if governed := case.governed():
        sent = pool(governed.messages)
        for at, message in enumerate(case.messages):
            removed = pool(old for change in contents(governed) if change["at"] == at for old in change["before"])
            for leaf in leaves(message):
                assert any(leaf in text for text in sent) or any(leaf in text for text in removed), (at, leaf[:60])


@given(cases())
def test_the_changes_account_for_every_message(case: Case) -> None:
    """In, minus what the changes took away, plus what they put there, is out: message by message."""
    if governed := case.governed():
        expected = Counter(dump(without_notes(message)) for message in case.messages)
        for change in contents(governed):
            expected.subtract(dump(without_notes(message)) for message in change["before"])
            expected.update(dump(without_notes(message)) for message in change["after"])
        assert {m: n for m, n in expected.items() if n} == Counter(map(dump, governed.messages))


@given(cases())
def test_the_account_of_tokens_balances(case: Case) -> None:
    if governed := case.governed():
        report = governed.report
        assert report.tokens_in + sum(change.tokens for change in report.changes) == report.tokens_out


@given(cases())
def test_every_change_has_a_code_a_reason_and_a_place(case: Case) -> None:
    if governed := case.governed():
        for change in governed.report.changes:
            assert change.code
            assert change.reason
            assert change.at is None or 0 <= change.at < len(case.messages)


@given(cases())
def test_the_report_is_text_and_json(case: Case) -> None:
    if governed := case.governed():
        assert str(governed.report)
        assert json.loads(json.dumps(governed.report.to_dict()))
        assert json.loads(json.dumps(governed.report.to_dict(contents=True)))


# -- 6. The task survives ----------------------------------------------------------------------------------------------


@given(cases())
def test_every_system_text_survives(case: Case) -> None:
    if governed := case.governed():
        sent = pool(governed.messages)
        for message in case.messages:
            if message["role"] in ("system", "developer"):
                assert [text for text in said(message) if not any(text in other for other in sent)] == []


@given(cases())
def test_the_newest_user_text_survives_whole_or_head_and_tail_where_the_report_says_it_was_cut(case: Case) -> None:
    governed = case.governed()
    users = [at for at, message in enumerate(case.messages) if message["role"] == "user" and said(message)]
    if governed is None or not users:
        return
    sent = pool(governed.messages)
    for text in said(case.messages[users[-1]]):
        if not any(text in other for other in sent):
            cut = [c for c in governed.report.changes if c.code.startswith("SIZE") and c.at == users[-1]]
            assert cut, text[:60]
            assert any(text[:4] in other and text[-4:] in other for other in sent)


@given(histories())
def test_a_merge_of_neighbours_loses_no_text(messages: History) -> None:
    """Spec 2.4. What a merge took is in what it made, not only in the report."""
    try:
        changes = contents(legato.repair(messages, profile="portable"))
    except legato.Unrepairable:
        return
    merges = [change for change in changes if change["code"] == "ROLE003"]
    made = pool(message for change in merges for message in change["after"])
    for change in merges:
        for message in change["before"]:
            assert [leaf for leaf in leaves(message) if not any(leaf in text for text in made)] == []


# -- check and repair --------------------------------------------------------------------------------------------------


@given(histories(), st.sampled_from(tuple(PRESETS)))
def test_repair_returns_the_same_object_where_check_finds_nothing(messages: History, profile: str) -> None:
    messages = [without_notes(message) for message in messages]
    if not legato.check(messages, profile=profile):
        assert legato.repair(messages, profile=profile).body is messages


@given(histories(), st.sampled_from(tuple(PRESETS)))
def test_repair_leaves_no_error(messages: History, profile: str) -> None:
    try:
        repaired = legato.repair(messages, profile=profile)
    except legato.Unrepairable:
        assert nothing_to_send(messages)
    else:
        assert errors(repaired.messages, profile) == []
        assert faults(repaired.messages, **PRESETS[profile]) == []


@given(histories(), st.sampled_from(tuple(PRESETS)))
def test_the_checker_finds_an_error_wherever_the_walker_does(messages: History, profile: str) -> None:
    found = [fault for fault in faults(messages, **PRESETS[profile]) if "key _" not in fault]
    if found:
        assert errors(messages, profile), found


def test_ids_and_names_translate_back_whatever_else_was_mended() -> None:
    half = {"id": "half", "type": "function", "function": {"name": None, "arguments": "{}"}}
    good = {"id": "call_good", "type": "function", "function": {"name": "a.b", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": "call_good", "content": "ok"}
    turn = {"role": "assistant", "content": "", "tool_calls": [half, good]}
    history = [{"role": "user", "content": "go"}, turn, result]
    governed = legato.govern(history, profile="mistral")
    [call] = governed.messages[1]["tool_calls"]
    assert governed.ids == {call["id"]: "call_good"}
    assert governed.tool_names == {call["function"]["name"]: "a.b"} == {"a_b": "a.b"}
