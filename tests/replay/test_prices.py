"""The price table is whole, and a model is found by any name it goes by."""

from __future__ import annotations

import pytest

from legato.replay import prices


@pytest.mark.parametrize("model", prices.models())
def test_every_price_has_a_source_a_date_and_rules(model: str) -> None:
    found = prices.price(model)
    assert found is not None
    assert all((found.source, found.date, found.rules.source, found.rules.date))
    assert min(found.input, found.output) > 0
    assert found.cached is None or found.cached < found.input
    assert found.write is None or found.write >= found.input


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1%3A0", "claude-sonnet-4-5"),
        ("anthropic/claude-opus-4-5", "claude-opus-4-5"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("openai/GPT-4o-mini", "gpt-4o-mini"),
        ("us.amazon.nova-micro-v1:0", "amazon.nova-micro-v1:0"),
    ],
)
def test_a_model_is_found_with_a_provider_before_it_and_a_date_after_it(name: str, known: str) -> None:
    found = prices.price(name)
    assert found is not None
    assert found.name == known


@pytest.mark.parametrize("name", ["gpt-4o-audio", "claude", "some-model", "", None, "...", "a.b.c"])
def test_another_model_has_no_price(name: str | None) -> None:
    assert prices.price(name) is None


def test_a_request_costs_what_was_read_what_was_written_and_the_rest() -> None:
    found = prices.price("claude-sonnet-4-5")
    assert found is not None
    assert found.cost(1_000_000, 400_000, 500_000) == pytest.approx(0.4 * 0.3 + 0.5 * 3.75 + 0.1 * 3.0)
    assert found.answer(2_000_000) == pytest.approx(30.0)


def test_where_writing_costs_nothing_it_costs_the_input() -> None:
    found = prices.price("gpt-4o")
    assert found is not None
    assert found.cost(1_000_000, 0, 1_000_000) == pytest.approx(2.5)


def test_the_reference_has_a_price() -> None:
    assert prices.reference().name in prices.models()
