"""`legato profiles`: the providers, and what is known about each, with its evidence."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from textwrap import wrap

import msgspec

from legato import profiles
from legato.cli.terminal import Paint, columns, plain
from legato.profiles import Fact, Profile

DESCRIPTION = "Without a name: every profile in a line. With one: each fact about it, its source, and what is refused."
EXAMPLES = """\
examples:
  legato profiles
  legato profiles mistral
  legato profiles openai:gpt-4o"""

GRADES = {
    "R": "recorded answer of the API",
    "S": "source of its validator",
    "D": "documentation",
    "P": "practice of a mature adapter",
    "C": "seen in public code",
    "U": "not verified, so it only warns",
    "L": "legato's own choice",
}
WIDTH = 100
"""Lines are no longer than this, however wide the terminal is."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.add_argument("name", nargs="?", metavar="NAME[:MODEL]", help="a provider, or a model of it")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(options: argparse.Namespace) -> int:
    """Print the table, or one profile. Raises `UnknownProfile`."""
    paint = Paint(sys.stdout)
    names = profiles.NAMES if options.name is None else (options.name,)
    found = [profiles.get(name) for name in names]
    if options.json:
        rows = msgspec.to_builtins(found)
        sys.stdout.write(json.dumps(rows if options.name is None else rows[0], indent=1) + "\n")
        return 0
    if options.name is None:
        rows = [(profile.name, profile.format, profile.title) for profile in found]
        lines = columns(rows, paint, ("bold", "cyan", ""))
    else:
        lines = list(_page(found[0], paint))
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def _page(profile: Profile, paint: Paint) -> Iterator[str]:
    """One profile: what it is, then its facts, then what the grades mean."""
    yield f"{paint('bold', profile.name)}  {profile.title}"
    yield f"wire format {profile.format}"
    if profile.note:
        yield f"note: {profile.note}"
    if profile.models and ":" not in profile.name:
        yield from _wrapped(f"models with facts of their own: {', '.join(profile.models)}", "")
    width = max(map(len, profile.evidence), default=0)
    for name, fact in profile.evidence.items():
        yield ""
        yield f"{paint('cyan', name.ljust(width))} = {paint('bold', _value(fact.value))}"
        yield from _evidence(fact)
    grades = sorted({fact.grade for fact in profile.evidence.values()})
    if grades:
        yield ""
        yield from _wrapped("grades: " + "; ".join(f"{grade} {GRADES[grade]}" for grade in grades), "")


def _evidence(fact: Fact) -> Iterator[str]:
    if fact.error:
        yield from _wrapped(f"refused with: {fact.error}", "    ")
    yield from _wrapped(f"source: {fact.source} ({fact.date}, grade {fact.grade})", "    ")
    if fact.note:
        yield from _wrapped(f"note: {fact.note}", "    ")


def _value(value: object) -> str:
    return f"{value:,}" if type(value) is int else plain(json.dumps(value, ensure_ascii=False))


def _wrapped(text: str, indent: str) -> list[str]:
    width = min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)
    deeper = indent + "  "
    return wrap(plain(text, 2000), width, initial_indent=indent, subsequent_indent=deeper, break_on_hyphens=False)
