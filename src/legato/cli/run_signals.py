"""What Ctrl-C does: once it cancels the run, which can be resumed; again it ends the program."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable

STOPPING = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if sys.platform != "win32" else [])]


class Signals:
    """`cancel` is what the first signal calls; `code` the exit code that a signal stands for, 0 before there is one."""

    def __init__(self) -> None:
        self.code = 0
        self.cancel: Callable[[], object] = lambda: None

    def install(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take the signals that ask to stop, as long as the loop is open."""
        if sys.platform != "win32":
            for number in STOPPING:
                loop.add_signal_handler(number, self._stop, number)

    def _stop(self, number: signal.Signals) -> None:
        if self.code:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a third one waits for nothing at all
            raise KeyboardInterrupt
        self.code = 128 + number
        self.cancel()
