"""Histories far longer than a real llama.cpp server's context, governed to fit it, are all answered: `make oracles`.

The contexts are small, the templates real, and the server itself counts. Its model (`tiny_model.words`) cuts texts
into tokens of the usual length, and knows the marks of a template as the model it is for does; its answers are noise.

A policy keeps an eighth of the context free, besides what the template was seen to put before a lone question (a
system prompt of its own, the words around tools) where legato counts less of it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import tempfile
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import accumulate, pairwise, takewhile
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import legato
import tiny_model
from accidents import History, Wire
from histories import CHOICES, TOOLS, conversation, damaged, long_history
from llama_server import PROFILES, USER, Answer, Server, texts_only
from recorded import jsonl, transcripts
from tables import conclude, say, table
from templates import Features, features, fetch, twin
from texts import nothing_to_send, strings

CONTEXTS = (512, 1_024, 2_048, 4_096, 8_192)
HISTORIES = 240
"""For each context, by default: half of them are random, half recorded."""
OUTPUT = 16
SLACK = 8
"""The reserve is the context over this, and what the template adds."""
LAST = 500
"""So many of the last recorded messages start no history: it would be too short."""
SHORT = CHOICES | {"lines": (1, 1, 2), "reasoning": (False,), "parts": (False,), "image": (False,)}
RARE = 0.01
"""`OverBudget` is for a newest turn that is too large however it is cut: no larger share of all histories."""
LARGEST_UNIT, FULLEST = 0.05, 0.90
"""Where no unit is a larger share of the budget, at least that share of it is used."""
RECORDED = (
    *("tau-bench/gpt-4o-airline.jsonl", "pi-mono/sessions.jsonl", "swe-agent/trajectories.jsonl"),
    *("openhands-events/rebuilt_openai.jsonl", "cline/openai.jsonl", "inspect-ai/samples.jsonl"),
)
MARKS = re.compile(
    r"<\|[A-Za-z_0-9]+\|?>|<[a-z_]+\|>|</?(?:tool_[a-z]+|think|[a-z_]+_turn)>|\[/?[A-Z_]{3,}\]|\]~!?b\[|\[e~\["
)
"""What a template writes that is one token to its model."""
UNCOMPACTED = "nothing compacted"
POLICIES: dict[str, Callable[..., legato.Policy]] = {
    "Policy()": legato.Policy,
    "cache_friendly()": legato.Policy.cache_friendly,
    UNCOMPACTED: lambda **fields: legato.Policy(microcompact=None, **fields),
}
MANY = 2_048
"""The context from which on all tools are offered, where there are any; below it is one."""
END = "<|endoftext|>"
Tools = list[dict[str, Any]] | None


# -- the histories -----------------------------------------------------------------------------------------------------


def random_history(context: int, seed: int) -> History:
    """Several times the context; every third is whole, the others had two or four accidents."""
    return damaged(long_history(10 + context // 48 + seed % 7, seed), seed, seed % 3 * 2)


@cache
def recordings() -> tuple[Wire, ...]:
    """The recorded conversations, one after the other."""
    return tuple(message for name in RECORDED for row in jsonl(name) for message in row["messages"])


def recorded_history(context: int, seed: int) -> History:
    """What was recorded from a random place on, some four times the context. The cut may fall into a loop."""
    start = random.Random(seed).randrange(len(recordings()) - LAST)
    sizes = accumulate(len(json.dumps(message)) for message in recordings()[start:])
    first, *others = recordings()[
        start : start + 2 + sum(1 for _ in takewhile(lambda size: size < 16 * context, sizes))
    ]
    return [first, *[message for message in others if message["role"] != "system"]]


def sendable(history: History, context: int) -> History:
    """Its texts, without a system prompt that fills a quarter of the context: no governor cuts that."""
    texts = [texts_only(message) for message in history]
    return [message for message in texts if message["role"] != "system" or len(json.dumps(message)) < context]


def turns(history: History) -> Iterator[History]:
    """The messages that stay or go together: one, and the results that follow it."""
    starts = [at for at, message in enumerate(history) if message["role"] != "tool"]
    for start, end in pairwise([*starts, len(history)]):
        yield history[start:end]


# -- one server --------------------------------------------------------------------------------------------------------


class Counter:
    """Counts texts as the servers of one vocabulary do, and remembers."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.known: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        tokens = self.known.get(text)
        return self.learn([text])[text] if tokens is None else tokens

    def learn(self, texts: Iterable[str]) -> dict[str, int]:
        """Counts those that are new in one request."""
        new = list({text for text in texts if text not in self.known})
        counts = dict(zip(new, self.server.count_each(new), strict=True))
        self.known.update(counts)
        return counts


