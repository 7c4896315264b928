"""Parts that stand where the provider looks for others: they are put right, and nothing of them is lost."""

from __future__ import annotations

from typing import Any

import legato


def codes(governed: legato.Governed) -> list[str]:
    return [change.code for change in governed.report.changes]


def test_a_call_in_a_system_message_gets_its_own_turn_and_its_result() -> None:
    use = {"type": "tool_use", "id": "x", "name": "a", "input": {}}
    messages: list[Any] = [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}, use]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "one"}]},
    ]
    governed = legato.govern(messages, profile="anthropic")
    assert governed.body["system"] == "Be brief."
    assert governed.messages == [{"role": "assistant", "content": [use]}, messages[1]]
    assert codes(governed)[0] == "PAIR015"


def test_a_call_beside_the_thought_that_led_to_it_takes_it_along() -> None:
    thought = {"type": "thinking", "thinking": "Read it.", "signature": "sig"}
    use = {"type": "tool_use", "id": "x", "name": "a", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "x", "content": "one"}
    messages = [{"role": "user", "content": "q"}, {"role": "user", "content": [thought, use]}]
    messages.append({"role": "user", "content": [result]})
    sent = legato.govern(messages, profile="anthropic").messages
    assert sent[1] == {"role": "assistant", "content": [thought, use]}


def test_reasoning_between_calls_stays_when_what_was_said_between_them_moves() -> None:
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "THOUGHT"}], "encrypted_content": "e"}
    items: list[Any] = [
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        thought,
        {"role": "assistant", "content": "hi", "type": "message"},
        {"type": "function_call", "call_id": "b", "name": "f", "arguments": "{}"},
    ]
    governed = legato.govern(items, profile="deepseek-responses")
    assert "PAIR012" in codes(governed)
    assert [item for item in governed.messages if item.get("type") == "reasoning"] == [thought]


def test_definitions_in_an_unused_field_do_not_hide_the_ones_that_are_added() -> None:
    call = {"toolUse": {"toolUseId": "x", "name": "a", "input": {}}}
    body = {"messages": [{"role": "assistant", "content": [call]}], "functions": ["a"]}
    governed = legato.govern(body, profile="bedrock", format="bedrock")
    assert "BODY021" in codes(governed)
    assert governed.body["toolConfig"]["tools"][0]["toolSpec"]["name"] == "a"


def test_a_call_behind_a_leading_text_of_the_model_is_not_the_first_turn() -> None:
    call = {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "s"}
    contents: list[Any] = [
        {"role": "model", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "x"}}}]},
    ]
    assert [violation.code for violation in legato.check(contents, profile="gemini")] == ["ROLE005"]
    assert legato.govern(contents, profile="gemini").messages[1:] == contents


def test_a_result_with_a_blank_name_gets_the_name_of_its_call_or_keeps_its_own() -> None:
    call = {"id": "abcdefghi", "type": "function", "function": {"name": "grep", "arguments": "{}"}}
    messages: list[Any] = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "abcdefghi", "name": "", "content": "r"},
    ]
    assert {message.get("name") for message in legato.govern(messages, profile="mistral").messages} <= {
        None,
        "",
        "grep",
    }


def test_white_space_that_the_model_would_have_to_continue_leaves_no_empty_block() -> None:
    profile = "bedrock:anthropic.claude-3-haiku"
    question = {"role": "user", "content": [{"text": "q"}]}
    for said, left in ([["\n"], []], [["x\n", "\n"], ["x"]], [["x", " "], ["x"]]):
        answer = {"role": "assistant", "content": [{"text": text} for text in said]}
        governed = legato.govern([question, answer], profile=profile)
        assert [block["text"] for message in governed.messages[1:] for block in message["content"]] == left
        assert legato.check(governed.body, profile) == []
