"""What went wrong, as the one line that a person gets."""

from __future__ import annotations

from legato.errors import GovernanceError


class Failure(Exception):
    """Why it cannot go on: where, and what. No fault of the program's: a line for its user, and exit code 2."""


CANNOT = (GovernanceError, OSError, RecursionError, Failure)
"""What is explained in a line. `RecursionError`: JSON so deep that whatever walks it gives up."""


def explain(problem: Exception) -> str:
    """The exception in words."""
    if isinstance(problem, OSError):
        what = problem.strerror or str(problem)
        return f"{problem.filename}: {what}" if problem.filename else what
    return "JSON nested too deeply" if isinstance(problem, RecursionError) else str(problem)
