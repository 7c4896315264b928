"""The case log in `cases/`: message lists that real agents sent and providers refused, and what is right instead.

Every statement of a case's `right` is an assertion here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

import legato
from case_log import (
    FILES,
    Case,
    altered,
    alternates,
    answers,
    blocks,
    calls_before_outputs,
    containers,
    cut_batch,
    dump,
    errors,
    fits,
    govern,
    holds,
    joins,
    load,
    pairs,
    policy,
    roles,
    spent,
    texts,
    unchanged,
)

BUDGET = {"007", "008", "062", "064", "065", "067", "068", "070"}
"""Legal as given, but too long for the case's window."""
LEGAL = {
    "040",  # recorded traffic shows the API taking an id again in a later turn
    "043",  # must be left alone
}
FAULTS = {
    "001": {"PAIR001"},
    "002": {"PAIR002"},
    "004": {"PAIR001"},
    "005": {"PAIR001"},
    "010": {"PAIR002"},
    "011": {"PAIR002"},
    "013": {"PAIR002"},
    "014": {"PAIR002"},
    "016": {"PAIR003"},
    "017": {"PAIR006"},
    "019": {"ROLE004"},
    "020": {"ROLE004"},
    "022": {"ROLE002"},
    "023": {"BODY001"},
    "025": {"NAME001", "ROLE005"},
    "026": {"ROLE003"},
    "028": {"ROLE003"},
    "029": {"BODY007"},
    "031": {"BODY002"},
    "032": {"BODY002"},
    "034": {"BODY009"},
    "035": {"BODY002"},
    "037": {"NAME002"},
    "038": {"NAME002"},
    "041": {"PAIR004"},
    "044": {"NAME003"},
    "046": {"BODY005"},
    "047": {"PAIR001"},
    "049": {"THINK005"},
    "050": {"THINK003"},
    "052": {"THINK002"},
    "053": {"THINK001"},
    "055": {"THINK008"},
    "056": {"THINK006"},
    "058": {"PAIR009"},
    "059": {"BODY012"},
    "061": {"BODY021"},
    "071": {"BODY002"},
    "073": {"BODY005", "BODY007"},
}
"""The errors that `check` finds, all of them."""
FAULTS |= {number: set() for number in BUDGET | LEGAL}

UNREPAIRABLE = {"023", "031"}
"""Nothing is left to send: a clear error before sending is right."""


@pytest.fixture(params=[*FILES])
def case(request: pytest.FixtureRequest) -> Case:
    return load(request.param)


def test_every_case_has_its_row_in_each_table() -> None:
    assert set(FILES) == set(FAULTS) == set(RIGHT)
    assert len(FILES) == 49


def test_the_fault_of_the_case_is_named_and_no_other(case: Case) -> None:
    found = errors(case, case.request)
    assert {violation.code for violation in found} == FAULTS[case.number]
    assert all(violation.message and violation.fix for violation in found)


def test_what_is_right_is_done(case: Case) -> None:
    RIGHT[case.number](case)


@pytest.mark.parametrize("number", sorted(set(FILES) - UNREPAIRABLE))
def test_what_is_sent_is_clean_and_governing_it_again_changes_nothing(number: str) -> None:
    case = load(number)
    body = govern(case).body
    assert errors(case, body) == []
    assert legato.govern(body, profile=case.profile, format=case.format, policy=policy(case)).body is body


RIGHT: dict[str, Callable[[Case], None]] = {}
Assertions = Callable[[Case], None]


def right(number: str) -> Callable[[Assertions], Assertions]:
    """Marks the function that asserts what is right in a case, a statement of its list after the other."""

    def register(function: Assertions) -> Assertions:
        RIGHT[number] = function
        return function

    return register


@right("001")
def _(case: Case) -> None:
    sent = govern(case).messages
    assert answers(sent) == {}
    assert [case.items.index(message) for message in sent] == [0, 2, 3]


@right("002")
def _(case: Case) -> None:
    sent = govern(case).messages
    assert sent[-1]["role"] in ("user", "tool")
    assert [call_id for call_id, _ in answers(sent)[2]] == ["callA0001"]
    assert sent[1] is case.items[1]


