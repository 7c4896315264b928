"""How long peers take for a job, and legato for the same on the same history: `make bench-peers`.

Nothing is asserted: the numbers are for people. Every time is the processor's, the least of several runs in this one
process; who takes longer than 20 seconds is stopped. Histories are in each peer's own form before the clock starts, and
the budget is half of what the history costs. What is compared:

    repair    no call without a result, no result without a call; nothing counted
    trim      the oldest go until the rest fits
    clear     old results become a line once the history is too long
    govern    all of it

legato is told to do what the peer does, and counts with what the peer counts with. Texts that legato or a memory given
to the peer have counted before are `warm`; `cold` is a first call.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import math
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import cycle, islice
from time import process_time
from types import FrameType
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # read at import: no request for the newest prices

import litellm
import litellm.utils  # it brings the vocabularies of tiktoken along, and says where they are
import toolrepair
import turnsafe
from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware
from langchain.agents.middleware.types import ModelRequest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import BaseMessage, convert_to_messages, convert_to_openai_messages, trim_messages
from litellm.litellm_core_utils.prompt_templates.factory import sanitize_messages_for_tool_calling
from loguru import logger
from measured import RECORDED, TRANSCRIPTS, History, Wire, synthetic
from nanobot.agent.runner import AgentRunner, AgentRunSpec
from nanobot.agent.tools.registry import ToolRegistry
from pydantic_ai.messages import repair_messages

import legato
from legato.tokens import TextCounter
from providers import chat
from repairers import chat_messages, model_messages
from tables import say

SIZES = (200, 2_000, 20_000)
PACKAGES = ("langchain", "langchain-core", "litellm", "nanobot-ai", "pydantic-ai-slim", "tool-call-repair", "turnsafe")
LIMIT = 20.0
"""Seconds after which a run is stopped."""
PATIENCE = 1.0
"""Seconds after which a measurement is not run again."""
RUNS = 15
OUTPUT = 1_024
LOST = 40
"""Every so many results one is lost."""

Count = Callable[[str], int]
Work = Callable[[], object]


class Stopped(BaseException):
    """The time is up. No peer catches it with its `except Exception`."""


@contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    """Raises `Stopped` inside once so many seconds have passed."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise Stopped

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def seconds(make: Callable[[], Work]) -> float | None:
    """The least seconds of up to `RUNS` runs, each made anew outside the clock. None: it was stopped.

    What the imports left behind is no garbage, and the collector is told so: it would be looked through in each run.
    """
    times: list[float] = []
    gc.collect()
    gc.freeze()
    while len(times) < RUNS and sum(times) < PATIENCE:
        work = make()
        start = process_time()
        try:
            with stopped_after(LIMIT):
                work()
        except Stopped:
            return None
        times.append(process_time() - start)
    return min(times)


# -- the histories -----------------------------------------------------------------------------------------------------


