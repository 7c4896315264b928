"""`legato rule`: the codes, and the page of each."""

from __future__ import annotations

import argparse
import sys
from difflib import get_close_matches
from importlib import resources
from pathlib import Path

from legato import rules
from legato.cli.failure import Failure
from legato.cli.terminal import Paint, columns
from legato.report import CODES

DESCRIPTION = "Without a code: every rule in a line. With one: its page, who refuses it and how it is mended."
EXAMPLES = """\
examples:
  legato rule
  legato rule PAIR001
  legato rule orphan-tool-result"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.add_argument("code", nargs="?", metavar="CODE", help="the code of a rule, or its name")


def run(options: argparse.Namespace) -> int:
    """Print the table, or a page. Raises `Failure` for a code that is not known."""
    if options.code is None:
        rows = [(rule.code, rule.name, rule.summary) for _, rule in sorted(CODES.items())]
        for line in columns(rows, Paint(sys.stdout), ("bold", "cyan", "")):
            sys.stdout.write(line + "\n")
        return 0
    code = find(options.code)
    rule = CODES[code]
    text = page(code) or f"# {code} {rule.name}\n\n{rule.summary}"
    sys.stdout.write(text.rstrip("\n") + "\n")
    return 0


def find(text: str) -> str:
    """The code that is meant by a code or name, in capitals or not. Raises `Failure` with those that look like it."""
    names = {rule.name: code for code, rule in CODES.items()}
    code = names.get(text.lower(), text.upper())
    if code in CODES:
        return code
    near = [known for known in CODES if known.rstrip("0123456789") == code.rstrip("0123456789")]
    near += [names[name] for name in get_close_matches(text.lower(), names)]
    near += get_close_matches(code, CODES)
    close = ", ".join(f"{known} {CODES[known].name}" for known in dict.fromkeys(near))
    raise Failure(f"no rule {text!r}; " + (f"near it: {close}" if close else f"there are: {', '.join(sorted(CODES))}"))


def page(code: str) -> str | None:
    """The page of a rule: in the installed package, or where the package runs from its source tree, in that."""
    source = Path(rules.__file__).parents[3] / "docs" / "rules"
    for folder in (resources.files(rules) / "pages", source):
        file = folder / f"{code}.md"
        if file.is_file():
            return file.read_text(encoding="utf-8")
    return None
