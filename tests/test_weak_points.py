"""The weak points of the document's own implementation, and what legato does in each place instead."""

from __future__ import annotations

import json
from typing import Any

import pytest

import legato
from test_document_cases import (
    BACKFILL,
    OPENER,
    Wire,
    budget,
    call,
    calls,
    dump,
    govern,
    named,
    result,
    says,
    system,
    user,
    words,
)

PLACEHOLDER = "[read_file result omitted from context]"


def loop(count: int, size: int, name: str = "lookup", start: int = 0) -> list[Wire]:
    """`count` calls with a result of about `size` tokens each, every text its own."""
    turns: list[Wire] = []
    for at in range(start, start + count):
        turns += [calls(f"c{at}", name=name), result(f"c{at}", f"result {at} {words(size)} end {at}", name)]
    return turns


def fits(governed: legato.Governed) -> bool:
    report = governed.report
    assert report.budget is not None
    return report.tokens_out <= report.budget


def places(governed: legato.Governed) -> set[int | None]:
    return {change.at for change in governed.report.changes}


def test_w1_a_result_behind_a_user_message_moves_up_to_its_call() -> None:
    messages = [user("go"), calls("a"), user("injected"), result("a", "r")]
    governed = govern(messages)
    assert [governed.messages.index(message) for message in messages] == [0, 1, 3, 2]
    assert ("PAIR", 3) in named(governed.report)


def test_w2_an_id_that_comes_again_in_a_later_turn_is_legal() -> None:
    messages = [
        user("go"),
        calls("c1"),
        result("c1", "one"),
        says("ok"),
        user("again"),
        calls("c1"),
        result("c1", "two"),
    ]
    assert govern(messages).body is messages


def test_w2_a_lost_result_is_backfilled_where_its_id_was_answered_in_an_earlier_turn() -> None:
    messages = [user("go"), calls("c1"), result("c1", "one"), calls("c1")]
    governed = govern(messages)
    assert [sent.get("content") for sent in governed.messages] == ["go", None, "one", None, BACKFILL]


def test_w2_one_id_twice_in_one_turn_keeps_both_calls_and_both_results() -> None:
    messages = [user("go"), calls("x", "x"), result("x", "one"), result("x", "two")]
    governed = govern(messages)
    ids = [made["id"] for made in governed.messages[1]["tool_calls"]]
    assert len(set(ids)) == 2
    assert [(sent["tool_call_id"], sent["content"]) for sent in governed.messages[2:]] == [
        (ids[0], "one"),
        (ids[1], "two"),
    ]
    assert places(governed) & {1, 3}


def test_w3_a_detached_result_over_budget_never_leaves_the_system_alone() -> None:
    messages = [system(), calls("a"), user("question"), result("a", words(800))]
    governed = govern(messages, budget(300))
    assert governed.messages[0] is messages[0]
    assert governed.messages[-1] is messages[2]
    assert fits(governed)
    assert {1, 3} <= places(governed)


def test_w4_a_follow_up_keeps_as_much_of_the_long_turn_before_it_as_fits() -> None:
    messages = [system(), user("the task"), *loop(8, 500), says("done"), user("follow-up")]
    governed = govern(messages, budget(2600))
    kept = governed.messages
    assert kept[0] is messages[0]
    assert kept[1]["role"] == "user"
    assert kept[-6:] == messages[-6:]
    assert fits(governed)
    assert governed.report.tokens_out > 1900


def test_w5_a_single_message_over_budget_is_cut_in_the_middle() -> None:
    messages = [system(), user(f"HEAD {words(10_000)} TAIL")]
    governed = govern(messages, budget(1000))
    text = governed.messages[1]["content"]
    assert text.startswith("HEAD word")
    assert text.endswith("word TAIL")
    assert any(part.isdigit() for part in text.replace(",", "").split()), "the marker says how many tokens went"
    assert fits(governed)
    assert governed.report.tokens_out > 500
    assert places(governed) == {1}


def test_w5_what_cannot_be_cut_is_refused_with_an_account() -> None:
    with pytest.raises(legato.OverBudget) as caught:
        legato.govern([system(words(2000)), user("q")], policy=budget(1000))
    assert caught.value.budget == 1000
    assert caught.value.needed > 1900
    assert any("system" in item and tokens > 1900 for item, tokens in caught.value.account.items())