@right("004")
def _(case: Case) -> None:
    governed = govern(case)
    assert calls_before_outputs(governed.messages) == []
    assert holds(governed, [item["output"] for item in case.items[1:]])
    calls = [
        {"type": "function_call", "call_id": f"call_{i}", "name": "read_file", "arguments": "{}"} for i in range(10)
    ]
    outputs = [{"type": "function_call_output", "call_id": f"call_{i}", "output": f"text {i} " * 60} for i in range(10)]
    whole = [case.items[0], *calls, *outputs]
    said = [{"role": "assistant", "content": "All ten are read."}, {"role": "user", "content": "Which is longest?"}]
    kept = {cut_batch(case, [*whole, *after], window) for after in ([], said) for window in range(60, 2_400, 20)}
    assert kept == {None, 0, 10}


@right("005")
def _(case: Case) -> None:
    sent = govern(case).messages
    assert all(message.get("tool_call_id") != "call_a" for message in sent)
    assert [(turn, call_id) for turn, found in answers(sent).items() for call_id, _ in found] == [(0, "call_b")]
    assert sent[-1] is case.items[-1]


@right("007")
def _(case: Case) -> None:
    governed = govern(case)
    assert governed.messages[0] is case.items[0]
    assert governed.messages[-1] is case.items[-1]
    assert fits(case, governed)


@right("008")
def _(case: Case) -> None:
    governed = govern(case)
    sent = governed.messages
    assert case.items[1] in sent
    turn, [(call_id, result)] = list(answers(sent).items())[-1]
    assert sent[turn] is case.items[-2]
    assert call_id == "call_6"
    assert result["content"]
    assert fits(case, governed)


@right("010")
def _(case: Case) -> None:
    sent = govern(case).messages
    content = sent[2]["content"]
    assert [block["type"] for block in content] == ["tool_result"] * 3 + ["text"]
    assert {block["tool_use_id"] for block in content[:3]} == {"toolu_1", "toolu_2", "toolu_3"}
    assert all("call was interrupted" in block["content"] for block in content[:3])
    assert content[3]["text"] == case.items[2]["content"]
    assert dump(sent).count(case.items[2]["content"]) == 1


@right("011")
def _(case: Case) -> None:
    sent = govern(case).messages
    assert sent[1] is case.items[1]
    found = dict(answers(sent)[1])
    assert set(found) == {"call_w", "call_t"}
    assert found["call_t"] is case.items[2]
    assert "result unavailable" in found["call_w"]["content"]


@right("013")
def _(case: Case) -> None:
    sent = govern(case).messages
    assert [block["type"] for block in sent[2]["content"]] == ["tool_result", "text"]
    assert sent[2]["content"][0]["tool_use_id"] == "tooluse_1"
    assert sent[2]["content"][1]["text"] == case.items[2]["content"]


@right("014")
def _(case: Case) -> None:
    sent = govern(case).messages
    assert [call["id"] for call, _ in pairs(sent)] == ["toolu_a", "toolu_b"]
    assert alternates(sent)
    assert texts(sent[-1]) == ["Resume."]
    assert sent[2] is case.items[2]


@right("016")
def _(case: Case) -> None:
    sent = govern(case).messages
    assert [message for _, message in answers(sent)[1]] == [case.items[2], case.items[4]]
    assert roles(sent) == ["user", "assistant", "tool", "tool", "user"]
    assert sent[4] is case.items[3]


@right("017")
def _(case: Case) -> None:
    sent = govern(case).messages
    reminder, result = case.items[2]["content"]
    assert sent[2]["content"] == [result, reminder]
    assert dump(sent).count(reminder["text"]) == 1


@right("019")
def _(case: Case) -> None:
    sent = govern(case).messages
    assert sent[-1]["role"] == "user"
    assert sent[-1]["content"].strip()
    assert sent[1] is case.items[1]
    assert unchanged(case, model="claude-sonnet-4-5")


@right("020")
def _(case: Case) -> None:
    sent = govern(case).messages
    assert sent[-1]["role"] in ("user", "tool")
    assert sent[2] is case.items[2]
    assert unchanged(altered(case, "messages", 2, "prefix", value=True))


@right("022")
def _(case: Case) -> None:
    sent = govern(case).messages
    assert roles(sent) == ["system", "user"]
    assert joins(sent[0]["content"], case.items[:2])


@right("023")
@right("031")
def _(case: Case) -> None:
    """Nothing is sent, no filler either, and the caller still has the system text."""
    with pytest.raises(legato.Unrepairable, match="there is no message to send"):
        govern(case)


@right("025")
def _(case: Case) -> None:
    sent = govern(case).messages
    assert roles(sent) == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert sent[1]["content"].strip()
    found = answers(sent)
    calls = {turn: sent[turn]["tool_calls"][0] for turn in found}
    assert len({call["id"] for call in calls.values()}) == 2
    named = {calls[turn]["function"]["name"]: results[0][1]["content"] for turn, results in found.items()}
    assert named == {"create_item": '{"ok": false}', "open_editor": '{"ok": true}'}


