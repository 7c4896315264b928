"""A session answers as `govern` does with its calibration, whatever becomes of the history between two requests."""

from __future__ import annotations

import base64
import copy
import json
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

import legato
from histories import clean_histories, histories
from legato import profiles, wire
from legato.fit.fold import Fold
from legato.policy import PRESETS as POLICIES
from test_every_format import Case, cases
from test_fold import step, user, words

Wire = dict[str, Any]
Step = tuple[str, int]

steps = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "append",
                "append",
                "append",
                "append",
                "truncate",
                "replace",
                "copy",
                "fork",
                "observe",
                "refuse",
                "again",
            ]
        ),
        st.integers(0, 60),
    ),
    min_size=1,
    max_size=14,
)
LONG = {"messages": st.one_of(clean_histories(max_turns=6), histories(max_turns=6, max_accidents=3))}


def outcome(govern: Callable[[], legato.Governed]) -> tuple[Any, ...]:
    """All that can be seen of a result, or of its refusal."""
    try:
        governed = govern()
    except legato.GovernanceError as error:
        return type(error), str(error)
    report = governed.report
    return governed.body, governed.messages, report.to_dict(contents=True), str(report), report.counted


class Growth:
    """A history that becomes what the steps say, and the session that prepares it."""

    def __init__(self, case: Case, verify: bool, policy: legato.Policy | None = None) -> None:
        self.case = case
        policy = policy or POLICIES[case.policy]()
        if case.budget is not None:
            policy = structs.replace(policy, window=case.budget + 12, max_output=8, reserve=4)
        self.policy = policy
        self.tools = None if isinstance(case.payload, dict) else case.offered
        self.session = legato.Session(case.profile, policy, tools=self.tools, verify=verify)
        self.key = next((key for key in ("messages", "contents", "input") if key in case.payload), "")
        self.source = list(case.payload[self.key] if self.key else case.payload)
        self.items: list[Any] = []
        self.prepared = False

    def take(self, what: str, size: int) -> None:
        at = size % len(self.items) if self.items else 0
        if what == "append":
            done = len(self.items)
            self.items = [*self.items, *self.source[done : done + 1 + size % 6]]
        elif what == "truncate":
            self.items = self.items[:at]
        elif what == "fork":
            self.items = [*self.items[:at], *self.source[:2]]
        elif what == "replace" and self.items:
            other = copy.deepcopy(self.source[size % len(self.source)])
            self.items = [*self.items[:at], other, *self.items[at + 1 :]]
        elif what == "copy":
            self.items = copy.deepcopy(self.items)
        elif what == "observe" and self.prepared:
            self.session.observe({"prompt_tokens": 1 + size * 100})
        elif what == "refuse" and self.prepared:
            self.session.overflowed({"error": {"code": "context_length_exceeded", "message": "too long"}})

    def finish(self) -> None:
        """Append until a request could be made: no call is open, the newest word is not the assistant's."""
        for _ in range(6):
            found = legato.check(self.payload(), profile=self.case.profile, tools=self.tools)
            if not any(violation.severity == "error" for violation in found):
                return
            self.take("append", 0)

    def payload(self) -> Any:
        return {**self.case.payload, self.key: self.items} if self.key else self.items

    def compare(self) -> None:
        payload = self.payload()

        def plain() -> legato.Governed:
            return legato.govern(
                payload,
                profile=self.case.profile,
                policy=self.policy,
                tools=self.tools,
                calibration=self.session.calibration,
            )

        expected = outcome(plain)
        found = outcome(lambda: self.session.prepare(payload, tools=self.tools))
        assert found == expected
        self.prepared = self.prepared or len(found) > 2
        if len(found) > 2:
            assert list(objects(found[1], payload)) == list(objects(expected[1], payload))


def objects(messages: list[Any], payload: Any) -> Iterator[int]:
    """For each message sent: 1 if it is an object of the caller's, else 0."""
    items = payload if isinstance(payload, list) else next(v for v in payload.values() if isinstance(v, list))
    known = {id(item) for item in items}
    return (int(id(message) in known) for message in messages)


@given(cases(**LONG), steps, st.booleans())
def test_a_session_answers_as_govern_does(case: Case, taken: list[Step], verify: bool) -> None:
    growth = Growth(case, verify)
    for what, size in taken:
        growth.take(what, size)
        growth.compare()