class Room:
    """A server with a template and a context, the tools that go with every request, and what legato takes it for."""

    def __init__(self, server: Server, template: str, context: int, tools: Tools, count: Counter) -> None:
        self.server, self.template, self.context, self.tools, self.count = server, template, context, tools, count
        self.profile = PROFILES[template]
        added = self._added()
        self.reserve = context // SLACK + added
        self.budget = context - OUTPUT - self.reserve
        self.is_roomy = added <= context // 2
        self._takes: dict[Features, bool] = {}

    def policy(self, name: str) -> legato.Policy:
        return POLICIES[name](window=self.context, max_output=OUTPUT, reserve=self.reserve, counter=self.count)

    def counted(self, history: History, tools: Tools = None) -> int:
        counting = legato.Policy(counter=self.count, microcompact=None)
        return legato.repair(history, profile=self.profile, tools=tools, policy=counting).report.tokens_in

    def may_take(self, history: History) -> bool:
        """Whether the template takes at least a plain conversation of this kind, and there is anything to send."""
        if nothing_to_send(history):
            return False
        kind = features(history, self.tools)
        if kind not in self._takes:
            self._takes[kind] = not self.server.ask(twin(*kind[:2]), self.tools).is_error
        return self._takes[kind]

    def _added(self) -> int:
        """The tokens before a lone question that legato does not count."""
        return max(0, prompt_tokens(self.server.ask([USER], self.tools)) - self.counted([USER], self.tools))


def prompt_tokens(answer: Answer) -> int:
    """What the server says of the length of a request that it answered, or that was too long. Raises `KeyError`."""
    said = answer.body["error"]["n_prompt_tokens"] if answer.is_error else answer.body["usage"]["prompt_tokens"]
    return int(said)


class Outcome(NamedTuple):
    """What came of one history; the tokens are those that legato counted, and that the server did."""

    context: int
    policy: str
    template: str
    budget: int
    was_long: bool
    refused: bool
    refused_again: bool
    counted: int
    said: int

    @property
    def fault(self) -> str | None:
        if self.refused:
            return f"{self.counted:,} tokens counted of {self.budget:,}, and refused for {self.said:,}"
        if self.policy == UNCOMPACTED and self.was_long and self.counted < FULLEST * self.budget:
            return f"only {self.counted:,} of {self.budget:,} tokens are used"
        return None


def judge(room: Room, policy: str, history: History) -> Outcome:
    """Sends the history governed; what is refused is governed once more, with what the refusal teaches.

    Raises `OverBudget` where what must stay does not fit.
    """
    session = legato.Session(room.profile, room.policy(policy), tools=room.tools)
    governed = session.prepare(history)
    answer = room.server.ask(governed.messages, room.tools)
    refused_again = False
    if answer.is_error:
        session.overflowed(answer.body)
        refused_again = room.server.ask(session.prepare(history).messages, room.tools).is_error
    report = governed.report
    was_long = report.tokens_in > room.budget
    about = (room.context, policy, room.template, room.budget, was_long)
    return Outcome(*about, answer.is_error, refused_again, report.tokens_out, prompt_tokens(answer))


