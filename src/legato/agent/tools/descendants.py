"""Killing every process that inherited a mark in its environment, wherever it has gone. Linux shows environments.

A process can leave its group, its session and its parent, but seldom its environment. One that clears it gets away.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

ROUNDS = 50
"""How often the processes are looked through at most."""
QUIET = 2
"""So many looks in a row must find nothing: a process may fork and be gone while the others are looked at."""

KERNEL, EXITING = 0x0020_0000, 0x4
"""Flags of a process in /proc/PID/stat: a thread of the kernel; one that has no memory any more."""


def kill_marked(mark: str) -> bool:
    """Kill the processes with that text in their environment. True: there were some."""
    if sys.platform != "linux":
        return False
    found, quiet = False, 0
    for _ in range(ROUNDS):
        seen = [_look(int(name), mark.encode()) for name in os.listdir("/proc") if name.isdecimal()]
        found = found or True in seen
        quiet = 0 if True in seen or None in seen else quiet + 1
        if quiet == QUIET:
            break
    return found


def _look(pid: int, mark: bytes) -> bool | None:
    """Kill a process if it is marked. True: it was; None: it cannot be said, it has just gone or is about to begin."""
    try:
        marked = _is_marked(pid, mark)
        if not marked:
            return marked
        held = os.pidfd_open(pid)  # the number may be another's by now: it is held, and looked at again
        try:
            if _is_marked(pid, mark):
                signal.pidfd_send_signal(held, signal.SIGKILL)
        finally:
            os.close(held)
        return True
    except PermissionError:
        return False
    except (FileNotFoundError, ProcessLookupError):
        return None


def _is_marked(pid: int, mark: bytes) -> bool | None:
    """Whether the environment of a process has the mark. None: it has none yet, in the middle of starting a program."""
    with suppress(ProcessLookupError), open(f"/proc/{pid}/environ", "rb") as stream:
        environment = stream.read()
        if environment:
            return mark in environment
    with open(f"/proc/{pid}/stat", "rb") as stream:
        fields = stream.read().rpartition(b")")[2].split()
    is_over = fields[0] in (b"Z", b"X") or int(fields[6]) & (KERNEL | EXITING)
    return False if is_over else None
