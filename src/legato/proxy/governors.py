"""Where requests are governed: small ones at once, large ones in processes that nobody else waits for."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import parent_process
from multiprocessing.context import SpawnContext, SpawnProcess
from time import monotonic
from typing import Any

from legato import profiles
from legato.errors import GovernanceError
from legato.proxy.config import Config, profile_of
from legato.proxy.core import Ask, Decision, Verdict, judge
from legato.proxy.sessions import Sessions
from legato.tokens import counter

SESSIONS = Sessions(0)
"""What a process that governs remembers, and no other."""


class Context(SpawnContext):
    """Starts processes, and knows them: a pool does not say which are its own, least of all while they start."""

    def __init__(self) -> None:
        super().__init__()
        self.processes: list[SpawnProcess] = []

    def Process(self, *arguments: Any, **named: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802
        self.processes.append(SpawnProcess(*arguments, **named))
        return self.processes[-1]


class Governors:
    """Judges requests, the long ones in `config.processes` processes. A process that hangs or dies is replaced."""

    def __init__(self, config: Config) -> None:
        self._inline = config.inline
        self._sessions = Sessions(config.remembered)
        self._processes = config.processes
        self._seconds = config.limits.govern_seconds
        names = [profile_of(upstream) for upstream in config.upstream]
        self._encodings = sorted({profiles.get(name or "portable").encoding for name in names})
        self._pool: ProcessPoolExecutor | None = None
        self._context = Context()

    def open(self) -> None:
        """Loads what counts, so that the first request does not wait for it. Processes start when they are needed."""
        prepare(self._encodings)

    def close(self) -> None:
        self._end(self._pool)
        self._pool = None

    async def judge(self, ask: Ask) -> Verdict:
        """The verdict. Never raises: that it took too long, or that the process died, is one too."""
        if self._processes == 0 or len(ask.body) <= self._inline:
            return judge(ask, self._sessions)
        if self._pool is None:
            self._context = Context()
            self._pool = ProcessPoolExecutor(
                self._processes, self._context, initializer=begin, initargs=(self._encodings, self._sessions.most)
            )
        pool = self._pool
        try:
            job = pool.submit(decide, ask, monotonic() + self._seconds)
        except BrokenProcessPool:
            return self._ended(ask, pool)
        waiting = asyncio.wrap_future(job)
        waiting.add_done_callback(_forget)
        await asyncio.wait((waiting,), timeout=self._seconds)
        if not waiting.done():
            # It is not cancelled: the pool of Python 3.11 does not get over that when a process ends.
            if job.running():  # it was not only waiting for its turn: what runs so long never ends
                self._replace(pool)
            return late(ask, self._seconds)
        if waiting.cancelled() or isinstance(waiting.exception(), BrokenProcessPool):
            return self._ended(ask, pool)
        return Verdict(waiting.result())

    def _ended(self, ask: Ask, pool: ProcessPoolExecutor) -> Verdict:
        self._replace(pool)
        return _failed(ask, "the process that governed it ended", "Died")

    def _replace(self, pool: ProcessPoolExecutor) -> None:
        """The next long request gets a new pool; other requests of this one fail with it."""
        if self._pool is pool:
            self._pool = None
            self._end(pool)

    def _end(self, pool: ProcessPoolExecutor | None) -> None:
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in self._context.processes:
                process.terminate()


def prepare(encodings: list[str]) -> None:
    """Loads vocabularies. One that is not there costs the governing of the requests that need it, no more."""
    for encoding in encodings:
        with suppress(GovernanceError):
            counter(encoding)("legato")


def begin(encodings: list[str], remembered: int) -> None:
    """What a process does first. It ends with its parent, however that ends; Ctrl+C is its parent's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    SESSIONS.most = remembered
    threading.Thread(target=_end_with_parent, daemon=True).start()
    prepare(encodings)


def decide(ask: Ask, until: float) -> Decision:
    """The whole judgement as one value, in such a process. After `until` (`monotonic`) nobody waits for it any more."""
    verdict = judge(ask, SESSIONS) if monotonic() < until else late(ask, 0)
    verdict.account()
    verdict.prints()
    return verdict.decision


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(0)


def late(ask: Ask, seconds: float) -> Verdict:
    return _failed(ask, f"governing took longer than {seconds:g} seconds", "Timeout")


def _forget(waiting: asyncio.Future[Decision]) -> None:
    """What became of a job that nobody waits for any more is nobody's concern."""
    if not waiting.cancelled():
        waiting.exception()


def _failed(ask: Ask, words: str, kind: str) -> Verdict:
    return Verdict(Decision(model=ask.model, failure=words, kind=kind))
