"""Recorded sessions under every policy: the golden table, the tuning behind the defaults, the scale.

    python bench/replay.py table      write the golden table anew: look at the diff (some minutes)
    python bench/replay.py short      write only its part that the tests make again (seconds)
    python bench/replay.py tune       other settings of the cache-friendly policy, on the half that is not reported
    python bench/replay.py scale [N]  N synthetic sessions (10,000): seconds, memory, time per request

Sessions longer than the budget of a window are played in it, the others would show nothing. Every second one is for
tuning, the others are reported. They are read from ../shared/transcripts, or from what LEGATO_TRANSCRIPTS names.
"""

from __future__ import annotations

import os
import random
import resource
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import legato
from legato.fit.clear import Clearing
from legato.fit.fold import Fold
from legato.replay.play import replay
from legato.replay.played import Totals
from legato.replay.policies import DEFAULT, Choice, Governed, choose
from legato.replay.stage import Stage
from legato.transcripts.readers import recordings
from legato.transcripts.recording import Recording, Turn

ROOT = Path(__file__).parents[1]
TRANSCRIPTS = Path(os.environ.get("LEGATO_TRANSCRIPTS") or ROOT.parent / "shared" / "transcripts")
GOLDEN = ROOT / "tests" / "replay" / "golden.txt"
SHORT = GOLDEN.with_name("golden-short.txt")
PAGE = ROOT / "docs" / "replay.md"
MARKS = ("<!-- golden -->\n", "<!-- /golden -->")

FILES = (
    "cline/session.messages.json",
    "openhands-events/multi_swe_bench.jsonl",
    "openhands-sdk/requests.jsonl",
    "swe-agent/trajectories.jsonl",
    "tau-bench/gpt-4o-airline.jsonl",
)
LONG = ("pi-mono/native/before-compaction.jsonl", "pi-mono/native/large-session.jsonl")
WINDOWS = (8_000, 16_000)
LONG_WINDOWS = (32_000, 64_000, 128_000)
TUNING = ((FILES, range(5_000, 19_000, 1_000)), (LONG, range(22_000, 128_000, 8_000)))
OURS = "cache-friendly"


def sessions(files: Sequence[str], window: int, half: int) -> Iterator[Recording]:
    """Every second recording (from the first or the second on) that is longer than the window's budget.

    Not those of which head and system prompt alone take half of it.
    """
    number = 0
    for file in files:
        for recording in recordings(str(TRANSCRIPTS / file)):
            if not recording.turns or recording.turns[-1].at == 0:
                continue
            stage = Stage.of(recording, window)
            script, budget = stage.script, stage.setting.budget
            sent = script.lines[: recording.turns[-1].at]
            fixed = script.head_tokens(script.head) + sum(line.tokens for line in sent if line.message.is_system)
            rest = sum(line.tokens for line in sent if not line.message.is_system)
            if fixed > budget // 2 or fixed + rest <= budget:
                continue
            if number % 2 == half:
                yield recording
            number += 1


@dataclass
class Sums:
    """Each policy's sums, how many sessions there are, and what the optimum and ours come to, by how it was found."""

    sessions: int = 0
    totals: dict[str, Totals] = field(default_factory=dict)
    bounds: dict[str, tuple[int, float, float]] = field(default_factory=dict)


def sums(files: Sequence[str], window: int, half: int, choices: Sequence[Choice], beside: bool) -> Sums:
    """All sessions of a half, played in one window."""
    found = Sums()
    for recording in sessions(files, window, half):
        played = replay(recording, choices, window=window, beside=OURS if beside else None)
        found.sessions += 1
        for policy in played.policies:
            found.totals[policy.name] = found.totals.get(policy.name, Totals()) + policy.totals
        if played.optimum is not None:
            for name, cost in (
                ("", played.optimum["cost"]),
                (" that cuts only when it must", played.optimum["pressed"]),
            ):
                if cost is not None:
                    key = played.optimum["kind"] + name
                    number, least, ours = found.bounds.get(key, (0, 0.0, 0.0))
                    found.bounds[key] = (number + 1, least + cost, ours + played.optimum["than"])
    return found


def table(files: Sequence[str], windows: Sequence[int], beside: bool) -> list[str]:
    """The golden lines: everything but the milliseconds."""
    lines = []
    for window in windows:
        found = sums(files, window, 1, [*choose(DEFAULT), _choice("less at once", LESS)], beside)
        ours = found.totals[OURS]
        lines.append(f"window {window:,}: {found.sessions} sessions, {ours.requests:,} requests")
        titles = ("tokens", "cached", "$", "breaks", "evidence", "answers", "refused")
        lines.append(f"{'policy':<20}{''.join(map('{:>10}'.format, titles))}  beaten")
        for name, total in found.totals.items():
            lines.append(
                f"{name:<20}{total.tokens:>10}{total.share:>10.1%}{total.cost:>10.4f}{total.breaks:>10}"
                f"{total.evidence:>10.2%}{total.per_answer:>10.2%}{total.refused:>10}"
                f"  {verdict(name, total, ours)}".rstrip()
            )
        for kind, (number, least, than) in sorted(found.bounds.items()):
            lines.append(
                f"optimum at no less evidence, {kind} ({number} sessions): ${least:.4f}; "
                f"{OURS} ${than:.4f}, {than / least - 1:+.1%}"
            )
        lines.append("")
    return lines


