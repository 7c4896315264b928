"""What the provider's cache keeps, by its rules, on lengths that are counted by hand."""

from __future__ import annotations

from legato.replay.cache import Cache, Hit
from legato.replay.prices import Caching

AUTOMATIC = Caching(how="automatic", minimum=100, block=50, ttl=300, source="test", date="2026-01")
EXPLICIT = Caching(how="explicit", minimum=100, lookback=3, ttl=300, source="test", date="2026-01")


def test_automatic_caching_gives_whole_blocks_of_the_common_prefix() -> None:
    cache = Cache(AUTOMATIC)
    assert cache.ask([0, 60, 130], [0, 1, 2], -1, 0, None) == Hit(0, 130)
    assert cache.ask([0, 60, 130, 190], [0, 1, 2, 3], 2, 0, None) == Hit(100, 90)
    assert cache.ask([0, 60, 200], [0, 1, 2], 1, 0, None) == Hit(0, 200), "60 tokens are below the minimum"


def test_a_request_below_the_minimum_is_neither_read_nor_written() -> None:
    cache = Cache(AUTOMATIC)
    assert cache.ask([0, 60], [0, 1], -1, 0, None) == Hit(0, 0)


def test_what_was_not_used_for_too_long_is_forgotten() -> None:
    cache = Cache(AUTOMATIC)
    cache.ask([0, 200], [0, 1], -1, 0, 1_000.0)
    assert cache.ask([0, 200, 210], [0, 1, 2], 1, 0, 1_300.0) == Hit(200, 10)
    assert cache.ask([0, 200, 210, 220], [0, 1, 2, 3], 2, 0, 1_601.0) == Hit(0, 220)


def test_a_changed_head_is_cached_nowhere() -> None:
    cache = Cache(AUTOMATIC)
    cache.ask([300, 400], [0, 1], -1, 0, None)
    assert cache.ask([310, 410], [0, 1], -1, 0, None).cached == 0


def test_explicit_caching_finds_the_end_of_the_request_before() -> None:
    cache = Cache(EXPLICIT)
    assert cache.ask([0, 120, 150], [0, 1, 2], -1, 1, None) == Hit(0, 150)
    assert cache.ask([0, 120, 150, 170], [0, 1, 2, 3], 2, 1, None) == Hit(150, 20)


def test_explicit_caching_after_a_cut_has_only_the_entry_after_the_head() -> None:
    cache = Cache(EXPLICIT)
    cache.ask([0, 120, 150, 400], [0, 1, 2, 3], -1, 1, None)
    assert cache.ask([0, 120, 150, 160, 500], [0, 1, 2, 3, 4], 2, 1, None) == Hit(120, 380)


def test_explicit_caching_does_not_look_back_further_than_its_blocks() -> None:
    cache = Cache(EXPLICIT)
    cache.ask([0, 50, 150], [0, 1, 2], -1, 0, None)
    assert cache.ask([0, 50, 150, 160], [0, 1, 2, 6], 2, 0, None) == Hit(0, 160), "four blocks before the marker"


def test_an_entry_of_an_earlier_request_is_found_where_the_newest_is_gone() -> None:
    cache = Cache(EXPLICIT)
    cache.ask([0, 150], [0, 1], -1, 0, None)
    cache.ask([0, 150, 200], [0, 1, 2], 1, 0, None)
    assert cache.ask([0, 150, 190], [0, 1, 2], 1, 0, None) == Hit(150, 40)
