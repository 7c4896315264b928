"""What a governed request saved, in dollars, with the provider's prompt cache reckoned on both sides."""

from __future__ import annotations

import msgspec

from legato.replay.prices import Price


class Sent(msgspec.Struct, frozen=True):
    """A request of a conversation: when it was sent (seconds), what came in, what went out (tokens)."""

    time: float
    tokens_in: int
    tokens_out: int


def saved(now: Sent, before: Sent | None, kept: float | None, price: Price) -> float:
    """What all that came in would have cost, less what was sent. Below zero where a cut broke the cached prefix.

    `kept` is the share of what was sent `before` that begins what is sent `now`. Without legato all of what came in
    before would have been found in the cache, which is the dearest assumption for legato: what it saves is not less.
    """
    ttl = price.rules.ttl
    is_warm = before is not None and price.rules.how != "none" and (ttl is None or now.time - before.time <= ttl)
    cached_in = min(before.tokens_in, now.tokens_in) if before is not None and is_warm else 0
    cached_out = min(int(before.tokens_out * (kept or 0)), now.tokens_out) if before is not None and is_warm else 0
    return _cost(now.tokens_in, cached_in, price) - _cost(now.tokens_out, cached_out, price)


def _cost(tokens: int, cached: int, price: Price) -> float:
    least, block = price.rules.minimum, price.rules.block
    found = cached // block * block if cached >= least else 0
    return price.cost(tokens, found, tokens - found if tokens >= least else 0)
