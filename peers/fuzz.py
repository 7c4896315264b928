"""Damaged histories through legato and its peers, every repair judged alike: `make peers`.

Judged are pairs and their places by walkers that know none of the repairers, what was lost, whether a second repair
changes anything, and whether the caller's own messages were changed. legato has to be perfect; of the others the table
is printed.
"""

from __future__ import annotations

import copy
import json
import sys
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from time import perf_counter

from accidents import History, Wire
from breakage import DAMAGES, broken_histories
from histories import TOOLS
from losses import lost_results, lost_user_texts
from providers import chat
from repairers import REFUSALS, REPAIRERS, Repairer
from tables import conclude, say, table
from walkers import anthropic
from written import Style, fields_of, write

HISTORIES = 400
OURS = "legato"
walk_chat = chat()
TOOLS_OF_ANTHROPIC = fields_of(TOOLS, "anthropic")
LOSSES = ("user text lost", "result lost", "not idempotent", "input changed", "gave up")


def chat_faults(messages: list[Wire]) -> list[str]:
    """Pairs and places only: what else single providers refuse is not what every repairer is for."""
    return walk_chat({"messages": messages}) if messages else ["no messages"]


def anthropic_faults(messages: list[Wire]) -> list[str]:
    """Everything Anthropic refuses, but for a last message of the assistant's, which the models before 4.6 took."""
    return anthropic({"messages": messages, **TOOLS_OF_ANTHROPIC}, prefill=True)


FORMATS: dict[str, Callable[[list[Wire]], list[str]]] = {"openai-chat": chat_faults, "anthropic": anthropic_faults}


def given(history: History, form: str, repairer: Repairer, at: int) -> list[Wire]:
    """The history as a caller of that repairer has it; of Anthropic, with results together or apart."""
    if form == "openai-chat":
        return copy.deepcopy(history)
    spoken = [message for message in history if message["role"] != "system"]
    if repairer.converts:
        return copy.deepcopy(spoken)
    return write(spoken, form, Style(together=at % 2 == 0, joined=at % 4 < 2)).items


def judge(repairer: Repairer, form: str, damage: str, tally: Counter[str], failures: list[str]) -> float:
    """How many of a hundred are legal once repaired. What else is wrong goes into the tally."""
    legal = 0
    for at, history in enumerate(broken_histories(damage, HISTORIES)):
        messages = given(history, form, repairer, at)
        before = copy.deepcopy(messages)
        start = perf_counter()
        try:
            repaired = repairer.repair(messages, form)
        except REFUSALS:
            tally["gave up"] += 1
            continue
        tally["microseconds"] += round((perf_counter() - start) * 1e6)
        faults = FORMATS[form](repaired)
        legal += not faults
        wrong = {
            "user text lost": bool(lost_user_texts(history, repaired)),
            "result lost": bool(lost_results(history, repaired)),
            "input changed": messages != before,
            "not idempotent": not (repairer.converts and form == "anthropic")
            and repairer.repair(copy.deepcopy(repaired), form) != repaired,
        }
        tally.update({what: 1 for what, is_wrong in wrong.items() if is_wrong})
        if repairer.name == OURS and (faults or any(wrong.values())):
            told = [*faults, *[what for what, is_wrong in wrong.items() if is_wrong]]
            failures.append(f"{form}, {damage}: {told}: {json.dumps(before)}")
    return 100 * legal / HISTORIES


def main() -> int:
    failures: list[str] = []
    for form in FORMATS:
        shares, sums = [], []
        for repairer in REPAIRERS:
            tally: Counter[str] = Counter()
            legal = [judge(repairer, form, damage, tally, failures) for damage in DAMAGES]
            shares.append((repairer.name, *[f"{share:.1f}" for share in legal]))
            mean = tally["microseconds"] / (HISTORIES * len(DAMAGES) - tally["gave up"])
            counts = [_counted(repairer, form, what, tally) for what in LOSSES]
            sums.append((repairer.name, *counts, f"{mean / 1000:.2f}"))
        say(f"{form}: % legal after the repair, {HISTORIES} damaged histories a column")
        say(table(("repairer", *DAMAGES), shares))
        say(f"of all {HISTORIES * len(DAMAGES):,} histories")
        say(table(("repairer", *LOSSES, "ms each"), sums))
        say()
    packages = ("turnsafe", "pydantic-ai-slim", "litellm", "tool-call-repair")
    say(", ".join(f"{package} {version(package)}" for package in packages))
    return conclude(failures)


def _counted(repairer: Repairer, form: str, what: str, tally: Counter[str]) -> object:
    """A converter cannot be asked twice: what it gives is not what it takes."""
    once = what == "not idempotent" and repairer.converts and form == "anthropic"
    return "-" if once else tally[what]


if __name__ == "__main__":
    sys.exit(main())
