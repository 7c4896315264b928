"""Second opinions on bodies of Anthropic, Bedrock, Gemini and Responses: strict walks that share no code with legato.

Each says what a provider with these habits would refuse. Every rule is written again from the providers' own words and
recorded answers, as plainly as possible. `walker.py` is the same for message lists of OpenAI Chat; `providers.py` says
which walker, with which habits, a profile has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

Wire = Mapping[str, Any]
Run = tuple[str, list[Wire]]

ID = r"[a-zA-Z0-9_-]+"
NAME = r"[a-zA-Z0-9_-]{1,64}"


def _matches(pattern: str, value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


def _count_key(value: Any, key: str) -> int:
    if isinstance(value, dict):
        return (key in value) + sum(_count_key(inner, key) for inner in value.values())
    return sum(_count_key(inner, key) for inner in value) if isinstance(value, list) else 0


def _notes(items: Sequence[Wire]) -> Iterator[str]:
    for at, item in enumerate(items):
        yield from (f"[{at}] note {key}" for key in item if key.startswith("_"))


# -- Anthropic Messages ------------------------------------------------------------------------------------------------


def anthropic(body: Wire, *, prefill: bool = False, system_turns: bool = False) -> list[str]:
    """`prefill`: the generations up to 4.5. `system_turns`: those from 4.8 on, which take system messages."""
    messages = body["messages"]
    found = [*_notes(messages)] or ([] if messages else ["no messages"])
    for at, message in enumerate(messages):
        if message["role"] not in ("user", "assistant", *(("system",) if system_turns else ())):
            found.append(f"[{at}] role {message['role']}")
        if not message.get("content"):
            found.append(f"[{at}] empty content")
    runs: list[Run] = [
        (role, [block for message in run for block in _blocks(message.get("content"))])
        for role, run in groupby(messages, key=lambda message: str(message["role"]))
    ]
    roles = [role for role, _ in runs]
    found += [f"system after {before}" for before, role in pairwise(roles) if role == "system" and before != "user"]
    found += [f"{role}: {what}" for role, blocks in runs for block in blocks for what in _anthropic_block(block, role)]
    found += _anthropic_pairs(runs)
    thinks = (body.get("thinking") or {}).get("type") in ("enabled", "adaptive")
    found += _anthropic_end(runs, prefill and not thinks)
    found += _anthropic_thinking(messages) if thinks else ()
    used = any(block["type"] in ("tool_use", "tool_result") for _, blocks in runs for block in blocks)
    if used and not body.get("tools"):
        found.append("tool blocks, but no tools")
    if _count_key(body, "cache_control") > 4:
        found.append("more than 4 cache markers")
    return found


def _blocks(content: Any) -> list[Wire]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def _anthropic_pairs(runs: Sequence[Run]) -> Iterator[str]:
    waiting: list[Any] = []
    for role, blocks in runs:
        results = [block["type"] == "tool_result" for block in blocks]
        answered = [block.get("tool_use_id") for block in blocks if block["type"] == "tool_result"]
        if sorted(map(str, answered)) != sorted(map(str, waiting)):
            yield f"calls {waiting} are answered by {answered}"
        if results != sorted(results, reverse=True):
            yield "results are not first"
        waiting = [block.get("id") for block in blocks if block["type"] == "tool_use"]
        if len(set(waiting)) < len(waiting):
            yield f"call ids repeat: {waiting}"
        if waiting and role != "assistant":
            yield f"{role} calls a tool"
    if waiting:
        yield f"calls {waiting} are never answered"


def _anthropic_block(block: Wire, role: str) -> Iterator[str]:
    match block["type"]:
        case "text" if not block["text"].strip():
            yield f"blank text {block['text']!r}"
        case "tool_use":
            if not _matches(ID, block.get("id")) or not _matches(r"[a-zA-Z0-9_-]{1,128}", block.get("name")):
                yield f"id {block.get('id')!r} or name {block.get('name')!r}"
            if not isinstance(block.get("input"), dict):
                yield f"input {block.get('input')!r}"
        case "tool_result":
            if not _matches(ID, block.get("tool_use_id")) or role != "user":
                yield f"result id {block.get('tool_use_id')!r} of {role}"
            if block.get("is_error") and not block.get("content"):
                yield "an error result is empty"
        case "thinking" if not block.get("signature") or "cache_control" in block or role != "assistant":
            yield "thinking without a signature, with a cache marker, or not the assistant's"


def _anthropic_end(runs: Sequence[Run], prefill: bool) -> Iterator[str]:
    thoughts = ("thinking", "redacted_thinking")
    for role, blocks in runs:
        if role == "assistant" and blocks and blocks[-1]["type"] in thoughts:
            yield "a turn ends with thinking"
    if runs and runs[-1][0] == "assistant":
        if not prefill:
            yield "ends with assistant"
        last = runs[-1][1][-1] if runs[-1][1] else {}
        if last.get("type") == "text" and last["text"] != last["text"].rstrip():
            yield "prefill ends in white space"


def _anthropic_thinking(messages: Sequence[Wire]) -> Iterator[str]:
    """With thinking on: since the user's last question the newest message that calls starts with it."""
    asked = max((at for at, message in enumerate(messages) if _asks(message)), default=-1)
    turns = [_blocks(message.get("content")) for message in messages[asked + 1 :]]
    calling = [blocks for blocks in turns if any(block["type"] == "tool_use" for block in blocks)]
    if calling and calling[-1][0]["type"] not in ("thinking", "redacted_thinking"):
        yield "thinking is on, but the newest turn that calls does not start with it"