@right("026")
def _(case: Case) -> None:
    sent = govern(case).messages
    assert roles(sent) == ["system", "user"]
    assert joins(sent[1]["content"], case.items[1:])


@right("028")
def _(case: Case) -> None:
    sent = govern(case).messages
    assert roles(sent) == ["system", "user"]
    assert texts(sent[1]) == ["Context: file text", "What does the file say?"]
    assert all(set(block) == {"type", "text"} for block in sent[1]["content"])


@right("029")
def _(case: Case) -> None:
    sent = govern(case).messages
    assert all(text.strip() for message in sent for text in texts(message))
    assert sent[1]["content"] == case.items[1]["content"][1:]
    assert sent[2] is case.items[2]


@right("032")
def _(case: Case) -> None:
    """The case also wants the neighbours merged. The provider takes them (recorded): the promise to leave it wins."""
    sent = govern(case).messages
    assert all(message["content"] for message in sent)
    assert joins("\n".join(text for message in sent for text in texts(message)), case.items[::2])
    strict = legato.govern(sent, profile="portable").messages
    assert alternates(strict)


@right("034")
def _(case: Case) -> None:
    sent = govern(case).messages
    assert isinstance(sent[1]["content"], str)
    assert sent[1]["tool_calls"] == case.items[1]["tool_calls"]
    assert unchanged(case, profile="openai")
    assert unchanged(case, profile="openai", model="gpt-4o")


@right("035")
def _(case: Case) -> None:
    sent = govern(case).messages
    assert all(content["parts"] for content in sent)
    assert [part for content in sent for part in content["parts"]] == [{"text": "Start."}, {"text": "Go on."}]


@right("037")
def _(case: Case) -> None:
    sent = govern(case).messages
    ids = [call["id"] for call in sent[1]["tool_calls"]]
    assert all(re.fullmatch("[a-zA-Z0-9]{9}", call_id) for call_id in ids)
    assert len(set(ids)) == 2
    found = dict(answers(sent)[1])
    said = [(call["function"]["arguments"], found[call["id"]]["content"]) for call in sent[1]["tool_calls"]]
    assert said == [('{"x": "1"}', "one"), ('{"x": "2"}', "two")]
    later = [*case.items, {"role": "assistant", "content": "Both found."}, {"role": "user", "content": "Thanks."}]
    assert govern(case, messages=later).messages[:4] == sent


@right("038")
def _(case: Case) -> None:
    sent = govern(case).messages
    found = pairs(sent)
    assert len({call["id"] for call, _ in found}) == 2
    assert all(re.fullmatch("[a-zA-Z0-9_-]+", call["id"]) for call, _ in found)
    assert [(call["input"]["x"], result["content"]) for call, result in found] == [("a", "text a"), ("b", "text b")]
    more = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "functions-1", "name": "read", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "functions-1", "content": "text c"}]},
    ]
    later = govern(case, messages=[*case.items, *more]).messages
    assert later[:3] == sent
    assert later[3:] == more


@right("040")
def _(case: Case) -> None:
    assert unchanged(case)
    paired = [(".", "a.txt"), ("/", "etc usr")]
    assert [(call["input"]["x"], result["content"]) for call, result in pairs(case.items)] == paired
    both = [
        case.items[0],
        {"role": "assistant", "content": [*case.items[1]["content"], *case.items[3]["content"][1:]]},
        {"role": "user", "content": [*case.items[2]["content"], *case.items[4]["content"]]},
    ]
    sent = govern(case, messages=both).messages
    found = pairs(sent)
    assert [(call["input"]["x"], result["content"]) for call, result in found] == paired
    assert found[0][0]["id"] == "call_0" != found[1][0]["id"]
    assert govern(case, messages=both).messages == sent


@right("041")
def _(case: Case) -> None:
    found = pairs(govern(case).messages)
    assert [call["id"] for call, _ in found] == ["toolu_1"]
    assert "edit applied" in found[0][1]["content"]


@right("043")
def _(case: Case) -> None:
    assert unchanged(case)
    moved = govern(case, profile="anthropic", to="anthropic")
    [(call, result)] = pairs(moved.messages)
    assert re.fullmatch("[a-zA-Z0-9_-]+", call["id"])
    assert (call["name"], call["input"], result["content"]) == ("Notes", {"x": "1"}, "notes text")
    assert errors(case._replace(profile="anthropic", format="anthropic"), moved.body) == []


