"""Saving tokens: one file a stage.

`microcompact` replaces old results, `snip` drops the oldest units, `shrink` cuts long texts in the middle. Each is a
planner: it returns edits and changes nothing. `units` says what may only go together. `TABLE` has their codes.
"""

from __future__ import annotations

from legato.fit.microcompact import STALE
from legato.fit.shrink import LONG
from legato.fit.snip import OVER

TABLE = (STALE, OVER, LONG)