@given(
    cases(st.one_of(clean_histories(max_turns=9), histories(max_turns=9, max_accidents=2))),
    st.lists(st.integers(1, 5), min_size=40, max_size=40),
)
def test_a_session_answers_as_govern_does_at_every_request_of_a_growing_history(case: Case, sizes: list[int]) -> None:
    growth = Growth(case, verify=False)
    for size in sizes:
        if len(growth.items) < len(growth.source):
            growth.take("append", size - 1)
            growth.finish()
            growth.compare()


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 160), st.integers(0, 9)), min_size=20, max_size=70),
    st.sampled_from(["openai", "portable", "anthropic", "glm", "gemini"]),
    st.sampled_from([{}, {"first": False}, {"newest": 1}, {"target": 0.2}, {"target": 0.9}]),
    st.integers(600, 2_000),
)
def test_a_session_answers_as_govern_does_through_every_fold(
    sizes: list[tuple[int, int]], profile: str, how: Wire, window: int
) -> None:
    policy = legato.Policy.cache_friendly(window=window, max_output=0, reserve=0, fold=Fold(**how))
    given: dict[str, Any] = {"profile": profile, "policy": policy, "format": "openai-chat"}
    session = legato.Session(**given)
    history: list[Wire] = [{"role": "system", "content": words(20, 0)}, user("the task")]
    for at, (size, kind) in enumerate(sizes):
        arguments = words(size, at) if kind == 2 else "the same" if kind == 3 else f"file {at}"
        history = [*history, *step(at, words(size, at + 1), arguments)]
        if kind == 0:
            history = [*history, {"role": "assistant", "content": "done"}, user(words(size, at))]
        elif kind == 1:
            history[-1]["_pin"] = True
        elif kind == 4:
            history = [*history, {"role": "system", "content": "careful"}]
        found, expected = partial(session.prepare, history), partial(legato.govern, history, **given)
        assert outcome(found) == outcome(expected)


def agent(steps: int, size: int = 40) -> list[Wire]:
    task = [{"role": "system", "content": words(20, 0)}, user("the task")]
    return [*task, *[message for at in range(steps) for message in step(at, words(size, at))]]