def test_w6_results_of_earlier_turns_are_compacted_before_anything_is_dropped() -> None:
    turns = [[user(f"task {at}"), *loop(3, 400, "read_file", start=3 * at), says("ok")] for at in range(5)]
    messages = [message for turn in turns for message in turn] + [user("and now?")]
    governed = govern(messages, budget(5000))
    results = [sent for sent in governed.messages if sent["role"] == "tool"]
    assert [sent["content"] == PLACEHOLDER for sent in results] == [True] * 5 + [False] * 10
    assert len(governed.messages) == len(messages)
    assert fits(governed)


def test_w7_orphans_before_the_newest_result_do_not_let_it_escape_the_budget() -> None:
    messages = [user("go"), result("o1", "x"), result("o2", "y"), calls("1"), result("1", f"HEAD {words(2000)} TAIL")]
    governed = govern(messages, budget(500))
    assert governed.messages[:2] == [messages[0], messages[3]]
    text = governed.messages[2]["content"]
    assert text.startswith("HEAD")
    assert text.endswith("TAIL")
    assert fits(governed)
    assert {1, 2, 4} <= places(governed)


def test_w9_big_arguments_shrink_as_text_and_stay_json() -> None:
    arguments = {"path": "src/a.py", "content": f"HEAD {words(10_000)} TAIL", "mode": 0o644, "lines": ["a", "b"]}
    messages = [user("go"), calls(call("1", "write_file", json.dumps(arguments))), result("1", "ok")]
    governed = govern(messages, budget(1000))
    sent = json.loads(governed.messages[1]["tool_calls"][0]["function"]["arguments"])
    assert {**sent, "content": ""} == {**arguments, "content": ""}
    assert sent["content"].startswith("HEAD")
    assert sent["content"].endswith("TAIL")
    assert governed.messages[0] is messages[0]
    assert governed.messages[2] is messages[2]
    assert fits(governed)
    assert places(governed) == {1}


def test_w9_a_result_of_parts_shrinks_like_plain_text() -> None:
    messages = [user("go"), calls("1"), result("1", [{"type": "text", "text": f"HEAD {words(10_000)} TAIL"}])]
    governed = govern(messages, budget(1000))
    (block,) = governed.messages[2]["content"]
    assert block["text"].startswith("HEAD")
    assert block["text"].endswith("TAIL")
    assert fits(governed)


@pytest.mark.parametrize(("length", "content"), [(499, "x" * 499), (500, PLACEHOLDER), (50_000, PLACEHOLDER)])
def test_w10_an_old_result_is_replaced_from_500_characters_on(length: int, content: str) -> None:
    messages = [user("go"), calls("old", name="read_file"), result("old", "x" * length), *loop(10, 1, "read_file")]
    governed = govern(messages)
    assert governed.messages[2]["content"] == content
    assert places(governed) == ({2} if length >= 500 else set())


def test_w10_a_placeholder_is_never_replaced_again() -> None:
    old = [user("go"), calls("old", name="read_file"), result("old", "x" * 600), *loop(10, 1, "read_file")]
    once = govern(old)
    assert once.messages[2]["content"] == PLACEHOLDER
    more = [*once.messages, *loop(10, 1, "read_file", start=10)]
    assert govern(more).body is more


def test_w10_a_short_result_with_the_id_of_a_compacted_one_is_left_alone() -> None:
    messages = [
        user("go"),
        *(calls("c", name="read_file"), result("c", "x" * 600)),
        *(calls("c", name="read_file"), result("c", "short")),
        *loop(9, 1, "read_file"),
    ]
    governed = govern(messages)
    assert places(governed) == {2}
    assert governed.messages[4] is messages[4]


def test_w12_a_call_without_an_id_gets_one_that_its_result_answers() -> None:
    nameless: dict[str, Any] = call("x")
    del nameless["id"]
    messages = [user("go"), calls(nameless), {"role": "tool", "content": "r"}]
    governed = govern(messages)
    (made,) = governed.messages[1]["tool_calls"]
    assert made["id"]
    assert isinstance(made["id"], str)
    assert governed.messages[2]["tool_call_id"] == made["id"]
    assert governed.messages[2]["content"] == "r"
    assert {1, 2} & places(governed)


def test_w12_an_empty_list_of_calls_is_left_out() -> None:
    messages = [user("go"), says("text", tool_calls=[]), user("next")]
    governed = govern(messages)
    assert governed.messages == [messages[0], says("text"), messages[2]]
    assert places(governed) == {1}