def loop(size: int) -> History:
    """One session: a task, then calls and named results, of which one in `LOST` is missing."""
    history = synthetic(size)
    for message in history:
        for call in message.get("tool_calls") or ():
            call["function"]["name"] = "read_file"
        if message["role"] == "tool":
            message["name"] = "read_file"
    return [m for at, m in enumerate(history) if m["role"] != "tool" or at // 2 % LOST or at > size - 4]


def recorded(name: str, size: int) -> History:
    """The recorded conversations one after the other, over and over: texts only, and one system prompt."""
    with (TRANSCRIPTS / RECORDED[name]).open(encoding="utf-8") as lines:
        messages = [_plain(message) for line in lines for message in json.loads(line)["messages"]]
    spoken = [message for message in messages if message["role"] != "system"]
    return copy.deepcopy([*messages[:1], *islice(cycle(spoken), size - 1)])


def _plain(message: Wire) -> Wire:
    plain = {key: value for key, value in message.items() if not key.startswith("_") and key != "reasoning_content"}
    content = plain.get("content")
    if isinstance(content, list):
        content = "\n".join(part.get("text", "") for part in content)
    return {**plain, "content": content or ""}


# -- the jobs ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """One peer's work on a history, and legato's that is nearest to it; each is made ready outside the clock."""

    kind: str
    peer: str
    theirs: Callable[[], Work]
    ours: Callable[[], Work]


def approximate(text: str) -> int:
    """LangChain's estimate: four characters a token."""
    return math.ceil(len(text) / 4)


def window(budget: int) -> dict[str, Any]:
    return {"window": budget + OUTPUT, "max_output": OUTPUT, "reserve": 0}


def governing(history: History, policy: legato.Policy) -> Work:
    return partial(legato.govern, history, policy=policy)


def repairs(history: History) -> Iterator[Job]:
    def ours() -> Work:
        return partial(legato.repair, history)

    runner, _ = nanobot(0)
    messages = model_messages(history)
    yield Job("repair", "turnsafe repair", lambda: partial(turnsafe.repair, history, provider="openai"), ours)
    yield Job("repair", "pydantic-ai repair_messages", lambda: partial(repair_messages, messages), ours)
    yield Job("repair", "litellm sanitize_messages", lambda: partial(sanitize_messages_for_tool_calling, history), ours)
    repair = partial(toolrepair.repair, history, format="openai", strategy="synthesize")
    yield Job("repair", "tool-call-repair", lambda: repair, ours)
    yield Job("repair", "nanobot drop and backfill", lambda: partial(paired, runner, history), ours)


def trims(history: History, budget: int, warm: TextCounter) -> Iterator[Job]:
    """By an estimate, and by the vocabulary of GPT-4o."""
    messages = convert_to_messages(history)
    trim = partial(trim_messages, messages, max_tokens=budget, include_system=True, start_on="human")
    lite = partial(litellm.utils.trim_messages, history, model="gpt-4o", max_tokens=budget)
    whole = legato.repair(history).messages

    def fit() -> object:
        """Whole turns go, so that a session of one turn cannot be fitted: what it raises then."""
        try:
            return turnsafe.fit(whole, budget, "openai", counter=lambda message: approximate(json.dumps(message)))
        except turnsafe.ContextBudgetError as refusal:
            return refusal

    def ours(count: Count) -> Work:
        return governing(history, legato.Policy(microcompact=None, counter=count, **window(budget)))

    def langchain(count: Count) -> Work:
        return partial(trim, token_counter=counting(count))

    guess = partial(trim, token_counter="approximate")
    yield Job("trim", "langchain trim_messages, chars/4", lambda: guess, lambda: ours(approximate))
    yield Job("trim", "langchain trim_messages, warm", lambda: langchain(warm), lambda: ours(warm))
    yield Job("trim", "langchain trim_messages, cold", lambda: langchain(TextCounter()), lambda: ours(TextCounter()))
    yield Job("trim", "litellm trim_messages, cold", lambda: lite, lambda: ours(TextCounter()))
    yield Job("trim", "turnsafe fit, chars/4", lambda: fit, lambda: ours(approximate))


def clears(history: History, budget: int) -> Iterator[Job]:
    request = ModelRequest(model=FakeListChatModel(responses=["ok"]), messages=convert_to_messages(history))

    def theirs(**options: Any) -> Work:
        middleware = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=budget, **options)])
        return partial(middleware.wrap_model_call, request, lambda edited: edited)

    def ours() -> Work:
        return governing(history, legato.Policy.cache_friendly(counter=approximate, **window(budget)))

    yield Job("clear", "langchain ClearToolUsesEdit", theirs, ours)
    yield Job("clear", "  with clear_at_least=half", lambda: theirs(clear_at_least=budget // 2), ours)


def governs(history: History, budget: int, warm: TextCounter) -> Iterator[Job]:
    """nanobot's five steps as its runner takes them, by the vocabulary of GPT-4, which it does not remember."""
    runner, spec = nanobot(budget)

    def ours(count: Count) -> Work:
        return governing(history, legato.Policy(counter=count, **window(budget)))

    theirs = partial(nanobots, runner, spec, history)
    yield Job("govern", "nanobot 0.2.1, legato cold", lambda: theirs, lambda: ours(TextCounter("cl100k_base")))
    yield Job("govern", "nanobot 0.2.1, legato warm", lambda: theirs, lambda: ours(warm))


# -- nanobot and LangChain as they are called --------------------------------------------------------------------------


def nanobot(budget: int) -> tuple[Any, Any]:
    spec = AgentRunSpec(
        initial_messages=[],
        tools=ToolRegistry(),
        model="gpt-4",
        max_iterations=1,
        max_tool_result_chars=16_000,
        max_tokens=OUTPUT,
        context_window_tokens=budget + OUTPUT + 1_024,
    )
    return AgentRunner(None), spec


def paired(runner: Any, messages: History) -> History:
    done: History = runner._backfill_missing_tool_results(runner._drop_orphan_tool_results(messages))
    return done


def nanobots(runner: Any, spec: Any, messages: History) -> History:
    messages = runner._microcompact(paired(runner, messages))
    messages = runner._snip_history(spec, runner._apply_tool_result_budget(spec, messages))
    return paired(runner, messages)


def counting(count: Count) -> Callable[[Sequence[BaseMessage]], int]:
    """The tokens of a list of messages, as LangChain asks for them: texts, calls, four around each message."""

    def tokens(message: BaseMessage) -> int:
        calls: Sequence[Any] = getattr(message, "tool_calls", ())
        return 4 + count(message.text) + sum(count(call["name"]) + count(json.dumps(call["args"])) for call in calls)

    return lambda messages: sum(map(tokens, messages))


# -- what they made ----------------------------------------------------------------------------------------------------

walk = chat()


def made(work: Work) -> str:
    """How many messages are left, and how many faults a walker finds in their pairs and roles."""
    result = work()
    if isinstance(result, Exception):
        return type(result).__name__
    messages = openai_messages(result)
    faults = walk({"messages": messages})
    return f"{len(messages):,}" + (f", {len(faults):,} faults" if faults else "")


def openai_messages(result: Any) -> History:
    """In OpenAI's form, whatever form the peer has."""
    if isinstance(result, legato.Governed | ModelRequest):
        result = result.messages
    if result and isinstance(result[0], BaseMessage):
        result = convert_to_openai_messages(result)
    elif result and not isinstance(result[0], dict):
        result = chat_messages(result)
    return list(result)


# -- all of them -------------------------------------------------------------------------------------------------------


def jobs(history: History) -> Iterator[Job]:
    warm, old = TextCounter(), TextCounter("cl100k_base")
    tokens = legato.govern(history, policy=legato.Policy(counter=warm, microcompact=None)).report.tokens_in
    legato.govern(history, policy=legato.Policy(counter=old, window=tokens))
    yield from repairs(history)
    yield from trims(history, tokens // 2, warm)
    yield from clears(history, tokens // 2)
    yield from governs(history, tokens // 2, old)


def cell(theirs: float | None, ours: float | None) -> str:
    """Both times in milliseconds, and how many times as long the peer takes."""
    assert ours is not None, "legato was stopped"
    least, more = (LIMIT, ">") if theirs is None else (theirs, "")
    return f"{more + format(1000 * least, ',.1f'):>11}{1000 * ours:>9,.1f}{more + f'x{least / ours:.2f}':>9}"


def table(name: str, sizes: Sequence[int], make: Callable[[int], History]) -> Iterator[str]:
    """A line a job: for each size the peer's time, legato's and the ratio; what both made of the first size."""
    rows: dict[tuple[str, str], list[str]] = {}
    results: dict[tuple[str, str], str] = {}
    for size in sizes:
        for job in jobs(make(size)):
            key = (job.kind, job.peer)
            sys.stderr.write(f"\r{size:,} messages, {job.peer} … ".ljust(70))
            sys.stderr.flush()
            rows.setdefault(key, []).append(cell(seconds(job.theirs), seconds(job.ours)))
            if key not in results:
                results[key] = f"{made(job.theirs()):>22}{made(job.ours()):>8}"
    sys.stderr.write("\r" + " " * 70 + "\r")
    yield f"{name}: milliseconds of the peer's, of legato's for the same, the ratio; messages left of {sizes[0]:,}"
    yield " " * 42 + "".join(f"{f'{size:,} messages':>29}" for size in sizes)
    for (kind, peer), cells in rows.items():
        yield f"{kind:<8}{peer:<34}" + "".join(cells) + results[kind, peer]
    yield ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="MESSAGES")
    chosen = parser.parse_args()
    logger.disable("nanobot")
    litellm.modify_params = True  # its sanitiser is off otherwise
    for line in table("A synthetic session", chosen.sizes, loop):
        say(line)
    for name, file in RECORDED.items():
        if (TRANSCRIPTS / file).exists():
            for line in table(f"Recorded ({name}), repeated", chosen.sizes, partial(recorded, name)):
                say(line)
    say(", ".join(f"{package} {version(package)}" for package in PACKAGES))


if __name__ == "__main__":
    main()
