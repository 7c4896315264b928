"""Model files for llama.cpp with random weights, whose answers are noise: a vocabulary of bytes, or one of real words.

The byte model is 40 KB, and a token of it is a byte. The word model has the first 32,768 tokens of o200k_base (a
byte-pair vocabulary cut short is one still), so that a text has about the tokens it has for a real model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import gguf
import numpy as np

from legato.tokens.vocabulary import encoding

CONTEXT = 131_072
WIDTH, HIDDEN, HEADS = 32, 64, 1
NORMAL, CONTROL = 1, 3
SPECIAL = ("<|end|>", "<|im_start|>", "<|im_end|>")
WORDS = 32_768

Pair = tuple[str, str]


class Vocabulary(NamedTuple):
    """Tokens in the printable alphabet of GPT-2's kind, the merges that make them, and how a text is cut before."""

    tokens: Sequence[str]
    merges: Sequence[Pair]
    cut: str


def byte_alphabet() -> list[str]:
    """The printable character that stands for each byte in vocabularies of GPT-2's kind."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    return [chr(byte) if byte in kept else chr(next(spare)) for byte in range(256)]


def single_bytes() -> Vocabulary:
    alphabet = byte_alphabet()
    first = (alphabet[0], alphabet[1])  # the loader wants one merge
    return Vocabulary([*alphabet, "".join(first)], [first], "gpt-2")


def words() -> Vocabulary:
    """The most frequent tokens of o200k_base, and the merges that its ranks stand for.

    Texts are cut as Llama 3 cuts them, for which llama.cpp has fast code.
    """
    alphabet = byte_alphabet()
    published = encoding("o200k_base")
    kept = [published.decode_single_token_bytes(number) for number in range(WORDS)]
    rank = {token: number for number, token in enumerate(kept)}

    def shown(token: bytes) -> str:
        return "".join(alphabet[byte] for byte in token)

    merges = [_halves(token, rank) for token in kept if len(token) > 1]
    return Vocabulary(
        [shown(token) for token in kept], [(shown(left), shown(right)) for left, right in merges], "llama-bpe"
    )


def _halves(token: bytes, rank: Mapping[bytes, int]) -> tuple[bytes, bytes]:
    """The two tokens of lower rank that this one is merged of."""
    pieces = [bytes([byte]) for byte in token]
    while len(pieces) > 2:
        joined = [rank.get(left + right, len(rank)) for left, right in pairwise(pieces)]
        at = joined.index(min(joined))
        pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
    return pieces[0], pieces[1]


def write(path: Path, vocabulary: Vocabulary | None = None, special: Sequence[str] = SPECIAL) -> None:
    """A model with that vocabulary (none: the bytes) and the tokens that only a template writes."""
    tokens, merges, cut = vocabulary or single_bytes()
    size = len(tokens) + len(special)
    file = gguf.GGUFWriter(path, "llama")
    file.add_context_length(CONTEXT)
    file.add_embedding_length(WIDTH)
    file.add_block_count(1)
    file.add_feed_forward_length(HIDDEN)
    file.add_head_count(HEADS)
    file.add_head_count_kv(HEADS)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_vocab_size(size)
    file.add_tokenizer_model("gpt2")
    file.add_tokenizer_pre(cut)
    file.add_token_list([*tokens, *special])
    file.add_token_merges([f"{left} {right}" for left, right in merges])
    file.add_token_types([*[NORMAL] * len(tokens), *[CONTROL] * len(special)])
    file.add_eos_token_id(len(tokens))
    file.add_bos_token_id(len(tokens))
    file.add_add_bos_token(False)
    for name, shape in _shapes(size).items():
        file.add_tensor(f"{name}.weight", _weights(shape))
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def _shapes(vocabulary: int) -> dict[str, tuple[int, ...]]:
    squares = {f"blk.0.attn_{part}": (WIDTH, WIDTH) for part in ("q", "k", "v", "output")}
    return {
        "token_embd": (vocabulary, WIDTH),
        "output_norm": (WIDTH,),
        "blk.0.attn_norm": (WIDTH,),
        "blk.0.ffn_norm": (WIDTH,),
        **squares,
        "blk.0.ffn_gate": (HIDDEN, WIDTH),
        "blk.0.ffn_up": (HIDDEN, WIDTH),
        "blk.0.ffn_down": (WIDTH, HIDDEN),
    }


def _weights(shape: tuple[int, ...]) -> Any:
    """An array of that shape: norms are ones, matrices small and random."""
    if len(shape) == 1:
        return np.ones(shape, np.float32)
    return (np.random.default_rng(0).standard_normal(shape) * 0.02).astype(np.float16)
