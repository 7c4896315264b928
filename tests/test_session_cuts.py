"""A session answers as `govern` does wherever its policy cuts: at results, at folds, with a store, under new ids."""

from __future__ import annotations

import json
import re
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
from legato.fit.microcompact import Microcompact
from legato.fit.snip import OVER
from legato.messages import Message
from legato.profiles import Profile
from legato.recall.store import Kept, TextStore
from legato.report import texts
from providers import WALKERS
from test_every_format import Case, cases, styles
from test_fold import step, user, words
from test_session import Growth, Step, outcome, steps
from written import Style, write

Wire = dict[str, Any]

TOOLS = ("read_file", "exec", "grep", "web_fetch", "message", "book_flight")


class MemoryStore(TextStore):
    """Keeps texts as long as the test runs."""

    def __init__(self) -> None:
        super().__init__(1 << 30, None, lambda: 0.0)
        self.texts: dict[str, bytes] = {}

    def _read(self, handle: str) -> Kept | None:
        return Kept(self.texts[handle], 0.0) if handle in self.texts else None

    def _write(self, handle: str, data: bytes) -> None:
        self.texts[handle] = data

    def _stamp(self, handle: str) -> bool:
        return handle in self.texts


compacting = st.builds(
    Microcompact,
    tools=st.sampled_from([Microcompact().tools, TOOLS]),
    keep=st.integers(0, 5),
    min_chars=st.sampled_from([0, 60, 500]),
)
folding = st.builds(Fold, target=st.sampled_from([0.2, 0.5, 0.9]), newest=st.integers(1, 4), first=st.booleans())
policies = st.builds(
    legato.Policy,
    microcompact=st.one_of(compacting, compacting, st.none()),
    fold=st.one_of(st.none(), st.none(), folding),
    recall=st.one_of(st.none(), st.builds(MemoryStore)),
)
LONG = st.one_of(clean_histories(max_turns=9), histories(max_turns=9, max_accidents=2))


@given(cases(LONG), policies, steps)
def test_a_session_answers_as_govern_does_under_any_policy(
    case: Case, policy: legato.Policy, taken: list[Step]
) -> None:
    growth = Growth(case, verify=False, policy=policy)
    for what, size in taken:
        growth.take(what, size)
        growth.compare()


@given(cases(LONG), policies, st.lists(st.integers(1, 5), min_size=40, max_size=40))
def test_a_session_answers_as_govern_does_at_every_request_under_any_policy(
    case: Case, policy: legato.Policy, sizes: list[int]
) -> None:
    growth = Growth(case, verify=False, policy=policy)
    for size in sizes:
        if len(growth.items) < len(growth.source):
            growth.take("append", size - 1)
            growth.finish()
            growth.compare()


def called(call_id: str | None, size: int, at: int, name: str = "grep", arguments: str = "x") -> list[Wire]:
    """A call and its result."""
    call, result = step(at, words(size, at), arguments, name)
    call["tool_calls"][0]["id"] = result["tool_call_id"] = call_id
    return [call, result]


def appended(kind: int, at: int, size: int) -> list[Wire]:
    """What an agent appends before its next request: a step, and what comes with it now and then."""
    call_id = f"call_{at % 7}" if kind == 6 else f"call_{at:03d}"
    name = "read file" if kind == 5 else ("grep", "message")[at % 2]
    call, result = called(call_id, size, at, name, words(size, -at) if kind == 2 else "x")
    if kind == 0:
        return [call, result, {"role": "assistant", "content": "done"}, user(words(size, at))]
    if kind == 1:
        other, second = called(f"{call_id}b", size, at + 1)
        return [{**call, "tool_calls": [*call["tool_calls"], *other["tool_calls"]]}, result, second]
    if kind == 3:
        return [{**call, "reasoning_content": words(size, at), "content": ""}, result]
    if kind == 4:
        return [call, result, {"role": "system", "content": "careful"}]
    if kind == 7:
        return [call, result, user(words(3, at))]
    if kind == 9:
        return [call, result, {"role": "user", "content": "by the way", "_aside": True}]
    if kind == 8:
        return [{**call, "reasoning_content": "hm", "_note": "mine"}, result]
    return [call, result]


