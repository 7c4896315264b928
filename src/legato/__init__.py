"""Context governance for LLM agents.

    governed = legato.govern(messages, tools=tools, profile="mistral", policy=legato.Policy(window=128_000))
    send(governed.messages)
    print(governed.report)

`govern` takes the message history an agent holds and returns the messages to send: a sequence the provider accepts,
within the token budget, with every change in the report. `check` only says what the provider would refuse, `repair`
only mends it. Where to look: `pipeline.py` follows one request, `rules/` says what is refused and how it is mended,
`fit/` how tokens are saved, `profiles/` holds what each provider accepts, `wire/` reads and writes each format.
"""

from __future__ import annotations

from legato.calibration import Calibration
from legato.errors import GovernanceError, OverBudget, PolicyError, UnknownProfile, Unrepairable, WireError
from legato.pipeline import Governed, check, govern, repair
from legato.policy import Policy
from legato.profiles import Profile
from legato.profiles.overflow import Overflow, overflow
from legato.report import Change, Report
from legato.rules import Violation
from legato.session import Session

__all__ = [
    "Calibration",
    "Change",
    "GovernanceError",
    "Governed",
    "OverBudget",
    "Overflow",
    "Policy",
    "PolicyError",
    "Profile",
    "Report",
    "Session",
    "UnknownProfile",
    "Unrepairable",
    "Violation",
    "WireError",
    "check",
    "govern",
    "overflow",
    "repair",
]
