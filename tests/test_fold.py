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

    @rule(size=st.integers(1_500, 4_000))
    def read_a_large_file(self, size: int) -> None:
        at = len(self.history)
        self.history += step(at, words(size, at), f"file {at}")

    @rule(size=st.integers(1_500, 4_000))
    def paste_a_large_text(self, size: int) -> None:
        at = len(self.history)
        self.history += [{"role": "assistant", "content": words(10, at)}, user(words(size, at + 1))]

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
        """Each fold frees half of what of the window is left beside what must stay."""
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


def test_a_target_is_a_share_of_what_is_left_beside_what_must_stay() -> None:
    """A long system prompt does not make the folds deeper: they are as many, and leave as much."""
    folds = []
    for system in (10, 2_000):
        history = [{"role": "system", "content": words(system, 0)}, user("go")]
        fixed, left = 0, []
        for at in range(20):
            history += step(at, words(100, at), str(at))
            fixed = fixed or legato.govern(history, profile="openai").report.tokens_in
            report = govern(history, fixed + 1_000, newest=1).report
            if report.folds and report.folds[-1].at is None:
                left.append(report.tokens_out - fixed)
        folds.append(len(left))
        assert all(400 < tokens < 510 for tokens in left), left
    assert folds == [3, 3]


def test_the_newest_units_are_spared_as_far_as_they_fit_the_target() -> None:
    history = [user("go")]
    for at in range(8):
        history += step(at, words(200, at), str(at))
    sent = texts(govern(history, 1_700, newest=8, target=0.5).messages)
    whole = [at for at in range(8) if words(200, at) in sent]
    assert whole == [4, 5, 6, 7]


def test_a_task_that_is_larger_than_the_window_leaves_room_for_what_follows() -> None:
    """Both ends of the task stay at every request, and the newest results stay whole."""
    task = f"Mend the parser. {words(6_000, 1)} Do not touch the tests."
    history = [user(task)]
    for at in range(30):
        history += step(at, words(100, at), str(at))
        governed = govern(history, 2_000)
        sent = texts(governed.messages)
        assert sent.startswith('[{"role": "user", "content": "Mend the parser.')
        assert "Do not touch the tests." in sent
        assert all(words(100, seen) in sent for seen in range(max(0, at - 2), at + 1))


def test_a_newest_result_that_is_larger_than_the_window_is_cut_and_what_came_before_it_stays() -> None:
    history = [user("go"), *step(0, words(100, 0), "a"), *step(1, words(100, 1), "b")]
    history += step(2, f"first line {words(6_000, 2)} last line", "c")
    governed = govern(history, 2_000)
    sent = texts(governed.messages)
    assert all(text in sent for text in (words(100, 0), words(100, 1), "first line", "last line"))
    cut = [change for change in governed.report.changes if change.code == "SIZE003"]
    assert [change.at for change in cut] == [6]
    assert governed.report.folds[-1].kept == 5


def test_what_was_cut_stays_as_it_was_cut_until_it_is_cleared() -> None:
    history = [user("go"), *step(0, f"first line {words(6_000, 0)} last line", "a")]
    cut = govern(history, 2_000).messages[2]
    seen = []
    for at in range(1, 14):
        history += step(at, words(100, at), str(at))
        seen.append(govern(history, 2_000).messages[2])
    assert seen[0] == cut
    assert "was left out to save context" in seen[-1]["content"]
    assert [one for one in seen if one not in (cut, seen[-1])] == []


def test_a_question_that_is_larger_than_the_window_is_cut_and_the_task_stays() -> None:
    history = [user("the task"), *step(0, words(50, 0)), {"role": "assistant", "content": "done"}]
    history += [user(f"And now. {words(6_000, 1)} Thanks.")]
    for at in range(1, 12):
        history += step(at, words(150, at), str(at))
        sent = texts(govern(history, 2_000).messages)
        assert all(text in sent for text in ("the task", "And now.", "Thanks.", words(150, at)))


def test_a_question_that_was_dropped_to_its_text_is_cut_when_a_large_result_comes() -> None:
    """Its results went with its unit; the text that opens the turn is in the way of the newest result."""
    question = {"role": "user", "content": [{"type": "text", "text": f"And now. {words(1_100, 1)} Thanks."}]}
    asked = {**question, "content": [_result(9, words(40, 99)), *question["content"]]}
    history = [user("the task"), _call(9), asked]
    for at, size in enumerate([100] * 10 + [2_500]):
        history += [_call(at), {"role": "user", "content": [_result(at, f"first {words(size, at)} last")]}]
        policy = legato.Policy.cache_friendly(window=2_000, max_output=0, reserve=0)
        governed = legato.govern(history, profile="anthropic", policy=policy)
        sent = texts(governed.messages)
        assert all(text in sent for text in ("the task", "And now.", "Thanks.", "first", "last"))
    assert words(1_100, 1) not in sent
    assert words(40, 99) not in sent


def _call(at: int) -> Wire:
    return {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": f"c{at}", "name": "read", "input": {"path": str(at)}}],
    }


def _result(at: int, text: str) -> Wire:
    return {"type": "tool_result", "tool_use_id": f"c{at}", "content": text}


def test_what_the_caller_pins_is_not_cut_to_make_room() -> None:
    history = [{**user(words(1_500, 1)), "_pin": True}, *step(0, words(900, 0))]
    sent = texts(govern(history, 2_000, first=False).messages)
    assert words(1_500, 1) in sent


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
