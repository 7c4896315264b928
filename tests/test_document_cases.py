"""The cases of the document that legato starts from, each a whole run of `govern` under `portable`.

The document's own tests look at one stage at a time. Here the whole pipeline runs, so a case about tool results stands
in a complete turn (a user message first, nothing said after it) unless being incomplete is what it is about.
"""

from __future__ import annotations

import copy
import json
from typing import Any, NamedTuple

import pytest

import legato
from walker import PRESETS, faults

Wire = dict[str, Any]

BACKFILL = "[Tool result unavailable — call was interrupted or lost]"


class Some:
    """Equal to any text that says something: a constant of legato's own, whatever it is."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and bool(other.strip())

    __hash__ = None  # type: ignore[assignment]


OPENER = {"role": "user", "content": Some()}


def system(text: str = "You help.") -> Wire:
    return {"role": "system", "content": text}


def user(content: Any) -> Wire:
    return {"role": "user", "content": content}


def says(content: Any, **fields: Any) -> Wire:
    return {"role": "assistant", "content": content, **fields}


def call(call_id: Any, name: Any = "lookup", arguments: Any = "{}") -> Wire:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*made: str | Wire, content: Any = None, name: str = "lookup") -> Wire:
    """An assistant message that calls: an id stands for a plain call of `name`."""
    return says(content, tool_calls=[call(one, name) if isinstance(one, str) else one for one in made])


def result(call_id: str | None, content: Any, name: str | None = None) -> Wire:
    message = {"role": "tool", "tool_call_id": call_id, "content": content}
    return message if name is None else {**message, "name": name}


def words(count: int, word: str = "word") -> str:
    """A text of about `count` tokens."""
    return " ".join([word] * count)


def budget(tokens: int) -> legato.Policy:
    """The document's policy with this budget."""
    return legato.Policy(window=tokens + 20, max_output=10, reserve=10)


def texts(value: Any) -> list[str]:
    """Every text that someone wrote into these messages: contents and the arguments of calls."""
    found: list[str] = []
    for message in value:
        content = message.get("content")
        if isinstance(content, str):
            found.append(content)
        elif isinstance(content, list):
            found += [block["text"] for block in content if "text" in block]
        found += [made["function"]["arguments"] for made in message.get("tool_calls", ())]
    return found


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def named(report: legato.Report) -> set[tuple[str, int | None]]:
    """The family of the code and the place of every change."""
    return {(change.code.rstrip("0123456789"), change.at) for change in report.changes}


def govern(messages: list[Wire], policy: legato.Policy | None = None) -> legato.Governed:
    """Govern, and check what every run promises: untouched input, a legal and stable result, no silent loss."""
    policy = policy or legato.Policy()
    before = copy.deepcopy(messages)
    governed = legato.govern(messages, policy=policy)
    report = governed.report
    assert messages == before, "the input was changed"
    assert [str(found) for found in legato.check(governed.messages) if found.severity == "error"] == []
    assert faults(governed.messages, **PRESETS["portable"]) == []
    assert legato.govern(governed.body, policy=policy).body is governed.body, "governing twice changes something"
    assert bool(report.changes) == (governed.body is not messages)
    assert report.tokens_in + sum(change.tokens for change in report.changes) == report.tokens_out
    assert all(change.code and change.reason for change in report.changes)
    kept = dump([governed.messages, report.to_dict(contents=True)])
    lost = [text for text in texts(messages) if dump(text)[1:-1] not in kept and dump(dump(text))[3:-3] not in kept]
    assert lost == []
    return governed


class Case(NamedTuple):
    number: str
    claim: str
    before: list[Wire]
    after: list[int | Wire]
    """An index is the very object that came in; a message is a new one that has at least these fields."""
    changes: set[tuple[str, int]]
    """Changes that the report names, by family and place."""


