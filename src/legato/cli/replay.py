"""`legato replay`: recorded sessions under several policies: what each would have sent, cost, kept and broken."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from time import monotonic, sleep
from typing import Any, TextIO

from legato import profiles
from legato.cli.failure import CANNOT, Failure, explain
from legato.cli.numbers import tokens
from legato.cli.terminal import Paint, Progress, columns, count, moves, plain
from legato.replay import live, policies
from legato.replay.play import replay
from legato.replay.played import Replay, Totals
from legato.replay.stage import Stage
from legato.transcripts import files, readers
from legato.transcripts.recording import Recording

DESCRIPTION = "Play recorded sessions again under several policies: what each would have sent, cost, kept and broken."
EXAMPLES = f"""\
FILE is a session file of a known agent (docs/session-files.md), a JSON list of messages,
a request body, or JSONL of them; - is standard input. Each answer in it was one request.

Policies: {", ".join(policies.DEFAULT[:5])},
{", ".join(policies.DEFAULT[5:])};
or a TOML file. Without --policy all of these that have a name are compared.

The columns: tokens sent; the share of them that the provider's prompt cache gives; what
the requests cost (the answers cost the same under every policy); breaks: requests in which
something that was sent before was changed; evidence: the share of the names, paths, ids and
numbers an answer used that were still there; refused: requests that nobody would have
answered, and those of them that were over the window. What a request costs that is refused
is nothing, and what its answer used is lost. docs/replay.md says what this cannot see.

