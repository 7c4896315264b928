"""Saving tokens: one file a stage.

`microcompact` replaces old results, `snip` drops the oldest units, `shrink` cuts long texts in the middle; `fold` does
the first two in the cache-friendly way, with `clear`. Each is a planner: it returns edits and changes nothing. `units`
says what may only go together. `TABLE` has their codes.
"""

from __future__ import annotations

from legato.fit.clear import ARGUMENTS
from legato.fit.microcompact import STALE
from legato.fit.shrink import LONG
from legato.fit.snip import OVER, SUMMED

TABLE = (STALE, OVER, LONG, ARGUMENTS, SUMMED)
