"""Counting what a request costs, in tokens.

`text.py` counts one text, exactly and from memory. What it can count with is listed in `encodings.py`; `vocabulary.py`
builds it from files, and is loaded by the first count. `cost.py` adds up messages and heads; the overheads are in
`rates.py`, the text of tool schemas in `schema.py`. `media.py` prices what is not text, with the image formulas of
`images.py`.
"""

from legato.tokens.cost import head_tokens, message_tokens, most_tokens, tools_tokens
from legato.tokens.encodings import VocabularyError
from legato.tokens.media import Count
from legato.tokens.rates import CHAT, RATES, Rates
from legato.tokens.text import TextCounter, counter, counting

__all__ = [
    "CHAT",
    "RATES",
    "Count",
    "Rates",
    "TextCounter",
    "VocabularyError",
    "counter",
    "counting",
    "head_tokens",
    "message_tokens",
    "most_tokens",
    "tools_tokens",
]