def small_history(room: Room, seed: int) -> History:
    """Short messages, half as much again as the budget or more, without the turns that are a larger part of it."""
    chance = random.Random(seed)
    kept: History = []
    total = 0
    while total < 1.5 * room.budget:
        more = conversation(room.context // 50, lambda what: chance.choice(SHORT[what]))[:-1]
        room.count.learn(strings(more))
        for turn in turns(more):
            if kept and kept[-1]["role"] == turn[0]["role"]:
                continue  # the two would be one unit where roles alternate
            tokens = room.counted([*turn, USER]) - room.counted([USER])
            if turn[0]["role"] != "system" and tokens <= LARGEST_UNIT * room.budget:
                kept += turn
                total += tokens
    return [*kept, {"role": "user", "content": "What is next?"}]


# -- all of them -------------------------------------------------------------------------------------------------------


@dataclass
class Court:
    """The servers of one model, a template each, and what they said."""

    model: Path
    sources: dict[str, str]
    histories: int
    count: Counter
    outcomes: list[Outcome] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    too_large: list[str] = field(default_factory=list)
    tally: Tally[str] = field(default_factory=Tally)

    def sit(self, context: int) -> None:
        """Two servers at a time."""
        share = -(-self.histories // len(self.sources))
        seeds = [range(nth * share, (nth + 1) * share) for nth in range(len(self.sources))]
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(partial(self._ask, context), self.sources, seeds))

    def _ask(self, context: int, template: str, seeds: range) -> None:
        server = Server(self.model, self.sources[template], context)
        tools = TOOLS[:1] if context < MANY else TOOLS
        rooms = [Room(server, template, context, offered, self.count) for offered in (None, tools)]
        for seed in seeds:
            room = rooms[seed // 2 % 2]
            if not room.is_roomy:
                self.tally["no room"] += 1
                continue
            make = recorded_history if seed % 2 and transcripts().exists() else random_history
            long = sendable(make(context, seed), context)
            self.count.learn(strings(long))
            for policy in POLICIES:
                self._judge(room, policy, seed, small_history(room, seed) if policy == UNCOMPACTED else long)

    def _judge(self, room: Room, policy: str, seed: int, history: History) -> None:
        if not room.may_take(history):
            self.tally["not taken"] += 1
            return
        place = f"{policy}, {room.context:,} tokens, {room.template}, seed {seed}"
        try:
            outcome = judge(room, policy, history)
        except legato.OverBudget as error:
            self.too_large.append(f"{place}: {error}")
            return
        self.outcomes.append(outcome)
        if outcome.fault is not None:
            self.failures.append(f"{place}: {outcome.fault}")


COLUMNS = (
    *("sent", "too long before", "refused", "twice"),
    *("budget used, %: least", "median", "by the server's count", "counted too little, % of context: median", "most"),
)


def row(outcomes: Sequence[Outcome]) -> tuple[object, ...]:
    """One line of a table. What is used is told of the histories that had to be cut."""
    used = [100 * each.counted / each.budget for each in outcomes if each.was_long] or [0]
    really = [100 * each.said / each.budget for each in outcomes if each.was_long] or [0]
    missing = [100 * (each.said - each.counted) / each.context for each in outcomes]
    counts = [sum(flags) for flags in zip(*((o.was_long, o.refused, o.refused_again) for o in outcomes), strict=True)]
    shares = (min(used), median(used), median(really), median(missing), max(missing))
    return (len(outcomes), *counts, *(f"{share:.1f}" for share in shares))


def grouped(outcomes: Iterable[Outcome], key: Callable[[Outcome], Any]) -> dict[Any, list[Outcome]]:
    groups: dict[Any, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(key(outcome), []).append(outcome)
    return groups


def show(court: Court) -> None:
    say("llama.cpp's server: histories far longer than its context, governed to fit")
    groups = grouped(court.outcomes, lambda each: (each.context, each.policy))
    say(table(("context", "policy", *COLUMNS), [(f"{c:,}", policy, *row(of)) for (c, policy), of in groups.items()]))
    say()
    templates = grouped(court.outcomes, lambda each: each.template)
    say(table(("template", *COLUMNS), [(name, *row(templates[name])) for name in court.sources if name in templates]))
    tally = {**court.tally, "OverBudget": len(court.too_large)}
    say(", ".join(f"{what}: {number:,}" for what, number in tally.items()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=HISTORIES, help="for each context (%(default)s)")
    parser.add_argument("--contexts", type=int, nargs="+", default=CONTEXTS, metavar="TOKENS")
    chosen = parser.parse_args()
    if not transcripts().exists():
        say(f"no recordings at {transcripts()}: all histories are random")
        if os.environ.get("CI") == "true":
            return 1
    paths = sorted(fetch().glob("*/*.jinja"))
    sources = {path.stem: path.read_text(encoding="utf-8") for path in paths if path.stem in PROFILES}
    marks = sorted({mark for source in sources.values() for mark in MARKS.findall(source)} - {END})
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "words.gguf"
        tiny_model.write(model, tiny_model.words(), [END, *marks])
        counter = Counter(Server(model, sources["template_chatml"], min(CONTEXTS)))
        court = Court(model, sources, chosen.histories, counter)
        for context in chosen.contexts:
            court.sit(context)
    show(court)
    rare = len(court.too_large) <= RARE * len(court.outcomes)
    return conclude(court.failures + ([] if rare else court.too_large))


if __name__ == "__main__":
    sys.exit(main())