def verdict(name: str, other: Totals, ours: Totals) -> str:
    """Whether ours costs no more and keeps no less than another that answers as much."""
    if name == OURS:
        return ""
    cheaper, better = ours.cost <= other.cost, ours.evidence >= other.evidence
    if other.refused > ours.refused and not cheaper:
        return "it fails"
    return "yes" if cheaper and better else "dearer" if better else "keeps more" if cheaper else "no"


def tune() -> None:
    """Settings of the cache-friendly policy on the tuning half, with the peers beside them.

    In many windows: where a fold falls is chance, and one answer can hold a sixth of all names.
    """
    settings = {f"target {target}": Fold(target=target) for target in (0.4, 0.5, 0.6, 0.7, 0.8)}
    settings |= {f"newest {newest}": Fold(newest=newest) for newest in (1, 4, 16)}
    settings["min 50"] = Fold(clearing=Clearing(min_tokens=50))
    settings["min 300"] = Fold(clearing=Clearing(min_tokens=300))
    settings["calls whole"] = Fold(clearing=Clearing(arguments=False))
    choices = [_choice(name, fold) for name, fold in settings.items()]
    choices += choose([name for name in DEFAULT if name not in ("none", OURS)])
    for files, windows in TUNING:
        for window in windows:
            found = sums(files, window, 0, choices, beside=False)
            say(f"window {window:,}: {found.sessions} sessions")
            for name, total in found.totals.items():
                say(
                    f"  {name:<20}${total.cost:>9.4f}  cached {total.share:>6.1%}  breaks {total.breaks:>5,}  evidence "
                    f"{total.evidence:>7.2%}  answers {total.per_answer:>7.2%}  refused {total.refused}"
                )


LESS = Fold(target=0.7)
"""What is reported beside the defaults: a fold that cuts less at once, which keeps more and costs more."""


def _choice(name: str, fold: Fold) -> Choice:
    policy = legato.Policy.cache_friendly(fold=fold)
    return Choice(name, "", lambda setting: Governed(setting, policy))


def synthetic(seed: int, turns: int = 20) -> Recording:
    """A session of calls and results of about 100 KB."""
    chance = random.Random(seed)
    words = [f"module_{chance.randrange(10**6)}.py" for _ in range(50)]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You fix bugs."},
        {"role": "user", "content": f"Fix {words[0]}."},
    ]
    answers = []
    for turn in range(turns):
        path = chance.choice(words)
        call = {
            "id": f"c{turn}",
            "type": "function",
            "function": {"name": "read", "arguments": f'{{"path": "{path}"}}'},
        }
        answers.append(Turn(len(messages), len(messages) + 1))
        messages.append({"role": "assistant", "content": f"I read {path}.", "tool_calls": [call]})
        text = " ".join(chance.choice(words) for _ in range(chance.randrange(50, 500)))
        messages.append({"role": "tool", "tool_call_id": f"c{turn}", "content": text})
    lines = tuple((1,) for _ in messages)
    return Recording(f"synthetic-{seed}", "synthetic", "openai-chat", messages, lines, {}, tuple(answers), ())


def scale(number: int) -> None:
    """Many sessions, one after another: what they take must not grow with their number."""
    choices = choose(("none", "sliding-window", OURS))
    start, requests = perf_counter(), 0
    for seed in range(number):
        requests += len(replay(synthetic(seed), choices, window=16_000).asked)
        if (seed + 1) % max(1, number // 10) == 0:
            spent, memory = perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            pace = f"{1000 * spent / requests:>6.2f} ms a request"
            say(f"{seed + 1:>7,} sessions  {spent:>7.1f} s  {pace}  {memory:>6.0f} MB")


def show() -> None:
    """Put the golden table into its page."""
    before, rest = PAGE.read_text(encoding="utf-8").split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    block = f"```text\n{GOLDEN.read_text(encoding='utf-8').rstrip()}\n```\n"
    PAGE.write_text(f"{before}{MARKS[0]}{block}{MARKS[1]}{after}", encoding="utf-8")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    what = arguments[0] if arguments else ""
    if what == "tune":
        tune()
    elif what == "scale":
        scale(int(arguments[1]) if len(arguments) > 1 else 10_000)
    elif what in ("table", "short"):
        short = table(FILES, WINDOWS, beside=True)
        SHORT.write_text("\n".join(short), encoding="utf-8")
        if what == "table":
            GOLDEN.write_text("\n".join(short + table(LONG, LONG_WINDOWS, beside=True)), encoding="utf-8")
            show()
    else:
        sys.stderr.write(__doc__ or "")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
