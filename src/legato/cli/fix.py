"""`legato fix`: repair a session file in place, or say what would be done."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict

from legato import profiles
from legato.cli.failure import Failure
from legato.cli.terminal import Paint, columns, count, folded, plain
from legato.report import CODES
from legato.transcripts import files, rewrite
from legato.transcripts.remark import Remark
from legato.transcripts.repair import Repair, repair
from legato.transcripts.source import Source, naming

DESCRIPTION = "Repair a session file in place. Without --write only say what would be done."
EXAMPLES = """\
FILE is the session file of an agent (Claude Code, Codex, pi, nanobot, gemini-cli,
mini-swe-agent, Cline's older history), JSONL with a message on each line, or what
"legato check" reads. Torn lines, NUL bytes, several objects on a line and repeated
lines are mended, then calls and results and what messages are made of. Who may follow
whom in a session is left to the agent; --profile applies all rules of a provider.

With --write the file as it was is kept beside it as FILE.bak. What need not change
keeps its bytes. A file that its agent has locked, or writes to meanwhile, is left as
it is.

examples:
  legato fix session.jsonl
  legato fix session.jsonl --write
  legato fix session.jsonl --profile anthropic

exit code: 0 clean or repaired, 1 there is something to repair, 2 it cannot be done"""
DAMAGE = "damaged"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.add_argument("file", metavar="FILE", help="the file")
    parser.add_argument("--profile", metavar="P", help="whose rules: a provider or provider:model")
    parser.add_argument("--write", action="store_true", help="do it")
    parser.add_argument("--json", action="store_true", help="what is wrong, as JSON")


def run(options: argparse.Namespace) -> int:
    """Repair the file, or say what would be done. Raises `Failure`, `OSError`, `WireError`."""
    if options.profile is not None:
        profiles.get(options.profile)
    name = options.file
    if name == files.STDIN or (os.path.exists(name) and not os.path.isfile(name)):
        raise Failure(f"{name}: only a file can be repaired in place")
    if not options.write:
        with naming(name), Source(name) as source:
            found = repair(source, options.profile)
            size = sum(map(len, found.pieces())) if found.remarks else 0
        _report(name, found, options.json, f"nothing was written ({size:,} bytes would be); --write does it")
        return 1 if found.remarks else 0
    with naming(name), rewrite.locked(name) as stream, Source(name) as source:
        seen = os.fstat(stream.fileno())
        found = repair(source, options.profile)
        if not found.remarks:
            _report(name, found, options.json, "")
            return 0
        backup = rewrite.replace(name, found.pieces(), seen)
    _report(name, found, options.json, f"repaired; as it was: {plain(backup)}")
    return 0


def _report(name: str, found: Repair, as_json: bool, outcome: str) -> None:
    if as_json:
        faults = [{"file": name, **asdict(remark), "name": _name(remark)} for remark in found.remarks]
        sys.stdout.write(json.dumps({"file": name, "kind": found.kind, "faults": faults, "outcome": outcome}, indent=1))
        sys.stdout.write("\n")
        return
    paint = Paint(sys.stdout)
    if not found.remarks:
        sys.stdout.write(f"{plain(name)}: {found.kind}, {paint('green', 'nothing to repair')}\n")
        return
    lines = columns(_rows(name, found.remarks), paint, ("bold", "yellow", ""))
    lines += ["", folded(f"{plain(name)}: {found.kind}, {count(len(found.remarks), 'fault')}; {outcome}", paint)]
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def _rows(name: str, remarks: Sequence[Remark]) -> list[tuple[str, str, str]]:
    return [
        (
            plain(name if remark.line is None else f"{name}:{remark.line}") + ":",
            f"{remark.code} {_name(remark)}".strip(),
            plain(remark.text),
        )
        for remark in remarks
    ]


def _name(remark: Remark) -> str:
    return CODES[remark.code].name if remark.code else DAMAGE
