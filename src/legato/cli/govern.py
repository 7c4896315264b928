"""`legato govern`: the messages to send, and on stderr what was changed and why."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import groupby

import msgspec

import legato
from legato import profiles, wire
from legato.cli.failure import CANNOT, Failure, explain
from legato.cli.numbers import tokens
from legato.cli.terminal import Paint, Progress, columns, count, folded, plain
from legato.errors import Unrepairable
from legato.messages import Json
from legato.policy import PRESETS
from legato.report import Report
from legato.rules import Violation
from legato.transcripts import files, readers
from legato.transcripts.recording import Recording

DESCRIPTION = "Write the messages to send: a sequence that the provider accepts, within the budget."
EXAMPLES = f"""\
FILE is a JSON list of messages, a request body, or JSONL with one of them on each
line, also inside an object that holds it under "request"; - is standard input. The
output has the same shape, and what need not change is written byte for byte. If one
conversation of a JSONL cannot be governed, nothing is written. Of an agent's session
file (docs/session-files.md) the output is what the next request holds.

The budget is what the window leaves after the room for the answer and a reserve.
Without a window, neither given here nor known of the model, nothing is dropped.

A policy is one of: {", ".join(PRESETS)}; or a TOML file such as
  window = 128000
  max_output = 4096
  reserve = 1024

examples:
  legato govern session.json --profile mistral > governed.json
  legato govern session.json --window 128000 --max-output 4096 -o governed.json
  legato govern session.json --diff > /dev/null      look at what would change
  legato govern session.json --to anthropic --profile anthropic
  legato govern logs.jsonl -o logs.jsonl --json      in place, the report as JSON

exit code: 0 done, 2 cannot be read, governed or written, or wrong usage"""

SHOWN = 3
"""So many of the violations that cannot be repaired are named."""
RUN, ENDS = 14, (6, 4)
"""Of a longer run of lines that all go, or all come, a diff shows so many at its two ends."""
LINE = 2_000
"""So many characters of a line of the report are shown: a reason may quote an id of any length."""
COLOURS = {"@": "cyan", "-": "red", "+": "green"}
CODE = re.compile(r"\b[A-Z]{3,}\d{3}\b [a-z-]+")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.add_argument("file", metavar="FILE", help="a file, or -")
    parser.add_argument(
        "--profile", metavar="P", help='whose rules: a provider or provider:model ("legato profiles" lists them)'
    )
    parser.add_argument("--wire", metavar="W", help="the wire format, where it is not the profile's own")
    parser.add_argument("--to", metavar="W", help="move it to this wire format, for a profile of that format")
    parser.add_argument("--window", type=tokens, metavar="N", help="tokens of input and output together")
    parser.add_argument("--max-output", type=tokens, metavar="N", help="tokens kept free for the answer")
    parser.add_argument("--policy", metavar="NAME|FILE", help="how it is made to fit: a name, or a TOML file")
    parser.add_argument("-o", "--output", metavar="OUT", help="write to this file, whole or not at all, not to stdout")
    parser.add_argument("--diff", action="store_true", help="show on stderr what is changed, message by message")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("-v", "--verbose", action="store_true", help="report every conversation in full")
    output.add_argument("--json", action="store_true", help="the report as JSON")


def run(options: argparse.Namespace) -> int:
    """Govern every conversation, then write them all, then report. Raises `Failure`: then nothing was written."""
    if options.profile is not None:
        profiles.get(options.profile)  # a wrong name is said before anything is read
    if options.wire is not None:
        wire.codec(options.wire)
    if options.to is not None:
        wire.codec(options.to)
    policy = _policy(options)
    pieces: list[bytes] = []
    done: list[Outcome] = []
    progress = Progress([options.file], sys.stderr)
    try:
        for conversation in readers.read(options.file):
            governed, piece = _govern(conversation, options, policy)
            pieces.append(piece)
            done.append(Outcome.of(conversation, governed, options, first=not done))
            progress.add(conversation.size, conversation.where)
    finally:
        progress.clear()
    if options.output in (None, "-"):
        # Not through sys.stdout: where that is unbuffered, Python writes what fits and says nothing of the rest.
        with open(sys.stdout.fileno(), "wb", closefd=False) as stream:
            stream.writelines(pieces)
    else:
        files.write(options.output, pieces)
    if options.json:
        report = {"file": options.file, "conversations": [outcome.account for outcome in done]}
        sys.stderr.write(json.dumps(report, indent=1) + "\n")
    else:
        lines = _report(options.file, done, options.verbose, Paint(sys.stderr))
        sys.stderr.write("".join(f"{line}\n" for line in lines))
    return 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is reported of one conversation. Nothing of the conversation itself is kept."""

    where: str
    changed: bool
    tokens: tuple[int, int]
    budget: int | None
    codes: dict[str, int]
    lines: list[str]
    diff: list[str]
    account: Json

    @classmethod
    def of(
        cls,
        conversation: files.Conversation | Recording,
        governed: legato.Governed,
        options: argparse.Namespace,
        first: bool,
    ) -> Outcome:
        report: Report = governed.report
        return cls(
            conversation.where,
            governed.body is not conversation.payload,
            (report.tokens_in, report.tokens_out),
            report.budget,
            dict(Counter(change.code for change in report.changes)),
            report.lines(full=options.verbose) if first or options.verbose else [],
            report.diff().splitlines() if options.diff else [],
            {"line": conversation.line, **report.to_dict()} if options.json else None,
        )


