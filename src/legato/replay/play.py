"""A recording played again: the requests it must have made, each under every policy, and what was measured of them.

Each answer of the recording was one request: all messages before it. A policy is asked with that history, and what it
would have sent is counted, priced by the rules of the provider's cache, and searched for what the answer used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import legato
from legato.calibration import input_tokens
from legato.errors import Unrepairable
from legato.messages import Json
from legato.profiles import Profile
from legato.replay import optimum
from legato.replay.cuts import Cuts
from legato.replay.played import Asked, Played, Replay, Shown, total
from legato.replay.policies import RULES, Choice
from legato.replay.script import Line, Script
from legato.replay.stage import Stage
from legato.replay.watch import Watch
from legato.report import said
from legato.transcripts.recording import Recording

TEXT = 4_000
"""So many characters of a message are kept where contents are asked for."""


def replay(
    recording: Recording,
    choices: Sequence[Choice],
    *,
    window: int | None = None,
    max_output: int | None = None,
    profile: str | Profile | None = None,
    model: str | None = None,
    contents: bool = False,
    beside: str | None = None,
) -> Replay:
    """Play a recording under each policy. Raises as `govern` does where the recording itself cannot be read.

    `beside` names a policy among them that is set against the offline optimum at no less evidence.

    `window` and `model` (which has the price) are the recording's own where they are not given; what stands in for what
    is not known is said in the notes.
    """
    stage = Stage.of(recording, window, max_output, profile, model)
    asked = tuple(requests(stage.script))
    played = tuple(_played(stage, choice, asked) for choice in choices)
    found = next((each for each in played if each.name == beside), None)
    least = None if found is None else _optimum(stage, asked, found)
    script = stage.script
    return Replay(
        file=recording.file,
        label=recording.label,
        source=recording.source,
        format=recording.format,
        profile=script.profile.name,
        model=stage.model,
        window=stage.setting.window,
        max_output=stage.setting.max_output,
        budget=stage.setting.budget,
        price=stage.price,
        head=script.head_tokens(script.head),
        messages=tuple(_shown(line, contents) for line in script.lines),
        asked=asked,
        policies=played,
        notes=stage.notes,
        optimum=least,
    )


def requests(script: Script) -> Iterator[Asked]:
    """The requests of a recording, and what the provider would refuse in each as it is."""
    session = legato.Session(script.profile, RULES, format=script.profile.format)
    running = [script.head_tokens(script.head)]
    for line in script.lines:
        running.append(running[-1] + line.tokens)
    for number, turn in script.requests():
        try:
            changes = session.prepare(script.payload(script.items[: turn.at])).report.changes
            codes = {change.code for change in changes}
        except Unrepairable as problem:
            codes = {getattr(each, "code", "") for each in problem.violations}
        yield Asked(
            number,
            turn.at,
            turn.end,
            turn.time,
            running[turn.at],
            running[turn.end] - running[turn.at],
            input_tokens(turn.usage),
            tuple(sorted(codes)),
            tuple((used.name, used.age) for used in script.needs[number].used),
        )


def _played(stage: Stage, choice: Choice, asked: tuple[Asked, ...]) -> Played:
    watch = Watch(stage, choice)
    rows = tuple(watch.request(request) for request in asked)
    return Played(choice.name, choice.about, choice.source, rows, total(rows, asked, stage.price))


def _optimum(stage: Stage, asked: tuple[Asked, ...], played: Played) -> Json:
    """The least cost at the evidence of this policy; None where it cannot be told, or some request was refused."""
    if played.totals.refused:
        return None
    cuts = Cuts.of(stage.script, asked, stage.price, stage.setting.budget)
    found = optimum.best(cuts, played.totals.kept)
    if found is None:
        return None
    return {
        "kind": found.kind,
        "cost": round(found.cost, 8),
        "pressed": None if found.pressed is None else round(found.pressed, 8),
        "policy": played.name,
        "than": round(played.totals.cost, 8),
        "kept": played.totals.kept,
    }


def _shown(line: Line, contents: bool) -> Shown:
    if not contents:
        return Shown(line.message.role, line.kind, line.tokens)
    text = "\n".join(row for part in line.message.parts for row in said(part))
    return Shown(line.message.role, line.kind, line.tokens, text[:TEXT])
