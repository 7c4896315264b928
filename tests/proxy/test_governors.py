"""Large requests are governed in a process of their own: nobody waits for them, and its death costs nothing else."""

from __future__ import annotations

import json
import os
import signal
import threading
from multiprocessing import active_children
from typing import Any

import pytest

from loopback import PATIENCE, proxied, wait_until

PATH = "/v1/chat/completions"
AMPLE = {"govern_seconds": PATIENCE}
"""A process has to start first."""
SMALL = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}


def large(turns: int) -> Any:
    """An agent's session of so many turns, broken at one place."""
    messages: list[Any] = [
        {"role": "user", "content": "Find the leak."},
        {"role": "tool", "tool_call_id": "x", "content": "?"},
    ]
    for n in range(turns):
        call = {"id": f"call_{n}", "type": "function", "function": {"name": "read", "arguments": f'{{"path": "{n}"}}'}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        lines = "\n".join(f"{n}:{line} worker closed {line * n} files" for line in range(40))
        messages.append({"role": "tool", "tool_call_id": f"call_{n}", "content": lines})
    return {"model": "gpt-4o", "messages": messages}


def test_what_is_governed_elsewhere_is_governed_alike() -> None:
    body = large(60)
    with proxied(profile="openai", inline=10_000, processes=1, contents=True, limits=AMPLE) as running:
        there = running.ask(PATH, body)
        there_record, there_sent = running.settled(), running.upstream.seen[-1].body
    with proxied(profile="openai", contents=True) as running:
        here = running.ask(PATH, body)
        here_record, here_sent = running.settled(), running.upstream.seen[-1].body
    assert there.headers["x-legato-changes"] == here.headers["x-legato-changes"] == "PAIR001=1"
    assert there_sent == here_sent != json.dumps(body).encode()
    assert there.headers["x-legato-tokens-out"] == here.headers["x-legato-tokens-out"]
    assert there_record.diff == here_record.diff != ""
    assert there_record.conversation == here_record.conversation


def test_others_do_not_wait_for_a_large_request() -> None:
    with proxied(profile="openai", inline=10_000, processes=1, limits=AMPLE) as running:
        running.ask(PATH, large(30))  # the process is there
        (child,) = active_children()
        assert child.pid is not None
        found: list[str] = []
        asking = threading.Thread(target=lambda: found.append(running.ask(PATH, large(60)).headers["x-legato-changes"]))
        os.kill(child.pid, signal.SIGSTOP)  # so it takes as long as is wanted
        try:
            asking.start()
            wait_until(lambda: running.proxy.active == 1)
            for _ in range(20):
                assert running.ask(PATH, SMALL).status == 200
            assert found == []
        finally:
            os.kill(child.pid, signal.SIGCONT)
        asking.join()
        assert found == ["PAIR001=1"]


def test_a_process_that_is_killed_costs_the_governing_and_is_replaced() -> None:
    with proxied(profile="openai", inline=10_000, processes=1, limits=AMPLE) as running:
        body = large(30)
        assert running.ask(PATH, body).headers["x-legato-changes"] == "PAIR001=1"
        for child in active_children():
            assert child.pid is not None
            os.kill(child.pid, signal.SIGKILL)
            child.join()
        failed = running.ask(PATH, body)
        assert "ended" in failed.headers["x-legato-failed"]
        assert running.upstream.seen[-1].json == body
        assert running.ask(PATH, body).headers["x-legato-changes"] == "PAIR001=1"
    assert_no_child_is_left()


def test_governing_that_takes_too_long_is_given_up_and_its_process_ended() -> None:
    with proxied(profile="openai", inline=10_000, processes=1, limits={"govern_seconds": 0.01}) as running:
        body = large(2_000)
        failed = running.ask(PATH, body)
        assert "longer than 0.01 seconds" in failed.headers["x-legato-failed"]
        assert running.upstream.seen[-1].json == body
    assert_no_child_is_left()


@pytest.mark.parametrize(("seconds", "said"), [(PATIENCE, "PAIR001=1"), (0.01, "governing took longer")])
def test_of_many_at_once_each_is_answered_governed_or_as_it_came(seconds: float, said: str) -> None:
    with proxied(profile="openai", inline=10_000, processes=1, limits={"govern_seconds": seconds}) as running:
        found: list[str] = []

        def ask(turns: int) -> None:
            reply = running.ask(PATH, large(turns))
            found.append(reply.headers.get("x-legato-changes") or reply.headers.get("x-legato-failed") or "nothing")

        asking = [threading.Thread(target=ask, args=(turns,)) for turns in (1_000, 60, 61, 62, 63)]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
        assert [reason for reason in found if said not in reason and "ended" not in reason] == []
        assert len(running.upstream.seen) == 5
    assert_no_child_is_left()


def assert_no_child_is_left() -> None:
    wait_until(lambda: active_children() == [])