ORPHANS = [
    Case(
        "1",
        "a result without an id answers no call that has one",
        [user("go"), calls("1"), result(None, "stray"), result("1", "real")],
        [0, 1, 3],
        {("PAIR", 2)},
    ),
    Case(
        "2",
        "of two results for one call the first is kept",
        [user("go"), calls("1"), result("1", "first"), result("1", "dup")],
        [0, 1, 2],
        {("PAIR", 3)},
    ),
    Case(
        "3",
        "only the orphan goes and the rest keeps its order",
        [system(), user("go"), calls("ok"), result("ok", "r"), result("gone", "o"), says("after"), user("and?")],
        [0, 1, 2, 3, 5, 6],
        {("PAIR", 4)},
    ),
    Case(
        "4",
        "an orphan in the middle is not sent",
        [system(), user("one"), result("gone", "orphan"), says("reply"), user("two")],
        [0, 1, 3, 4],
        {("PAIR", 2)},
    ),
    Case(
        "5",
        "a result that a cut left at the front goes and the bare assistant behind it gets an opener",
        [system(), result("old", "orphan"), says("reply"), user("two")],
        [0, OPENER, 2, 3],
        {("PAIR", 1), ("ROLE", 2)},
    ),
    Case(
        "6",
        "an orphan is not backfilled into a pair",
        [user("one"), result("gone", "orphan"), says("reply"), user("two")],
        [0, 2, 3],
        {("PAIR", 1)},
    ),
    Case(
        "45",
        "a late orphan takes nothing else with it",
        [user("one"), calls("a"), result("a", "r"), user("two"), result("b", "orphan")],
        [0, 1, 2, 3],
        {("PAIR", 4)},
    ),
]

BACKFILLS = [
    Case(
        "7",
        "the call without a result gets exactly one, under its tool's name",
        [user("go"), calls(call("a", "exec"), call("b", "read_file")), result("a", "r", "exec")],
        [0, 1, 2, {"role": "tool", "tool_call_id": "b", "content": BACKFILL, "name": "read_file"}],
        {("PAIR", 1)},
    ),
    Case("8", "a complete chain is left alone", [user("go"), calls("a"), result("a", "r")], [0, 1, 2], set()),
    Case(
        "12",
        "a result before its call is an orphan and the call is backfilled",
        [user("go"), result("a", "early"), calls("a")],
        [0, 2, {"role": "tool", "tool_call_id": "a", "content": BACKFILL}],
        {("PAIR", 1), ("PAIR", 2)},
    ),
]

CALLS = [
    Case(
        "13",
        "a call without a name goes and its neighbour stays",
        [user("go"), calls(call("bad", None), call("ok", "exec")), result("ok", "r")],
        [0, {"role": "assistant", "tool_calls": [call("ok", "exec")]}, 2],
        {("PAIR", 1)},
    ),
    Case(
        "14",
        "a turn of nothing but a call without a name goes with its result",
        [user("go"), calls(call("bad", None)), result("bad", "r")],
        [0],
        {("PAIR", 1), ("PAIR", 2)},
    ),
    Case(
        "15",
        "good calls are left alone",
        [user("go"), calls("a", "b"), result("a", "r"), result("b", "s"), says("done"), user("thanks")],
        [0, 1, 2, 3, 4, 5],
        set(),
    ),
]

ROLES = [
    Case("48", "a legal chat is left alone", [system(), user("a"), says("b"), user("c")], [0, 1, 2, 3], set()),
    Case("49", "a last word of the assistant goes", [user("q"), says("last")], [0], {("ROLE", 1)}),
    Case(
        "49",
        "two last words of the assistant go",
        [user("q"), says("last"), says("very last")],
        [0],
        {("ROLE", 2)},
    ),
    Case("50", "two users become one", [user("one"), user("two")], [user("one\n\ntwo")], {("ROLE", 1)}),
    Case(
        "50",
        "two assistants in the middle become one",
        [user("q"), says("one"), says("two"), user("next")],
        [0, says("one\n\ntwo"), 3],
        {("ROLE", 2)},
    ),
    Case("51", "two systems are left alone", [system("a"), system("b"), user("q")], [0, 1, 2], set()),
    Case(
        "51",
        "results in a row are not merged",
        [user("q"), calls("a", "b"), result("a", "r"), result("b", "s")],
        [0, 1, 2, 3],
        set(),
    ),
    Case(
        "52",
        "words before a call join the turn that calls",
        [user("q"), says("prev"), calls("1"), result("1", "r")],
        [0, calls("1", content="prev"), 3],
        {("ROLE", 2)},
    ),
    Case(
        "53",
        "words between a call and its result join the turn that calls",
        [user("q"), calls("1"), says("later"), result("1", "r")],
        [0, calls("1", content="later"), 3],
        {("ROLE", 2)},
    ),
    Case(
        "54",
        "a list of parts and a plain text merge as parts",
        [user([{"type": "text", "text": "one"}]), user("two")],
        [user([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}])],
        {("ROLE", 1)},
    ),
    Case(
        "56",
        "a lone assistant behind the system is sent as a user",
        [system(), says("x")],
        [0, user("x")],
        {("ROLE", 1)},
    ),
    Case("57", "a question without its answer is enough", [system(), user("q"), says("x")], [0, 1], {("ROLE", 2)}),
    Case(
        "59",
        "two assistants and no user are sent as one user",
        [says("one"), says("two")],
        [user("one\n\ntwo")],
        {("ROLE", 1)},
    ),
    Case(
        "60",
        "the last user holds both texts",
        [system(), user("a"), says("b"), user("c"), user("d"), says("e")],
        [0, 1, 2, user("c\n\nd")],
        {("ROLE", 4), ("ROLE", 5)},
    ),
    Case(
        "61",
        "a bare assistant at the front gets an opener",
        [system(), says("prev"), user("q")],
        [0, OPENER, 1, 2],
        {("ROLE", 1)},
    ),
    Case("63", "the user at the front is left alone", [system(), user("q"), says("a")], [0, 1], {("ROLE", 2)}),
]

