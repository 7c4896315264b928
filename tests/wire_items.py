"""Wire items of every format: the recorded ones, and generated ones with fields and parts that nobody knows."""

from __future__ import annotations

from functools import cache
from itertools import permutations
from typing import Any

import pytest
from hypothesis import strategies as st

from legato.messages import Json
from legato.wire import anthropic, bedrock, gemini, openai_chat, openai_responses
from recorded import jsonl

CODECS: dict[str, Any] = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic,
    "gemini": gemini,
    "bedrock": bedrock,
}
FORMATS = list(CODECS)
PAIRS = list(permutations(FORMATS, 2))
RECORDED = {
    "openai-chat": "openai-chat",
    "openai-responses": "openai-responses",
    "anthropic": "anthropic-messages",
    "gemini": "gemini",
    "bedrock": "bedrock-converse",
}

every_format = pytest.mark.parametrize("form", FORMATS)
every_pair = pytest.mark.parametrize(("old", "new"), PAIRS)


@cache
def bodies(form: str) -> list[Json]:
    """The recorded requests of a format."""
    return [line["request"] for line in jsonl(f"provider-requests/{RECORDED[form]}.jsonl")]


def listed(form: str, value: Json) -> list[Json]:
    """The list in a body: some formats take a text or an object for it."""
    found: list[Json] = CODECS[form].listed(value) if hasattr(CODECS[form], "listed") else value
    return found


def recorded(form: str) -> list[list[Json]]:
    return [listed(form, body[CODECS[form].KEY]) for body in bodies(form)]


# -- generated items ---------------------------------------------------------------------------------------------------

TEXT = st.sampled_from(("", "ok", "查看 🙂", "line\nline", "{}"))
ID = st.sampled_from(("call_1", "toolu_2", "x"))
VALUE: st.SearchStrategy[Any] = st.sampled_from((None, 0, "x", [], {"type": "ephemeral"}))
OBJECT = st.sampled_from(({}, {"path": "a"}, {"deep": {"list": [1, None]}}))
IMAGE = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}


def items(required: dict[str, Any], **optional: Any) -> st.SearchStrategy[Any]:
    """Objects with these fields, maybe those, and maybe one that nobody knows. What is no strategy is itself."""
    fixed, maybe = (
        {key: value if isinstance(value, st.SearchStrategy) else st.just(value) for key, value in fields.items()}
        for fields in (required, {**optional, "x_unknown": VALUE})
    )
    return st.fixed_dictionaries(fixed, optional=maybe)


def lists(*values: Any) -> st.SearchStrategy[Any]:
    """Short lists of any of these."""
    return st.lists(st.one_of(*[v if isinstance(v, st.SearchStrategy) else st.just(v) for v in values]), max_size=3)


UNKNOWN: list[Any] = [{"type": "brand_new", "data": {"a": 1}}, "not an object", None, {"unheard": {"of": []}}]


def anthropic_items() -> st.SearchStrategy[Any]:
    text = items({"type": "text", "text": TEXT}, cache_control={"type": "ephemeral"}, citations=VALUE)
    content = st.one_of(TEXT, lists(text, IMAGE, *UNKNOWN), st.none())
    blocks = lists(
        text,
        IMAGE,
        *UNKNOWN,
        items({"type": "thinking", "thinking": TEXT}, signature=st.one_of(TEXT, st.none())),
        items({"type": "redacted_thinking", "data": TEXT}),
        items({"type": "tool_use", "id": ID, "name": ID, "input": st.one_of(OBJECT, st.just([]))}),
        items({"type": "tool_use"}, id=ID, name=ID, input=OBJECT),
        items({"type": "tool_result"}, tool_use_id=ID, content=content, is_error=st.sampled_from((True, False, None))),
        items({"type": "server_tool_use", "id": ID, "name": "web_search", "input": {}}),
    )
    return items(
        {"role": st.sampled_from(("user", "assistant", "system")), "content": st.one_of(blocks, TEXT, st.none())}
    )


