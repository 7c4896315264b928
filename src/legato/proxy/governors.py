"""Where requests are governed: small ones at once, large ones in processes that nobody else waits for."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import get_context, parent_process
from multiprocessing.queues import SimpleQueue

from legato import profiles
from legato.errors import GovernanceError
from legato.proxy.config import Config, profile_of
from legato.proxy.core import Ask, Decision, Verdict, judge
from legato.proxy.sessions import Sessions
from legato.tokens import counter

SPAWN = get_context("spawn")
SESSIONS = Sessions(0)
"""What a process that governs remembers, and no other."""


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
        self._started: SimpleQueue[int] | None = None

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
            self._started = SPAWN.SimpleQueue()
            self._pool = ProcessPoolExecutor(
                self._processes,
                SPAWN,
                initializer=begin,
                initargs=(self._encodings, self._started, self._sessions.most),
            )
        pool = self._pool
        try:
            job = pool.submit(decide, ask)
        except BrokenProcessPool:
            return self._ended(ask, pool)
        waiting = asyncio.wrap_future(job)
        await asyncio.wait((waiting,), timeout=self._seconds)
        if not waiting.done():
            if not job.cancel():  # it was not only waiting for its turn: what runs so long never ends
                self._replace(pool)
            waiting.cancel()
            return _failed(ask, f"governing took longer than {self._seconds:g} seconds", "Timeout")
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
        if pool is not None and self._started is not None:
            pool.shutdown(wait=False, cancel_futures=True)
            while not self._started.empty():
                with suppress(ProcessLookupError):
                    os.kill(self._started.get(), signal.SIGTERM)
            self._started.close()


def prepare(encodings: list[str]) -> None:
    """Loads vocabularies. One that is not there costs the governing of the requests that need it, no more."""
    for encoding in encodings:
        with suppress(GovernanceError):
            counter(encoding)("legato")


def begin(encodings: list[str], started: SimpleQueue[int], remembered: int) -> None:
    """What a process does first. It ends with its parent, however that ends; Ctrl+C is its parent's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    started.put(os.getpid())
    SESSIONS.most = remembered
    threading.Thread(target=_end_with_parent, daemon=True).start()
    prepare(encodings)


def decide(ask: Ask) -> Decision:
    """The whole judgement as one value, in such a process."""
    verdict = judge(ask, SESSIONS)
    verdict.account()
    verdict.prints()
    return verdict.decision


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(0)


def _failed(ask: Ask, words: str, kind: str) -> Verdict:
    return Verdict(Decision(model=ask.model, failure=words, kind=kind))
