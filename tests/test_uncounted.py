"""What surely fits is not counted before the report is read, and is governed as if it had been."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from histories import histories, long_history
from legato import GovernanceError, Policy, Session, govern
from legato.tokens import RATES, TextCounter, message_tokens, most_tokens
from legato.wire import openai_chat
from test_counting import Watched

COUNT = TextCounter()
POLICIES: dict[str, Callable[..., Policy]] = {"document": Policy, "cache-friendly": Policy.cache_friendly}


def outcome(history: Any, policy: Policy, profile: str) -> Any:
    """What is sent and what is said of it, or what is raised."""
    try:
        governed = govern(history, policy=policy, profile=profile)
    except GovernanceError as error:
        return type(error), str(error)
    return governed.body, governed.report.to_dict(contents=True)


@pytest.mark.parametrize("name", POLICIES)
def test_nothing_is_counted_while_even_the_bytes_fit(name: str) -> None:
    count, history = Watched(), long_history(200, 1)
    governed = govern(history, policy=POLICIES[name](window=10_000_000, counter=count))
    assert count.counted == []
    assert governed.report.tokens_out > 1_000
    assert len(count.counted) > 100


def test_a_session_counts_nothing_either() -> None:
    count, history = Watched(), long_history(200, 2)
    session = Session("openai", Policy.cache_friendly(window=10_000_000, counter=count))
    for end in range(100, len(history) + 1, 10):
        session.prepare(history[:end])
    assert count.counted == []


@given(histories(), st.integers(20, 3_000), st.sampled_from(list(POLICIES)), st.sampled_from(["portable", "openai"]))
def test_it_is_governed_as_if_it_had_been_counted(history: Any, room: int, name: str, profile: str) -> None:
    """A counter of the caller's own is always asked."""
    make = partial(POLICIES[name], window=room + 10, max_output=10, reserve=0)
    asked = make(counter=lambda text: COUNT(text))
    assert outcome(history, make(counter=COUNT), profile) == outcome(history, asked, profile)


@given(histories(), st.sampled_from(sorted(RATES)))
def test_no_message_costs_more_than_is_told_without_counting(history: Any, rates: str) -> None:
    for message in openai_chat.decode(history):
        assert message_tokens(message, COUNT, RATES[rates]) <= most_tokens(message, COUNT.most, RATES[rates])


def test_a_session_that_runs_out_of_what_was_not_counted_goes_on_as_govern_does() -> None:
    history = long_history(400, 3)
    whole = govern(history, policy=Policy(window=10**9, counter=COUNT)).report.tokens_in
    policy = Policy.cache_friendly(window=int(whole * 1.2), max_output=1, reserve=0, counter=COUNT)
    session = Session(policy=policy)
    for start, end in pairwise(range(40, len(history), 7)):
        assert session.prepare(history[:end]).body == govern(history[:end], policy=policy).body, start
