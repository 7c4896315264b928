"""A summary stands for what no longer fits: asked for when units are dropped, replaced by the next, refused if long."""

from __future__ import annotations

import json
import pickle
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import legato
from test_fold import step, texts, user, words

Wire = dict[str, Any]
TASK = user("The task: find the flaky test.")


def policy(window: int = 800, **fields: Any) -> legato.Policy:
    return legato.Policy.cache_friendly(window=window, max_output=0, reserve=0, summarise=True, **fields)


def history(steps: int, size: int = 100) -> list[Wire]:
    return [TASK, *[message for at in range(steps) for message in step(at, words(size, at))]]


def asked(session: legato.Session, messages: list[Wire]) -> legato.NeedsSummary:
    prepared = session.prepare(messages)
    assert isinstance(prepared, legato.NeedsSummary)
    return prepared


def test_nothing_is_asked_while_everything_fits() -> None:
    assert type(legato.Session("openai", policy()).prepare(history(3))) is legato.Governed


def test_without_a_summary_the_request_fits_all_the_same() -> None:
    prepared = asked(legato.Session("openai", policy()), history(60))
    plain = legato.govern(history(60), profile="openai", policy=policy())
    assert prepared.body == plain.body
    assert prepared.report.fits


def test_the_prompt_holds_what_is_dropped_and_nothing_that_stays() -> None:
    messages = history(60)
    prepared = asked(legato.Session("openai", policy()), messages)
    dropped = [change.at for change in prepared.report.changes if change.code == "SIZE002"]
    assert dropped
    for at in dropped:
        assert at is not None
        assert f"[{at}] {messages[at]['role']}: " in prepared.prompt
    assert TASK["content"] not in prepared.prompt
    assert texts(messages[-1:])[20:60] not in prepared.prompt


def test_the_answer_stands_where_the_first_dropped_message_stood() -> None:
    session = legato.Session("openai", policy())
    resumed = asked(session, history(60)).resume("It was tried in a.py and b.py.")
    assert resumed.messages[0] == TASK
    assert resumed.messages[1]["role"] == "user"
    assert resumed.messages[1]["content"].endswith("It was tried in a.py and b.py.")
    assert resumed.report.fits
    assert {change.code for change in resumed.report.changes} >= {"SIZE007"}


def test_the_next_summary_is_told_the_one_before_and_replaces_it() -> None:
    session = legato.Session("openai", policy())
    messages = history(60)
    asked(session, messages).resume("First summary.")
    for at in range(60, 120):
        messages = [*messages, *step(at, words(100, at))]
        prepared = session.prepare(messages)
        if isinstance(prepared, legato.NeedsSummary):
            break
    assert isinstance(prepared, legato.NeedsSummary)
    assert "First summary." in prepared.prompt
    resumed = prepared.resume("Second summary.")
    assert "First summary." not in texts(resumed.messages)
    assert "Second summary." in texts(resumed.messages)
    assert resumed.messages[0] == TASK


def test_a_summary_that_saves_nothing_is_refused_and_the_report_says_so() -> None:
    session = legato.Session("openai", policy())
    prepared = asked(session, history(60))
    for text in (words(60 * 120, 1), "", "  "):
        refused = prepared.resume(text)
        assert refused.body == prepared.body
        assert any("the summary was refused" in note for note in refused.report.notes)
        assert session.summary is None


def test_a_summary_of_another_history_is_left_out_and_the_report_says_so() -> None:
    session = legato.Session("openai", policy())
    asked(session, history(60)).resume("It was tried.")
    other = [TASK, *history(70, size=90)[1:]]
    plain = legato.govern(other, profile="openai", policy=policy())
    governed = legato.govern(other, profile="openai", policy=policy(), summary=session.summary)
    assert governed.body == plain.body
    assert any("of another history" in note for note in governed.report.notes)


@settings(max_examples=40)
@given(st.lists(st.integers(1, 250), min_size=10, max_size=30), st.sampled_from(["openai", "anthropic", "portable"]))
def test_with_its_summary_govern_answers_as_the_session_does_in_any_process(sizes: list[int], profile: str) -> None:
    session = legato.Session(profile, policy(), format="openai-chat")
    messages: list[Wire] = [TASK]
    for at, size in enumerate(sizes):
        messages = [*messages, *step(at, words(size, at))]
        prepared = session.prepare(messages)
        if isinstance(prepared, legato.NeedsSummary):
            prepared = prepared.resume(f"Summary at {at}.")
        state = json.loads(json.dumps(session.state()))
        again = legato.Session(profile, policy(), format="openai-chat", state=state)
        plain = legato.govern(messages, profile=profile, policy=policy(), format="openai-chat", summary=again.summary)
        assert prepared.body == plain.body
        refused = any(
            "was refused" in note for note in prepared.report.notes
        )  # the only thing that only a session says
        assert refused or prepared.report.to_dict(contents=True) == plain.report.to_dict(contents=True)
        assert texts(prepared.messages).count("Summary at") <= 1
        assert TASK["content"] in texts(prepared.messages)
        assert prepared.report.fits
        session = pickle.loads(pickle.dumps(session)) if at % 7 == 0 else session
