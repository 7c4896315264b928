"""How much the tools read, return, wait and run."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of the workspace tools. Each one that is reached is told to the model."""

    result: int = 16_000
    """Characters that a result may have; of a longer one the model gets a preview."""
    file: int = 32 << 20
    """Bytes of a file that is read, edited, or written."""
    searched: int = 8 << 20
    """Bytes of a file that `grep` looks into."""
    search_seconds: float = 30.0
    """How long one search may take."""
    entries: int = 200
    """Names that are listed, and matches that are shown, at once."""
    kept: int = 1 << 20
    """Bytes of a command's output that are kept: the first and the last half."""
    flood: int = 64 << 20
    """Bytes of output after which a command is ended."""
    seconds: float = 600.0
    """The longest that a command in the foreground may be given."""
    sessions: int = 8
    """Commands in the background at once."""
    fetched: int = 5 << 20
    """Bytes of a page."""
    fetch_seconds: float = 30.0
    """How long a page may take, redirects included."""
    redirects: int = 5