examples:
  legato replay session.jsonl --window 64000
  legato replay session.jsonl --policy sliding-window,cache-friendly,mine.toml
  legato replay logs/*.jsonl --window 32k --json > replay.json
  legato replay session.jsonl --window 64k --live

exit code: 0 done, 2 cannot be read or played, or wrong usage"""

TITLES = ("policy", "requests", "tokens sent", "cached", "money", "breaks", "evidence", "refused", "over", "ms")
BAR = 8
"""The cells of a bar."""
EIGHTHS = " ▏▎▍▌▋▊▉█"
BESIDE = "cache-friendly"
"""The policy that is set against the optimum."""
OPTIMA = {"cost": "the least cost", "pressed": "the least of cuts made only when they must be"}
LIVE = ("sliding-window", "cache-friendly")
"""What is shown side by side where no policy is named."""
SECONDS = 24.0
"""So long a live view takes on a terminal, and so long at most a request of it."""
SLOWEST = 0.12
STEPS = 12
"""Where the output is no terminal a live view shows so many requests, and those at which the first folds came."""
WIDE = 120
"""The columns of an output that is no terminal."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.add_argument("files", metavar="FILE", nargs="+", help="files, or -")
    parser.add_argument("--policy", metavar="A,B,…", action="append", help="which to compare: names or TOML files")
    parser.add_argument("--window", type=tokens, metavar="N", help="tokens of input and output together")
    parser.add_argument("--max-output", type=tokens, metavar="N", help="tokens kept free for the answer")
    parser.add_argument("--profile", metavar="P", help="whose rules, where it is not the recording's own API")
    parser.add_argument("--model", metavar="M", help="whose prices, where it is not the recording's own model")
    parser.add_argument("--optimum", action="store_true", help="also how cheap it could have been, knowing the future")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="everything as JSON, a recording at a time")
    output.add_argument("--html", metavar="OUT", help="write a page to look at, in one file")
    output.add_argument("--live", action="store_true", help="play the first recording before your eyes")


def run(options: argparse.Namespace) -> int:
    """Play everything, then show the sums. Raises `Failure` with the place."""
    if options.profile is not None:
        profiles.get(options.profile)
    names = [name for given in options.policy or () for name in given.split(",") if name]
    if options.live:
        return _live(options, policies.choose(names or LIVE))
    if options.optimum and names and BESIDE not in names:
        names.append(BESIDE)
    choices = policies.choose(names or policies.DEFAULT)
    if options.html is not None:
        return _page(options, choices)
    if options.json:
        sys.stdout.write('{"replays": [')
        for number, played in enumerate(_replays(options, choices)):
            sys.stdout.write(",\n" if number else "\n")
            json.dump(played.to_dict(), sys.stdout)
        sys.stdout.write("\n]}\n")
        return 0
    table = Table()
    for played in _replays(options, choices):
        table.add(played)
    if not table.recordings:
        raise Failure(f"{', '.join(map(plain, options.files))}: no request was made in it")
    sys.stdout.write("".join(f"{line}\n" for line in table.lines(Paint(sys.stdout), _bars(sys.stdout))))
    return 0


@dataclass(slots=True)
class Table:
    """The sums over all recordings. Nothing of the recordings themselves is kept."""

    recordings: int = 0
    requests: int = 0
    faulty: int = 0
    where: str = ""
    windows: set[int] = field(default_factory=set)
    prices: dict[str, None] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)
    totals: dict[str, Totals] = field(default_factory=dict)
    optima: list[dict[str, Any]] = field(default_factory=list)

    def add(self, played: Replay) -> None:
        self.recordings += 1
        self.requests += len(played.asked)
        self.faulty += sum(bool(request.refused) for request in played.asked)
        self.where = played.where
        self.windows.add(played.window)
        self.prices[played.price.name] = None
        for note in played.notes:
            self.notes[note] = self.notes.get(note, 0) + 1
        for policy in played.policies:
            self.totals[policy.name] = self.totals.get(policy.name, Totals()) + policy.totals
        if played.optimum is not None:
            self.optima.append(played.optimum)

    def lines(self, paint: Paint, bars: bool) -> list[str]:
        """What was played, a row a policy, and what has to be known to read it."""
        dearest = max((total.cost for total in self.totals.values()), default=0.0)
        longest = max((total.tokens for total in self.totals.values()), default=0)
        rows = [_row(name, total, longest, dearest, bars) for name, total in self.totals.items()]
        first, *rest = TITLES
        titles = (first, *(title.rjust(len(cell)) for title, cell in zip(rest, rows[0][1:], strict=True)))
        styles = ("bold", "", "", "green", "", "", "cyan", "red", "red", "dim")
        aligned = columns([titles, *rows], paint, styles, prose=False)
        what = self.where if self.recordings == 1 else count(self.recordings, "recording")
        window = f"{self.windows.pop():,}" if len(self.windows) == 1 else "the models' own"
        lines = [f"{paint('bold', plain(what))}: {count(self.requests, 'request')}, window {window}"]
        if self.faulty:
            lines.append(f"as recorded the provider would refuse {self.faulty:,} of them for what is in them")
        lines += ["", *aligned, ""]
        answers = max((total.answers for total in self.totals.values()), default=0.0)
        lines.append(f"prices of {', '.join(list(self.prices)[:4])}{' …' if len(self.prices) > 4 else ''}; ")
        lines[-1] += f"the answers themselves cost ${answers:,.2f}"
        lines += [f"note: {plain(note)} ({count(times, 'recording')})" for note, times in self.notes.items()]
        return lines + self._optimum()

    def _optimum(self) -> list[str]:
        """What the best cuts would have cost that keep as much, against what ours did."""
        lines = []
        for kind, what in OPTIMA.items():
            found = [each for each in self.optima if each[kind] is not None]
            best, ours = sum(each[kind] for each in found), sum(each["than"] for each in found)
            if best:
                how = " and ".join(sorted({each["kind"] for each in found}))
                lines.append(
                    f"{what} that keeps as much ({how}, {count(len(found), 'recording')}): ${best:,.4f}; "
                    f"{BESIDE} ${ours:,.4f}, {ours / best - 1:+.0%}"
                )
        return lines


def _row(name: str, total: Totals, longest: int, dearest: float, bars: bool) -> tuple[str, ...]:
    return (
        plain(name, 40),
        f"{total.requests:>8,}",
        f"{_bar(total.tokens, longest, bars)}{total.tokens:>12,}",
        f"{total.share:>6.0%}",
        f"{_bar(total.cost, dearest, bars)}{_money(total.cost):>10}",
        f"{total.breaks:>6,}",
        f"{_bar(total.evidence, 1.0, bars)}{total.evidence:>7.1%}",
        f"{total.refused:>7,}",
        f"{total.over:>4,}",
        f"{total.ms:>8,.0f}",
    )


def _money(dollars: float) -> str:
    return f"${dollars:,.2f}" if dollars >= 10 else f"${dollars:.4f}"


def _bar(value: float, most: float, bars: bool) -> str:
    """A bar of a few cells, nothing where the output cannot show it."""
    if not bars:
        return ""
    eighths = round(BAR * 8 * value / most) if most else 0
    full, rest = divmod(eighths, 8)
    return ("█" * full + EIGHTHS[rest] * (rest > 0)).ljust(BAR) + " "


def _bars(stream: TextIO) -> bool:
    try:
        EIGHTHS.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _recordings(names: Iterable[str], progress: Progress) -> Iterator[Recording]:
    for name in names:
        for recording in readers.recordings(name):
            yield recording
            progress.add(recording.size, recording.where)


def _replays(options: argparse.Namespace, choices: Sequence[policies.Choice]) -> Iterator[Replay]:
    """Each recording that holds a request, played. One is held at a time."""
    progress = Progress(options.files, sys.stderr)
    try:
        for recording in _recordings(options.files, progress):
            if not any(turn.at for turn in recording.turns):
                continue
            try:
                yield replay(
                    recording,
                    choices,
                    window=options.window,
                    max_output=options.max_output,
                    profile=options.profile,
                    model=options.model,
                    contents=options.html is not None,
                    beside=BESIDE if options.optimum else None,
                )
            except CANNOT as problem:
                raise Failure(f"{recording.where}: {explain(problem)}") from None
    finally:
        progress.clear()


def _page(options: argparse.Namespace, choices: Sequence[policies.Choice]) -> int:
    try:
        page = import_module("legato.replay.page")  # who wants no page does not wait for it
    except ImportError as problem:
        raise Failure(f"no page can be written: {problem}") from None
    text: str = page.render(list(_replays(options, choices)))
    files.write(options.html, [text.encode("utf-8", "replace")])
    return 0


def _live(options: argparse.Namespace, choices: Sequence[policies.Choice]) -> int:
    """Play the first recording that holds a request. Nothing waits where the output is no terminal."""
    found = _recordings(options.files, Progress((), sys.stderr))
    recording = next((each for each in found if any(turn.at for turn in each.turns)), None)
    if recording is None:
        raise Failure(f"{', '.join(map(plain, options.files))}: no request was made in it")
    stage = Stage.of(recording, options.window, options.max_output, options.profile, options.model)
    paint = Paint(sys.stdout)
    cells = live.BLOCKS if _bars(sys.stdout) else live.SIGNS
    wide = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDE
    show = _moving if moves(sys.stdout) and wide >= live.NARROWEST else _still
    show(live.frames(stage, choices, paint, wide, cells), len(recording.turns), sys.stdout)
    return 0


def _moving(frames: Iterator[live.Frame], number: int, stream: TextIO) -> None:
    """Each frame over the one before it."""
    pace = min(SLOWEST, SECONDS / max(1, number))
    height = 0
    for frame in frames:
        start = monotonic()
        back = f"\x1b[{height}A" if height else ""
        stream.write(back + "".join(f"\x1b[K{line}\n" for line in frame.lines))
        stream.flush()
        height = len(frame.lines)
        sleep(max(0.0, pace - (monotonic() - start)))


def _still(frames: Iterator[live.Frame], number: int, stream: TextIO) -> None:
    """Some of the frames, one below the other."""
    every = max(1, number // STEPS)
    shown = 0
    for at, frame in enumerate(frames):
        if at % every == 0 or frame.last or (frame.event and shown < STEPS):
            shown += frame.event
            stream.write("".join(f"{line}\n" for line in frame.lines if line.strip()) + "\n")
