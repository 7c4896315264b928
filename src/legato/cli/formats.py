"""The findings for programs: JSON, annotations for a GitHub workflow, and SARIF for code scanners."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TextIO
from urllib.parse import quote

from legato.cli import listing
from legato.cli.findings import Finding, Tally
from legato.cli.version import version
from legato.messages import Json
from legato.report import CODES
from legato.rules import page
from legato.transcripts.files import STDIN

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def as_json(findings: Sequence[Finding], tally: Tally, stream: TextIO) -> None:
    """One object: `findings` in order, and a `summary` with a row a profile (null: the payload's own)."""
    summary = {
        "files": tally.files,
        "conversations": tally.conversations,
        "skipped": tally.skipped,
        "unread": tally.unread,
        "damage": tally.damage,
        "profiles": [
            {
                "profile": profile,
                "errors": tally.errors.get(profile, 0),
                "warnings": tally.warnings.get(profile, 0),
                "refused": tally.refused.get(profile, 0),
            }
            for profile in tally.profiles
        ],
    }
    _dump({"findings": [asdict(finding) for finding in findings], "summary": summary}, stream)


def as_github(findings: Sequence[Finding], tally: Tally, stream: TextIO) -> None:
    """One workflow command a finding: GitHub shows it at the line of the file."""
    for finding in findings:
        properties = {"title": f"{finding.code} {finding.name}"}
        if finding.file != STDIN:
            properties = {"file": finding.file, "line": str(finding.line or 1), **properties}
        written = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in properties.items())
        stream.write(f"::{finding.severity} {written}::{_escaped(_sentence(finding), '')}\n")
    for problem in (*tally.unread, *tally.damage):
        stream.write(f"::error title=legato::{_escaped(problem, '')}\n")


def as_sarif(findings: Sequence[Finding], tally: Tally, stream: TextIO) -> None:
    """A SARIF 2.1.0 log with one run."""
    codes = sorted({finding.code for finding in findings})
    notifications = [{"level": "error", "message": {"text": problem}} for problem in (*tally.unread, *tally.damage)]
    run = {
        "tool": {"driver": {"name": "legato", "version": version(), "rules": [_rule(code) for code in codes]}},
        "invocations": [{"executionSuccessful": not tally.unread, "toolExecutionNotifications": notifications}],
        "results": [_result(finding, codes.index(finding.code)) for finding in findings],
    }
    _dump({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, stream)


FORMATS: dict[str, Callable[[Sequence[Finding], Tally, TextIO], None]] = {
    "text": listing.write,
    "json": as_json,
    "github": as_github,
    "sarif": as_sarif,
}


def _dump(value: Json, stream: TextIO) -> None:
    stream.write(json.dumps(value, indent=1) + "\n")


def _sentence(finding: Finding) -> str:
    """Place, fault, whose rule and the fix."""
    place = f"{finding.place}: " if finding.place else ""
    profile = f" [{finding.profile}]" if finding.profile else ""
    return f"{place}{finding.message}{profile}" + (f" (fix: {finding.fix['title']})" if finding.fix else "")


def _escaped(text: str, more: str) -> str:
    """Text as GitHub's workflow commands want it."""
    return "".join(f"%{ord(each):02X}" if each in "%\r\n" + more else each for each in text)


def _rule(code: str) -> Json:
    rule = CODES[code]
    text = page(code)
    described = {"id": code, "name": rule.name, "shortDescription": {"text": rule.summary}}
    return {**described, "help": {"text": rule.summary, "markdown": text}} if text else described


def _result(finding: Finding, rule: int) -> Json:
    where = {"artifactLocation": {"uri": _uri(finding.file)}, "region": {"startLine": finding.line or 1}}
    location: Json = {"physicalLocation": where}
    if finding.place:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.place}]
    return {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": finding.severity,
        "message": {"text": _sentence(finding)},
        "locations": [location],
        "properties": {"profile": finding.profile},
    }


def _uri(file: str) -> str:
    """A path as a URI: a relative one stays relative."""
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix(), errors="surrogateescape")
