"""Requests that real APIs answered: what they took is sent as it came, what they refused is named.

The recordings stand beside the repository (`recorded.py`). A `status` of 200 means the provider took the messages.
"""

from __future__ import annotations

import base64
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

import legato
from legato.wire import sniff
from recorded import jsonl, needs_transcripts

needs_transcripts()

AMPLE = legato.Policy(window=10**9, microcompact=None)

ACCEPTED = {
    "anthropic-messages": 324,
    "bedrock-converse": 99,
    "count_tokens": 16,
    "gemini": 349,
    "openai-chat": 704,
    "openai-responses": 396,
}
"""The files, and how many requests of each were answered with 200."""

HOSTS = {
    "ai-gateway.vercel.sh": "openrouter",
    "aiplatform.googleapis.com": "gemini",
    "api.anthropic.com": "anthropic",
    "api.avian.io": "kimi",
    "api.cerebras.ai": "cerebras",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.inference.crusoecloud.com": "vllm",
    "api.mistral.ai": "mistral",
    "api.openai.com": "openai",
    "api.together.xyz": "together",
    "api.x.ai": "xai",
    "api.z.ai": "glm",
    "bedrock-mantle.us-east-1.api.aws": "openai",
    "bedrock-runtime.eu-central-1.amazonaws.com": "bedrock",
    "bedrock-runtime.us-east-1.amazonaws.com": "bedrock",
    "demo-endpoints.pydantic.workers.dev": "openai",
    "europe-west4-aiplatform.googleapis.com": "gemini",
    "fantasy-playground-resource.openai.azure.com": "azure",
    "generativelanguage.googleapis.com": "gemini",
    "localhost:11434": "ollama",
    "localhost:8000": "vllm",
    "localhost:8080": "llama.cpp",
    "localhost:8787": "groq",
    "myorg-myaccount.snowflakecomputing.com": "openrouter",
    "ollama.com": "ollama",
    "openrouter.ai": "openrouter",
    "pydantic-ai-realtime-dev.openai.azure.com": "azure",
    "router.huggingface.co": "openrouter",
    "traceloop-stg.openai.azure.com": "azure",
    "us-east5-aiplatform.googleapis.com": "gemini",
    "us.inference.heroku.com": "openrouter",
}
"""The profile of a host. One that hands every vendor's models on is taken for OpenRouter."""

APIS = {
    ("azure", "openai-responses"): "openai-responses",
    ("deepseek", "openai-responses"): "deepseek-responses",
    ("gemini", "openai-chat"): "openai",
    ("groq", "anthropic-messages"): "anthropic",
    ("openai", "openai-responses"): "openai-responses",
    ("openrouter", "openai-responses"): "openai-responses",
}
"""The profile where a host serves another API than its own in that file."""

EXCEPTIONS = {
    "test_openai_responses/test_openai_conversation_id_tool_call_continuation.yaml#2": (
        "an answer to a call that the server holds, whose conversation is not in the recording"
    ),
}
"""The requests that were answered and are not sent as they came."""

SEQUENCE = {
    "test_deepseek_responses_rejects_interleaved_function_calls.yaml#0": ("PAIR012", None),
    "test_multimodal_tool_return_matrix[direct-uploaded_file-document-bedrock_nova].yaml#1": ("PAIR009", 2),
    "test_multimodal_tool_return_matrix[direct-uploaded_file-video-bedrock_claude].yaml#1": ("PAIR009", 2),
    "test_multimodal_tool_return_matrix[direct-uploaded_file-video-bedrock_nova].yaml#1": ("PAIR009", 2),
    "test_openai_o1_mini_system_role[developer].yaml#0": ("ROLE002", 0),
    "test_openai_o1_mini_system_role[system].yaml#0": ("ROLE002", 0),
    "test_openai_responses_thinking_with_modified_history.yaml#1": ("THINK008", 1),
}
"""Refused for what stands where in the messages: the error that `check` finds, and where if the provider told."""