def _asks(message: Wire) -> bool:
    """Whether a user says something: a message that is more than results."""
    kinds = {block["type"] for block in _blocks(message.get("content"))}
    return message["role"] == "user" and bool(kinds - {"tool_result"})


# -- Bedrock Converse --------------------------------------------------------------------------------------------------


def bedrock(
    body: Wire,
    *,
    alternates: bool = True,
    user_first: bool = True,
    alone: bool = False,
    ids: str = r"[a-zA-Z0-9_.:-]{1,64}",
    shown: Sequence[str] = ("image",),
    status: bool = True,
    signed: bool = False,
    prefill: bool = False,
) -> list[str]:
    """`alone`: nothing stands beside results. `shown`: the media a result may hold. `status`: a result may have one.

    `signed`: reasoning is taken with its signature only.
    """
    messages = body["messages"]
    roles = [message["role"] for message in messages]
    found = [*_notes(messages)] or ([] if messages else ["no messages"])
    found += [f"role {role}" for role in set(roles) - {"user", "assistant"}]
    found += [f"{after} after {before}" for before, after in pairwise(roles) if before == after and alternates]
    if user_first and roles[:1] != ["user"]:
        found.append("starts with assistant")
    if roles[-1:] != ["user"] and not prefill:
        found.append("ends with assistant")
    waiting: list[Any] = []
    for at, message in enumerate(messages):
        blocks = [block for block in message.get("content") or [] if not _is_server_tool(block)]
        results = [block["toolResult"] for block in blocks if "toolResult" in block]
        answered = [result.get("toolUseId") for result in results]
        problems = [] if message.get("content") else ["empty content"]
        if sorted(map(str, answered)) != sorted(map(str, waiting)):
            problems.append(f"calls {waiting} are answered by {answered}")
        if any("toolResult" not in block for block in blocks[: len(results)]):
            problems.append("results are not first")
        if alone and 0 < len(results) < len(blocks):
            problems.append("something stands beside results")
        waiting = [block["toolUse"].get("toolUseId") for block in blocks if "toolUse" in block]
        if len(set(waiting)) < len(waiting) or (waiting and message["role"] != "assistant"):
            problems.append(f"{message['role']} calls {waiting}")
        if signed and any("reasoningContent" in block for block in blocks[-1:]):
            problems.append("a turn ends with reasoning")
        problems += [fault for block in blocks for fault in _bedrock_block(block, ids, signed)]
        problems += [fault for result in results for fault in _bedrock_result(result, shown, status)]
        found += [f"[{at}] {problem}" for problem in problems]
    kinds = {kind for message in messages for block in message.get("content") or () for kind in block}
    if kinds & {"toolUse", "toolResult"} and not (body.get("toolConfig") or {}).get("tools"):
        found.append("tool blocks, but no toolConfig")
    return found + [f"call {missing!r} never answered" for missing in waiting]


def _is_server_tool(block: Wire) -> bool:
    """Of a tool that the provider runs itself: call and result stand in one message."""
    return any("type" in block.get(kind, {}) for kind in ("toolUse", "toolResult"))


def _bedrock_block(block: Wire, ids: str, signed: bool) -> Iterator[str]:
    if block.get("text") == "":
        yield "empty text"
    if "toolUse" in block:
        call = block["toolUse"]
        if not _matches(ids, call.get("toolUseId")) or not _matches(NAME, call.get("name")):
            yield f"id {call.get('toolUseId')!r} or name {call.get('name')!r}"
        if not isinstance(call.get("input"), dict):
            yield f"input {call.get('input')!r}"
    thought = block.get("reasoningContent", {}).get("reasoningText", {"signature": "none needed"})
    if signed and not thought.get("signature"):
        yield "reasoning without a signature"


def _bedrock_result(result: Wire, shown: Sequence[str], status: bool) -> Iterator[str]:
    content = result.get("content")
    if not isinstance(content, list) or (not content and result.get("status") == "error"):
        yield f"result content {content!r}"
    if "status" in result and not status:
        yield "a result has a status"
    for block in content or ():
        yield from (f"{kind} in a result" for kind in block if kind not in ("text", "json", *shown))


# -- Gemini generateContent --------------------------------------------------------------------------------------------


