"""What providers charge besides text: constants fitted to the usage they reported for recorded requests."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from legato.errors import PolicyError
from legato.tokens.images import FORMULAS


class Rates(msgspec.Struct, frozen=True):
    """Overheads in tokens. The defaults are OpenAI's published chat rules and what GPT-4o and GPT-4.1 charged."""

    request: int = 3
    """Once: the start of the answer."""
    message: int = 3
    """Around each message. Its role is counted as text."""
    name: int = 1
    """For a message's name, besides its text."""
    tools: int = 3
    """Once, if there are tools."""
    call: int = 5
    """For each call, besides its arguments and twice its name (its result is shown under the name again)."""
    parallel: int = 7
    """For each call of a turn that has several, besides its name once more."""
    schema: int = 14
    """For a response schema, besides its text."""
    sealed: float = 0.15
    """For each character of encrypted reasoning: 5 bytes a token, as the o-series, GPT-5 and Gemini 3 seal it."""
    signatures: bool = False
    """Whether the reasoning sealed in the signature of a text or a call is charged (Gemini 3: yes, 2.5: no)."""
    image: str = "openai-tiles"
    """The formula for images, a key of `images.FORMULAS`."""

    def __post_init__(self) -> None:
        if self.image not in FORMULAS:
            raise PolicyError(f"no image formula {self.image!r}; there are: {', '.join(sorted(FORMULAS))}")


CHAT = Rates()

RATES: Mapping[str, Rates] = {
    "openai-chat": CHAT,
    "openai-o": Rates(request=2, tools=4, call=11, parallel=3, schema=11),
    "openai-gpt-5": Rates(request=2, tools=85, call=11, parallel=3, schema=11, image="openai-tiles-70-140"),
}
"""The sets that were measured, under the name by which a profile asks for one."""
