"""The vocabularies that legato can count with, as `vocabularies.toml` says, and where they are installed."""

from __future__ import annotations

import importlib.util
import tomllib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

import msgspec

from legato.errors import GovernanceError


class VocabularyError(GovernanceError, LookupError):
    """A vocabulary that is not there, or is not the genuine one. The message says what to install."""


class Vocabulary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What makes an encoding besides its ranks, where they are, and the digest that proves them."""

    places: tuple[str, ...]
    """The paths of its file, each beginning with a package."""
    sha256: str
    """The digest of the file, unpacked."""
    pattern: tuple[str, ...]
    """What a piece of text is, the first that matches."""
    size: int = 0
    """The size of the file in bytes; 0: any."""
    form: Literal["tiktoken", "tekken", "tokenizers"] = "tiktoken"
    ranks: int | None = None
    """How many of the entries count; None: all."""
    special: dict[str, int] = {}
    nfc: bool = False
    """Whether the model is shown text in Unicode's normal form C."""
    extra: str = ""
    """legato's name for what installs it; empty: it comes with legato."""
    toktok: str = ""
    """The name under which the package toktok has it; empty: it has not."""
    probe: int = 0
    """The tokens of `PROBE`."""


PROBE = "Don't\r\n  \tstop_here(x=12345);//\n\n naïve E\u0301 查看日志、ア\u3099 🙂‍↔️ <|endoftext|>\x00\u0378 ٣½ 'LL  "
"""A text in which tokenizers differ that are not the same."""


@cache
def vocabularies() -> dict[str, Vocabulary]:
    """All of them by name."""
    text = resources.files(__package__).joinpath("vocabularies.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, Vocabulary])


def known(name: str) -> Vocabulary:
    """The vocabulary of that name. Raises `VocabularyError` with the names there are."""
    found = vocabularies().get(name)
    if found is None:
        raise VocabularyError(f"no vocabulary {name!r}; there are: {', '.join(sorted(vocabularies()))}")
    return found


@cache
def find(name: str) -> Path | None:
    """The file of a vocabulary, if a package that has it is installed; one of another size is another vocabulary."""
    vocabulary = known(name)
    for place in vocabulary.places:
        package, _, path = place.partition("/")
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations if spec else None) or ():
            file = Path(folder, path)
            if file.is_file() and vocabulary.size in (0, file.stat().st_size):
                return file
    return None