def _govern(
    conversation: files.Conversation | Recording, options: argparse.Namespace, policy: legato.Policy
) -> tuple[legato.Governed, bytes]:
    """What to send, and the bytes of it. Raises `Failure` with the place."""
    try:
        form = options.wire or (conversation.format if isinstance(conversation, Recording) else None)
        governed = legato.govern(
            conversation.payload, profile=options.profile, policy=policy, format=form, to=options.to
        )
        return governed, conversation.put(governed.body)
    except Unrepairable as problem:
        found = [each for each in problem.violations if isinstance(each, Violation)]
        named = "; ".join(f"{each.place}: {each.code} {each.message}".removeprefix(": ") for each in found[:SHOWN])
        more = f"; and {len(found) - SHOWN:,} more" if len(found) > SHOWN else ""
        raise Failure(f"{conversation.where}: only you can mend this: {named}{more}") from None
    except CANNOT as problem:
        raise Failure(f"{conversation.where}: {explain(problem)}") from None


def _policy(options: argparse.Namespace) -> legato.Policy:
    """The policy that was named, with the sizes that were given. Raises `PolicyError`."""
    policy = legato.Policy.load(options.policy) if options.policy is not None else legato.Policy()
    sizes = {"window": options.window, "max_output": options.max_output}
    return msgspec.structs.replace(policy, **{name: size for name, size in sizes.items() if size is not None})


def _report(file: str, done: list[Outcome], verbose: bool, paint: Paint) -> list[str]:
    """What was done: in full for one conversation, else a line for each that was changed, and the sum."""
    changed = [outcome for outcome in done if outcome.changed]
    lines: list[str] = []
    if len(done) == 1 or verbose:
        for outcome in done:
            first, *rest = (plain(line, LINE) for line in outcome.lines)
            where = plain(outcome.where)
            lines.append(folded(f"{where}: {first}", paint).replace(where, paint("bold", where), 1))
            lines += [CODE.sub(lambda code: paint("yellow", code[0]), folded(line, paint)) for line in rest]
            lines += _diff(outcome.diff, paint)
    else:
        rows = columns([_row(outcome) for outcome in changed], paint, ("bold", "", "yellow"))
        for outcome, row in zip(changed, rows, strict=True):
            lines += [row, *_diff(outcome.diff, paint)]
    return lines + ([f"{paint('bold', plain(file))}: {_sum(done)}"] if len(done) > 1 else [])


def _sum(done: list[Outcome]) -> str:
    """What it comes to over all conversations."""
    before, after = (sum(outcome.tokens[side] for outcome in done) for side in (0, 1))
    changed = sum(outcome.changed for outcome in done)
    if not changed:
        return f"{count(len(done), 'conversation')}, {before:,} tokens, nothing had to change"
    changes = count(sum(sum(outcome.codes.values()) for outcome in done), "change")
    return f"{changed:,} of {count(len(done), 'conversation')} changed, {before:,} -> {after:,} tokens, {changes}"


def _row(outcome: Outcome) -> tuple[str, str, str]:
    before, after = outcome.tokens
    budget = "" if outcome.budget is None else f" (budget {outcome.budget:,})"
    codes = ", ".join(code if times == 1 else f"{code} x{times:,}" for code, times in outcome.codes.items())
    return f"{plain(outcome.where)}:", f"{before:,} -> {after:,} tokens{budget}", codes or "notes left out"


def _diff(lines: list[str], paint: Paint) -> list[str]:
    """The diff with long lines and long runs shortened: what is whole is in the two files."""
    shown = []
    for sign, group in groupby(lines, lambda line: line[:1]):
        run = list(group)
        if len(run) > RUN:
            gone = len(run) - sum(ENDS)
            run = [*run[: ENDS[0]], f"{sign}   … {count(gone, 'line')} …", *run[-ENDS[1] :]]
        shown += [paint(COLOURS.get(sign, "dim"), plain(line)) for line in run]
    return shown