OTHERWISE = {
    "test_anthropic_bedrock_count_tokens_error.yaml#0": "the model does not count tokens",
    "test_anthropic_bedrock_count_tokens_rejects_server_tools.yaml#0": "a tool of the server that it has not",
    "test_anthropic_explicit_effort_xhigh_unsupported_model_errors.yaml#0": "a level of effort that it has not",
    "test_bedrock_count_tokens_error.yaml#0": "no such model",
    "test_inferred_model_name_suggestion.yaml#0": "no such model",
    "test_model_name_suggestion[bedrock].yaml#0": "no such model",
    "test_multimodal_tool_return_matrix[direct-uploaded_file-image-bedrock_claude].yaml#1": "a place of storage",
    "test_multimodal_tool_return_matrix[direct-url-audio-openai_responses].yaml#1": "a type of file",
    "test_multimodal_tool_return_matrix[direct-url-image-google_vertex].yaml#2": "an address that may not be read",
    "test_multimodal_tool_return_matrix[tool_return_content-uploaded_file-document-bedrock_claude].yaml#1": (
        "a place of storage"
    ),
    "test_multimodal_tool_return_matrix[tool_return_content-uploaded_file-image-bedrock_claude].yaml#1": (
        "a place of storage"
    ),
    "test_multimodal_tool_return_matrix[tool_return_content-uploaded_file-video-bedrock_claude].yaml#1": (
        "a kind of media that the model does not take anywhere"
    ),
    "test_multimodal_tool_return_matrix[tool_return_content-url-audio-openai_responses].yaml#1": "a type of file",
    "test_multimodal_tool_return_matrix[tool_return_content-url-image-google_vertex].yaml#3": (
        "an address that may not be read"
    ),
    "test_openai_responses_model_http_error.yaml#0": "a temperature below zero",
    "test_openai_web_search_tool_model_not_supported.yaml#0": "an option of another model",
    "test_tool_use_failed_error.yaml#0": "what the model answered",
    "test_tool_use_failed_error_with_text.yaml#0": "what the model answered",
    "test_vision.yaml#2": "an address that cannot be read",
    "test_vision_base64.yaml#3": "a type of image",
}
"""Refused for something that is no matter of the messages' order or form, and for what."""


class Recorded(NamedTuple):
    id: str
    host: str
    status: int
    body: dict[str, Any]
    profile: str
    format: str

    @property
    def test(self) -> str:
        """The last step of the id: file of the recording and number of the request."""
        return self.id.rpartition("/")[2]

    def errors(self, body: Any = None) -> list[legato.Violation]:
        found = legato.check(self.body if body is None else body, profile=self.profile, format=self.format)
        return [violation for violation in found if violation.severity == "error"]

    def govern(self) -> legato.Governed:
        return legato.govern(self.body, profile=self.profile, format=self.format, policy=AMPLE)


def requests(name: str) -> Iterator[Recorded]:
    for row in jsonl(f"provider-requests/{name}.jsonl"):
        provider = HOSTS[row["host"]]
        provider = APIS.get((provider, name), provider)
        body = unwrapped(row["request"])
        form = sniff(body) if provider == "bedrock" else FORMATS.get(provider, "openai-chat")
        profile = f"{provider}:{row['model']}" if row["model"] else provider
        yield Recorded(row["id"], row["host"], row["status"], body, profile, form)


FORMATS = {
    "anthropic": "anthropic",
    "deepseek-responses": "openai-responses",
    "gemini": "gemini",
    "openai-responses": "openai-responses",
}


def unwrapped(body: dict[str, Any]) -> dict[str, Any]:
    """The request itself, where Bedrock is asked to count its tokens."""
    wrapped = body.get("input")
    if not isinstance(wrapped, dict):
        return body
    if "converse" in wrapped:
        found: dict[str, Any] = wrapped["converse"]
        return found
    inner: dict[str, Any] = json.loads(base64.b64decode(wrapped["invokeModel"]["body"]))
    return inner


def touched(request: Recorded) -> str | None:
    """What is done to a request, or why it cannot be sent; None: nothing."""
    try:
        governed = request.govern()
    except legato.GovernanceError as problem:
        return repr(problem)
    return None if governed.body is request.body else str(governed.report)


def is_exception(request: Recorded) -> bool:
    return any(request.id.endswith(known) for known in EXCEPTIONS)


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_a_provider_took_is_sent_as_it_came(name: str) -> None:
    accepted = [request for request in requests(name) if request.status == 200]
    assert len(accepted) == ACCEPTED[name]
    found = {request.id: touched(request) for request in accepted if not is_exception(request)}
    assert {test: why for test, why in found.items() if why is not None} == {}


@pytest.mark.parametrize("name", ACCEPTED)
def test_check_finds_no_error_in_what_a_provider_took(name: str) -> None:
    accepted = [request for request in requests(name) if request.status == 200 and not is_exception(request)]
    assert {request.id: found for request in accepted if (found := list(map(str, request.errors())))} == {}


def test_the_exceptions_are_needed_and_few() -> None:
    excepted = [request for name in ACCEPTED for request in requests(name) if is_exception(request)]
    assert len(excepted) == len(EXCEPTIONS)
    assert all(request.status == 200 and touched(request) for request in excepted)
    assert 100 * len(excepted) <= sum(ACCEPTED.values())


