"""A calibration that is given to `govern` corrects what is counted and what is taken to fit."""

from __future__ import annotations

import legato
from legato.calibration import Calibration

HISTORY = [{"role": "user", "content": f"word {at} " * 20} for at in range(40)]


def govern(calibration: Calibration | None = None, window: int | None = 100_000) -> legato.Report:
    policy = legato.Policy(window=window, max_output=0, reserve=0)
    return legato.govern(HISTORY, profile="openai", policy=policy, calibration=calibration).report


def test_the_factor_multiplies_every_count() -> None:
    plain, doubled = govern(), govern(Calibration(2.0))
    assert plain.tokens_in * 2 == doubled.tokens_in
    assert doubled.changes == ()


def test_what_fitted_by_the_plain_count_is_cut_by_the_corrected_one() -> None:
    window = govern().tokens_in + 10
    assert govern(window=window).changes == ()
    report = govern(Calibration(1.5), window)
    assert report.changes
    assert report.tokens_out <= window
    assert report.tokens_in + sum(change.tokens for change in report.changes) == report.tokens_out


def test_a_limit_that_was_learnt_is_the_budget() -> None:
    report = govern(Calibration(limit=500))
    assert report.budget == 500
    assert report.tokens_out <= 500


def test_a_family_without_a_public_vocabulary_is_counted_with_its_factor_and_a_counter_of_ones_own_without() -> None:
    def words(text: str) -> int:
        return len(text.split())

    tokens = {}
    for profile in ("openai", "anthropic:claude-sonnet-4-5"):
        counted = legato.govern(HISTORY, profile=profile, policy=legato.Policy()).report.tokens_in
        own = legato.govern(HISTORY, profile=profile, policy=legato.Policy(counter=words)).report.tokens_in
        tokens[profile] = (counted, own)
    (openai, openai_own), (claude, claude_own) = tokens.values()
    assert claude > 1.2 * openai
    assert abs(claude_own - openai_own) < 0.1 * openai_own
