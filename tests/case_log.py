"""The case log in `cases/`, expanded and governed, and what the assertions of `test_cases` read in a list of messages.

`cases/README.md` explains the notation.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import legato

Wire = dict[str, Any]

FOLDER = Path(__file__).parent / "cases"
FILES = {path.name[:3]: path for path in sorted(FOLDER.glob("*.json"))}

PROFILES = {
    "moonshot": "kimi",
    "openai-compatible": "portable",
    "vllm-mistral-template": "vllm",
    "zhipu-glm": "glm",
    ("openai", "openai-responses"): "openai-responses",
}
"""The profile of a case's provider where it has another name."""


class Case(NamedTuple):
    """A case, its notation expanded. `window` is the test's input, not the request's."""

    number: str
    profile: str
    format: str
    request: Wire
    window: int | None

    @property
    def items(self) -> list[Wire]:
        return next(self.request[key] for key in ("messages", "input", "contents") if key in self.request)


def load(number: str) -> Case:
    raw = json.loads(FILES[number].read_text(encoding="utf-8"))
    request = expand(raw["request"])
    window = request.pop("context_window", None)
    provider, form = raw["provider"], raw["format"]
    profile = PROFILES.get((provider, form)) or PROFILES.get(provider, provider)
    return Case(number, profile, form, request, window)


def expand(value: Any) -> Any:
    """The value without the notation of the case log."""
    if isinstance(value, list):
        return [item for each in value for item in _copies(each)]
    if not isinstance(value, dict):
        return value
    if "$repeat" in value:
        text, count = value["$repeat"]
        return text * count
    if "$concat" in value:
        return "".join(map(expand, value["$concat"]))
    return {key: expand(inner) for key, inner in value.items()}


def _copies(value: Any) -> list[Any]:
    if not (isinstance(value, dict) and "$items" in value):
        return [expand(value)]
    item, count = value["$items"]
    return [json.loads(json.dumps(expand(item)).replace("{i}", str(i))) for i in range(count)]


def policy(case: Case) -> legato.Policy:
    if case.window is None:
        return legato.Policy()
    return legato.Policy(window=case.window, max_output=case.request.get("max_tokens"), reserve=0)


def govern(case: Case, profile: str | None = None, to: str | None = None, **fields: Any) -> legato.Governed:
    """The case's request governed, with other fields if given. The input stays as it was."""
    request = {**case.request, **fields}
    before = copy.deepcopy(request)
    try:
        return legato.govern(request, profile=profile or case.profile, format=case.format, policy=policy(case), to=to)
    finally:
        assert request == before, "the input was changed"


def unchanged(case: Case, profile: str | None = None, **fields: Any) -> bool:
    """Whether the case's request, with these fields, comes back as the very object."""
    request = {**case.request, **fields}
    governed = legato.govern(request, profile=profile or case.profile, format=case.format, policy=policy(case))
    return governed.body is request


def altered(case: Case, *path: Any, value: Any) -> Case:
    """The case with another value at this path of its request."""
    request = copy.deepcopy(case.request)
    place: Any = request
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return case._replace(request=request)


def errors(case: Case, body: Any) -> list[legato.Violation]:
    found = legato.check(body, profile=case.profile, format=case.format)
    return [violation for violation in found if violation.severity == "error"]


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def roles(messages: list[Wire]) -> list[str]:
    return [message["role"] for message in messages]


def alternates(messages: list[Wire]) -> bool:
    """Whether user and assistant take turns, the user first."""
    said = [role for role in roles(messages) if role != "system"]
    return said == [("user", "assistant")[i % 2] for i in range(len(said))]


def texts(message: Wire) -> list[str]:
    """The texts of a message's content, in any format."""
    content = message.get("content", message.get("parts"))
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content or () if "text" in block]


def blocks(messages: list[Wire], kind: str) -> list[Wire]:
    """The content blocks of a kind, of all messages (Anthropic)."""
    listed = [message["content"] for message in messages if isinstance(message["content"], list)]
    return [block for content in listed for block in content if block["type"] == kind]


def answers(messages: list[Wire]) -> dict[int, list[tuple[str, Wire]]]:
    """By the index of each turn that calls (OpenAI Chat): its results, id and message.

    Fails where a result does not stand in the one block right after the turn that called, or a call has not one.
    """
    found: dict[int, list[tuple[str, Wire]]] = {}
    turn = -1
    for at, message in enumerate(messages):
        if message["role"] != "tool":
            turn = at if message.get("tool_calls") else -1
            found.update({turn: []} if turn >= 0 else {})
            continue
        assert turn >= 0, "a result without a turn that calls right before it"
        found[turn].append((message["tool_call_id"], message))
    for at, results in found.items():
        ids = [call["id"] for call in messages[at]["tool_calls"]]
        assert len(set(ids)) == len(ids)
        assert sorted(ids) == sorted(call_id for call_id, _ in results)
    return found


def pairs(messages: list[Wire]) -> list[tuple[Wire, Wire]]:
    """Each call with its result (Anthropic). Fails where a turn's calls and the next turn's results differ."""
    found: list[tuple[Wire, Wire]] = []
    for at, message in enumerate(messages):
        before = blocks(messages[at - 1 : at], "tool_use")
        results = {block["tool_use_id"]: block for block in blocks([message], "tool_result")}
        assert len(results) == len(blocks([message], "tool_result"))
        assert sorted(results) == sorted(call["id"] for call in before)
        found += [(call, results[call["id"]]) for call in before]
    assert not blocks(messages[-1:], "tool_use")
    return found


def calls_before_outputs(items: list[Wire]) -> list[str]:
    """The call ids (Responses), each once as a call and later once as an output. Fails where they are not paired."""
    called = [item["call_id"] for item in items if item.get("type") == "function_call"]
    answered = [(at, item["call_id"]) for at, item in enumerate(items) if item.get("type") == "function_call_output"]
    assert sorted(called) == sorted(call_id for _, call_id in answered)
    for at, call_id in answered:
        assert any(item.get("call_id") == call_id and item["type"] == "function_call" for item in items[:at])
    return called


def holds(governed: legato.Governed, texts: list[str]) -> bool:
    """Whether each text is, whole, in what is sent or in the report."""
    held = dump([governed.messages, governed.report.to_dict(contents=True)])
    return all(text in held for text in texts)


def joins(text: str, messages: list[Wire]) -> bool:
    """Whether it is the texts of these messages in their order, with white space between them and nothing else."""
    return re.fullmatch(r"\s+".join(re.escape(message["content"]) for message in messages), text) is not None


def spent(messages: list[Wire], tools: Any = ()) -> int:
    """Tokens, counted without legato: the words of the budget cases are a token each."""
    return len(dump(messages).split()) + len(dump(tools).split()) + 4 * len(messages)


def fits(case: Case, governed: legato.Governed) -> bool:
    assert case.window is not None
    room: int = case.window - case.request["max_tokens"]
    return governed.report.tokens_out <= room and spent(governed.messages, case.request.get("tools")) <= room


def containers(value: Any) -> Iterator[Any]:
    """Every dict and list in a value, itself among them."""
    if isinstance(value, dict | list):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from containers(inner)


def cut_batch(case: Case, items: list[Wire], window: int) -> int | None:
    """How many calls of the batch are left when the items are cut to this window; None: they cannot be."""
    request = {**case.request, "input": items}
    budget = legato.Policy(window=window, max_output=0, reserve=0)
    try:
        governed = legato.govern(request, profile=case.profile, policy=budget)
    except legato.OverBudget:
        return None
    assert holds(governed, [item["output"] for item in items if "output" in item])
    return len(calls_before_outputs(governed.messages))
