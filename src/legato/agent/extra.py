"""Libraries that only the agent needs: loaded when they are used, and named when they are missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def need(module: str) -> Any:
    """The module. Raises `ImportError` that says what to install."""
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        raise ImportError(f"the agent needs {missing.name}: pip install 'legato[agent]'", name=missing.name) from None
