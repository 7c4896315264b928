"""`legato rule`: the codes, and the page of each."""

from __future__ import annotations

import argparse
import sys
from difflib import get_close_matches
from string import digits

from legato.cli.failure import Failure
from legato.cli.terminal import Paint, columns
from legato.report import CODES
from legato.rules import page

DESCRIPTION = "Without a code: every rule in a line. With one: its page, who refuses it and how it is mended."
EXAMPLES = """\
examples:
  legato rule                        all of them
  legato rule PAIR                   those of one family
  legato rule PAIR001
  legato rule orphan-tool-result"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.add_argument("code", nargs="?", metavar="CODE", help="a code, the name of a rule, or a family")


def run(options: argparse.Namespace) -> int:
    """Print the table, or a page. Raises `Failure` for a code that is not known."""
    codes = find(options.code or "")
    if len(codes) == 1:
        rule = CODES[codes[0]]
        text = page(rule.code) or f"# {rule.code} {rule.name}\n\n{rule.summary}"
        sys.stdout.write(text.rstrip("\n") + "\n")
    else:
        rows = [(code, CODES[code].name, CODES[code].summary) for code in codes]
        sys.stdout.write("".join(f"{line}\n" for line in columns(rows, Paint(sys.stdout), ("bold", "cyan", ""))))
    return 0


def find(text: str) -> list[str]:
    """The codes that are meant by a code, its beginning, or a name. Raises `Failure` with those that are near it."""
    names = {rule.name: code for code, rule in CODES.items()}
    if text.lower() in names:
        return [names[text.lower()]]
    code = text.upper()
    found = [code] if code in CODES else sorted(known for known in CODES if known.startswith(code))
    if found:
        return found
    near = [known for name, known in names.items() if text.lower() in name]
    near += [names[name] for name in get_close_matches(text.lower(), names)]
    near += [known for known in CODES if known.rstrip(digits) == code.rstrip(digits)]
    close = ", ".join(dict.fromkeys(near or get_close_matches(code, CODES, cutoff=0.5)))
    raise Failure(f"no rule {text!r}; " + (f"near it: {close}" if close else '"legato rule" lists all of them'))