UPSTREAM_LOSES = [
    Case(
        "58",
        "an orphan behind the system does not stand in for a user",
        [system(), result("gone", "orphan"), says("x")],
        [0, user("x")],
        {("PAIR", 1), ("ROLE", 2)},
    ),
    Case(
        "61",
        "words on both sides of an orphan are both sent",
        [system(), says("prev"), result("gone", "orphan"), says("last")],
        [0, user("prev\n\nlast")],
        {("PAIR", 2), ("ROLE", 3)},
    ),
    Case(
        "62",
        "calls at the front get an opener too",
        [system(), calls("a"), result("a", "r")],
        [0, OPENER, 1, 2],
        {("ROLE", 1)},
    ),
]


def check_case(case: Case) -> None:
    governed = govern(case.before)
    assert len(governed.messages) == len(case.after), governed.messages
    for sent, wanted in zip(governed.messages, case.after, strict=True):
        if isinstance(wanted, int):
            assert sent is case.before[wanted]
        else:
            assert {key: sent.get(key) for key in wanted} == wanted
    assert case.changes <= named(governed.report), str(governed.report)
    assert bool(case.changes) == bool(governed.report.changes)


def rows(cases: list[Case]) -> list[Any]:
    return [pytest.param(case, id=f"{case.number}: {case.claim}") for case in cases]


