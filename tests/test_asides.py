"""A user message that no user said is never taken for what was asked, and hides nothing that was."""

from __future__ import annotations

import pytest

import legato
from legato import Policy
from legato.rules.role import OPENER

NUDGE = {"role": "user", "content": "Go on.", "_aside": True}


@pytest.mark.parametrize("profile", ["portable", "strict-template", "glm"])
def test_an_aside_that_is_merged_with_a_question_leaves_it_a_question(profile: str) -> None:
    for messages in ([{"role": "user", "content": "q"}, NUDGE], [NUDGE, {"role": "user", "content": "q"}]):
        (sent,) = legato.govern(messages, profile=profile).messages
        assert set(sent["content"].split("\n\n")) == {"q", "Go on."}
        assert "_aside" not in sent


def test_an_aside_alone_gets_a_user_where_one_is_wanted() -> None:
    (sent,) = legato.govern([NUDGE], profile="strict-template").messages
    assert sent["content"] == f"{OPENER}\n\nGo on."


def test_a_summary_is_taken_by_a_template_that_wants_a_user() -> None:
    turns = [{"role": role, "content": f"{role} {at} " * 40} for at in range(30) for role in ("user", "assistant")]
    messages = [*turns, {"role": "user", "content": "last"}]
    session = legato.Session("strict-template", Policy(window=2_000, max_output=8, reserve=4, summarise=True))
    asked = session.prepare(messages)
    assert isinstance(asked, legato.NeedsSummary)
    sent = asked.resume("They greeted each other.")
    assert "They greeted each other." in str(sent.messages)
    assert not [found for found in legato.check(sent.messages, "strict-template") if found.severity == "error"]
