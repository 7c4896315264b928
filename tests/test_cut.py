"""What is cut: cache markers move with the prefix they mark, what is dropped can be had again, what is pinned stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import legato
from legato.fit.fold import Fold
from legato.recall import open_store
from test_fold import step, texts, user, words

Wire = dict[str, Any]
MARKER = {"type": "ephemeral"}


def block(text: str, marked: bool) -> Wire:
    return {"type": "text", "text": text, **({"cache_control": MARKER} if marked else {})}


def exchange(at: int, size: int, marked: bool) -> list[Wire]:
    call = {"type": "tool_use", "id": f"t{at}", "name": "search", "input": {"query": f"q{at}"}}
    result = {"type": "tool_result", "tool_use_id": f"t{at}", "content": [block(words(size, at), marked)]}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def marked_history(sizes: list[int], marked: set[int]) -> list[Wire]:
    task = {"role": "user", "content": [block("the task", 0 in marked)]}
    return [task, *[message for at, size in enumerate(sizes, 1) for message in exchange(at, size, at in marked)]]


def markers(messages: Any) -> int:
    return texts(messages).count("cache_control")


@given(
    st.lists(st.integers(1, 200), min_size=4, max_size=40),
    st.sets(st.integers(0, 40), max_size=4),
    st.sampled_from([legato.Policy.cache_friendly, lambda **fields: legato.Policy(microcompact=None, **fields)]),
)
def test_markers_move_to_what_stays_before_and_are_never_more_than_there_were(
    sizes: list[int], at: set[int], make: Any
) -> None:
    history = marked_history(sizes, at)
    policy = make(window=1_500, max_output=0, reserve=0)
    sent = legato.govern(history, profile="anthropic", policy=policy).messages
    assert markers(sent) <= markers(history)
    assert (markers(sent) > 0) == (markers(history) > 0)
    assert "cache_control" not in history[-1]


def test_the_marker_of_a_dropped_message_ends_what_is_left_of_its_prefix() -> None:
    history = marked_history([150] * 20, {5, 20})
    policy = legato.Policy.cache_friendly(window=1_500, max_output=0, reserve=0)
    governed = legato.govern(history, profile="anthropic", policy=policy)
    assert governed.messages[0]["content"] == [block("the task", True)]
    assert "cache_control" in texts(governed.messages[-1])
    change = next(change for change in governed.report.changes if change.at == 0)
    assert change.reason == "the cache marker of [10] was moved here, since that was cut"


def test_what_is_dropped_is_kept_in_the_store_and_the_report_has_its_handle(tmp_path: Path) -> None:
    history = [user("the task")]
    for at in range(30):
        history += step(at, words(100, at))
    policy = legato.Policy.cache_friendly(window=1_000, max_output=0, reserve=0, recall=str(tmp_path))
    report = legato.govern(history, profile="openai", policy=policy).report
    dropped = [change for change in report.changes if change.code == "SIZE002"]
    assert dropped
    store = open_store(tmp_path)
    for change in dropped:
        assert change.at is not None
        handle = change.reason.rsplit(" ", 1)[-1]
        assert json.loads(store.recall(handle, max_chars=None).text) == [history[change.at]]


def test_messages_that_a_predicate_pins_stay_whole_with_their_unit() -> None:
    history = [user("the task")]
    for at in range(30):
        history += step(at, words(100, at))
    fold = Fold()
    policy = legato.Policy.cache_friendly(
        window=1_000, max_output=0, reserve=0, fold=fold, pinned=lambda item: item.get("tool_call_id") == "c3"
    )
    sent = legato.govern(history, profile="openai", policy=policy).messages
    assert all(message in sent for message in history[7:9])
    assert history[9] not in sent
