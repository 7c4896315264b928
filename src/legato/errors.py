"""What legato raises. Findings are values (`Violation`); an exception is the caller's mistake or a plain "cannot".

GovernanceError
├── WireError       the payload is not what its format says; names the place
├── PolicyError     the policy cannot work whatever the history
├── UnknownProfile  no such provider; lists the ones there are
├── Unrepairable    only faults are left that the caller has to decide
└── OverBudget      what must stay does not fit; carries the account
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class GovernanceError(Exception):
    """The root of everything legato raises on purpose."""


class WireError(GovernanceError, ValueError):
    """The payload is not a request of its format. `place` is a path such as `messages[3].tool_calls[0].function`."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place}: {problem}" if place else problem)
        self.place = place
        self.problem = problem


class PolicyError(GovernanceError, ValueError):
    """A policy that could not govern any history, such as a window no larger than its reserves."""


class UnknownProfile(GovernanceError, LookupError):
    """No profile of that name."""


class Unrepairable(GovernanceError):
    """What is left needs a decision of the caller. `violations` lists it."""

    def __init__(self, violations: Sequence[object]) -> None:
        super().__init__("cannot repair: " + "; ".join(map(str, violations)))
        self.violations = tuple(violations)


class OverBudget(GovernanceError):
    """What must stay does not fit, whatever is cut.

    `needed` and `budget` are tokens; `account` says where the needed ones sit (system, tools, pinned, newest turn).
    """

    def __init__(self, needed: int, budget: int, account: Mapping[str, int]) -> None:
        items = ", ".join(f"{name} {tokens:,}" for name, tokens in account.items())
        super().__init__(
            f"needs at least {needed:,} tokens, budget is {budget:,} ({items}); "
            "raise the window, lower max_output or reserve, drop tools, or shorten what is pinned"
        )
        self.needed = needed
        self.budget = budget
        self.account = dict(account)