@pytest.mark.parametrize("name", POLICIES)
def test_what_was_looked_at_is_not_looked_at_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every message goes through `wire.read`: it is seen once, whatever comes after it."""
    read: list[int] = []
    real = wire.read

    def spy(payload: Any, *rest: Any) -> Any:
        read.append(len(payload))
        return real(payload, *rest)

    monkeypatch.setattr(wire, "read", spy)
    session = legato.Session("openai", POLICIES[name]())
    history: list[Wire] = agent(0)
    for at in range(30):
        session.prepare(history)
        history = [*history, *step(at, "short")]
    assert sum(read) == len(history) - 2


def test_a_message_changed_in_place_is_noticed_where_that_is_verified() -> None:
    for verify in (True, False):
        history = agent(5)
        session = legato.Session("openai", legato.Policy(window=1_000_000), verify=verify)
        session.prepare(history)
        history[3]["content"] = "\ud800"
        governed = session.prepare(history)
        assert (governed.messages[3]["content"] == "\ufffd") is verify


def test_tools_changed_in_place_are_noticed_where_that_is_verified() -> None:
    definition: Wire = {"name": "read_file", "parameters": {"type": "object", "properties": {}}}
    tools = [{"type": "function", "function": definition}]
    session = legato.Session("openai", legato.Policy(window=1_000_000), verify=True)
    before = session.prepare(agent(5), tools=tools).report.tokens_out
    definition["description"] = words(50, 0)
    assert session.prepare(agent(5), tools=tools).report.tokens_out > before


def test_broke_at_is_where_what_is_sent_departs_from_what_was_sent() -> None:
    history = agent(40)
    session = legato.Session("openai", legato.Policy.cache_friendly(window=3_000, max_output=0, reserve=0))
    sent = session.prepare(history).messages
    assert session.broke_at is None
    broke: list[int] = []
    for at in range(40, 120):
        history = [*history, *step(at, words(40, at))]
        now = session.prepare(history).messages
        kept = next((i for i, pair in enumerate(zip(sent, now, strict=False)) if pair[0] != pair[1]), len(now))
        assert session.broke_at == (kept if kept < len(sent) else None)
        broke += [at] if session.broke_at is not None else []
        sent = now
    assert 0 < len(broke) < 10


def test_a_session_goes_on_from_its_state_and_from_a_pickle() -> None:
    policy = legato.Policy.cache_friendly(window=6_000, max_output=0, reserve=0)
    history = agent(50)
    session = legato.Session("openai", policy)
    session.prepare(history)
    session.observe({"prompt_tokens": 9_000})
    session.overflowed({"error": {"code": "context_length_exceeded", "message": "maximum is 5000 tokens"}})
    copies = [
        pickle.loads(pickle.dumps(session)),
        legato.Session("openai", policy, state=json.loads(json.dumps(session.state()))),
    ]
    for copied in copies:
        assert copied.calibration == session.calibration
        copied.observe({"prompt_tokens": 9_500})  # of the request that was sent before the crash
    session.observe({"prompt_tokens": 9_500})
    expected = session.prepare(history)
    for copied in copies:
        assert copied.calibration == session.calibration
        assert copied.prepare(history).body == expected.body


@pytest.mark.parametrize("state", [[], {"counted": "many"}, {"calibration": {"factor": "x"}}, "x", {"summary": 3}])
def test_a_state_that_is_none_is_refused(state: Any) -> None:
    with pytest.raises(legato.GovernanceError, match="not the state of a session"):
        legato.Session("openai", state=state)


def test_learning_before_anything_was_prepared_is_an_error_that_says_so() -> None:
    with pytest.raises(legato.GovernanceError, match="nothing was prepared"):
        legato.Session("openai").observe({"prompt_tokens": 1})
    assert legato.Session("openai").state()["calibration"] is None


def test_after_a_refusal_the_next_request_is_smaller_or_refused_here() -> None:
    history = agent(100)
    session = legato.Session("openai", legato.Policy.cache_friendly(window=100_000))
    sizes = [session.prepare(history).report.tokens_out]
    refused = False
    while not refused:
        assert session.overflowed("This model's maximum context length is exceeded: prompt is too long") is not None
        try:
            sizes.append(session.prepare(history).report.tokens_out)
        except legato.OverBudget:
            refused = True
    assert sizes == sorted(set(sizes), reverse=True)
    assert len(sizes) > 5


def test_what_is_no_refusal_for_length_teaches_nothing() -> None:
    session = legato.Session("openai")
    session.prepare(agent(1))
    assert session.overflowed({"error": {"message": "invalid api key"}}) is None
    assert session.calibration is None


def chat(call_id: str, tool: str = "read_file", text: str = "done") -> list[Wire]:
    call = {"id": call_id, "type": "function", "function": {"name": tool, "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "name": tool, "content": text},
    ]


def blocks(call_id: str, tool: str = "read_file", *thoughts: Wire) -> list[Wire]:
    call = {"type": "tool_use", "id": call_id, "name": tool, "input": {}}
    return [
        {"role": "assistant", "content": [*thoughts, call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": "done"}]},
    ]


def prepared_after(profile: str, before: Any, after: Any, **fields: Any) -> tuple[Any, Any]:
    """What a session sends of a history it knows the beginning of, and what `govern` does; with their reports."""
    session = legato.Session(profile, legato.Policy(window=1_000_000), **fields)
    session.prepare(before)
    again = session.prepare(after)
    plain = legato.govern(after, profile=profile, policy=session.policy, **fields)
    return (again.body, again.report.to_dict(contents=True)), (plain.body, plain.report.to_dict(contents=True))


def test_an_id_that_was_made_up_for_an_earlier_call_is_not_taken_for_a_later_one() -> None:
    start = [user("go"), *chat("not an id of theirs"), *chat("goodid001"), *chat("goodid002"), *chat("goodid003")]
    minted = legato.govern(start, profile="mistral").messages[1]["tool_calls"][0]["id"]
    found, expected = prepared_after("mistral", start, [*start, *chat(minted)])
    assert found == expected


def test_a_name_that_was_made_up_for_an_earlier_tool_is_not_taken_for_a_later_one() -> None:
    start = [user("go"), *chat("c1", "read file"), *chat("c2", "write"), *chat("c3", "write"), *chat("c4", "write")]
    found, expected = prepared_after("openai", start, [*start, *chat("c5", "read_file")])
    assert found == expected


def test_tools_that_had_to_be_defined_are_defined_for_a_later_call_too() -> None:
    searches = [message for at in range(4) for message in blocks(f"t{at}", "search")]
    messages = [user("go"), *searches]
    body = {"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": messages}
    later = {**body, "messages": [*messages, *blocks("t9", "write")]}
    found, expected = prepared_after("anthropic", body, later)
    assert found == expected
    assert {tool["name"] for tool in expected[0]["tools"]} == {"search", "write"}


def test_a_thought_joins_the_loop_that_was_degraded() -> None:
    foreign = {"type": "thinking", "thinking": "hm", "signature": ""}
    signed = {"type": "thinking", "thinking": "ah", "signature": "c2lnbmVk"}
    start = [user("go"), *blocks("t1", "search", foreign)]
    start += [message for at in range(2, 6) for message in blocks(f"t{at}", "search")]
    found, expected = prepared_after("anthropic", start, [*start, *blocks("t9", "search", signed)])
    assert found == expected


def test_an_image_that_makes_too_many_of_its_size_changes_what_stands_before_it() -> None:
    side = profiles.get("anthropic").many_image_side_max + 1
    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + side.to_bytes(4) + side.to_bytes(4) + bytes(400)
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(head).decode()}
    shown = {"role": "user", "content": [{"type": "image", "source": source}]}
    most = profiles.get("anthropic").many_images
    start = [message for _ in range(most) for message in (shown, {"role": "assistant", "content": "seen"})]
    found, expected = prepared_after("anthropic", [*start, user("go")], [*start, user("go"), *start[:2], user("on")])
    assert found == expected
    assert expected[1]["changes"]


def test_a_marker_too_many_takes_the_oldest_one_away() -> None:
    def marked(text: str) -> Wire:
        return {"role": "user", "content": [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]}

    answer = {"role": "assistant", "content": "yes"}
    start = [marked("one"), answer, marked("two"), answer, marked("three"), answer, marked("four")]
    found, expected = prepared_after("anthropic", start, [*start, answer, marked("five")])
    assert found == expected
    assert expected[1]["changes"]
