"""Each peer's cut does what its publisher says, on sessions small enough to see where it cuts."""

from __future__ import annotations

from typing import Any

import pytest

from legato import wire
from legato.errors import PolicyError
from legato.replay import peers
from legato.replay.policies import CHOICES, DEFAULT, choose
from stories import Wire, call, result, system, user

SIZE = 100
"""Every message costs so much, a cleared one a tenth."""


def played(
    kind: type[peers.Peer], window: int, budget: int, exchanges: int, **sizes: Any
) -> tuple[list[Wire], peers.Peer]:
    """What is sent of a session of so many exchanges, asked before each answer."""
    items = [system("s"), user("task")]
    for nth in range(exchanges):
        items += [call(f"c{nth}"), result(f"c{nth}", "long")]
    messages = wire.read(items, "openai-chat").transcript
    read = {id(item): peers.Piece.of(message, SIZE) for item, message in zip(items, messages, strict=True)}
    limits = peers.Limits(window, budget, 0)
    peer = kind(limits, read, wire.codec("openai-chat"), lambda _: SIZE // 10, **sizes)
    sent: list[Wire] = []
    for end in range(2, len(items) + 1, 2):
        sent = peer.send(items[:end])
    return sent, peer


def test_a_sliding_window_keeps_the_system_prompt_and_the_newest_that_fit() -> None:
    sent, _ = played(peers.SlidingWindow, 2_000, 550, 10)
    assert [item["role"] for item in sent] == ["system", "assistant", "tool", "assistant", "tool"]


def test_the_newest_messages_are_counted_whatever_they_cost() -> None:
    sent, peer = played(peers.Newest, 10_000, 10_000, 10, keep=6)
    assert len(sent) == 7
    assert sent[0]["role"] == "system"
    assert len(peer.dropped) == 15


def test_clearing_tool_uses_starts_at_the_trigger_and_keeps_the_newest() -> None:
    _, below = played(peers.ClearToolUses, 200_000, 10_000, 4, trigger=1_000, keep=3, at_least=0)
    assert not below.cleared, "1,000 tokens are not over 1,000"
    sent, over = played(peers.ClearToolUses, 200_000, 10_000, 8, trigger=1_000, keep=3, at_least=0)
    assert len(over.cleared) == 5
    assert [item["content"] for item in sent if item["role"] == "tool"] == [peers.PLACEHOLDER] * 5 + ["long"] * 3


def test_clearing_at_least_waits_for_a_whole_batch() -> None:
    _, peer = played(peers.ClearToolUses, 200_000, 10_000, 12, trigger=1_000, keep=3, at_least=400)
    assert len(peer.cleared) == 8, "nine may go: four went at once, and four more when they were 400 tokens"


def test_sticky_clearing_goes_from_the_high_mark_to_the_low_one_oldest_first() -> None:
    sizes = {"high": 1.0, "low": 0.7, "keep": 0, "of_window": False}
    _, peer = played(peers.Sticky, 2_000, 1_000, 5, **sizes)
    assert sorted(peer.cleared) == [3, 5, 7, 9, 11], "1,200 tokens go down to 750: no more results are left"
    _, fewer = played(peers.Sticky, 2_000, 1_100, 5, **{**sizes, "low": 0.9})
    assert sorted(fewer.cleared) == [3, 5, 7], "1,200 tokens go down to 930"


def test_watermarks_are_shares_of_the_window_and_spare_the_newest_step() -> None:
    sizes = {"high": 0.7, "low": 0.4, "keep": 1, "of_window": True}
    _, peer = played(peers.Sticky, 1_000, 1_000, 3, **sizes)
    assert sorted(peer.cleared) == [3, 5]


def test_the_newest_protected_tokens_of_results_stay_and_two_user_turns() -> None:
    sizes = {"protect": 300, "at_least": 250}
    _, one_turn = played(peers.ProtectNewest, 200_000, 10_000, 9, turns=2, **sizes)
    assert not one_turn.cleared, "there is one user turn, and two are spared"
    _, peer = played(peers.ProtectNewest, 200_000, 10_000, 9, turns=0, **sizes)
    assert sorted(peer.cleared) == [3, 5, 7, 9, 11, 13][: len(peer.cleared)]
    assert len(peer.cleared) in (3, 6), "in batches that free more than 250"


def test_absolute_sizes_are_the_same_share_of_a_smaller_window() -> None:
    assert peers.Limits(200_000, 0, 0).scaled(100_000) == 100_000
    assert peers.Limits(20_000, 0, 0).scaled(100_000) == 10_000
    assert peers.Limits(1_000_000, 0, 0).scaled(100_000) == 100_000


def test_every_peer_names_whose_behaviour_it_is() -> None:
    assert all(CHOICES[name].source for name, *_ in peers.TABLE)
    assert not any(CHOICES[name].source for name in ("none", "document", "cache-friendly"))


def test_a_policy_is_found_by_name_or_as_a_file(tmp_path: Any) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[fold]\ntarget = 0.6\n", encoding="utf-8")
    assert [choice.name for choice in choose([*DEFAULT, str(file)])] == [*DEFAULT, str(file)]


def test_an_unknown_policy_names_those_there_are() -> None:
    with pytest.raises(PolicyError, match=r"no policy 'nonsense'.*sliding-window"):
        choose(["nonsense"])


def test_a_broken_policy_file_is_refused_with_its_place(tmp_path: Any) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[fold]\ntarget = 2\n", encoding="utf-8")
    with pytest.raises(PolicyError, match="target"):
        choose([str(file)])
