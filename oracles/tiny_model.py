"""A model file for llama.cpp of 40 KB: random weights, and a vocabulary of the 256 bytes, so that a token is a byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np

CONTEXT = 131_072
WIDTH, HIDDEN, HEADS = 32, 64, 4
NORMAL, CONTROL = 1, 3
SPECIAL = ("<|end|>", "<|im_start|>", "<|im_end|>")


def byte_alphabet() -> list[str]:
    """The printable character that stands for each byte in vocabularies of GPT-2's kind."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    return [chr(byte) if byte in kept else chr(next(spare)) for byte in range(256)]


def write(path: Path) -> None:
    alphabet = byte_alphabet()
    merged = alphabet[0] + alphabet[1]  # the loader wants one merge
    tokens = [*alphabet, *SPECIAL, merged]
    file = gguf.GGUFWriter(path, "llama")
    file.add_context_length(CONTEXT)
    file.add_embedding_length(WIDTH)
    file.add_block_count(1)
    file.add_feed_forward_length(HIDDEN)
    file.add_head_count(HEADS)
    file.add_head_count_kv(HEADS)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_vocab_size(len(tokens))
    file.add_tokenizer_model("gpt2")
    file.add_tokenizer_pre("gpt-2")
    file.add_token_list(tokens)
    file.add_token_merges([f"{alphabet[0]} {alphabet[1]}"])
    file.add_token_types([*[NORMAL] * 256, *[CONTROL] * len(SPECIAL), NORMAL])
    file.add_eos_token_id(256)
    file.add_bos_token_id(256)
    file.add_add_bos_token(False)
    for name, shape in _shapes(len(tokens)).items():
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
