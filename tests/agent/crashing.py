"""A session that is killed again and again: run as a program, `crashing.py FOLDER FORMAT KILLS SEED`.

Each life is a process forked from this one, killed with SIGKILL at a random moment: some time after a random one of
its steps. Its tools write what they do to `effects`, and a hook writes to `known` which results the runner has
announced, both through to the disk. The last life may end.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from legato import Policy
from legato.agent.events import Event, ToolFinished
from legato.agent.providers.scripted import Line, Scripted, call, says
from legato.agent.runner import AgentRunner
from legato.agent.tool import Output, Tool
from legato.messages import Json
from stage import faults, texts

OBJECT = {"type": "object"}
POLICY = Policy.cache_friendly(window=10_000_000, counter=len)
STEPS = 60
"""Steps that a life takes at most: an event of the runner, or the work of a tool."""
LONGER = 0.004
"""Seconds that it then goes on at most."""


def note(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


def live(folder: Path, form: str, *, may_end: bool, steps: int) -> None:
    """Go on with the session until killed, or to its end. Each step writes a byte to the pipe `steps`."""

    async def act(key: str) -> Output:
        os.write(steps, b".")
        note(folder / "effects", key)
        os.write(steps, b".")
        await asyncio.sleep(0)
        return Output(f"did {key} " + "x" * 300)

    def hook(event: Event) -> None:
        os.write(steps, b".")
        if isinstance(event, ToolFinished):
            note(folder / "known", event.text.split()[1])

    def judge(body: Json) -> Line:
        found = faults(body, form)
        if found:
            raise AssertionError(found)
        return next(lines)

    tools = [Tool("read", "Read.", OBJECT, act, reads_only=True), Tool("write", "Write.", OBJECT, act)]
    provider = Scripted(judge, form)
    with AgentRunner(
        provider=provider, tools=tools, policy=POLICY, session=folder / "s.jsonl", max_iterations=10**9, hooks=[hook]
    ) as runner:
        said = runner.transcript
        lines = turns(form, sum("so I call" in texts(item) for item in said), may_end)
        runner.run_sync("" if said else "Go.")


def turns(form: str, first: int, may_end: bool) -> Iterator[Line]:
    at = first
    while not may_end or at < first + 3:
        kinds = ("read", "read", "write", "write", "read")
        yield says("so I call", form, *[call(kind, f"c{nth}", key=f"{at}.{nth}") for nth, kind in enumerate(kinds)])
        at += 1
    yield "done"


def life(folder: Path, form: str, chance: random.Random, may_end: bool) -> None:
    """One process, from its fork to its death. Raises `SystemExit` if it died of itself otherwise than it should."""
    seen, steps = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(seen)
        try:
            live(folder, form, may_end=may_end, steps=steps)
        except BaseException:  # noqa: BLE001 - whatever it is, the parent has to hear of it
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(steps)
    left = chance.randrange(STEPS)
    while (may_end or left) and (piece := os.read(seen, STEPS if may_end else left)):
        left -= len(piece)
    if not may_end:
        time.sleep(chance.uniform(0, LONGER))
        os.kill(pid, signal.SIGKILL)
    os.close(seen)
    status = os.waitpid(pid, 0)[1]
    wanted = 0 if may_end else signal.SIGKILL
    if status != wanted:
        raise SystemExit(f"a life ended with {status}, not {wanted}")


async def warm(form: str) -> None:
    """Load now what would be loaded in the first steps of every life."""

    async def nothing() -> Output:
        return Output("")

    provider = Scripted([says("", form, call("nothing", "c")), "done"], form)
    tools = [Tool("nothing", "Nothing.", OBJECT, nothing)]
    with AgentRunner(provider=provider, tools=tools, policy=POLICY) as runner:
        await runner.run("Go.")


def main(folder: str, form: str, kills: str, seed: str) -> None:
    chance = random.Random(int(seed))
    asyncio.run(warm(form))
    for nth in range(int(kills) + 1):
        life(Path(folder), form, chance, may_end=nth == int(kills))


if __name__ == "__main__":
    main(*sys.argv[1:])
