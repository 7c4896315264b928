"""`legato --version`: in a module of its own, since looking a version up takes longer than all else here."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed


def version() -> str:
    """The version of the installed package."""
    try:
        return installed("legato")
    except PackageNotFoundError:
        return "(not installed)"


def run() -> None:
    sys.stdout.write(f"legato {version()}\n")