def compare(session: legato.Session, profile: str | Profile, payload: Any) -> None:
    found, expected = partial(session.prepare, payload), partial(govern, session, profile, payload)
    assert outcome(found) == outcome(expected)


def govern(session: legato.Session, profile: str | Profile, payload: Any) -> legato.Governed:
    return legato.govern(payload, profile=profile, policy=session.policy, calibration=session.calibration)


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(1, 120)), min_size=10, max_size=60),
    st.sampled_from(tuple(WALKERS)),
    styles,
    policies,
    st.one_of(st.integers(150, 2_000), st.none()),
)
def test_a_session_answers_as_govern_does_through_a_long_tool_loop(
    sizes: list[tuple[int, int]], profile: str, style: Style, policy: legato.Policy, window: int | None
) -> None:
    if window is not None:
        policy = structs.replace(policy, window=window, max_output=0, reserve=0)
    session = legato.Session(profile, policy)
    history: list[Wire] = [{"role": "system", "content": words(20, 0)}, user("the task")]
    for at, (kind, size) in enumerate(sizes):
        history = [*history, *appended(kind, at, size)]
        compare(session, profile, write(history, profiles.get(profile).format, style).items)


def chosen(call_id: str, *names: str) -> tuple[str, str]:
    """The id that is put for this one, and the name for the last of these."""
    history = [user("go"), *[message for at, name in enumerate(names) for message in called(call_id, 1, at, name)]]
    call = legato.govern(history, profile="mistral").messages[-2]["tool_calls"][0]
    return call["id"], call["function"]["name"]


IDS = [
    "an id",
    "another id",
    *[chosen(old, "write")[0] for old in ("an id", "another id", "an id#1")],
    "goodid001",
    None,
    "",
]
NAMES = ["read file", "read_file", "read.file", "write", chosen("an id", "read_file", "read.file")[1], "x" * 70]


MISTRALS = [structs.replace(profiles.get("mistral"), ids_unique=unique) for unique in ("no", "turn", "request")]


@given(
    st.lists(
        st.tuples(st.sampled_from(IDS), st.sampled_from(NAMES), st.sampled_from([None, None, "", *NAMES])),
        min_size=3,
        max_size=24,
    ),
    st.sampled_from([*MISTRALS, *map(profiles.get, ("openai", "strict-template", "glm"))]),
    st.one_of(st.none(), st.integers(100, 600)),
    st.lists(st.sampled_from(NAMES), unique=True),
    st.booleans(),
)
def test_a_session_chooses_the_ids_and_names_that_govern_does(
    calls: list[tuple[str | None, str, str | None]],
    profile: Profile,
    window: int | None,
    defined: list[str],
    whole: bool,
) -> None:
    policy = legato.Policy(window=window, max_output=0, reserve=0) if window else legato.Policy()
    session = legato.Session(profile, policy)
    history: list[Wire] = [user("go")]
    tools = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in defined]
    for at, (call_id, name, named) in enumerate(calls):
        call, result = called(call_id, 3, at, name)
        if named is not None:  # the name that the result carries need not be the call's
            result["name"] = named or name
        history = [*history, call, result]
        compare(session, profile, {"model": "m", "tools": tools, "messages": history} if whole else history)


def test_a_tool_has_one_name_in_a_request_though_some_of_its_calls_get_new_ids_first() -> None:
    history = [user("go"), *called("an id", 3, 0, "read.file"), *called("goodid001", 3, 1, "read.file")]
    tools = [{"type": "function", "function": {"name": "read.file", "parameters": {"type": "object"}}}]
    body = legato.govern({"model": "m", "tools": tools, "messages": history}, profile="mistral").body
    calls = [call["function"]["name"] for message in body["messages"] for call in message.get("tool_calls", ())]
    assert {*calls, body["tools"][0]["function"]["name"]} == {"read_file"}


