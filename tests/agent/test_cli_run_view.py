"""What a person sees of a run: the gauge, the text as it comes, calls and results shortened, nothing that steers."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Iterable
from typing import Any

import pytest
from rich.console import Console

from legato import Policy
from legato.agent.events import AfterRequest, Event, TextDelta, ToolFinished
from legato.agent.provider import ProviderError, Reply
from legato.agent.providers.scripted import Line, Scripted, says
from legato.agent.result import Result
from legato.agent.runner import AgentRunner
from legato.cli.numbers import tokens
from legato.cli.run_lines import Lines, View, result, shortened
from legato.cli.run_meter import CELLS, Meter, short
from legato.cli.run_view import TerminalView
from stage import FORMATS, reader, reading, rounds

POLICY = Policy.cache_friendly(window=16_000, max_output=1_000)
WIDTH = 100
USAGES: dict[str, Any] = {
    "openai-chat": {
        "prompt_tokens": 1_000,
        "completion_tokens": 100,
        "prompt_tokens_details": {"cached_tokens": 600},
    },
    "openai-responses": {
        "input_tokens": 1_000,
        "output_tokens": 100,
        "input_tokens_details": {"cached_tokens": 600},
    },
    "anthropic": {
        "input_tokens": 300,
        "cache_read_input_tokens": 600,
        "cache_creation_input_tokens": 100,
        "output_tokens": 100,
    },
    "gemini": {"promptTokenCount": 1_000, "cachedContentTokenCount": 600, "candidatesTokenCount": 100},
}
"""The same 1,000 tokens of input in each format: 600 from the cache, and of Anthropic's 100 into it."""


def at_terminal(meter: Meter) -> tuple[TerminalView, io.StringIO]:
    screen = io.StringIO()
    return TerminalView(meter, Console(file=screen, force_terminal=True, width=WIDTH, color_system=None)), screen


def stays(written: str) -> list[str]:
    """The lines on the screen in the end: what is drawn while a run works, whenever that is, is wiped again."""
    lines, row = [""], 0
    for piece in re.split(r"(\n|\r|\x1b\[1A|\x1b\[2K|\x1b\[\?25[lh])", written):
        match piece:
            case "\n":
                row += 1
                lines += [""] * (row == len(lines))
            case "\x1b[1A":
                row -= 1
            case "\x1b[2K":
                lines[row] = ""
            case "\r" | "\x1b[?25l" | "\x1b[?25h":
                pass
            case _:
                lines[row] += piece
    return lines


def watch(script: Iterable[Line], view: View, meter: Meter, hooks: Iterable[Any] = ()) -> Result:
    tools = [reader(lambda _: 4_000)]
    with AgentRunner(
        provider=Scripted(script, "openai-chat"), tools=tools, policy=POLICY, hooks=[meter, *hooks, view]
    ) as runner:
        outcome = asyncio.run(runner.run("Read."))
    view.close(outcome.text)
    return outcome


# -- the gauge ---------------------------------------------------------------------------------------------------------


def test_the_gauge_shows_what_the_reports_say() -> None:
    meter = Meter(None)
    seen: list[tuple[float | None, int, float | None, bool]] = []

    def note(event: Event) -> None:
        if isinstance(event, AfterRequest):
            seen.append((meter.share, meter.left_out, meter.kept, meter.cuts))

    outcome = watch(
        rounds([reading(turn) for turn in range(30)], "openai-chat"), Lines(*_streams(), meter), meter, [note]
    )
    assert len(seen) == len(outcome.iterations) == 31
    for (share, left_out, kept, _), iteration in zip(seen, outcome.iterations, strict=True):
        report = iteration.report
        assert report.budget is not None
        assert (share, left_out) == (report.tokens_out / report.budget, report.tokens_in - report.tokens_out)
        assert kept == iteration.prefix_share
    assert [fresh for *_, fresh in seen] == [kept not in (None, 1.0) for _, _, kept, _ in seen]
    assert any(fresh for *_, fresh in seen)


@pytest.mark.parametrize(("tokens", "cells"), [(0, 0), (5_000, 6), (10_000, 12), (20_000, 12)])
def test_the_bar_is_as_full_as_the_budget(tokens: int, cells: int) -> None:
    meter = Meter(None)
    meter.tokens, meter.budget = tokens, 10_000
    assert (meter.bar.count("█"), len(meter.bar)) == (cells, CELLS)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1_000, "1.00k"),
        (26_880, "26.9k"),
        (999_499, "999k"),
        (999_500, "1.00M"),
        (10**8, "100M"),
    ],
)
def test_numbers_on_the_gauge_are_short(number: int, text: str) -> None:
    assert short(number) == text


@pytest.mark.parametrize("form", FORMATS)
def test_the_cost_is_what_the_usage_comes_to_at_the_known_price(form: str) -> None:
    meter = Meter("claude-sonnet-4-5" if form == "anthropic" else "gpt-4o")
    answer = says("Done.", form)
    provider = Scripted([Reply(items=answer.items, usage=USAGES[form])], form)
    with AgentRunner(provider=provider, hooks=[meter]) as runner:
        asyncio.run(runner.run("Go."))
    price = meter.price
    assert price is not None
    written = 100 if form == "anthropic" else 0
    assert meter.dollars == pytest.approx(price.cost(1_000, 600, written) + price.answer(100))
    assert (meter.sent, meter.cached, meter.answered, meter.estimated) == (1_000, 600, 100, False)
    assert meter.cost() == f"${meter.dollars:.4f}"


