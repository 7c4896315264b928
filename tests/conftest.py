"""Hypothesis profiles: a short run by default, always the same one in CI, `HYPOTHESIS_PROFILE=long` for a night."""

from __future__ import annotations

import os
import signal

from hypothesis import HealthCheck, settings

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A run in the background ignores Ctrl-C, and hands that down to the programs that tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile("default", max_examples=150, deadline=None, suppress_health_check=SLOW)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.register_profile("long", settings.get_profile("default"), max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") == "true" else "default"))
