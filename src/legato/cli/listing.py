"""The findings as a person reads them: a line each, aligned, and what it comes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TextIO

from legato.cli.findings import Finding, Tally
from legato.cli.terminal import Paint, columns, count, plain

ACCEPTED = "-"
"""What stands in the column of a profile that does not mind."""


def write(findings: Sequence[Finding], tally: Tally, stream: TextIO) -> None:
    """A line a finding, and one that sums it up; with several profiles a column, and a line, for each of them."""
    paint = Paint(stream)
    compared = len(tally.profiles) > 1
    lines = list(_compared(findings, tally, paint) if compared else _listed(findings, paint))
    if lines:
        lines.append("")
    if tally.conversations:
        lines += _verdicts(tally, paint) if compared else [_summary(findings, tally, paint)]
    if tally.skipped:
        some = ", ".join(map(plain, tally.skipped[:3])) + (", …" if len(tally.skipped) > 3 else "")
        lines.append(f"left out, no conversation in it: {count(len(tally.skipped), 'file')} ({some})")
    stream.write("".join(f"{line}\n" for line in lines))


def _listed(findings: Sequence[Finding], paint: Paint) -> Iterator[str]:
    for (_, severity), group in groupby(findings, lambda finding: (finding.file, finding.severity)):
        yield from columns([_cells(finding) for finding in group], paint, ("bold", _colour(severity), ""))


def _compared(findings: Sequence[Finding], tally: Tally, paint: Paint) -> Iterator[str]:
    """The findings of one code at one message side by side: which profile minds, and how much."""
    if not findings:
        return
    names = [str(profile) for profile in tally.profiles]
    widths = [max(len(name), len("warning")) for name in names]
    yield paint("bold", "  ".join(name.ljust(width) for name, width in zip(names, widths, strict=True)).rstrip())
    for _, group in groupby(findings, lambda finding: (finding.file, finding.line)):
        rows: dict[tuple[int, str, int], dict[str, Finding]] = {}
        seen: Counter[tuple[int, str, str]] = Counter()
        for finding in group:
            at, name = -1 if finding.at is None else finding.at, str(finding.profile)
            rows.setdefault((at, finding.code, seen[at, finding.code, name]), {})[name] = finding
            seen[at, finding.code, name] += 1
        firsts = [_cells(next(iter(rows[key].values()))) for key in sorted(rows)]
        cells = columns(firsts, paint, ("bold", "", ""), prose=False)
        for key, line in zip(sorted(rows), cells, strict=True):
            marks = [rows[key][name].severity if name in rows[key] else ACCEPTED for name in names]
            painted = [paint(_colour(mark), mark.ljust(width)) for mark, width in zip(marks, widths, strict=True)]
            yield "  ".join((*painted, line))


def _cells(finding: Finding) -> tuple[str, str, str]:
    """Where, which rule, and what about it."""
    where = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
    fix = finding.fix or {}
    safety = f", {fix['safety']}" if fix and fix["safety"] != "safe" else ""
    advice = f"  (fix: {fix['title']}{safety})" if fix else ""
    warning = "warning: " if finding.severity == "warning" else ""
    said = warning + plain(finding.message) + advice
    return f"{plain(where)}: {plain(finding.place)}".rstrip(), f"{finding.code} {finding.name}", said


def _colour(severity: str) -> str:
    return {"error": "red", "warning": "yellow"}.get(severity, "dim")


def _summary(findings: Sequence[Finding], tally: Tally, paint: Paint) -> str:
    errors, warnings = sum(tally.errors.values()), sum(tally.warnings.values())
    if errors:
        said = paint("red", count(errors, "error"))
        if tally.conversations > 1:
            said += f" in {sum(tally.refused.values()):,} of {tally.scope}"
    else:
        said = f"{paint('' if tally.damage else 'green', 'no errors')} in {tally.scope}"
    if warnings:
        shown = any(finding.severity == "warning" for finding in findings)
        said += f", {count(warnings, 'warning')}{'' if shown else ' (--warnings shows them)'}"
    if tally.damage:
        said += f"; {paint('red', count(len(tally.damage), 'damaged place'))}"
    return said + (f"; {len(tally.unread):,} could not be read" if tally.unread else "")


def _verdicts(tally: Tally, paint: Paint) -> list[str]:
    """Which profile would refuse how much."""
    rows = []
    for profile in tally.profiles:
        refused = tally.refused.get(profile, 0)
        some, every = (f"{refused:,} of {tally.scope}", tally.scope) if tally.conversations > 1 else ("it", "it")
        said = f"refuses {some}" if refused else f"accepts {every}"
        numbers = {"error": tally.errors.get(profile, 0), "warning": tally.warnings.get(profile, 0)}
        faults = ", ".join(count(number, name) for name, number in numbers.items() if number)
        rows.append((str(profile), paint("red" if refused else "green", said) + (f": {faults}" if faults else "")))
    damage = [count(len(tally.damage), "damaged place")] if tally.damage else []
    unread = [f"{len(tally.unread):,} could not be read"] if tally.unread else []
    return columns(rows, paint, ("bold", "")) + damage + unread