def test_without_a_price_or_a_usage_it_is_tokens_and_an_estimate_says_so() -> None:
    unknown, uncounted = Meter("a-model-of-nobody"), Meter("gpt-4o")
    for meter, usage in ((unknown, USAGES["openai-chat"]), (uncounted, None)):
        provider = Scripted([Reply(items=says("Done.", "openai-chat").items, usage=usage)], "openai-chat")
        with AgentRunner(provider=provider, hooks=[meter]) as runner:
            asyncio.run(runner.run("Go."))
    assert unknown.cost() == "1.00k sent, 100 answered"
    assert uncounted.cost() == f"~{uncounted.tokens} sent"


# -- the terminal ------------------------------------------------------------------------------------------------------


def test_text_stays_line_by_line_and_the_answer_is_shown_once() -> None:
    meter = Meter(None)
    view, screen = at_terminal(meter)
    seen: list[str] = []

    def note(event: Event) -> None:
        if isinstance(event, TextDelta):
            seen.append(screen.getvalue())

    script: list[Line] = [says("I look\nat it.", "openai-chat", *reading(0)), "It is\n\x1b[31mthis\u202e."]
    watch(script, view, meter, [note])
    written = screen.getvalue()
    assert "\x1b[31m" not in written
    shown = stays(written)
    for part in ("I look", "at it.", "▸ read_file part=0", "It is", "\\x1b[31mthis\\u202e."):
        assert shown.count(part) == 1, part
    assert shown[-1] == ""
    assert shown[-2].startswith("context ")


def test_an_answer_that_no_model_said_is_shown_too() -> None:
    meter = Meter(None)
    view, screen = at_terminal(meter)
    view.close("(stopped after 3 rounds)")
    assert "(stopped after 3 rounds)\n" in screen.getvalue()


def test_what_the_provider_refuses_and_what_was_cut_is_shown() -> None:
    meter = Meter(None)
    view, screen = at_terminal(meter)
    watch(
        [*rounds([reading(turn) for turn in range(30)], "openai-chat", end=""), ProviderError("no more")], view, meter
    )
    shown = screen.getvalue()
    assert "✗ no more" in shown
    assert "✂ request" in shown
    assert "stale-tool-result" in shown


def test_a_question_is_asked_with_nothing_else_on_the_line() -> None:
    meter = Meter(None)
    view, screen = at_terminal(meter)
    view(TextDelta("half a line"))
    with view.pause() as stream:
        before = screen.getvalue()
        stream.write("? Run it?\n")
    view.close("")
    assert "half a line\n" in before
    assert "? Run it?\n" in screen.getvalue()[len(before) :]


# -- what is shown of calls and results --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ('{"path": "a.py", "start": 3}', ["path=a.py", "start=3"]),
        ('{"text": "one\\ntwo"}', ["text=one\\ntwo"]),
        ('{"deep": {"é": [1, null]}}', ['deep={"é": [1, null]}']),
        ("", []),
        ("[1, 2]", ["[1, 2]"]),
        ('{"cut o', ['{"cut o']),
        ("[" * 100_000, None),
        ({"path": "a.py"}, ["path=a.py"]),
        (None, []),
    ],
)
def test_arguments_are_shortened_however_they_are_written(arguments: Any, shown: list[str] | None) -> None:
    found = shortened(arguments)
    if shown is not None:
        assert found == shown
    assert all(len(each) < 200 for each in found)


def test_a_result_is_shown_by_its_head_and_its_tail() -> None:
    assert result("one\n") == ["one"]
    assert result("".join(f"{nth}\n" for nth in range(7))) == ["0", "1", "2", "3", "4", "5", "6"]
    assert result("".join(f"{nth}\n" for nth in range(1_008))) == [
        "0",
        "1",
        "2",
        "… 1,002 more lines …",
        "1005",
        "1006",
        "1007",
    ]
    [long] = result("x" * 100_000)
    assert len(long) < 250
    assert result("a\tb\r\n\x1b[2J") == ["a   b", "\\x1b[2J"]


def test_plain_lines_keep_the_answer_apart_from_what_led_to_it() -> None:
    meter = Meter(None)
    answers, people = _streams()
    watch([says("I look.", "openai-chat", *reading(0)), "It is this."], Lines(answers, people, meter), meter)
    assert answers.getvalue() == "It is this.\n"
    assert "I look.\n> read_file part=0\n" in people.getvalue()
    assert "It is this." not in people.getvalue()


def test_a_refused_call_is_shown_with_the_reason() -> None:
    answers, people = _streams()
    view = Lines(answers, people, Meter(None))
    view(ToolFinished(1, 0, "c", "exec", '{"command": "rm"}', "Not run.", error=True, ran=False))
    assert people.getvalue() == "> exec command=rm\n! Not run.\n"


@pytest.mark.parametrize(
    ("text", "number"), [("128000", 128_000), ("128_000", 128_000), ("128k", 128_000), ("1M", 1_000_000)]
)
def test_a_number_of_tokens_is_read_as_a_person_writes_it(text: str, number: int) -> None:
    assert tokens(text) == number


def _streams() -> tuple[io.StringIO, io.StringIO]:
    return io.StringIO(), io.StringIO()