@right("044")
def _(case: Case) -> None:
    governed = govern(case)
    [(call, result)] = pairs(governed.messages)
    assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", call["name"])
    assert call["id"] == "tooluse_1"
    assert result == case.items[2]["content"][0]
    assert governed.body["tools"] is case.request["tools"]


@right("046")
def _(case: Case) -> None:
    assert inputs(case, []) == {}
    assert inputs(case, '{"x": "beta"}') == {"x": "beta"}
    for other in ("plain words", [1, 2], 7, True, '["a"]'):
        wrapped = inputs(case, other)
        assert isinstance(wrapped, dict)
        assert wrapped
        assert set(re.findall(r"\w+", dump(other))) <= set(re.findall(r"\w+", dump(wrapped)))


def inputs(case: Case, value: Any) -> Any:
    """What becomes of this value as the input of the second call. The first call and both results stay."""
    changed = altered(case, "messages", 1, "content", 1, "input", value=value)
    found = pairs(govern(changed).messages)
    assert found[0][0] == case.items[1]["content"][0]
    assert [result for _, result in found] == case.items[2]["content"]
    return found[1][0]["input"]


@right("047")
def _(case: Case) -> None:
    sent = govern(case).messages
    assert pairs(sent) == []
    assert sent[1] is case.items[1]
    assert "Still there?" in texts(sent[-1])
    assert alternates(sent)


@right("049")
def _(case: Case) -> None:
    body = govern(case).body
    assert body.get("thinking", {"type": "disabled"})["type"] == "disabled"
    assert body["messages"] == case.items, "call and result are kept, no thinking is invented"


@right("050")
def _(case: Case) -> None:
    body = govern(case).body
    assert not blocks(body["messages"], "thinking")
    assert not blocks(body["messages"], "redacted_thinking")
    assert "sig-from-model-a" not in dump(body)
    assert pairs(body["messages"]) == pairs(case.items)
    assert body["messages"][0] is case.items[0]
    assert body.get("thinking", {"type": "disabled"})["type"] == "disabled"
    assert "_origin" not in dump(body)


@right("052")
def _(case: Case) -> None:
    """An empty `reasoning_content` is as right as thinking switched off: the API wants the field, it may be empty."""
    body = govern(case).body
    assert body["thinking"] == {"type": "disabled"} or isinstance(body["messages"][1]["reasoning_content"], str)
    assert dict(answers(body["messages"])[1]) == {"call_1": case.items[2]}
    thought = "The weather tool\n\tknows. "
    assert unchanged(altered(case, "messages", 1, "reasoning_content", value=thought))
    sent = govern(altered(case, "messages", 1, "reasoning", value=thought)).messages
    assert sent[1]["reasoning_content"] == thought
    assert "reasoning" not in sent[1]


@right("053")
def _(case: Case) -> None:
    for field in ("reasoning_content", "reasoning", "reasoning_details"):
        value = [{"type": "reasoning.text", "text": "\n"}] if field == "reasoning_details" else "\n"
        changed = altered(case, "messages", 1, value={"role": "assistant", "content": "Hello.", field: value})
        sent = govern(changed).messages
        assert sent == [case.items[0], {"role": "assistant", "content": "Hello."}, case.items[2]]
        assert changed.items[1][field] == value


@right("055")
def _(case: Case) -> None:
    body = govern(case).body
    call = body["input"][1]
    assert "id" not in call
    assert calls_before_outputs(body["input"]) == ["call_1"]
    assert "_required_reasoning" not in dump(body)
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": []}
    complete = govern(case, input=[case.items[0], reasoning, *case.items[1:]])
    assert complete.messages[1] is reasoning
    assert complete.messages[2]["id"] == "fc_1"
    assert "_required_reasoning" not in dump(complete.body)


@right("056")
def _(case: Case) -> None:
    stand_in = "skip_thought_signature_validator"
    first, second = govern(case).messages[1]["parts"]
    assert first == {**case.items[1]["parts"][0], "thoughtSignature": stand_in}
    assert second == case.items[1]["parts"][1]
    assert unchanged(altered(case, "contents", 1, "parts", 0, "thoughtSignature", value="c2lnbmVk"))
    assert unchanged(case, model="gemini-2.5-pro")


