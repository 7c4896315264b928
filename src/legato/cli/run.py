"""`legato run`: an agent at work on a task, or a recorded one played again.

`run_options.py` says what the options mean; `run_tools.py` gives the agent its tools, and `run_ask.py` asks before some
of them run; `run_view.py` and `run_lines.py` show what happens, by what `run_meter.py` adds up; `run_sessions.py` and
`run_recorded.py` know the files.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from legato import Policy, profiles
from legato.agent import turn
from legato.agent.events import AfterRequest, Event, Hook, RequestFailed, RunStarted
from legato.agent.provider import LLMProvider
from legato.agent.result import Result
from legato.agent.runner import AgentRunner
from legato.agent.sessionfile import Header, SessionFile
from legato.agent.tool import Tool
from legato.cli import run_options, run_recorded, run_sessions
from legato.cli.failure import CANNOT, Failure
from legato.cli.run_ask import Asker
from legato.cli.run_lines import ERROR, JsonLines, Lines, View
from legato.cli.run_meter import Meter
from legato.cli.run_options import arguments
from legato.cli.run_signals import Signals
from legato.cli.run_tools import open_tools
from legato.cli.terminal import plain
from legato.messages import Json
from legato.recall import Store, open_store

__all__ = ["arguments", "run"]

RECALL = "recall"
"""The folder, beside the sessions, that keeps what was cut."""
OVER = "the recording ends before the model has answered"


def run(options: argparse.Namespace) -> int:
    """Work, or play, to an end. Raises `Failure` and what governance raises; a session can be resumed in every case."""
    run_options.verify(options)
    signals = Signals()
    try:
        code = asyncio.run(_run(options, signals))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None  # asked to stop before the run had begun
    except ImportError as problem:
        raise Failure(str(problem)) from None
    return signals.code or code


async def _run(options: argparse.Namespace, signals: Signals) -> int:
    task = asyncio.current_task()
    assert task is not None
    signals.cancel = task.cancel
    signals.install(asyncio.get_running_loop())
    return await (_play(options, signals) if options.recorded is not None else _work(options, signals))


# -- a recording -------------------------------------------------------------------------------------------------------


async def _play(options: argparse.Namespace, signals: Signals) -> int:
    recording = run_recorded.find(options.recorded)
    recorded = run_recorded.player(recording, run_options.profile(options))
    if recorded.over:
        raise Failure(f"{recording.where}: nothing to play, the model says nothing in it")
    policy, session = run_options.policy(options), _new(options.session)
    meter = Meter(options.model or run_recorded.model_of(recording))
    view = _view(options, meter)

    def follow(event: Event) -> None:
        if isinstance(event, AfterRequest) and recorded.follow_up:
            view.said(texts(recorded.follow_up, recorded.format))

    def show(event: Event) -> None:
        if not (isinstance(event, RequestFailed) and recorded.over):
            view(event)

    hooks: list[Hook] = [meter, opening(view, recorded.format), show, follow]
    rounds = sys.maxsize  # it is the recording that ends
    async with recorded.runner(policy=policy, hooks=hooks, session=session, max_iterations=rounds) as runner:
        _introduce(view, recorded, recorded.tools, policy, session, recording.where)
        result = await _driven(runner, recorded.task, view, signals)
    if recorded.over and result.stop == "error":
        view.close("")
        view.say(OVER)
        return 0
    view.close(result.text)
    return _conclude(result, view, "")


# -- a task ------------------------------------------------------------------------------------------------------------


class Job(NamedTuple):
    """What is to be done, and with what."""

    task: str
    system: str
    provider: LLMProvider
    policy: Policy


async def _work(options: argparse.Namespace, signals: Signals) -> int:
    workspace = Path(options.workspace or ".")
    resumed, fresh = _resumed(options, workspace), _new(options.session)
    header = None if resumed is None else run_sessions.header(resumed)
    provider = run_options.connected(options, header)
    policy, store = _kept(options)
    job = Job(run_options.task(options), run_options.system(options), provider, policy)
    failure: Exception | None = None
    async with AsyncExitStack() as stack:
        own, served = await open_tools(stack, workspace, store, options)
        try:
            session = resumed or fresh or run_sessions.create(workspace, datetime.now())
            if resumed is None:
                head = Header(format=provider.format, profile=provider.profile, base_url=options.base_url or "")
                SessionFile(session, head).close()
            return await _converse(options, signals, job, session, own, served)
        except CANNOT as problem:
            failure = problem  # through the servers' task groups it would come out wrapped
    assert failure is not None
    raise failure


async def _converse(
    options: argparse.Namespace, signals: Signals, job: Job, session: Path, own: list[Tool], served: list[Tool]
) -> int:
    """The run itself: all there is to it is open."""
    meter = Meter(job.provider.profile.partition(":")[2])
    view = _view(options, meter)
    tools = [*own, *served]
    async with AgentRunner(
        provider=job.provider,
        tools=tools,
        policy=job.policy,
        system=job.system,
        session=session,
        max_iterations=options.max_iterations or run_options.ROUNDS,
        approve=_asker(view, served),
        hooks=[meter, opening(view, job.provider.format), view],
    ) as runner:
        if not job.task and _is_answered(runner.transcript, job.provider.format):
            raise Failure(f'{session}: nothing was interrupted; say what is next: legato run "TASK" --resume')
        _introduce(view, job.provider, tools, job.policy, session, f"session {session}")
        result = await _driven(runner, job.task, view, signals)
    view.close(result.text)
    answered = _is_answered(result.transcript, job.provider.format)
    return _conclude(result, view, run_options.again(options, session, answered=answered))


def _resumed(options: argparse.Namespace, workspace: Path) -> Path | None:
    """The session that goes on. Raises `Failure`, `OSError`."""
    if options.resume is None:
        return None
    return Path(options.resume) if options.resume else run_sessions.newest(workspace)


def _new(session: str | None) -> Path | None:
    """The file that a session is to be written to. Raises `Failure` where there is something in it."""
    if session is None:
        return None
    path = Path(session)
    if path.exists() and path.stat().st_size:
        raise Failure(f"{session}: is there already; --resume {session} goes on with it")
    return path


def _kept(options: argparse.Namespace) -> tuple[Policy, Store]:
    """The policy, and the store for what it cuts. Raises `PolicyError`, `StoreError`."""
    policy = run_options.policy(options)
    store = policy.recall
    if isinstance(store, str | None):
        store = open_store(store or run_sessions.data_folder() / RECALL)
    return msgspec.structs.replace(policy, recall=store), store


def _asker(view: View, served: Sequence[Tool]) -> Asker | None:
    """Who is asked before a tool runs; None: nobody is there."""
    people = sys.stdin is not None and sys.stdin.isatty() and view.people.isatty() and sys.platform != "win32"
    return Asker(view.pause, sys.stdin.fileno(), {tool.name for tool in served}) if people else None


# -- both --------------------------------------------------------------------------------------------------------------


async def _driven(runner: AgentRunner, task: str | Sequence[Json], view: View, signals: Signals) -> Result:
    signals.cancel = runner.cancel
    try:
        return await runner.run(task)
    except BaseException:
        view.close("")
        raise


def _view(options: argparse.Namespace, meter: Meter) -> View:
    people = sys.stderr or io.StringIO()  # where it is closed nobody reads what led to the answer
    if options.json:
        return JsonLines(sys.stdout, people)
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        try:
            # The late import: the library is an extra, and without it there are plain lines.
            from legato.cli.run_view import TerminalView  # noqa: PLC0415

            return TerminalView(meter)
        except ModuleNotFoundError:
            pass
    return Lines(sys.stdout, people, meter)


def _introduce(
    view: View, provider: LLMProvider, tools: Sequence[Tool], policy: Policy, session: Path | None, where: str
) -> None:
    """Say what is about to run."""
    profile = profiles.get(provider.profile)
    if isinstance(view, JsonLines):
        named = {"profile": provider.profile, "format": provider.format, "tools": [tool.name for tool in tools]}
        view.write({"type": "session", "file": None if session is None else str(session), **named})
    view.say(f"{profile.title}; {where}")
    if profile.note:
        view.say(profile.note)
    if policy.window is None and profile.window is None:
        view.say("its window is not known, so nothing is cut before it refuses a request: give --window")


def opening(view: View, form: str) -> Hook:
    """A hook that shows what a run begins with."""

    def hook(event: Event) -> None:
        if isinstance(event, RunStarted):
            for note in event.notes:
                view.say(note)
            if event.said:
                view.said(texts(event.said, form))

    return hook


def texts(items: Sequence[Json], form: str) -> str:
    """The texts of wire items."""
    return turn.text_of(turn.read(items, form))


def _is_answered(transcript: Sequence[Json], form: str) -> bool:
    """Whether the last word is the model's, and calls nothing."""
    messages = turn.read(transcript, form)
    return not messages or (messages[-1].role == "assistant" and not messages[-1].calls)


def _conclude(result: Result, view: View, again: str) -> int:
    """Say how it ended, and how it goes on. The exit code."""
    if result.stop != "completed":
        how = f": {plain(result.error, ERROR)}" if result.error not in (None, result.stop) else ""
        view.say(f"ended: {result.stop}{how}")
    if again:
        view.say(f"go on with: {again}")
    return 0 if result.stop == "completed" else 1
