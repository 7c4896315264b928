"""Mistral's own validators, in serving mode, judge what is governed for their tokenizer: `make oracles`.

They look at calls and results as nobody else offline does. `tests/test_mistral_oracle.py` asks the same in every test
run; this is its summary, a version a line.
"""

from __future__ import annotations

import json
import sys

import legato
from damage import damaged_histories
from tables import conclude, say, table
from test_mistral_oracle import refusal

HISTORIES = 420
PROFILES = {"v3": "mistral:v3", "v7": "mistral", "v11": "mistral", "v13": "mistral:v13", "v15": "mistral:v15"}
"""By version of the tokenizer; `mistral` is what the hosted API has."""


def main() -> int:
    failures, rows = [], []
    histories = list(damaged_histories(HISTORIES))
    for version, profile in PROFILES.items():
        governed = [legato.govern(history, profile=profile).messages for history in histories]
        before = sum(refusal(history, version) is not None for history in histories)
        found = [(words, messages) for messages in governed if (words := refusal(messages, version)) is not None]
        failures += [f"{profile}: {words[:200]}: {json.dumps(messages)[:600]}" for words, messages in found]
        rows.append((version, profile, len(histories), before, len(found)))
    say("mistral-common: damaged histories, refused as they are and governed")
    say(table(("validator", "profile", "histories", "as they are", "governed"), rows))
    return conclude(failures)


if __name__ == "__main__":
    sys.exit(main())
