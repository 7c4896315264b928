"""`legato check`: what a provider, or each of several, would refuse in files and folders."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import legato
from legato import profiles, wire
from legato.cli.failure import CANNOT, Failure, explain
from legato.cli.findings import Finding, Tally
from legato.cli.formats import FORMATS
from legato.cli.terminal import Progress, plain
from legato.report import CODES
from legato.rules import Violation
from legato.transcripts import files, mend, readers
from legato.transcripts.recording import Recording

DESCRIPTION = "Say what a provider would refuse, and how to mend it. Nothing is changed."
EXAMPLES = """\
FILE is a JSON list of messages, a request body, or JSONL with one of them on each
line, also inside an object that holds it under "request"; or the session file of an
agent (docs/session-files.md). It may be a folder or a quoted pattern, and - is standard
input.

A session is no request yet: without --profile only calls and results, and what its
messages are made of, are judged, and an answer at its end is no fault.

examples:
  legato check session.json
  legato check logs/ 'old/**/*.jsonl' --profile mistral
  legato check session.json --profile openai --profile glm      compare the two
  legato check . --select PAIR,ROLE003 --ignore PAIR004
  legato check . --format github           annotations in a GitHub workflow

exit code: 0 clean, 1 errors found or a file is damaged, 2 something cannot be read, or
wrong usage"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.add_argument("files", nargs="+", metavar="FILE", help="a file, a folder, a pattern, or -")
    parser.add_argument(
        "--profile",
        action="append",
        metavar="P",
        help='whose rules: a provider or provider:model ("legato profiles" lists them); several are compared',
    )
    parser.add_argument("--wire", metavar="W", help="the wire format, where it is not the profile's own")
    parser.add_argument("--warnings", action="store_true", help="show warnings too; they never change the exit code")
    parser.add_argument("--select", action="append", metavar="CODES", help="only these codes, or all that start so")
    parser.add_argument("--ignore", action="append", metavar="CODES", help="not these codes, nor any that starts so")
    output = parser.add_mutually_exclusive_group()
    forms = ", ".join(FORMATS)
    output.add_argument("--format", choices=tuple(FORMATS), default="text", metavar="F", help=f"{forms}; default: text")
    output.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")


def run(options: argparse.Namespace) -> int:
    """Check all files, print what was found, and return the exit code."""
    judge = Judge(
        tuple(dict.fromkeys(options.profile or (None,))),
        options.wire,
        _codes(options.select),
        _codes(options.ignore),
        options.warnings,
    )
    for name in options.profile or ():
        profiles.get(name)  # a wrong name is said once, before anything is read
    if options.wire is not None:
        wire.codec(options.wire)
    tally = Tally(judge.profiles)
    findings: list[Finding] = []
    found = _find(options.files, tally)
    progress = Progress(found, sys.stderr)
    for file, named in found.items():
        try:
            findings += _check(file, judge, tally, progress)
        except CANNOT as problem:
            if named or not isinstance(problem, files.NoConversation):
                tally.unread.append(explain(problem))
            else:
                tally.skipped.append(file)
    progress.clear()
    damage = [f"{problem} (legato fix)" for problem in tally.damage]
    sys.stderr.write("".join(f"legato: {plain(problem, 2000)}\n" for problem in (*tally.unread, *damage)))
    FORMATS[options.format](findings, tally, sys.stdout)
    return 2 if tally.unread else 1 if any(tally.errors.values()) or tally.damage else 0


@dataclass(frozen=True)
class Judge:
    """Whose rules, and which of them. The profile None is the one that fits the payload.

    One profile reads its own wire format; several are compared on what the payload is.
    """

    profiles: tuple[str | None, ...]
    wire: str | None
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    warnings: bool

    def findings(self, conversation: files.Conversation | Recording, tally: Tally) -> Iterator[Finding]:
        """What each profile refuses of one conversation, in the order of its messages. Raises `Failure`."""
        for profile in self.profiles:
            try:
                violations = self._violations(conversation, profile)
            except CANNOT as problem:
                raise Failure(f"{conversation.where}: {explain(problem)}") from None
            wanted = [violation for violation in violations if self._wants(violation.code)]
            tally.count(profile, wanted)
            for violation in wanted:
                if self.warnings or violation.severity == "error":
                    yield Finding.of(violation, conversation, profile)

    def _violations(self, conversation: files.Conversation | Recording, profile: str | None) -> list[Violation]:
        if isinstance(conversation, Recording):
            return mend.check(conversation, profile, self.wire)
        form = self.wire or (wire.sniff(conversation.payload) if len(self.profiles) > 1 else None)
        return legato.check(conversation.payload, profile, format=form)

    def _wants(self, code: str) -> bool:
        return (not self.select or code.startswith(self.select)) and not code.startswith(self.ignore)


def _check(file: str, judge: Judge, tally: Tally, progress: Progress) -> list[Finding]:
    """The findings of one file, which counts as a whole: if it cannot be read to its end, it has none."""
    read = Tally(judge.profiles, files=1)
    findings: list[Finding] = []
    for conversation in readers.read(file):
        findings += judge.findings(conversation, read)
        read.conversations += 1
        if isinstance(conversation, Recording):
            read.damage += [f"{conversation.at(note)}: {note.text}" for note in conversation.notes if note.damage]
        progress.add(conversation.size, conversation.where)
    tally.add(read)
    return findings


def _find(names: Sequence[str], tally: Tally) -> dict[str, bool]:
    """The files that the names stand for, each with whether it was named itself. What stands for none is noted."""
    found: dict[str, bool] = {}
    for name in names:
        try:
            for file in files.find(name):
                found[file] = file == name or found.get(file, False)
        except OSError as problem:
            tally.unread.append(explain(problem))
    return found


def _codes(texts: Sequence[str] | None) -> tuple[str, ...]:
    """The codes, or beginnings of codes, in `A,B C`. Raises `Failure` for one that no code starts with."""
    codes = tuple(code for text in texts or () for code in text.replace(",", " ").split())
    for code in codes:
        if not any(known.startswith(code) for known in CODES):
            raise Failure(f'no code starts with {code}; "legato rule" lists them')
    return codes