def test_w12_a_call_with_a_blank_name_goes_with_its_result() -> None:
    messages = [user("go"), calls(call("a", " "), call("b")), result("a", "r"), result("b", "s")]
    governed = govern(messages)
    assert governed.messages == [messages[0], calls("b"), messages[3]]
    assert {("PAIR", 1), ("PAIR", 2)} <= named(governed.report)


def test_w13_a_lone_calling_assistant_gets_an_opener_and_a_result() -> None:
    """The document sends its calls as a user, or the system alone; promise 1 wins: a complete turn behind a user."""
    messages = [system(), calls("a")]
    governed = govern(messages)
    assert governed.messages[:3] == [messages[0], OPENER, messages[1]]
    (answer,) = governed.messages[3:]
    assert (answer["role"], answer["tool_call_id"], answer["content"]) == ("tool", "a", BACKFILL)
    assert {("PAIR", 1), ("ROLE", 1)} <= named(governed.report)


def test_w14_a_merge_keeps_reasoning_and_every_field_of_both() -> None:
    messages = [
        user("q"),
        says("A", reasoning_content="first thought", trace="one"),
        says("B", reasoning_content="second thought", audit="two"),
        user("next"),
    ]
    governed = govern(messages)
    merged = governed.messages[1]
    assert merged["content"] == "A\n\nB"
    assert "first thought" in merged["reasoning_content"]
    assert "second thought" in merged["reasoning_content"]
    assert (merged["trace"], merged["audit"]) == ("one", "two")
    assert ("ROLE", 2) in named(governed.report)


def test_w14_a_field_that_two_merged_messages_hold_differently_is_not_lost_in_silence() -> None:
    messages = [user("q"), says("A", trace="first trace"), says("B", trace="second trace"), user("next")]
    governed = govern(messages)
    kept = dump([governed.messages, governed.report.to_dict(contents=True)])
    assert "first trace" in kept
    assert "second trace" in kept


def test_w15_parts_are_concatenated_in_order() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    one, two, three = ({"type": "text", "text": text} for text in ("one", "two", "three"))
    messages = [user([one, image]), user([two]), says([three]), says("four"), user("next")]
    governed = govern(messages)
    assert governed.messages[0]["content"] == [one, image, two]
    assert governed.messages[1]["content"] == [three, {"type": "text", "text": "four"}]
    assert {("ROLE", 1), ("ROLE", 3)} <= named(governed.report)


def test_w16_systems_in_the_middle_stay_in_place() -> None:
    messages = [system("a"), user("q"), system("b"), user("r"), calls("1"), result("1", "x"), system("c"), user("s")]
    assert govern(messages).body is messages


def test_w16_systems_stay_in_place_when_the_history_is_cut() -> None:
    messages = [system("a"), user(words(500)), says("old"), system("b"), user("r"), says("s"), system("c"), user("t")]
    governed = govern(messages, budget(200))
    assert governed.messages == [messages[0], *messages[3:]]


def test_w17_a_result_behind_the_system_is_an_orphan() -> None:
    messages = [system(), result("a", "orphan"), user("q")]
    governed = govern(messages)
    assert governed.messages == [messages[0], messages[2]]
    assert named(governed.report) == {("PAIR", 1)}


@pytest.mark.parametrize("content", ["", None, []])
def test_w18_an_empty_assistant_is_dropped_and_its_neighbours_merge(content: Any) -> None:
    messages = [user("q"), says(content), user("r")]
    governed = govern(messages)
    assert governed.messages == [user("q\n\nr")]
    assert 1 in places(governed)


def test_w23_an_orphan_at_the_end_does_not_take_the_kept_tail_with_it() -> None:
    messages = [system(), *loop(4, 200), result("gone", "orphan")]
    governed = govern(messages, budget(550))
    assert governed.messages == [messages[0], OPENER, *messages[5:9]]
    assert fits(governed)


def test_w24_the_report_says_that_the_request_fits() -> None:
    messages = [system(), user("the task"), *loop(8, 500, "read_file")]
    report = govern(messages, budget(1500)).report
    assert report.budget == 1500
    assert report.tokens_out <= 1500 < report.tokens_in
    assert report.to_dict()["fits"] is True
    assert "1,500" in str(report)
    assert f"{report.tokens_out:,}" in str(report)


def test_w24_the_report_says_when_there_was_no_window_to_fit() -> None:
    report = govern([user("q")]).report
    assert report.budget is None
    assert "window" in str(report)