@pytest.mark.parametrize("case", rows(ORPHANS))
def test_orphans_are_dropped_one_by_one(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize("case", rows(BACKFILLS))
def test_every_call_is_answered_exactly_once(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize("case", rows(CALLS))
def test_calls_that_cannot_be_executed_go(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize("case", rows(ROLES))
def test_roles_alternate(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize("case", rows(UPSTREAM_LOSES))
def test_the_promise_wins_where_the_case_as_written_would_break_it(case: Case) -> None:
    """Cases 58 and 62 start with a result or a call in the document, 61 keeps an orphan; promise 1 wants a user first.

    In 58 the orphan goes, and the words behind it come back as a user. In 62 an opener is put before the call.
    """
    check_case(case)


def test_nothing_to_send_is_unrepairable() -> None:
    """Case 48 returns the empty list; promise 1 wins: an empty request is refused, only the caller has a message."""
    with pytest.raises(legato.Unrepairable):
        legato.govern([], policy=legato.Policy())


def test_all_three_calls_are_answered_directly_after_them() -> None:
    """Case 11."""
    messages = [user("go"), calls("a", "b", "c"), result("b", "real")]
    governed = govern(messages)
    assert governed.messages[:2] == messages[:2]
    assert {sent["tool_call_id"]: sent["content"] for sent in governed.messages[2:]} == {
        "a": BACKFILL,
        "b": "real",
        "c": BACKFILL,
    }
    assert len(governed.messages) == 5
    assert ("PAIR", 1) in named(governed.report)


def test_a_session_that_lost_a_result_is_sent_with_one_synthetic_result_and_saved_without() -> None:
    """Cases 9 and 10."""
    session = [user("go"), calls("missing"), says("old tail")]
    session.append(user("new prompt"))
    first = govern(session)
    session += [calls("next"), result("next", "r")]
    second = govern(session)
    for governed in (first, second):
        assert [sent["content"] for sent in governed.messages].count(BACKFILL) == 1
        assert dump(governed.messages).count("old tail") == 1
        assert ("PAIR", 1) in named(governed.report)
    assert first.messages[-1] is session[3]
    assert second.messages[-2:] == session[-2:]
    assert BACKFILL not in dump(session)


def reads(count: int, content: Any, name: str = "read_file") -> list[Wire]:
    """A loop of `count` calls of one tool, each with this result."""
    turns = [user("go")]
    for at in range(count):
        turns += [calls(f"c{at}", name=name), result(f"c{at}", content, name)]
    return turns


def test_the_five_oldest_of_fifteen_results_are_compacted() -> None:
    """Case 21."""
    messages = reads(15, "x" * 600)
    governed = govern(messages)
    results = [sent for sent in governed.messages if sent["role"] == "tool"]
    whole = [message for message in messages if message["role"] == "tool"]
    assert [sent["content"] for sent in results[:5]] == ["[read_file result omitted from context]"] * 5
    assert all(sent is message for sent, message in zip(results[5:], whole[5:], strict=True))
    assert {change.at for change in governed.report.changes} == {2, 4, 6, 8, 10}


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param(reads(15, "short", "exec"), id="22: fifteen short results"),
        pytest.param(reads(15, "x" * 1000, "message"), id="23: fifteen results of a tool that is not compactable"),
        pytest.param(reads(10, "x" * 1000), id="24: exactly ten results"),
        pytest.param(
            reads(15, [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]),
            id="24: results that are not text",
        ),
        pytest.param([system(), user("q"), says("a"), user("r")], id="15: nothing to compact"),
    ],
)
def test_what_need_not_be_compacted_is_left_alone(messages: list[Wire]) -> None:
    assert govern(messages).body is messages


def test_a_result_of_text_parts_is_compacted_like_plain_text() -> None:
    """Case 24 never touches a list; the specification compacts one that is made of text parts only."""
    governed = govern(reads(11, [{"type": "text", "text": "x" * 600}]))
    assert texts([governed.messages[2]]) == ["[read_file result omitted from context]"]
    assert {change.at for change in governed.report.changes} == {2}


def test_a_loop_that_does_not_fit_keeps_its_user_and_its_newest_unit() -> None:
    """Case 34."""
    messages = [
        system(),
        says(words(500, "old")),
        user("the task"),
        calls("1"),
        result("1", words(500, "first")),
        calls("2"),
        result("2", words(100, "second")),
    ]
    governed = govern(messages, budget(250))
    assert governed.messages == [messages[0], messages[2], messages[5], messages[6]]
    assert {change.at for change in governed.report.changes} == {1, 3, 4}


def test_without_any_user_the_newest_units_stand_behind_a_synthetic_one() -> None:
    """Case 35 ends as the system prompt alone upstream; promises 1 and 6 win: something is left to answer."""
    messages = [system(), calls("1"), result("1", words(500, "first")), calls("2"), result("2", words(100, "second"))]
    governed = govern(messages, budget(250))
    assert governed.messages == [messages[0], OPENER, messages[3], messages[4]]
    assert {1, 2} <= {change.at for change in governed.report.changes}


def test_a_history_that_fits_is_the_same_object() -> None:
    """Case 36."""
    messages = [system(), user("q"), calls("1"), result("1", words(50))]
    governed = govern(messages, budget(1000))
    assert governed.body is messages
    assert governed.report.tokens_in == governed.report.tokens_out <= 1000


def test_nested_values_of_the_input_are_never_written_to() -> None:
    """Case 55: every stage has something to do here."""
    messages = [
        *(message for message in reads(15, "x" * 600) if message["role"] != "user"),
        user([{"type": "text", "text": "one"}]),
        user("two"),
        calls(call("a", "  "), call("b")),
        result("gone", "orphan"),
        says([{"type": "text", "text": words(2000)}]),
    ]
    governed = govern(messages, budget(2500))
    assert {code for code, _ in named(governed.report)} >= {"PAIR", "ROLE"}


def test_removed_last_words_are_in_the_report() -> None:
    """Case 49: the text is not sent, so the report holds it."""
    governed = govern([user("q"), says("the answer nobody may lose")])
    assert "the answer nobody may lose" in dump(governed.report.to_dict(contents=True))
    assert "the answer nobody may lose" not in dump(governed.messages)
