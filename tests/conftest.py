"""Hypothesis profiles: by default a short run, the same for everyone; `HYPOTHESIS_PROFILE=long` for a night."""

from __future__ import annotations

import os
import signal

from hypothesis import HealthCheck, settings

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A run in the background ignores Ctrl-C, and hands that down to the programs that tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)

LUCK = [HealthCheck.too_slow, HealthCheck.data_too_large]
"""What hangs on the machine or on which examples come first."""

settings.register_profile(
    "default", max_examples=150, deadline=None, derandomize=True, print_blob=True, suppress_health_check=LUCK
)
settings.register_profile("long", settings.get_profile("default"), max_examples=5_000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "default")
