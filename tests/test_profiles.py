"""The profiles: files that say where each fact is from, and the names by which they are found."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato import profiles
from legato.errors import UnknownProfile
from legato.messages import Media, Message, Reasoning, Transcript
from legato.profiles import Fact, Profile, load
from legato.tokens import RATES
from legato.tokens.vocabulary import VOCABULARIES
from legato.wire import CODECS, tools
from recorded import jsonl

CONTRACT = re.findall(
    r"\S+",
    """
    portable openai openai-responses azure anthropic bedrock gemini mistral glm deepseek kimi minimax qwen xai groq
    cerebras fireworks together cohere perplexity hunyuan openrouter vllm llama.cpp ollama lm-studio sglang tgi nvidia
    siliconflow copilot strict-template
    """,
)
STEMS = sorted(file.name.removesuffix(".toml") for file in load.FILES.iterdir() if file.name.endswith(".toml"))
IDENTITY = {"name", "title", "format", "models", "evidence", "note"}
FIELDS = sorted(field.name for field in msgspec.structs.fields(Profile) if field.name not in IDENTITY)
WORDS = (
    "results_in",
    "opens_with",
    "closes_with",
    "system",
    "ids_unique",
    "arguments",
    "content",
    "reasoning_required",
)
EVIDENCE: dict[str, Any] = {"source": "a report", "date": "2026-12", "grade": "R"}


def file_of(stem: str) -> load.File:
    return load.read(stem)[-1]


def facts_of(file: load.File) -> Iterator[tuple[str, Fact]]:
    yield from file.facts.items()
    for entry in file.models:
        yield from entry.facts.items()


def named(pattern: str) -> str:
    """A name that a pattern matches."""
    return re.sub(r"\[(.).*?\]", r"\1", pattern).replace("*", "").replace("?", "1")


def every(provider: str) -> Iterator[Profile]:
    """The provider's profile, and those of its models that have facts of their own."""
    yield profiles.get(provider)
    for pattern in profiles.get(provider).models:
        yield profiles.get(f"{provider}:{named(pattern)}")


# -- the files ---------------------------------------------------------------------------------------------------------


def test_the_profiles_of_the_contract_are_there() -> None:
    assert set(CONTRACT) <= set(profiles.NAMES)


@pytest.mark.parametrize("stem", STEMS)
def test_every_fact_is_a_field_and_says_where_it_is_from_and_when(stem: str) -> None:
    for name, fact in facts_of(file_of(stem)):
        assert name in FIELDS
        assert fact.source.strip() == fact.source != ""
        assert re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", fact.date)


@pytest.mark.parametrize("stem", STEMS)
def test_every_entry_of_models_has_lower_case_patterns_and_can_be_reached(stem: str) -> None:
    for entry in file_of(stem).models:
        assert entry.facts
        for pattern in entry.match:
            assert pattern == pattern.lower()
            assert load.knows((file_of(stem),), named(pattern))


@pytest.mark.parametrize("provider", profiles.NAMES)
def test_what_nobody_verified_is_never_an_error_and_the_rest_always(provider: str) -> None:
    for profile in every(provider):
        for name, fact in profile.evidence.items():
            assert profile.severity(name) == ("warning" if fact.grade == "U" else "error")


@pytest.mark.parametrize("provider", profiles.NAMES)
def test_the_values_of_a_profile_are_known_to_the_rest(provider: str) -> None:
    for profile in every(provider):
        assert profile.format in CODECS
        assert profile.rates in RATES
        assert profile.encoding in VOCABULARIES
        assert {"user", "assistant"} <= set(profile.roles)
        assert "system" in profile.roles or profile.system == "none"
        assert set(profile.result_media) <= {"image", "audio", "video", "document"}
        assert profile.window is None or profile.window >= 4_096
        assert profile.reasoning_required == "no" or profile.reasoning_fields != ()
        assert profile.pairs_by_run or not profile.alternates


@pytest.mark.parametrize("provider", profiles.NAMES)
def test_the_ids_and_names_that_legato_makes_fit_every_profile(provider: str) -> None:
    for profile in every(provider):
        assert profile.id_shape is None or profile.id_shape.fullmatch("abcDEF123")
        assert profile.id_max == 0 or profile.id_max >= 9
        assert profile.name_shape is None or profile.name_shape.fullmatch("read_file")


# -- a typo ------------------------------------------------------------------------------------------------------------


