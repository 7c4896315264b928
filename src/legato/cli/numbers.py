"""Numbers as a person writes them on a command line."""

from __future__ import annotations

import argparse


def tokens(text: str) -> int:
    """A number of tokens: 128000, 128_000 or 128k."""
    number = text.lower().replace("_", "").replace(",", "")
    factor = {"k": 1_000, "m": 1_000_000}.get(number[-1:], 1)
    number = number[:-1] if factor > 1 else number
    if not number.isascii() or not number.isdigit():
        raise argparse.ArgumentTypeError(f"not a number of tokens: {text!r}")
    return int(number) * factor