@right("058")
def _(case: Case) -> None:
    sent = govern(case).messages
    assert all("image_url" not in dump(message) for message in sent if message["role"] != "user")
    found = dict(answers(sent)[1])
    assert set(found) == {"call_1", "call_2"}
    assert texts(found["call_1"]) == ["page 1"]
    assert found["call_2"] is case.items[3]
    assert roles(sent) == ["user", "assistant", "tool", "tool", "user"]
    assert case.items[2]["content"][1] in sent[4]["content"]


@right("059")
def _(case: Case) -> None:
    sent = govern(case).messages
    newest = case.items[2]["content"][0]
    images = blocks(sent, "image")
    assert len(images) <= 20
    assert newest in sent[2]["content"]
    said = [text for message in case.items for text in texts(message)]
    left = [text for message in sent for text in texts(message)]
    assert [text for text in left if text in said] == said
    placeholders = [text for text in left if text not in said]
    assert len(placeholders) == 21 - len(images)
    assert all(0 < len(text) < 100 for text in placeholders)


@right("061")
def _(case: Case) -> None:
    body = govern(case).body
    assert [tool["name"] for tool in body["tools"]] == ["stock"]
    assert body["messages"] == case.items
    assert alternates(body["messages"])


@right("062")
def _(case: Case) -> None:
    governed = govern(case)
    assert fits(case, governed)
    [(call_id, result)] = answers(governed.messages)[2]
    assert call_id == "call_1"
    head, marker, tail = re.split(r"(\S*\[[^\]]*\d[^\]]*\]\S*)", result["content"])
    assert head.startswith("line line")
    assert tail.endswith("line line ")
    [gone] = re.findall(r"\d[\d,]*", marker)
    kept = len((head + tail).split())
    assert abs(int(gone.replace(",", "")) - (20_000 - kept)) <= 50, marker
    assert governed.messages[:3] == case.items[:3]


@right("064")
def _(case: Case) -> None:
    governed = govern(case)
    assert spent(case.items) <= 10_000 < spent(case.items) + 500
    assert governed.body["max_tokens"] == 500
    assert fits(case, governed)
    assert governed.messages[-1] is case.items[-1]


@right("065")
def _(case: Case) -> None:
    governed = govern(case)
    characters = sum(len(message["content"]) for message in governed.messages)
    assert 0.55 * characters + 500 <= 8_000
    assert governed.messages[-1] is case.items[-1]
    assert alternates(governed.messages)
    assert governed.body is not case.request


@right("067")
def _(case: Case) -> None:
    """The long first message is dropped whole, as the document says; nothing of it is lost in silence."""
    governed = govern(case)
    assert fits(case, governed)
    assert governed.messages[-1] is case.items[-1]
    assert holds(governed, [message["content"] for message in case.items])


@right("068")
def _(case: Case) -> None:
    governed = govern(case)
    assert governed.messages[-1] is case.items[-1]
    assert roles(governed.messages).count("system") == 1
    assert all(message in case.items for message in governed.messages), "no summary is inserted"
    assert fits(case, governed)


@right("070")
def _(case: Case) -> None:
    governed = govern(case)
    assert fits(case, governed)
    assert governed.messages[:3] == case.items[:3]
    assert dict(answers(governed.messages)[2])["call_1"]["content"].startswith("file ")
    unknown = legato.govern(case.request, profile=case.profile, policy=legato.Policy())
    assert unknown.report.budget is not None
    assert unknown.report.budget <= 4_096 - 256
    assert unknown.report.tokens_out <= unknown.report.budget
    warned = legato.check(case.request, profile=case.profile)
    assert ("SIZE005", "warning") in {(violation.code, violation.severity) for violation in warned}


@right("071")
def _(case: Case) -> None:
    sent = govern(case).messages
    assert all(message["content"] for message in sent)
    assert roles(sent) == ["user"]
    assert joins(sent[0]["content"], case.items[::2])


@right("073")
def _(case: Case) -> None:
    """The case also wants a returned list that can be written to without a trace in the input.

    A message or a part that did not change is the caller's own object, by promise; what legato changed is new.
    """
    first, second = govern(case), govern(case)
    assert first.body == second.body
    arguments = first.messages[1]["tool_calls"][0]["function"]["arguments"]
    assert isinstance(json.loads(arguments), dict)
    assert "unterminated" in arguments
    assert [texts(message) for message in first.messages] == [["Write."], [""], ["[error] bad arguments"], ["Again."]]
    own = {id(value) for value in containers(case.request)}
    changed = [message for message in first.messages if id(message) not in own]
    assert [message["role"] for message in changed] == ["assistant", "user"]
    assert not {id(message["tool_calls"]) for message in changed if "tool_calls" in message} & own
