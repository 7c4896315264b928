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

import importlib
import typing

from legato.calibration import Calibration
from legato.errors import GovernanceError, OverBudget, PolicyError, UnknownProfile, Unrepairable, WireError
from legato.pipeline import Governed, check, govern, repair
from legato.policy import Policy
from legato.profiles import Profile
from legato.profiles.overflow import Overflow, overflow
from legato.report import Report
from legato.rules import Violation
from legato.session import NeedsSummary, Session

if typing.TYPE_CHECKING:
    from legato.agent.runner import AgentRunner

__all__ = [
    "AgentRunner",
    "Calibration",
    "GovernanceError",
    "Governed",
    "NeedsSummary",
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


def __getattr__(name: str) -> typing.Any:
    """The agent is loaded when it is first asked for: what governs needs no event loop."""
    if name == "AgentRunner":
        return importlib.import_module("legato.agent.runner").AgentRunner
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
