"""`python -m legato` is the command `legato`."""

from __future__ import annotations

import sys

from legato.cli import main

if __name__ == "__main__":
    sys.exit(main())
