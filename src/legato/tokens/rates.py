"""What providers charge besides text: constants fitted to the usage they reported for recorded requests."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

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
    json: bool = False
    """Whether tools are shown as JSON, a line each, and not as a namespace of functions."""
    call: int = 5
    """For each call, besides its arguments and twice its name (its result is shown under the name again)."""
    parallel: int = 7
    """For each call of a turn that has several, besides its name once more."""
    quoted: bool = False
    """Whether the text of a result is shown as a JSON string."""
    schema: int = 14
    """For a response schema, besides its text."""
    sealed: float = 0.15
    """For each character of encrypted reasoning: 5 bytes a token, as the o-series and GPT-5 seal it."""
    signatures: bool = False
    """Whether the reasoning sealed in the signature of a text or a call is charged (Gemini 3: yes, 2.5: no)."""
    image: str = "openai-tiles"
    """The formula for images, a key of `images.FORMULAS`."""

    def __post_init__(self) -> None:
        if self.image not in FORMULAS:
            raise PolicyError(f"no image formula {self.image!r}; there are: {', '.join(sorted(FORMULAS))}")


CHAT = Rates()
REASONING = Rates(request=2, tools=4, call=11, parallel=3, schema=11)
RESPONSES = Rates(tools=-3, call=3, parallel=0)
GEMINI = Rates(request=0, message=0, tools=20, call=10, parallel=0, sealed=0.17, signatures=True, image="gemini-tiles")

RATES: Mapping[str, Rates] = {
    "openai-chat": CHAT,
    "openai-chat-4o-mini": replace(CHAT, image="openai-tiles-2833-5667"),
    "openai-chat-4.1-mini": replace(CHAT, image="openai-patches-1.62"),
    "openai-chat-4.1-nano": replace(CHAT, image="openai-patches-2.46"),
    "openai-chat-o": replace(REASONING, image="openai-tiles-75-150"),
    "openai-chat-gpt-5": replace(REASONING, tools=85, image="openai-tiles-70-140"),
    "openai-responses": RESPONSES,
    "openai-responses-reasoning": replace(RESPONSES, request=2, tools=2, call=9, image="openai-tiles-70-140"),
    "anthropic": Rates(request=18, tools=550, call=40, schema=220, image="anthropic-pixels"),
    "gemini": GEMINI,
    "gemini-2": replace(GEMINI, signatures=False),
    "harmony": Rates(request=67, tools=20, call=8, schema=60),
    "llama": Rates(request=31),
    "template-gpt-oss": Rates(request=73, message=4, tools=30, call=18, schema=60, quoted=True),
    "template-llama": Rates(request=33, message=4, tools=110, call=14, json=True, quoted=True),
    "template": Rates(request=20, message=4, tools=100, call=22, json=True),
    "template-apertus": Rates(request=56, message=1, tools=20, call=3),
    "template-gemma": Rates(request=12, message=4, tools=75, call=22, json=True),
    "template-minimax": Rates(request=24, message=7, tools=120, call=35, json=True),
    "template-mistral": Rates(request=10, message=0, tools=20, call=12, json=True),
    "template-mistral-nemo": Rates(request=10, message=0, tools=20, call=36, json=True),
    "template-qwen": Rates(request=6, message=4, tools=210, call=18, json=True),
    "llama-4": Rates(request=3, tools=690),
    "grok": Rates(request=180, tools=170, call=100, parallel=50),
    "glm": Rates(request=6, tools=165),
    "kimi": Rates(tools=85, call=15),
    "mistral": Rates(request=10, tools=55),
    "nova": Rates(tools=310),
    "deepseek": Rates(tools=300, call=25),
    "deepseek-responses": Rates(request=74, tools=240, call=20),
    "qwen": Rates(request=6, tools=230, schema=80),
}
"""The sets by the name under which a profile asks for one.

OpenAI's were fitted to the recordings that the tests check them on, and hold for Azure's, which were not used. Gateways
that pass GPT-5 on to the Responses API do not charge the 85. The others are rough, with a vocabulary that is not the
model's: half of the recorded requests with tools are within 14 % (Claude) and 29 % (Gemini) of what was charged. From
"harmony" (gpt-oss) on they hold what the model's template or its provider puts before a request, on the safe side.
"""