def bedrock_items() -> st.SearchStrategy[Any]:
    def keyed(key: str, inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return inner.map(lambda value: {key: value})

    plain = (
        {"text": "ok"},
        {"text": ""},
        {"json": {"a": 1}},
        {"image": {"format": "png", "source": {"bytes": "AA=="}}},
    )
    thought = keyed("reasoningText", items({"text": TEXT}, signature=TEXT))
    blocks = lists(
        *plain,
        *UNKNOWN,
        {"cachePoint": {"type": "default"}},
        keyed("reasoningContent", st.one_of(thought, items({"redactedContent": TEXT}))),
        keyed("toolUse", items({"toolUseId": ID, "name": ID}, input=OBJECT)),
        keyed("toolUse", items({"toolUseId": ID, "name": ID, "type": "server_tool_use"}, input=OBJECT)),
        keyed(
            "toolResult",
            items({"content": lists(*plain, *UNKNOWN)}, toolUseId=ID, status=st.sampled_from(("error", "success"))),
        ),
    )
    return items({"role": st.sampled_from(("user", "assistant")), "content": st.one_of(blocks, st.none())})


def gemini_items() -> st.SearchStrategy[Any]:
    signature = st.sampled_from(({}, {"thoughtSignature": "c2ln"}, {"thought_signature": "c2ln"}))

    def keyed(inner: st.SearchStrategy[Any], *keys: str) -> st.SearchStrategy[Any]:
        return st.builds(lambda key, value, more: {key: value, **more}, st.sampled_from(keys), inner, signature)

    image = {"inline_data": {"mime_type": "image/png", "data": "AA-_"}}
    response = st.one_of(
        st.builds(lambda key, text: {key: text}, st.sampled_from(("output", "result", "error", "answer")), TEXT),
        st.sampled_from(({}, {"output": ["a"]}, {"error": {"code": 1}}, {"a": "b", "c": "d"})),
    )
    parts = lists(
        *UNKNOWN,
        image,
        {"fileData": {"fileUri": "https://example.org/a.pdf", "mimeType": "application/pdf"}},
        {"executableCode": {"code": "1", "language": "PYTHON"}},
        items({"text": TEXT}, thoughtSignature="c2ln", thought=False),
        items({"text": TEXT, "thought": True}, thought_signature="c2ln"),
        keyed(items({"name": ID, "args": OBJECT}, id=ID), "functionCall", "function_call"),
        keyed(
            items({"name": ID, "response": response}, id=ID, parts=st.sampled_from(([image], [], [image, {}]))),
            "functionResponse",
            "function_response",
        ),
    )
    roles = st.sampled_from(("user", "model", "function", "assistant", ""))
    return st.one_of(items({"parts": st.one_of(parts, st.none())}, role=roles), items({"role": roles, "parts": parts}))


def responses_items() -> st.SearchStrategy[Any]:
    text = items({"type": "input_text", "text": TEXT})
    said = items({"type": "output_text", "text": TEXT, "annotations": []})
    media = ({"type": "input_image", "image_url": "https://example.org/a.png"}, {"type": "input_file", "file_id": "f"})
    untyped = items({"type": "text", "text": TEXT})
    output = st.one_of(TEXT, lists(text, untyped, *media, *UNKNOWN))
    called = {"call_id": ID}
    summary = lists({"type": "summary_text", "text": "so"}, {"type": "summary_text", "text": "then"})
    shell = [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]
    refusal = items({"type": "refusal", "refusal": TEXT})
    return st.one_of(
        items({"role": st.sampled_from(("user", "developer", "system")), "content": output}, type="message"),
        items(
            {"role": "assistant", "content": st.one_of(TEXT, lists(said, refusal, untyped, *UNKNOWN))},
            type="message",
            id="msg_1",
            phase="final",
        ),
        items({"type": "function_call", "name": ID, **called}, arguments=TEXT, id="fc_1", status="completed"),
        items({"type": "custom_tool_call", "name": ID, "input": TEXT, **called}),
        items({"type": st.sampled_from(("local_shell_call", "shell_call", "computer_call")), **called}, action=OBJECT),
        items({"type": "apply_patch_call", "operation": OBJECT, **called}, status="completed"),
        items({"type": "function_call_output", "output": output, **called}),
        items({"type": "custom_tool_call_output", "output": output, **called}),
        items({"type": "local_shell_call_output", "output": TEXT, "id": ID}),
        items({"type": "shell_call_output", "output": shell, **called}),
        items({"type": "apply_patch_call_output", "status": "failed", **called}, output=TEXT),
        items({"type": "computer_call_output", "output": {"type": "computer_screenshot", "image_url": "x"}, **called}),
        items(
            {"type": "reasoning", "summary": summary},
            id="rs_1",
            encrypted_content=st.one_of(TEXT, st.none()),
            content=summary,
        ),
        items(
            {"type": st.sampled_from(("web_search_call", "compaction", "item_reference", "brand_new"))},
            id="x",
            role="developer",
        ),
        items({"id": "msg_1"}),
    )


def chat_items() -> st.SearchStrategy[Any]:
    text = items({"type": "text", "text": TEXT})
    content = st.one_of(TEXT, st.lists(text, min_size=1, max_size=3), st.none())
    call = items({"id": ID, "type": "function", "function": {"name": "f", "arguments": "{}"}})
    return st.one_of(
        items({"role": st.sampled_from(("user", "system", "developer")), "content": content}, name=ID),
        items({"role": "assistant", "content": content}, reasoning_content=TEXT, tool_calls=st.lists(call, max_size=2)),
        items({"role": "tool", "content": content, "tool_call_id": ID}, name=ID),
    )


ITEMS = {
    "openai-chat": chat_items(),
    "openai-responses": responses_items(),
    "anthropic": anthropic_items(),
    "gemini": gemini_items(),
    "bedrock": bedrock_items(),
}
