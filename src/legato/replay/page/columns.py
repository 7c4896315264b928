"""What the page is given of a replay: columns instead of rows, and each text once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from legato.messages import Json
from legato.replay import evidence
from legato.replay.played import Asked, Played, Replay, Row, Shown, Totals
from legato.report import CODES

CONTENTS = 4_000_000
"""So many characters of messages a page holds at most; of longer ones each message keeps its beginning."""
KINDS = ("head", "system", "user", "assistant", "tool")


class Texts:
    """Each text once, by number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


def room(replays: Sequence[Replay]) -> int:
    """How many characters each message may keep so that all of them are no more than `CONTENTS`."""
    sizes = Counter(len(shown.text) for played in replays for shown in played.messages if shown.text)
    low, high = 0, max(sizes, default=0)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(size, middle) * times for size, times in sizes.items()) <= CONTENTS:
            low = middle
        else:
            high = middle - 1
    return low


def overview(replays: Sequence[Replay]) -> Json:
    """What there is to choose from, the sums of each policy over all of it, and what the codes mean."""
    totals: dict[str, Totals] = {}
    about: dict[str, tuple[str, str]] = {}
    for played in replays:
        for policy in played.policies:
            totals[policy.name] = totals.get(policy.name, Totals()) + policy.totals
            about.setdefault(policy.name, (policy.about, policy.source))
    return {
        "kinds": list(KINDS),
        "ages": list(evidence.labels()),
        "codes": {code: [rule.name, rule.summary, code.startswith("SIZE")] for code, rule in CODES.items()},
        "sessions": [[played.where, played.model, len(played.asked)] for played in replays],
        "policies": [
            {"name": name, "about": about[name][0], "source": about[name][1], "totals": total.to_dict()}
            for name, total in totals.items()
        ],
    }


def columns(played: Replay, most: int) -> Json:
    """One replay. A text is a number in `texts`, what a request has is at its index."""
    texts = Texts()
    fields: dict[str, Any] = {
        "where": played.where,
        "source": played.source,
        "format": played.format,
        "profile": played.profile,
        "model": played.model,
        "window": played.window,
        "output": played.max_output,
        "budget": played.budget,
        "price": {**msgspec.to_builtins(played.price), "how": played.price.rules.how},
        "notes": list(played.notes),
        "optimum": played.optimum,
        "messages": _messages(played.messages, texts, most),
        "requests": _requests(played.asked, texts),
        "policies": [_policy(policy, texts) for policy in played.policies],
    }
    return {**fields, "texts": list(texts.numbers)}


def _messages(shown: Sequence[Shown], texts: Texts, most: int) -> Json:
    return {
        "role": [texts.number(each.role) for each in shown],
        "kind": [texts.number(each.kind) for each in shown],
        "tokens": [each.tokens for each in shown],
        "text": [None if each.text is None else texts.number(_begin(each.text, most)) for each in shown],
    }


def _begin(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _requests(asked: Sequence[Asked], texts: Texts) -> Json:
    return {
        "turn": [each.turn for each in asked],
        "at": [each.at for each in asked],
        "end": [each.end for each in asked],
        "time": [each.time for each in asked],
        "tokens": [each.tokens for each in asked],
        "answer": [each.answer for each in asked],
        "reported": [each.reported for each in asked],
        "refused": _sparse([[texts.number(code) for code in each.refused] for each in asked]),
        "used": [len(each.names) for each in asked],
    }


def _policy(policy: Played, texts: Texts) -> Json:
    rows = policy.rows
    changes, tables = _changes(rows, texts)
    return {
        "name": policy.name,
        "about": policy.about,
        "source": policy.source,
        "totals": policy.totals.to_dict(),
        "messages": [row.messages for row in rows],
        "tokens": [row.tokens for row in rows],
        "common": [row.common for row in rows],
        "cached": [row.cached for row in rows],
        "cost": [round(row.cost, 8) for row in rows],
        "kept": [row.kept for row in rows],
        "ms": [round(row.ms, 2) for row in rows],
        "kinds": [[row.kinds.get(kind, 0) for row in rows] for kind in KINDS],
        "broke": [number for number, row in enumerate(rows) if row.broke],
        "over": [number for number, row in enumerate(rows) if row.over],
        "failure": {str(number): texts.number(row.failure) for number, row in enumerate(rows) if row.failure},
        "lost": _sparse([[texts.number(name) for name in row.lost] for row in rows]),
        "edits": _sparse([_edits(row, texts) for row in rows]),
        "changes": changes,
        "tables": tables,
    }


def _edits(row: Row, texts: Texts) -> list[Json]:
    return [[texts.number(edit.code), edit.at, edit.tokens, texts.number(edit.reason)] for edit in row.edits]


def _changes(rows: Sequence[Row], texts: Texts) -> tuple[list[Json], list[Json]]:
    """For each request the number of its table of changes, and the tables: most have the same as the one before."""
    numbers: dict[tuple[tuple[int, int], ...], int] = {}
    found: list[Json] = []
    for row in rows:
        table = tuple((texts.number(code), times) for code, times in sorted(row.changes.items()))
        found.append(numbers.setdefault(table, len(numbers)))
    return found, [[list(pair) for pair in table] for table in numbers]


def _sparse(lists: Sequence[list[Json]] | Sequence[list[int]]) -> Mapping[str, Json]:
    """Those lists that hold something, by their index."""
    return {str(number): list(each) for number, each in enumerate(lists) if each}
