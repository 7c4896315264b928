"""The command `legato`: one module a command, each with `arguments(parser)` and `run(options) -> exit code`.

Exit codes: 0 done, 1 `check` found errors, 2 cannot or wrong usage, 130 interrupted, 141 nobody reads the output.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from legato.cli.failure import CANNOT, explain
from legato.cli.terminal import plain

COMMANDS = {
    "check": "say what a provider would refuse",
    "govern": "write the messages to send: legal, and within the budget",
    "replay": "play recorded sessions under several policies, and compare them",
    "serve": "govern requests on their way: the proxy",
    "run": "give an agent a task, or play a recorded one",
    "fix": "repair a session file in place",
    "rule": "list the rules, or explain one",
    "profiles": "list the providers, or show what is known about one",
}

EXAMPLES = """\
examples:
  legato check session.json
  legato check logs/ --profile openai --profile mistral
  legato govern session.json --window 128000 -o governed.json
  legato rule PAIR001
  legato profiles glm

"legato COMMAND --help" explains a command."""

CANNOT_GO_ON, INTERRUPTED, NOBODY_READS = 2, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        if sys.stdout is None:
            raise OSError(errno.EBADF, "the standard output is closed")
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        code = NOBODY_READS
    except KeyboardInterrupt:
        code = _say("interrupted", INTERRUPTED)
    except CANNOT as problem:
        code = _say(explain(problem), CANNOT_GO_ON)
    _let_go()
    return code


def _run(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="legato",
        description="Context governance for LLM agents: a message history the provider accepts, within the budget.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", title="commands")
    chosen = next((each for each in arguments if not each.startswith("-")), None)
    module, asked = None, parser
    for name, summary in COMMANDS.items():
        command = commands.add_parser(
            name,
            help=summary,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if name == chosen:
            # The one late import: only the command that runs is loaded, so that `legato --help` waits for none.
            module = import_module(f"{__name__}.{name}")
            module.arguments(command)
            asked = command
    try:
        options, unknown = parser.parse_known_args(arguments)
        if unknown:
            hint = "" if unknown[0].startswith("-") else " (an argument of several words needs quotes)"
            asked.error(f"not understood: {' '.join(unknown)}{hint}")
    except SystemExit as end:
        return int(end.code or 0)
    if options.version:
        import_module(f"{__name__}.version").run()
        return 0
    if module is None:
        parser.print_help(sys.stderr)
        return CANNOT_GO_ON
    code: int = module.run(options)
    return code


def _say(text: str, code: int) -> int:
    """One line on stderr, whatever the text has in it."""
    if sys.stderr is not None:
        with suppress(OSError):
            sys.stderr.write(f"legato: {plain(text, 2000)}\n")
            sys.stderr.flush()
    return code


def _let_go() -> None:
    """Let what stdout does not take go nowhere, else Python complains about it when it ends."""
    if sys.stdout is not None:
        try:
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
