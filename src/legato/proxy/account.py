"""What was done to a request, in numbers and reasons: what headers, records and the dashboard say of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from legato import Governed
from legato.report import RANGES, Change, ranges
from legato.rules import RULES

REASONS, REASON = 6, 200
"""Reasons that are told of a code, and their characters."""

Reasons: TypeAlias = dict[str, list[tuple[str, str]]]
Faults: TypeAlias = tuple[tuple[str, int], ...]


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What was done. `changes`: by code how many, and the tokens they brought or saved; `reasons`: where, and why.

    `faults`: what the provider would have refused, by code and place in the history (-1: no message).
    """

    tokens_in: int = 0
    tokens_out: int = 0
    budget: int | None = None
    counted: int = 0
    factor: float = 1.0
    changes: dict[str, tuple[int, int]] = {}
    reasons: Reasons = {}
    faults: Faults = ()
    folds: int = 0
    kept: int | None = None
    """If this very request was folded: up to which of its messages the prefix is what was sent before."""
    diff: str | None = None


def account(governed: Governed, contents: bool) -> Account:
    """The account of what was done to a request. `contents`: with what was changed, word for word."""
    report = governed.report
    changes: dict[str, tuple[int, int]] = {}
    for change in report.changes:
        times, tokens = changes.get(change.code, (0, 0))
        changes[change.code] = (times + 1, tokens + change.tokens)
    now = next((fold for fold in report.folds if fold.at is None), None)
    return Account(
        tokens_in=report.tokens_in,
        tokens_out=report.tokens_out,
        budget=report.budget,
        counted=report.counted,
        factor=report.factor,
        changes=changes,
        reasons=_reasons(report.changes),
        faults=tuple(
            [(change.code, -1 if change.at is None else change.at) for change in report.changes if change.code in RULES]
        ),
        folds=len(report.folds),
        kept=None if now is None else now.kept,
        diff=report.diff() if contents else None,
    )


def _reasons(changes: Iterable[Change]) -> Reasons:
    """By code each reason with its places, the first few of them: they name ids, roles and tools, and quote nothing."""
    found: dict[str, dict[str, list[int | None]]] = {}
    for change in changes:
        found.setdefault(change.code, {}).setdefault(change.reason, []).append(change.at)
    told: Reasons = {}
    for code, reasons in found.items():
        shown = list(reasons.items())[:REASONS]
        told[code] = [(ranges(places, RANGES), _cut(reason)) for reason, places in shown]
        if len(reasons) > REASONS:
            told[code].append(("", f"{len(reasons) - REASONS:,} more reasons"))
    return told


def _cut(reason: str) -> str:
    return reason if len(reason) <= REASON else f"{reason[: REASON - 1]}…"
