"""What a rule finds: a violation, and the edits that would mend it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

import msgspec

from legato.edits import Edit, Request
from legato.messages import Message
from legato.profiles import Profile

Severity: TypeAlias = Literal["error", "warning"]
Safety: TypeAlias = Literal["safe", "lossy", "manual"]


class Rule(msgspec.Struct, frozen=True):
    """A row of the table: `code` and `name` are the handles, `summary` one line; the page is `docs/rules/CODE.md`."""

    code: str
    name: str
    summary: str


class Fix(msgspec.Struct, frozen=True):
    """How to mend it.

    `safety` is `safe` (nothing is lost), `lossy` (something goes, and the report holds it) or `manual` (the caller
    must decide, there are no edits). Violations that need the same edit share it.
    """

    title: str
    safety: Safety
    edits: tuple[Edit, ...] = ()


class Violation(msgspec.Struct, frozen=True):
    """One fault. `at` is the caller's own index (None: the head), `place` a path such as `[3].tool_calls[0].id`."""

    code: str
    at: int | None
    message: str
    severity: Severity = "error"
    place: str = ""
    fix: Fix | None = None

    def __str__(self) -> str:
        return f"{self.code} at {self.place or 'the request'}: {self.message}"

    def to_dict(self) -> dict[str, object]:
        """As JSON: code, at, place, severity, message, and the fix's title and safety."""
        fix = None if self.fix is None else {"title": self.fix.title, "safety": self.fix.safety}
        return {
            "code": self.code,
            "at": self.at,
            "place": self.place,
            "severity": self.severity,
            "message": self.message,
            "fix": fix,
        }


def violation(
    request: Request,
    at: int,
    profile: Profile,
    rule: Rule,
    fact: str,
    reason: str,
    title: str,
    edits: Mapping[int, tuple[Message, ...]],
    safety: Safety = "safe",
) -> Violation:
    """A fault of the message at a position, as bad as the fact is sure, and the edits that mend it."""
    where = request.index(at)
    made = tuple(Edit(place, new, rule.code, reason, about=at if place < at else None) for place, new in edits.items())
    return Violation(rule.code, where, reason, profile.severity(fact), f"[{where}]", Fix(title, safety, made))


def of_message(
    request: Request,
    at: int,
    profile: Profile,
    rule: Rule,
    fact: str,
    reason: str,
    title: str,
    new: Message,
    safety: Safety,
) -> Violation:
    """A fault that is mended by another message in that place."""
    return violation(request, at, profile, rule, fact, reason, title, {at: (new,)}, safety)


def harmless(violations: Iterable[Violation]) -> set[int]:
    """The places whose edits lose nothing: those that only safe fixes touch."""
    fixes = _fixes(violations)
    lossy = {edit.at for fix in fixes if fix.safety != "safe" for edit in fix.edits}
    return {edit.at for fix in fixes for edit in fix.edits} - lossy


def edits_of(violations: Iterable[Violation]) -> list[Edit]:
    """The edits of all fixes that go together, at most one a place. A fix is made whole or, for now, not at all."""
    put: dict[int, Edit] = {}
    for fix in _fixes(violations):
        if all(put.get(edit.at, edit) is edit for edit in fix.edits):
            put.update((edit.at, edit) for edit in fix.edits)
    return list(put.values())


def _fixes(violations: Iterable[Violation]) -> list[Fix]:
    return list({id(violation.fix): violation.fix for violation in violations if violation.fix}.values())
