"""What a token costs and how a provider caches prompts: `prices.toml`, with the source and date of each line."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib import resources
from typing import Literal
from urllib.parse import unquote

import msgspec

SUFFIX = re.compile(r"(?:[-@](?:20\d\d-?\d\d-?\d\d|\d{4}|latest|preview))?(?:-v\d+)?(?::\d+)?$")
"""What may follow a model's name that makes it no other model: a date, a version of the deployment."""


class Caching(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a provider caches prompts. Lengths are tokens, `ttl` seconds since the entry was last used (None: none)."""

    how: Literal["explicit", "automatic", "none"]
    source: str
    date: str
    minimum: int = 0
    block: int = 1
    lookback: int = 0
    ttl: int | None = None


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dollars for a million tokens. `cached`: read from the cache; `write`: put into it, None: as any input."""

    input: float
    output: float
    caching: str
    source: str
    date: str
    cached: float | None = None
    write: float | None = None
    minimum: int | None = None
    """The shortest prefix this model caches, where it is not its provider's."""
    name: str = ""

    @property
    def rules(self) -> Caching:
        """How prompts to this model are cached."""
        found = _table().caching[self.caching]
        return found if self.minimum is None else msgspec.structs.replace(found, minimum=self.minimum)

    def cost(self, tokens: int, cached: int, written: int) -> float:
        """The dollars of a request: `cached` of its tokens come from the cache, `written` go into it."""
        read = self.input if self.cached is None else self.cached
        write = self.input if self.write is None else self.write
        return (cached * read + written * write + (tokens - cached - written) * self.input) / 1_000_000

    def answer(self, tokens: int) -> float:
        """The dollars of an answer."""
        return tokens * self.output / 1_000_000


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reference: str
    caching: dict[str, Caching]
    model: dict[str, Price]


@cache
def _table() -> Table:
    text = resources.files(__package__).joinpath("prices.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), Table)


def models() -> tuple[str, ...]:
    """The models with a price."""
    return tuple(_table().model)


def price(model: str | None) -> Price | None:
    """What a model costs, None where it is not known. A provider before the name and a date after it are no matter."""
    if not model:
        return None
    prices = _table().model
    name = unquote(model).lower().rsplit("/", 1)[-1]
    while True:
        for known in (name, SUFFIX.sub("", name)):
            if known in prices:
                return msgspec.structs.replace(prices[known], name=known)
        before, dot, name = name.partition(".")
        if not dot or not before.isalpha():
            return None


def reference() -> Price:
    """The price that stands in where a model has none or is not known."""
    table = _table()
    return msgspec.structs.replace(table.model[table.reference], name=table.reference)