def one_fact(name: str, value: object) -> Profile:
    file = msgspec.convert({"title": "x", "facts": {name: {"value": value, **EVIDENCE}}}, load.File)
    return profiles.assemble("x", (file,), "")


@pytest.mark.parametrize("name", FIELDS)
def test_a_fact_of_the_wrong_type_is_refused(name: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        one_fact(name, {"not": "a value"})


@pytest.mark.parametrize("name", WORDS)
def test_a_word_that_the_fact_does_not_know_is_refused(name: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        one_fact(name, "nowhere")


def test_a_fact_that_does_not_exist_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        one_fact("alternate", True)


@pytest.mark.parametrize(
    "written",
    [
        {"extend": ["portable"]},
        {"facts": {"alternates": {"value": True, "date": "2026-12"}}},
        {"facts": {"alternates": {"value": True, **EVIDENCE, "grade": "X"}}},
        {"facts": {"alternates": {"value": True, **EVIDENCE, "errors": "no"}}},
        {"models": [{"matches": ["x"], "facts": {}}]},
    ],
    ids=["an unknown field", "no source", "an unknown grade", "an unknown note", "an entry without patterns"],
)
def test_a_file_with_a_typo_is_refused(written: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"title": "x", **written}, load.File)


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nobody", "Openai", "", ":gpt-4o", "_claude", "../openai", "openai.toml"])
def test_an_unknown_provider_is_named_with_those_there_are(name: str) -> None:
    with pytest.raises(UnknownProfile) as refused:
        profiles.get(name)
    assert all(known in str(refused.value) for known in profiles.NAMES)


SPELLINGS = [
    ("bedrock", ["anthropic.claude-haiku-4-5", "us.anthropic.claude-haiku-4-5-20251001-v1:0"]),
    ("bedrock", ["anthropic.claude-haiku-4-5", "eu.anthropic.claude-haiku-4-5-20251001-v1%3A0"]),
    (
        "bedrock",
        ["us.meta.llama4-maverick", "arn:aws:bedrock:us-east-1:1:inference-profile/us.meta.llama4-maverick-v1:0"],
    ),
    (
        "anthropic",
        ["claude-sonnet-4", "claude-sonnet-4-20250514", "claude-sonnet-4@20250514", "anthropic/claude-sonnet-4"],
    ),
    ("anthropic", ["claude-sonnet-4-5", "Claude-Sonnet-4.5", "claude-sonnet-4-5-latest", "claude-sonnet-4.5:thinking"]),
    ("openai", ["gpt-4o", "openai/gpt-4o", "gpt-4o-2024-08-06", "ft:gpt-4o-2024-08-06:acme::x"]),
    ("openai", ["gpt-4", "gpt-4-0613", "openai/gpt-4"]),
    ("fireworks", ["kimi-k2p5", "accounts/fireworks/models/kimi-k2p5"]),
    ("openrouter", ["anthropic/claude-sonnet-4.6", "anthropic/claude-sonnet-4.6:free"]),
    ("vllm", ["qwen3.5-4b", "Qwen/Qwen3.5-4B"]),
]


@pytest.mark.parametrize(("provider", "names"), SPELLINGS, ids=[names[-1] for _, names in SPELLINGS])
def test_a_model_is_known_by_every_way_to_write_its_name(provider: str, names: list[str]) -> None:
    found = [profiles.get(f"{provider}:{name}") for name in names]
    assert all(profile.note == "" for profile in found)
    assert all(profile.evidence == found[0].evidence for profile in found)


MODELS: list[tuple[str, dict[str, object]]] = [
    ("anthropic:claude-3-5-sonnet-20240620", {"closes_with": "any", "system": "field", "window": 200_000}),
    ("anthropic:claude-opus-4-6", {"closes_with": "user", "system": "field", "reasoning_bound": False}),
    ("anthropic:claude-opus-4-8", {"closes_with": "user", "system": "field-after-user", "reasoning_bound": False}),
    ("anthropic:claude-fable-5-1", {"reasoning_bound": True, "reasoning_signed": True}),
    ("bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0", {"opens_with": "any", "results_alone": False}),
    ("bedrock:meta.llama3-3-70b-instruct-v1:0", {"opens_with": "user", "results_alone": True}),
    ("bedrock:moonshot.kimi-k2-thinking", {"opens_with": "any", "result_media": ()}),
    ("gemini:gemini-2.5-pro", {"call_signature": "", "result_media": ()}),
    ("gemini:gemini-3-flash-preview", {"call_signature": "skip_thought_signature_validator"}),
    ("mistral:v3", {"text_with_calls": False, "id_pattern": "[a-zA-Z0-9]{9}"}),
    ("mistral:v11", {"text_with_calls": True, "id_pattern": "[a-zA-Z0-9]{9}"}),
    ("mistral:v15", {"id_pattern": "", "result_media": ("image",)}),
    ("mistral:mistral-large-latest", {"id_pattern": "[a-zA-Z0-9]{9}", "text_with_calls": True}),
    ("deepseek:deepseek-chat", {"reasoning_required": "no", "alternates": False}),
    ("deepseek:r1", {"alternates": True, "reasoning_fields": (), "closes_with": "user"}),
    ("deepseek:deepseek-v4-pro", {"reasoning_required": "all", "reasoning_filler": ""}),
    ("kimi:kimi-k2-thinking", {"reasoning_required": "calls"}),
    ("vllm:Qwen/Qwen3.5-35B-A3B", {"system": "once", "needs_user": True}),
    ("vllm:google/gemma-4-31b-it", {"alternates": False}),
    ("openai:o1-mini", {"system": "none", "rates": "openai-chat-o"}),
    ("openai:gpt-4", {"encoding": "cl100k_base", "window": 8_192}),
    ("azure:gpt-35-turbo", {"encoding": "cl100k_base", "id_max": 40}),
]


@pytest.mark.parametrize(("name", "facts"), MODELS, ids=[name for name, _ in MODELS])
def test_a_model_has_the_facts_of_its_generation(name: str, facts: dict[str, object]) -> None:
    profile = profiles.get(name)
    assert {fact: getattr(profile, fact) for fact in facts} == facts


NEWEST = {stem: file_of(stem).newest for stem in STEMS if file_of(stem).newest}


@pytest.mark.parametrize("provider", NEWEST)
def test_an_unknown_model_gets_the_facts_of_the_newest_and_a_note(provider: str) -> None:
    newest = profiles.get(f"{provider}:{NEWEST[provider]}")
    unknown = profiles.get(f"{provider}:zzz-99")
    assert newest.note == ""
    assert unknown.evidence == newest.evidence
    assert "zzz-99" in unknown.note
    assert str(NEWEST[provider]) in unknown.note


@pytest.mark.parametrize("provider", sorted(set(profiles.NAMES) - set(NEWEST)))
def test_where_no_model_is_the_newest_an_unknown_one_gets_what_holds_for_all(provider: str) -> None:
    assert profiles.get(f"{provider}:zzz-99").evidence == profiles.get(provider).evidence
    assert "zzz-99" in profiles.get(f"{provider}:zzz-99").note


@given(st.sampled_from(profiles.NAMES), st.text(max_size=400))
def test_any_text_is_a_model_that_is_known_or_not(provider: str, model: str) -> None:
    profile = profiles.get(f"{provider}:{model}")
    assert profile.name == f"{provider}:{model}"
    assert profile.evidence.keys() >= profiles.get(provider).evidence.keys()


# -- recorded answers outrank what is stated ---------------------------------------------------------------------------

HOSTS = {
    "openai-chat": {
        "api.openai.com": "openai",
        "openrouter.ai": "openrouter",
        "api.groq.com": "groq",
        "api.mistral.ai": "mistral",
        "api.x.ai": "xai",
        "api.z.ai": "glm",
        "api.cerebras.ai": "cerebras",
        "api.deepseek.com": "deepseek",
        "api.together.xyz": "together",
        "ollama.com": "ollama",
        "localhost:8080": "llama.cpp",
        "fantasy-playground-resource.openai.azure.com": "azure",
    },
    "openai-responses": {"api.openai.com": "openai-responses", "api.deepseek.com": "deepseek-responses"},
    "anthropic-messages": {"api.anthropic.com": "anthropic"},
    "bedrock-converse": {"bedrock-runtime.us-east-1.amazonaws.com": "bedrock"},
    "gemini": {"generativelanguage.googleapis.com": "gemini", "aiplatform.googleapis.com": "gemini"},
}


def broken(profile: Profile, head: dict[str, Any], transcript: Transcript) -> Iterator[str]:
    """The facts a request goes against, read off plainly. It shares no code with the rules."""
    turns = [message for message in transcript if not message.is_system]
    systems = [at for at, message in enumerate(transcript) if message.is_system]
    calls = [call for message in transcript for call in message.calls]
    yield from _roles(profile, turns)
    if profile.system in ("field", "none") and systems:
        yield "system"
    if profile.system in ("leading", "once") and systems != list(range(len(systems))):
        yield "system"
    if profile.system == "once" and len(systems) > 1:
        yield "system"
    if any(call.id and profile.id_shape and not profile.id_shape.fullmatch(call.id) for call in calls):
        yield "id_pattern"
    if any(profile.id_max and len(call.id or "") > profile.id_max for call in calls):
        yield "id_max"
    groups = [message.calls for message in transcript] if profile.ids_unique == "turn" else [tuple(calls)]
    if profile.ids_unique != "no" and any(len({c.id for c in group}) < len(group) for group in groups):
        yield "ids_unique"
    defined = [name for name in tools.names(head) if isinstance(name, str)]
    if any(
        profile.name_shape and not profile.name_shape.fullmatch(name)
        for name in [*defined, *filter(None, (c.name for c in calls))]
    ):
        yield "name_pattern"
    if profile.tools_max and len(defined) > profile.tools_max:
        yield "tools_max"
    if profile.tools_required and calls and not defined and not head.get("tools"):
        yield "tools_required"
    if not profile.empty_tools and head.get("tools") == []:
        yield "empty_tools"
    for message in transcript:
        yield from _message(profile, message)


def _roles(profile: Profile, turns: list[Message]) -> Iterator[str]:
    roles = [message.role for message in turns]
    if profile.opens_with == "user" and roles[:1] not in ([], ["user"]):
        yield "opens_with"
    if profile.opens_with == "no-call" and turns and turns[0].calls:
        yield "opens_with"
    if profile.closes_with != "any" and roles[-1:] == ["assistant"] and not turns[-1].calls:
        yield "closes_with"
    for before, after in pairwise(turns):
        if profile.alternates and before.role == after.role and after.role in ("user", "assistant"):
            yield "alternates"
        if not profile.user_after_result and before.results and after.role == "user" and not after.results:
            yield "user_after_result"
    if profile.needs_user and "user" not in roles:
        yield "needs_user"


def _message(profile: Profile, message: Message) -> Iterator[str]:
    if message.role not in profile.roles:
        yield "roles"
    if not profile.parallel_calls and len(message.calls) > 1:
        yield "parallel_calls"
    role = "system" if message.is_system else message.role
    if role not in profile.media_in and any(isinstance(part, Media) for part in message.parts):
        yield "media_in"
    kinds = {part.kind for result in message.results for part in result.parts if isinstance(part, Media)}
    if not kinds <= set(profile.result_media):
        yield "result_media"
    if profile.results_alone and message.results and len(message.results) < len(message.parts):
        yield "results_alone"
    fields = {part.field for part in message.parts if isinstance(part, Reasoning)}
    if profile.reasoning_fields is not None and not fields <= set(profile.reasoning_fields):
        yield "reasoning_fields"
    if profile.message_keys and not set(message.extra) <= {*profile.message_keys, "prefix"}:
        yield "message_keys"
    thinks = profile.reasoning_required == "all" or (profile.reasoning_required == "calls" and message.calls)
    if message.role == "assistant" and thinks and not fields:
        yield "reasoning_required"
    said = [part for part in message.parts if not isinstance(part, Reasoning)]
    if not profile.empty_messages and message.role == "assistant" and not said and message.extra.get("content") != "":
        yield "empty_messages"
    if profile.call_signature and message.calls:
        signed = {"thoughtSignature", "thought_signature"}
        if not any(signed & set(call.extra) for call in message.calls):
            yield "call_signature"


@pytest.mark.parametrize("name", HOSTS)
def test_a_request_that_was_answered_goes_against_no_fact_that_refuses(name: str) -> None:
    found: Counter[str] = Counter()
    judged: Counter[str] = Counter()
    for record in jsonl(f"provider-requests/{name}.jsonl"):
        provider = HOSTS[name].get(record["host"])
        if provider is None or record["status"] != 200:
            continue
        profile = profiles.get(f"{provider}:{record['model']}")
        codec, body = CODECS[profile.format], record["request"]
        items = body[codec.KEY]
        if isinstance(items, str):
            continue
        judged[provider] += 1
        for fact in broken(profile, body, codec.decode(items)):
            if profile.severity(fact) == "error":
                found[f"{profile.name}: {fact}: {record['id']}"] += 1
    assert found == {}
    assert set(judged) == set(HOSTS[name].values())