def test_openai_s_own_requests_are_sent_as_they_came_whatever_the_model() -> None:
    bodies = [
        request.body
        for request in requests("openai-chat")
        if request.status == 200 and request.host == "api.openai.com"
    ]
    assert len(bodies) == 254
    assert all(legato.govern(body, profile="openai", policy=AMPLE).body is body for body in bodies)


def refused() -> dict[str, Recorded]:
    return {request.test: request for name in ACCEPTED for request in requests(name) if request.status != 200}


def test_every_refusal_is_explained() -> None:
    found = refused()
    assert len(found) == 27
    assert set(found) == set(SEQUENCE) | set(OTHERWISE)
    assert {test: errors for test in OTHERWISE if (errors := list(map(str, found[test].errors())))} == {}


@pytest.mark.parametrize("test", SEQUENCE)
def test_what_was_refused_for_its_messages_is_named_and_mended(test: str) -> None:
    request = refused()[test]
    code, at = SEQUENCE[test]
    errors = request.errors()
    assert {error.code for error in errors} == {code}
    assert at is None or at in {error.at for error in errors}
    governed = request.govern()
    assert governed.body is not request.body
    assert request.errors(governed.body) == []


CONVERSATIONS: dict[str, tuple[int, dict[str, tuple[int, int]]]] = {
    "claude-code/openai.jsonl": (5, {"PAIR002": (2, 1), "ROLE003": (5, 2), "ROLE004": (1, 1)}),
    "cline/openai.jsonl": (1, {"ROLE004": (1, 1)}),
    "deepagents/openai.jsonl": (1, {"ROLE004": (1, 1)}),
    "inspect-ai/samples.jsonl": (
        41,
        {"PAIR001": (11, 1), "ROLE003": (4, 4), "ROLE004": (40, 40), "ROLE005": (1, 1)},
    ),
    "mini-swe-agent/trajectories.jsonl": (2, {"BODY002": (1, 1)}),
    "mistral-common/samples.jsonl": (6, {"NAME001": (6, 4)}),
    "openhands-events/rebuilt_openai.jsonl": (7, {"ROLE004": (1, 1)}),
    "openhands-sdk/requests.jsonl": (10, {}),
    "pi-mono/sessions.jsonl": (
        2,
        {"BODY002": (29, 2), "PAIR002": (24, 2), "ROLE003": (2, 2), "ROLE004": (2, 2)},
    ),
    "swe-agent/trajectories.jsonl": (22, {"NAME001": (14, 3), "ROLE003": (2, 2), "ROLE004": (17, 17)}),
    "tau-bench/gpt-4o-airline.jsonl": (200, {"NAME001": (73, 49)}),
}
"""Conversations of agents: how many, and the faults their attribution counts: how many, in how many conversations."""

STRICT = "glm"
"""The profile that refuses all of them: strict alternation, no prefill, an id once in a request."""

ONLY_RESULTS = ("inspect-ai/samples.jsonl", 11)
"""One conversation is nothing but results, so many, whose calls are not there: nothing is left to send."""


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_check_counts_the_faults_that_the_attribution_counts(name: str) -> None:
    count, expected = CONVERSATIONS[name]
    faults: Counter[str] = Counter()
    inside: dict[str, set[int]] = defaultdict(set)
    rows = list(jsonl(name))
    for number, row in enumerate(rows):
        for violation in legato.check(row["messages"], profile=STRICT):
            if violation.severity == "error":
                faults[violation.code] += 1
                inside[violation.code].add(number)
    assert len(rows) == count
    assert {code: (faults[code], len(inside[code])) for code in faults} == expected


@pytest.mark.parametrize("profile", ["portable", "openai", "mistral", STRICT])
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_what_an_agent_recorded_is_clean_when_governed(name: str, profile: str) -> None:
    empty = 0
    for row in jsonl(name):
        messages, tools = row["messages"], row.get("tools") or None
        before = json.dumps(messages)
        if all(message["role"] == "tool" for message in messages):
            empty += 1
            with pytest.raises(legato.Unrepairable, match="there is no message to send"):
                legato.govern(messages, profile=profile, tools=tools)
            assert (name, len(messages)) == ONLY_RESULTS
            continue
        governed = legato.govern(messages, profile=profile, tools=tools)
        body = governed.body
        assert json.dumps(messages) == before
        found = legato.check(body, profile=profile, tools=tools)
        assert [str(violation) for violation in found if violation.severity == "error"] == [], row["id"]
        assert legato.govern(body, profile=profile, tools=tools).body is body, row["id"]
        report = governed.report
        assert report.tokens_in + sum(change.tokens for change in report.changes) == report.tokens_out
    assert empty == (name == ONLY_RESULTS[0])
