"""What a request may cost, and how it is made to fit.

`Policy()` is the document's: old results of eight tools become one line at once, the oldest units go when the window
is full, texts are cut only as the last resort. `Policy.cache_friendly()` cuts rarely and much.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from legato.errors import PolicyError
from legato.fit.fold import Fold
from legato.fit.microcompact import Keep, Microcompact
from legato.messages import Json
from legato.recall import Store, open_store

DEFAULT_OUTPUT = 4_096
"""The output that is reserved where neither the policy nor the request says how much may come."""


class File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A policy as a TOML file states it: the fields of `Policy` that are no code. `[fold]` replaces compacting."""

    window: int | None = None
    max_output: int | None = None
    reserve: int = 1_024
    microcompact: Microcompact | None = Microcompact()
    fold: Fold | None = None
    summarise: bool = False
    recall: str | None = None


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The budget and the stages. All sizes are tokens.

    `budget = window - max_output - reserve`, and what must fit it is the whole request: system, tools, every message.
    Raises `PolicyError` if nothing could ever fit.
    """

    window: int | None = None
    """Input and output together. None: the model's, from the profile; if that has none nothing is snipped."""
    max_output: int | None = None
    """The room for the answer. None: the request's own limit, else 4,096."""
    reserve: int = 1_024
    """What is kept free besides."""
    counter: Callable[[str], int] | None = None
    """Counts the tokens of a text. None: the model's own vocabulary where it is installed, else the public one
    that the profile names."""
    microcompact: Microcompact | None = Microcompact()
    """How old results are replaced at once, whether or not there is room. None: they are not."""
    fold: Fold | None = None
    """How the cache-friendly cut is made. None: the oldest units are snipped at every request that is too long."""
    pinned: Callable[[Json], bool] | None = None
    """Which messages a fold must leave alone, with the whole unit they are in: asked of each wire item."""
    summarise: bool = False
    """Whether a session asks for a summary of what is about to be dropped: see `Session.prepare`."""
    recall: Store | str | None = None
    """Where what is cut is kept: a store, or the path of one (see `legato.recall`). None: it is in the report only."""

    def __post_init__(self) -> None:
        for name in ("window", "max_output", "reserve"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
                raise PolicyError(f"{name} must be a number of tokens, not {value!r}")
        for name, kind in (("microcompact", Microcompact), ("fold", Fold)):
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise PolicyError(f"{name} must be a {kind.__name__} or None, not {value!r}")
        if self.window is not None:
            self.budget(self.window, self.max_output or 0)

    def budget(self, window: int, max_output: int) -> int:
        """The most a request may cost. Raises `PolicyError` if the reserves leave nothing of the window."""
        budget = window - max_output - self.reserve
        if budget <= 0:
            raise PolicyError(
                f"a window of {window:,} tokens leaves nothing after max_output {max_output:,} and reserve "
                f"{self.reserve:,}; raise the window, or lower max_output or reserve"
            )
        return budget

    @classmethod
    def cache_friendly(cls, **fields: Any) -> Policy:
        """Nothing is cut until the window is full; then much at once, so that the provider's prompt cache survives."""
        return cls(**{"microcompact": None, "fold": Fold(), **fields})

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Policy:
        """A policy from the fields of a file; a fold goes without replacing at once. Raises `PolicyError`."""
        if not isinstance(fields, Mapping):
            raise PolicyError(f"a policy is an object with its fields, not {fields!r}")
        try:
            stated = msgspec.convert({"microcompact": None, **fields} if "fold" in fields else dict(fields), File)
        except msgspec.ValidationError as problem:
            raise PolicyError(str(problem)) from problem
        return cls(**msgspec.structs.asdict(stated))

    @classmethod
    def load(cls, source: str | Path) -> Policy:
        """A policy by name (`document`, `cache-friendly`) or from a TOML file with its fields. Raises `PolicyError`."""
        if str(source) in PRESETS:
            return PRESETS[str(source)]()
        try:
            return cls.of(tomllib.loads(Path(source).read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise PolicyError(f"no policy {str(source)!r}: neither a file nor one of {', '.join(PRESETS)}") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, PolicyError) as problem:
            raise PolicyError(f"{source}: {problem}") from problem


@cache
def _opened(path: str) -> Store:
    return open_store(path)


def keeper(policy: Policy) -> Keep | None:
    """What keeps a text in the policy's store and gives its handle; None without a store."""
    if policy.recall is None:
        return None
    return (_opened(policy.recall) if isinstance(policy.recall, str) else policy.recall).keep


PRESETS: dict[str, Callable[[], Policy]] = {"document": Policy, "cache-friendly": Policy.cache_friendly}
