"""Reading the files, and telling by a model's name which of their facts hold for it.

A file states facts of the provider, and facts of its models; where both name one fact, the model's holds, and of
several entries that match a model the first to state it. A file that `extends` others has their facts too, its own
before theirs. A name that starts with `_` is no provider: what several share.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import Any, Literal
from urllib.parse import unquote

import msgspec

from legato.errors import UnknownProfile


class Fact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fact as the file states it. `date`: the month the evidence is from, or in which its source was read."""

    value: Any
    source: str
    date: str
    grade: Literal["R", "S", "D", "P", "C", "U", "L"] = "D"
    error: str = ""
    note: str = ""


class Generation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Models that share facts: `match` are patterns of lower-case names, as `fnmatch` reads them."""

    match: tuple[str, ...]
    facts: dict[str, Fact]


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One TOML file. `newest` names the model whose facts an unknown one gets; empty: none's."""

    title: str
    format: str | None = None
    extends: tuple[str, ...] = ()
    newest: str | None = None
    facts: dict[str, Fact] = {}
    models: tuple[Generation, ...] = ()
    aliases: dict[str, str] = {}


FILES = resources.files(__package__)

NAMES = tuple(
    sorted(
        file.name.removesuffix(".toml")
        for file in FILES.iterdir()
        if file.name.endswith(".toml") and not file.name.startswith("_")
    )
)


def layers(provider: str) -> tuple[File, ...]:
    """The file of a provider after those it extends. Raises `UnknownProfile` with the names there are."""
    if provider not in NAMES:
        provider = read("_aliases")[-1].aliases.get(provider, provider)
    if provider not in NAMES:
        raise UnknownProfile(f"no profile {provider!r}; there are: {', '.join(NAMES)}")
    return read(provider)


@cache
def read(name: str) -> tuple[File, ...]:
    """A file after those it extends; also one that is no provider's."""
    file = msgspec.convert(tomllib.loads(FILES.joinpath(f"{name}.toml").read_text(encoding="utf-8")), File)
    return (*(layer for base in file.extends for layer in read(base)), file)


def facts_of(found: tuple[File, ...], model: str) -> dict[str, Fact]:
    """What the files state for every model, then what they state for this one. The nearer file goes first."""
    general = {name: fact for file in found for name, fact in file.facts.items()}
    return general | {name: fact for file in found for name, fact in _own(file, model).items()}


def knows(found: tuple[File, ...], model: str) -> bool:
    """Whether the files state anything about this model itself."""
    return any(_own(file, model) for file in found)


def _own(file: File, model: str) -> dict[str, Fact]:
    names = spellings(model) if model else ()
    facts: dict[str, Fact] = {}
    for entry in file.models:
        if any(fnmatchcase(name, pattern) for name in names for pattern in entry.match):
            facts = {**entry.facts, **facts}
    return facts


LONGEST = 300
"""Characters of a name that is looked at: what is longer is no model's."""
BEFORE = re.compile(r"[^/]*/|ft:|[a-z-]+\.")
"""What may stand before a name: a route, a fine-tune's mark, a region or vendor (`us.anthropic.`)."""
AFTER = re.compile(r"(?:-v\d+|-\d{8}|-\d{4}-\d\d-\d\d|-latest)+$")
"""What may stand after it: the version of a deployment, a date. Tags (`:free`, `:0`, `@20250514`) stand behind that."""


def spellings(model: str) -> tuple[str, ...]:
    """The name as it came in, then without what stands before it, each also without what stands after it."""
    names = _shortened(unquote(model).lower()) if len(model) <= LONGEST else ()
    return tuple(dict.fromkeys(spelling for name in names for spelling in (name, _bare(name))))


def _shortened(name: str) -> Iterator[str]:
    yield name
    while found := BEFORE.match(name):
        name = name[found.end() :]
        yield name


def _bare(name: str) -> str:
    route, slash, last = name.rpartition("/")
    return route + slash + AFTER.sub("", re.split("[:@]", last, maxsplit=1)[0])