def shows(text: str) -> list[str]:
    """The handles that the placeholders in a request name."""
    return re.findall(r'recall\(\\*"([0-9a-f]+)', text)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(30, 160)), min_size=10, max_size=50),
    st.sampled_from(["openai", "portable", "mistral"]),
    st.sampled_from([Microcompact(keep=1, min_chars=60), None]),
    st.sampled_from([Fold(), Fold(target=0.2, first=False), None]),
    st.integers(700, 1_500),
)
def test_what_a_session_cuts_is_in_the_store_before_its_report_is_read(
    sizes: list[tuple[int, int]], profile: str, compact: Microcompact | None, fold: Fold | None, window: int
) -> None:
    fields: dict[str, Any] = {"microcompact": compact, "fold": fold, "window": window, "max_output": 0, "reserve": 0}
    store = MemoryStore()
    session = legato.Session(profile, legato.Policy(**fields, recall=store))
    history: list[Wire] = [user("the task")]
    for at, (kind, size) in enumerate(sizes):
        history = [*history, *appended(kind, at, size)]
        plain = legato.govern(history, profile=profile, policy=legato.Policy(**fields, recall=MemoryStore()))
        sent = session.prepare(history)
        kept = "".join(text.decode() for text in store.texts.values())
        assert all(store.recall(handle) for handle in shows(json.dumps(sent.messages)))
        for change in plain.report.changes:
            if change.code == OVER.code and not change.new:
                assert all(text in kept for message in change.old for text in spoken(message))


def spoken(message: Message) -> list[str]:
    """What a message says, as it stands in JSON, placeholders apart."""
    said = [text for text in texts(message.parts) if text and not text.startswith("[")]
    return [json.dumps(text, ensure_ascii=False)[1:-1] for text in said]


def loop(at: int, name: str = "search", **more: Any) -> list[Wire]:
    call, result = called(f"call_{at:05d}", 60, at, name)
    return [{**call, **more}, result]


@pytest.mark.parametrize(
    ("profile", "policy", "more"),
    [
        ("openai", legato.Policy(), {"name": "grep"}),
        ("openai", legato.Policy(window=4_000, max_output=0), {}),
        ("openai", legato.Policy(window=4_000, max_output=0), {"name": "grep"}),
        ("openai", legato.Policy.cache_friendly(window=4_000, max_output=0, recall=MemoryStore()), {}),
        ("openai", legato.Policy(window=4_000, max_output=0, recall=MemoryStore()), {"name": "grep"}),
        ("mistral", legato.Policy(), {}),
        ("mistral", legato.Policy.cache_friendly(window=4_000, max_output=0), {}),
        ("openai", legato.Policy(), {"name": "read.file"}),
        ("openai", legato.Policy(), {"reasoning_content": "hm"}),
    ],
)
def test_whatever_is_cut_or_renamed_no_message_is_looked_at_twice(
    profile: str, policy: legato.Policy, more: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every message goes through `wire.read`: it is seen once, whatever comes after it."""
    read: list[int] = []
    real = wire.read

    def spy(payload: Any, *rest: Any) -> Any:
        read.append(len(payload))
        return real(payload, *rest)

    session = legato.Session(profile, policy)
    history: list[Wire] = [user("the task"), *[message for at in range(100) for message in loop(at, **more)]]
    session.prepare(history)
    monkeypatch.setattr(wire, "read", spy)
    for at in range(100, 160):
        history = [*history, *loop(at, **more)]
        report = session.prepare(history).report
        session.observe({"prompt_tokens": round(report.counted * report.factor)})
    assert sum(read) == 2 * 60