def gemini(body: Wire, *, signed: bool = True, system_field: bool = True, media: bool = True) -> list[str]:
    """`signed`: Gemini 3 and later. `system_field`: not for Gemma. `media`: a response may hold some."""
    contents = body["contents"]
    found = [*_notes(contents)] or ([] if contents else ["no contents"])
    if not system_field and (body.get("systemInstruction") or body.get("system_instruction")):
        found.append("a system instruction")
    waiting: list[Any] = []
    before = ""
    for at, content in enumerate(contents):
        role, parts = content.get("role", "user"), content.get("parts") or []
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        responses = [part["functionResponse"] for part in parts if "functionResponse" in part]
        problems = [] if parts and all(parts) else ["empty parts"]
        if role not in ("user", "model"):
            problems.append(f"role {role}")
        if role == "user":
            answered = [response.get("id") for response in responses]
            if len(answered) != len(waiting) or (all(waiting) and all(answered) and set(answered) != set(waiting)):
                problems.append(f"calls {waiting} are answered by {answered}")
            waiting = []
        elif responses:
            problems.append("the model answers a call")
        if calls and (role != "model" or not before):
            problems.append(f"{role} calls after {before or 'nothing'}")
        if signed and calls and before != "model" and not _is_signed(parts):
            problems.append("the first call of a step is not signed")
        waiting += [call.get("id") for call in calls]
        problems += [fault for call in calls for fault in _gemini_call(call)]
        problems += [fault for response in responses for fault in _gemini_response(response, media)]
        found += [f"[{at}] {problem}" for problem in problems]
        before = role
    if before == "model":
        found.append("ends with model")
    return found + ([f"calls {waiting} are never answered"] if waiting else [])


def _is_signed(parts: Sequence[Wire]) -> bool:
    first = next(part for part in parts if "functionCall" in part)
    return bool(first.get("thoughtSignature") or first.get("thought_signature"))


def _gemini_call(call: Wire) -> Iterator[str]:
    if not _matches(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}", call.get("name")):
        yield f"name {call.get('name')!r}"
    if not isinstance(call.get("args", {}), dict):
        yield f"args {call.get('args')!r}"


def _gemini_response(response: Wire, media: bool) -> Iterator[str]:
    if not response.get("name"):
        yield "a response without a name"
    if not isinstance(response.get("response"), dict):
        yield f"response {response.get('response')!r}"
    if response.get("parts") and not media:
        yield "media in a response"


# -- OpenAI Responses --------------------------------------------------------------------------------------------------


def responses(body: Wire, *, contiguous: bool = False, bound: bool = True, names: bool = True) -> list[str]:
    """`contiguous`: nothing is said between the calls of a turn. `bound`: reasoning goes with what followed it.

    `names`: ids and names are judged.
    """
    items = body["input"]
    found = [*_notes(items)] or ([] if items else ["no input"])
    waiting: list[Any] = []
    searches: list[Any] = []
    calling, said = False, False
    for at, item in enumerate(items):
        after = items[at + 1] if at + 1 < len(items) else {}
        kind = item.get("type", "message")
        problems = list(_responses_message(item)) if kind == "message" else []
        if kind == "function_call":
            problems += _responses_call(item) if names else ()
            if contiguous and calling and said:
                problems.append("something is said between calls")
            waiting.append(item.get("call_id"))
            calling, said = True, False
        elif kind == "function_call_output":
            if item.get("call_id") in waiting:
                waiting.remove(item.get("call_id"))
            elif item.get("call_id") not in searches:
                problems.append(f"no call for the output {item.get('call_id')!r}")
            if not isinstance(item.get("output"), str | list):
                problems.append(f"output {item.get('output')!r}")
            calling = False
        elif kind == "message":
            said = True
        elif kind == "tool_search_call":
            searches.append(item.get("call_id"))
        elif kind == "reasoning" and bound and "id" in item and not _may_follow(after):
            problems.append("reasoning without its following item")
        found += [f"[{at}] {problem}" for problem in problems]
    return found + [f"no output for the call {missing!r}" for missing in waiting]


def _responses_message(item: Wire) -> Iterator[str]:
    role, content = item.get("role"), item.get("content")
    if role not in ("user", "assistant", "system", "developer"):
        yield f"role {role}"
    if not isinstance(content, str | list):
        yield f"content {content!r}"
    wrong = "input_" if role == "assistant" else "output_"
    for part in content if isinstance(content, list) else ():
        if not isinstance(part.get("type"), str) or part["type"].startswith(wrong):
            yield f"{part.get('type')} of {role}"


def _responses_call(item: Wire) -> Iterator[str]:
    if not isinstance(item.get("call_id"), str) or not 0 < len(item["call_id"]) <= 64:
        yield f"call_id {item.get('call_id')!r}"
    if not _matches(r"[a-zA-Z0-9_-]+", item.get("name")):
        yield f"name {item.get('name')!r}"
    if not isinstance(item.get("arguments"), str):
        yield f"arguments {item.get('arguments')!r}"
    if not item.get("id", "fc_").startswith("fc"):
        yield f"item id {item['id']!r}"


def _may_follow(item: Wire) -> bool:
    """Whether the item may be what followed a thought: anything of the model's; what it says, under its own id."""
    kind = item.get("type", "message" if item else "function_call_output")
    return kind != "function_call_output" and (kind != "message" or (item["role"] == "assistant" and "id" in item))
