"""The judgement without sockets: bytes in, a decision out."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato import Policy
from legato.proxy.core import Ask, judge, parse
from legato.proxy.sessions import Sessions

BIG = Sessions(10**7)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
)


def ask(body: Any, **fields: Any) -> Ask:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Ask(
        **{"body": data, "format": "openai-chat", "policy": Policy.cache_friendly(), "profile": "openai", **fields}
    )


@given(JSON)
def test_json_is_read_as_the_standard_library_reads_it(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        data = text.encode("utf-8", "surrogatepass")
        assert repr(parse(data)) == repr(json.loads(text))


@pytest.mark.parametrize(
    "text", ["1" * 400, "1e400", "-0", "18446744073709551616", '"\\ud800"', "NaN", "\ufeff[1]", "1E5"]
)
def test_odd_json_is_read_as_the_standard_library_reads_it(text: str) -> None:
    assert repr(parse(text.encode())) == repr(json.loads(text.encode()))


BROKEN: Any = {"messages": [{"role": "user", "content": "a"}, {"role": "tool", "tool_call_id": "x", "content": ""}]}


def test_a_lone_surrogate_survives_in_a_request_that_is_changed() -> None:
    body = judge(ask({**BROKEN, "user": "a \ud800 b"}), BIG).decision.body
    assert body is not None
    assert json.loads(body) == {"messages": BROKEN["messages"][:1], "user": "a \ud800 b"}


@pytest.mark.parametrize("number", [b"1e400", b"NaN", b"-Infinity"])
def test_a_number_that_cannot_be_written_again_is_never_replaced(number: bytes) -> None:
    text = json.dumps({**BROKEN, "temperature": "?"}).encode().replace(b'"?"', number)
    decision = judge(ask(text), BIG).decision
    assert decision.body is None
    assert decision.kind == "WireError"


def test_what_is_asked_and_decided_can_be_sent_to_another_process() -> None:
    asked = ask(BROKEN, contents=True)
    verdict = judge(pickle.loads(pickle.dumps(asked)), BIG)
    account = verdict.account()
    assert account is not None
    assert verdict.prints()
    assert pickle.loads(pickle.dumps(verdict.decision)) == verdict.decision


def test_a_failure_is_a_decision_and_quotes_nothing_of_the_request() -> None:
    for body in (
        b'{"messages": "secret"}',
        b'["secret"',
        b'"secret"',
        b'{"messages": [{"role": "user", "content": {"secret": 1}}]}',
    ):
        decision = judge(ask(body), BIG).decision
        assert decision.failure
        assert "secret" not in decision.failure
        assert not decision.fault


def test_a_remembered_conversation_is_judged_as_if_it_was_not() -> None:
    history: Any = {"model": "gpt-4o", "messages": [{"role": "user", "content": "start"}]}
    known, policy = Sessions(10**6), Policy.cache_friendly(window=2_600, max_output=100)
    decisions = []
    for turn in range(25):
        call = {"id": f"c{turn}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        history["messages"] += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            *([{"role": "tool", "tool_call_id": f"c{turn}", "content": "line " * 60}] if turn % 5 != 3 else []),
            {"role": "user", "content": f"question {turn}" if turn != 12 else ""},
        ]
        asked = ask(history, policy=policy)
        with_memory, without = judge(asked, known), judge(asked, Sessions(0))
        assert with_memory.decision == without.decision
        assert with_memory.account() == without.account()
        assert with_memory.prints() == without.prints()
        decisions.append(with_memory.decision.body is None)
    assert True in decisions
    assert False in decisions


def test_no_more_is_remembered_than_is_allowed() -> None:
    sessions = Sessions(10_000)
    for number in range(50):
        judge(ask({"messages": [{"role": "user", "content": f"{number} " * 300}]}), sessions)
        assert sessions._held == sum(size for _, size in sessions._known.values()) <= 10_000
    assert 0 < len(sessions._known) < 20
    judge(ask({"messages": [{"role": "user", "content": "x" * 20_000}]}), sessions)
    assert sessions._held <= 10_000
