"""The rules: what providers refuse, and how it is mended.

One file a family; each family is one walk, `find(request, profile)`, that yields the violations of its several codes
and reads what is allowed from the profile's facts. `RULES` is the table of all codes, `FAMILIES` the order in which
they are mended. Every code has a page in `docs/rules/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from legato.edits import Request
from legato.profiles import Profile
from legato.rules import body, name, pair, role
from legato.rules.violation import Fix, Rule, Violation

Family = Callable[[Request, Profile], Iterator[Violation]]

FAMILIES: tuple[Family, ...] = (pair.find, name.find, body.find, role.find)

LOCAL: tuple[Family, ...] = (pair.find, name.find, body.find)
"""The families that are mended before the fit too: they concern a message by itself, or a call and its result."""

RULES: dict[str, Rule] = {
    rule.code: rule for table in (pair.TABLE, name.TABLE, body.TABLE, role.TABLE) for rule in table
}

__all__ = ["FAMILIES", "LOCAL", "RULES", "Family", "Fix", "Rule", "Violation"]
