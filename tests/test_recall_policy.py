"""A policy with a store: what is cut can be had again, and the placeholder says how."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import legato
from legato.fit.fold import Fold
from legato.recall import open_store

TEXT = "\n".join(f"line {at}: {at * at}" for at in range(200))


def history(steps: int, tool: str = "read_file") -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for at in range(steps):
        function = {"name": tool, "arguments": "{}"}
        call = {"id": f"c{at}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{at}", "content": f"{at}\n{TEXT}"})
    return messages


@pytest.mark.parametrize("name", ["folder", "texts.db"])
@pytest.mark.parametrize("kind", ["document", "cache-friendly"])
def test_every_result_that_was_cut_comes_back_by_the_handle_in_its_placeholder(
    tmp_path: Path, name: str, kind: str
) -> None:
    store = str(tmp_path / name)
    messages = history(14)
    if kind == "document":
        policy = legato.Policy(recall=store)
    else:
        policy = legato.Policy.cache_friendly(window=9_000, max_output=0, recall=store, fold=Fold(newest=2))
    governed = legato.govern(messages, profile="openai", policy=policy)
    cut = [(at, message) for at, message in enumerate(governed.messages) if "was done" in str(message["content"])]
    assert cut
    for at, message in cut:
        [handle] = re.findall(r'recall\("([0-9a-f]+)"\)', message["content"])
        assert open_store(store).recall(handle, max_chars=None).text == messages[at]["content"]


def test_governing_twice_with_a_store_changes_nothing(tmp_path: Path) -> None:
    policy = legato.Policy(recall=str(tmp_path / "store"))
    once = legato.govern(history(14), profile="openai", policy=policy)
    again = legato.govern(once.messages, profile="openai", policy=policy)
    assert again.body is once.messages


def test_a_text_that_is_cut_in_the_middle_is_kept_whole_and_the_report_names_the_handle(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    policy = legato.Policy(window=600, max_output=0, reserve=0, microcompact=None, recall=store)
    report = legato.govern(history(1), profile="openai", policy=policy).report
    [change] = [change for change in report.changes if change.code == "SIZE003"]
    handle = change.reason.rpartition(" ")[2]
    assert open_store(store).recall(handle, max_chars=None).text == f"0\n{TEXT}"
