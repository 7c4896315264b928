"""What an image costs: its dimensions, read from the first bytes of the file, put into a provider's formula."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

Size: TypeAlias = tuple[int, int]
"""Width and height in pixels."""

Formula: TypeAlias = Callable[[int, int, str], int]
"""Tokens from width, height and the wire's `detail` (empty where there is none)."""

UNKNOWN: Size = (1024, 1024)
"""What an image is taken for whose size cannot be read, such as one behind an address: 765 tokens in OpenAI's tiles."""

FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""The JPEG markers whose segment holds the dimensions."""


def size(start: bytes) -> Size | None:
    """The dimensions of a PNG, GIF, WebP or JPEG from its first bytes; None if they are not in there."""
    if start.startswith(b"\x89PNG\r\n\x1a\n") and len(start) >= 24:
        return int.from_bytes(start[16:20], "big"), int.from_bytes(start[20:24], "big")
    if start.startswith((b"GIF87a", b"GIF89a")) and len(start) >= 10:
        return int.from_bytes(start[6:8], "little"), int.from_bytes(start[8:10], "little")
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP" and len(start) >= 30:
        return _webp(start)
    if start.startswith(b"\xff\xd8"):
        return next(_jpeg(start), None)
    return None


def _webp(start: bytes) -> Size | None:
    kind = start[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(start[24:27], "little"), 1 + int.from_bytes(start[27:30], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(start[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        return int.from_bytes(start[26:28], "little") & 0x3FFF, int.from_bytes(start[28:30], "little") & 0x3FFF
    return None


def _jpeg(start: bytes) -> Iterator[Size]:
    """Walk the segments to the frame header: a thumbnail or colour profile before it may be long."""
    at = 2
    while at + 9 <= len(start) and start[at] == 0xFF:
        marker = start[at + 1]
        if marker in FRAMES:
            yield int.from_bytes(start[at + 7 : at + 9], "big"), int.from_bytes(start[at + 5 : at + 7], "big")
            return
        at += 1 if marker == 0xFF else 2 + int.from_bytes(start[at + 2 : at + 4], "big")


def tiles(base: int, tile: int) -> Formula:
    """OpenAI: fitted into 2048 x 2048, then the short side to 768; `base`, and `tile` for each 512 x 512."""

    def tokens(width: int, height: int, detail: str) -> int:
        if detail == "low":
            return base
        scales = ((1, 1), (2048, max(width, height)), (768, min(width, height)))
        over, under = min(scales, key=lambda scale: scale[0] / scale[1])
        return base + tile * _covering(width * over, 512 * under) * _covering(height * over, 512 * under)

    return tokens


def patches(factor: float) -> Formula:
    """OpenAI's small models: patches of 32 x 32, 1,536 at most, times a factor."""
    return lambda width, height, _: int(min(_covering(width, 32) * _covering(height, 32), 1536) * factor)


def pixels(width: int, height: int, _: str) -> int:
    """Anthropic: a token for 750 pixels, after the long side is fitted to 1,568 and the area to 1,600 tokens."""
    long = max(width, height, 1568)
    return min(1600, _covering(width * height * 1568 * 1568, 750 * long * long))


def squares(width: int, height: int, _: str) -> int:
    """Gemini: 258 tokens for a small image, or for each 768 x 768 of a larger one."""
    return 258 if max(width, height) <= 384 else 258 * _covering(width, 768) * _covering(height, 768)


def _covering(length: int, unit: int) -> int:
    """How many units it takes to cover a length."""
    return -(-length // unit)


FORMULAS: Mapping[str, Formula] = {
    "openai-tiles": tiles(85, 170),
    "openai-tiles-70-140": tiles(70, 140),
    "openai-tiles-75-150": tiles(75, 150),
    "openai-tiles-2833-5667": tiles(2833, 5667),
    "openai-patches-1.62": patches(1.62),
    "openai-patches-1.72": patches(1.72),
    "openai-patches-2.46": patches(2.46),
    "anthropic-pixels": pixels,
    "gemini-tiles": squares,
}
"""The formulas by the name under which a profile asks for one. OpenAI's with its numbers: base and tile, or factor."""
