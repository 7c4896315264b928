"""The rules: what providers refuse, and how it is mended.

One file a family (PAIR, THINK and BODY have more than one part); each is one walk, `find(request, profile)`, that
yields the violations of its several codes and reads what is allowed from the profile's facts. `RULES` is the table of
all codes, `FAMILIES` the order in which they are mended. Every code has a page in `docs/rules/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path

from legato.edits import Request
from legato.profiles import Profile
from legato.rules import body, head, items, layout, media, name, pair, role, server, size, think
from legato.rules.violation import Fix, Rule, Violation

Family = Callable[[Request, Profile], Iterator[Violation]]

LOCAL: tuple[Family, ...] = (
    pair.find,
    layout.find,
    server.find,
    name.find,
    think.find,
    items.find,
    body.find,
    media.find,
    head.find,
    size.find,
)
"""What is mended before the fit too: it concerns a message by itself, or a call and its result."""

FAMILIES: tuple[Family, ...] = (*LOCAL, role.find)
"""All, in the order in which they are mended."""

RULES: dict[str, Rule] = {
    rule.code: rule
    for module in (pair, layout, server, name, think, items, body, media, head, role, size)
    for rule in module.TABLE
}


def page(code: str) -> str | None:
    """The page of a code: in the installed package, or where that runs from its source tree, in that. None without."""
    here = resources.files("legato.rules")
    for folder in (here / "pages", Path(__file__).parents[3] / "docs" / "rules"):
        file = folder / f"{code}.md"
        if file.is_file():
            return file.read_text(encoding="utf-8")
    return None


__all__ = ["FAMILIES", "LOCAL", "RULES", "Family", "Fix", "Rule", "Violation", "page"]
