"""Results that are JSON values, and results that were cut before, are replaced and cut like any other long text."""

from __future__ import annotations

import json
from typing import Any

import pytest

import legato
from legato import Policy
from legato.fit.cutting import MARKED, cut
from legato.tokens import counter

COUNT = counter("o200k_base")
LONG = "\n".join(f"line {at} of the log says {at * 7}" for at in range(1_000))


def gemini(count: int, response: dict[str, Any]) -> list[Any]:
    """A question, and so many calls of one tool with this response."""
    contents: list[Any] = [{"role": "user", "parts": [{"text": "q"}]}]
    for at in range(count):
        call = {"functionCall": {"name": "read_file", "args": {"path": str(at)}}, "thoughtSignature": "s"}
        contents.append({"role": "model", "parts": [call]})
        result = {"functionResponse": {"name": "read_file", "response": {**response, "at": at}}}
        contents.append({"role": "user", "parts": [result]})
    return contents


def bedrock(count: int, response: dict[str, Any]) -> list[Any]:
    """The same for Converse."""
    messages: list[Any] = [{"role": "user", "content": [{"text": "q"}]}]
    for at in range(count):
        call = {"toolUse": {"toolUseId": f"t{at}", "name": "read_file", "input": {"path": str(at)}}}
        result = {"toolResult": {"toolUseId": f"t{at}", "content": [{"json": {**response, "at": at}}]}}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return messages


@pytest.mark.parametrize(("profile", "history"), [("gemini", gemini), ("bedrock", bedrock)])
def test_an_old_result_that_is_an_object_is_compacted_by_the_document_policy(profile: str, history: Any) -> None:
    messages = history(20, {"content": LONG, "status": "ok"})
    governed = legato.govern(messages, profile=profile, policy=Policy(window=1_000_000))
    assert [change.code for change in governed.report.changes] == ["SIZE001"] * 10
    assert json.dumps(governed.messages[2]).count("[read_file result omitted from context]") == 1
    assert governed.messages[-1] is messages[-1]


@pytest.mark.parametrize(("profile", "history"), [("gemini", gemini), ("bedrock", bedrock)])
def test_an_old_result_that_is_an_object_is_cleared_before_units_are_dropped(profile: str, history: Any) -> None:
    messages = history(20, {"content": LONG, "status": "ok"})
    policy = Policy.cache_friendly(window=150_000, max_output=8)
    assert "SIZE001" in {
        change.code for change in legato.govern(messages, profile=profile, policy=policy).report.changes
    }


@pytest.mark.parametrize(("profile", "history"), [("gemini", gemini), ("bedrock", bedrock)])
@pytest.mark.parametrize("policy", [Policy, Policy.cache_friendly])
def test_a_result_that_is_an_object_is_cut_where_it_alone_is_too_long(profile: str, history: Any, policy: Any) -> None:
    messages = history(1, {"content": LONG, "status": "ok", "lines": ["first", {"text": LONG}]})
    governed = legato.govern(messages, profile=profile, policy=policy(window=1_000, max_output=8, reserve=4))
    report = governed.report
    assert report.budget is not None
    assert report.tokens_out <= report.budget < report.tokens_in
    sent = json.dumps(governed.messages[-1], ensure_ascii=False)
    assert '"status": "ok"' in sent
    assert '"first"' in sent
    assert MARKED.search(sent)


def test_a_block_of_a_known_type_in_a_result_is_left_as_it_is() -> None:
    block = {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": LONG}]}
    messages: list[Any] = [{"role": "user", "content": "q"}]
    for at in range(12):
        use = {"type": "tool_use", "id": f"t{at}", "name": "read_file", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"t{at}", "content": [block]}
        messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    assert legato.govern(messages, profile="anthropic", policy=Policy(window=1_000_000)).body is messages


@pytest.mark.parametrize(
    "policy", [Policy(window=200_000), Policy.cache_friendly(window=100_000)], ids=["document", "fold"]
)
def test_a_preview_of_a_long_result_is_replaced_when_it_is_old(policy: Policy) -> None:
    messages: list[Any] = [{"role": "user", "content": "go"}]
    for at in range(40):
        call = {"id": f"c{at}", "type": "function", "function": {"name": "exec", "arguments": "{}"}}
        preview = cut(f"{at}\n{LONG}", 4_000, COUNT)
        assert MARKED.search(preview)
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{at}", "content": preview})
    governed = legato.govern(messages, profile="openai", policy=policy)
    assert {change.code for change in governed.report.changes} == {"SIZE001"}
    assert len(governed.messages) == len(messages)
    assert legato.govern(governed.messages, profile="openai", policy=policy).body is governed.messages


def test_arguments_that_are_no_json_are_cut_like_any_text() -> None:
    function = {"name": "write", "arguments": '{"content": "' + "x y " * 5_000}
    call = {"id": "a", "type": "function", "function": function}
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    governed = legato.govern(messages, profile="openai", policy=Policy(window=2_000, max_output=8, reserve=4))
    report = governed.report
    assert report.budget is not None
    assert report.tokens_out <= report.budget
    assert MARKED.search(governed.messages[1]["tool_calls"][0]["function"]["arguments"])


def test_the_account_of_what_does_not_fit_tells_a_result_from_the_task() -> None:
    result = {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "search_result", "text": LONG}]}
    messages: list[Any] = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
        {"role": "user", "content": [result]},
    ]
    with pytest.raises(legato.OverBudget) as caught:
        legato.govern(messages, profile="anthropic", policy=Policy(window=1_000, max_output=8, reserve=4))
    account = caught.value.account
    assert account["pinned"] < 50 < account["newest unit"]


def test_a_null_among_the_parts_of_a_message_survives_a_merge() -> None:
    messages = [{"role": "user", "content": [None, {"type": "text", "text": "x"}]}, {"role": "user", "content": "y"}]
    (sent,) = legato.govern(messages).messages
    assert sent["content"] == [None, {"type": "text", "text": "x"}, {"type": "text", "text": "y"}]
