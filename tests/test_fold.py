"""The cache-friendly cut: what was sent is a prefix of what is sent next, save where the report names a fold."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import legato
from legato.errors import PolicyError
from legato.fit.clear import Clearing
from legato.fit.fold import Fold
from recorded import jsonl

Wire = dict[str, Any]
WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


def words(count: int, seed: int) -> str:
    chance = random.Random(seed)
    return " ".join(chance.choice(WORDS) for _ in range(count))


def user(text: str) -> Wire:
    return {"role": "user", "content": text}


def step(at: int, result: str, arguments: str = "x", tool: str = "read_file") -> list[Wire]:
    function = {"name": tool, "arguments": json.dumps({"path": arguments})}
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"c{at}", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": f"c{at}", "content": result},
    ]


def govern(messages: list[Wire], window: int, **fold: Any) -> legato.Governed:
    policy = legato.Policy.cache_friendly(window=window, max_output=0, reserve=0, fold=Fold(**fold))
    return legato.govern(messages, profile="openai", policy=policy)


def texts(messages: list[Any]) -> str:
    return json.dumps(messages, ensure_ascii=False)


class GrowingHistory(RuleBasedStateMachine):
    """An agent that appends and governs before each request."""

    window = 2_000

    def __init__(self) -> None:
        super().__init__()
        self.history: list[Wire] = []
        self.sent: list[Wire] = []
        self.folds: tuple[Any, ...] = ()
        self.breaks = 0
        self.tokens = 0

    @initialize(task=st.integers(5, 40))
    def begin(self, task: int) -> None:
        self.history = [{"role": "system", "content": words(20, 0)}, user(words(task, 1))]

    @rule(size=st.integers(1, 250), again=st.booleans(), tool=st.sampled_from(["read_file", "search", "exec"]))
    def call(self, size: int, again: bool, tool: str) -> None:
        at = len(self.history)
        self.history += step(at, words(size, at), "same" if again else f"file {at}", tool)

    @rule(size=st.integers(20, 250))
    def write(self, size: int) -> None:
        at = len(self.history)
        self.history += step(at, "done", words(size, at), "write_file")

    @rule(size=st.integers(5, 60))
    def ask(self, size: int) -> None:
        at = len(self.history)
        self.history += [{"role": "assistant", "content": words(10, at)}, user(words(size, at + 1))]

    @invariant()
    def what_was_sent_is_a_prefix_of_what_is_sent_unless_a_fold_is_reported(self) -> None:
        if not self.history:
            return
        governed = govern(self.history, self.window)
        now = [fold for fold in governed.report.folds if fold.at is None]
        past = [fold for fold in governed.report.folds if fold.at is not None]
        assert governed.report.tokens_out <= self.window
        assert len(past) >= len([fold for fold in self.folds if fold.at is not None])
        if governed.messages[: len(self.sent)] != self.sent:
            cut = {change.code for change in governed.report.changes} & {"SIZE003"}  # the newest unit alone is too long
            assert now or cut, str(governed.report)
            self.breaks += 1
        self.sent, self.folds = governed.messages, governed.report.folds
        self.tokens = governed.report.tokens_in

    @invariant()
    def folds_are_few(self) -> None:
        """Each fold frees half the window, save for what may not be cut."""
        assert self.breaks <= self.tokens / (0.2 * self.window) + 1


TestGrowingHistory = GrowingHistory.TestCase
TestGrowingHistory.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


@given(st.lists(st.integers(1, 300), min_size=2, max_size=60), st.integers(0, 59))
def test_the_folds_of_a_history_are_those_of_its_beginning_and_more(sizes: list[int], cut: int) -> None:
    history = [user("go")]
    for at, size in enumerate(sizes):
        history += step(at, words(size, at), str(at))
    beginning = history[: 1 + 2 * min(cut, len(sizes))]
    policy = legato.Policy.cache_friendly(window=2_500, max_output=0, reserve=0)
    early = legato.govern(beginning, profile="openai", policy=policy).report.folds
    late = legato.govern(history, profile="openai", policy=policy).report.folds
    same = [fold for fold in early if fold.at is not None]
    assert list(late[: len(same)]) == same


def test_what_a_later_call_read_again_is_cleared_first() -> None:
    history = [user("go"), *step(0, words(400, 0), "a"), *step(1, words(400, 1), "b"), *step(2, words(400, 2), "a")]
    for at in range(3, 9):
        history += step(at, words(10, at), str(at))
    sent = texts(govern(history, 1_300, target=0.9).messages)
    assert words(400, 0) not in sent
    assert words(400, 1) in sent
    assert words(400, 2) in sent


def test_results_are_cleared_before_arguments_and_arguments_before_units_are_dropped() -> None:
    history = [user("go")]
    for at in range(12):
        history += step(at, words(150, at), words(150, 100 + at))
    codes = []
    for window in (3_500, 2_500, 900):
        report = govern(history, window, newest=2, target=0.9).report
        codes.append({change.code for change in report.changes})
    assert codes == [{"SIZE001"}, {"SIZE001", "SIZE006"}, {"SIZE001", "SIZE002", "SIZE006"}]


def test_cleared_arguments_are_still_a_json_object_with_the_same_keys() -> None:
    history = [user("go")]
    for at in range(12):
        history += step(at, "ok", words(300, at))
    sent = govern(history, 2_000, newest=2).messages
    arguments = [
        json.loads(call["function"]["arguments"]) for message in sent for call in message.get("tool_calls", ())
    ]
    assert all(list(each) == ["path"] for each in arguments)
    assert any("tokens left out" in each["path"] for each in arguments)


def test_the_first_task_and_what_is_pinned_stay_whole() -> None:
    pinned = {**user(words(60, 7)), "_pin": True}
    history = [user(words(50, 1)), *step(0, words(300, 2), "a"), {"role": "assistant", "content": "ok"}, pinned]
    for at in range(1, 40):
        history += step(at, words(100, at), str(at))
    governed = govern(history, 1_000, newest=2)
    sent = texts(governed.messages)
    assert words(50, 1) in sent
    assert words(60, 7) in sent
    assert "_pin" not in sent
    assert "_pin" in str(governed.report)


def test_excluded_tools_keep_their_results_and_only_included_ones_lose_theirs() -> None:
    history = [user("go")]
    for at in range(10):
        history += step(at, words(150, at), str(at), "keep" if at % 2 else "clear")
    for clearing in (Clearing(exclude=("keep",)), Clearing(include=("clear",))):
        sent = texts(govern(history, 1_500, newest=2, target=0.8, clearing=clearing).messages)
        assert all(words(150, at) in sent for at in range(1, 10, 2))
        assert words(150, 0) not in sent


def test_nothing_moves_until_the_window_is_full() -> None:
    history = [user("go")]
    for at in range(10):
        history += step(at, words(100, at), str(at))
    governed = govern(history, 10_000)
    assert governed.body is history
    assert governed.report.folds == ()


def test_the_report_names_the_fold_and_the_message_up_to_which_the_prefix_was_kept() -> None:
    history = [user("go")]
    for at in range(20):
        history += step(at, words(100, at), str(at))
    report = govern(history, 1_500).report
    assert report.folds
    assert report.to_dict()["folds"] == [{"at": fold.at, "kept": fold.kept} for fold in report.folds]
    assert f"folded {len(report.folds)} times" in str(report)


@pytest.mark.parametrize("bad", [{"target": 0}, {"target": 1.5}, {"newest": 0}])
def test_a_fold_that_could_not_work_is_refused(bad: Wire) -> None:
    with pytest.raises(PolicyError):
        Fold(**bad)


def test_on_recorded_sessions_the_cache_keeps_most_of_the_prefix() -> None:
    """The document's policy rewrites a result at nearly every request, the cache-friendly one folds a few times."""
    kept = {}
    for name, policy in (
        ("document", legato.Policy(window=32_000, max_output=2_000)),
        ("cache-friendly", legato.Policy.cache_friendly(window=32_000, max_output=2_000)),
    ):
        kept[name] = _prefix_kept(_renamed(next(iter(jsonl("pi-mono/sessions.jsonl")))["messages"])[:400], policy)
    assert kept["cache-friendly"] > 0.85
    assert kept["cache-friendly"] > kept["document"]


def _renamed(messages: list[Wire]) -> list[Wire]:
    """The session with tools of the document's names, so that its policy finds something to compact."""
    text = (
        json.dumps(messages)
        .replace('"name": "read"', '"name": "read_file"')
        .replace('"name": "bash"', '"name": "exec"')
    )
    renamed: list[Wire] = json.loads(text)
    return renamed


def _prefix_kept(messages: list[Wire], policy: legato.Policy) -> float:
    kept = total = 0
    before: list[str] = []
    for at in range(1, len(messages)):
        if messages[at]["role"] == "assistant":
            now = [
                json.dumps(message)
                for message in legato.govern(messages[:at], profile="openai", policy=policy).messages
            ]
            same = next(
                (i for i, (a, b) in enumerate(zip(before, now, strict=False)) if a != b), min(len(before), len(now))
            )
            kept += sum(map(len, now[:same]))
            total += sum(map(len, now))
            before = now
    return kept / total
