"""What images, audio, video and documents cost. Their bytes are never counted as text.

The bytes are looked for anywhere inside a part, so that every wire's shape is understood: a data URL, base64 text
that starts like a file does, or raw bytes. Images go by formula (`images.py`). The rest are estimates: sounds by
Gemini's 32 tokens a second (16 kB unless a WAV says otherwise), films by its 263 (250 kB), PDF at 2,000 tokens a
page (50 kB; Anthropic names 1,500 to 3,000), other documents at 3 bytes a token. What stands behind an address or a
file id costs the flat figure of its kind.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from legato.errors import WireError
from legato.messages import Json, Media
from legato.tokens import images
from legato.tokens.rates import CHAT, Rates

Count: TypeAlias = Callable[[str], int]
"""The tokens of a text."""

FLAT: Mapping[str, int] = {"audio": 32 * 60, "video": 263 * 60, "document": 2000}
"""What is charged for media that cannot be seen: a minute, a minute, a page. Images: `images.UNKNOWN`."""

MAGIC = (
    (b"\x89PNG", "image"),
    (b"\xff\xd8\xff", "image"),
    (b"GIF8", "image"),
    (b"%PDF", "document"),
    (b"ID3", "audio"),
    (b"OggS", "audio"),
    (b"fLaC", "audio"),
)
RIFF = {b"WEBP": "image", b"WAVE": "audio", b"AVI ": "video"}
"""How files start, and what they are then."""

WRITTEN = ("text", "data", "title", "context", "content")
"""The fields of a document that the model reads as text."""

DATA_URL = re.compile(r"data:[^,;]{0,100}(?:;[^,;]{0,100}){0,4};base64,")
BASE64 = re.compile(r"[A-Za-z0-9+/_\-\r\n]{64,}={0,2}[\r\n]*")
ALPHABET = str.maketrans("-_", "+/", "\r\n")

HEADS = (4_096, 65_536, 1_048_576)
"""How many bytes are decoded to find the size of a JPEG, in turn: a colour profile may come first."""


VALUES = 500_000
"""How many values inside a part are looked at."""


class File(msgspec.Struct, frozen=True):
    """Bytes found in a part: base64 in `text` from `start` on, or `data`. `kind` is empty if not recognised."""

    kind: str
    text: str = ""
    start: int = 0
    data: bytes = b""

    @property
    def length(self) -> int:
        return len(self.data) or (len(self.text) - self.start) * 3 // 4

    def head(self, length: int) -> bytes:
        """The first bytes, at least `length` of them. Empty if the base64 is broken."""
        return self.data[:length] or _decoded(self.text, self.start, length)


def media_tokens(media: Media, count: Count, rates: Rates = CHAT) -> int:
    """The tokens of one media part."""
    tokens, detail = 0, ""
    files: list[File] = []
    for key, value in leaves(media.raw):
        found = file(value, sure=False)
        if found is not None:
            files.append(found)
        elif key == "detail":
            detail = str(value)
        elif media.kind == "document" and key in WRITTEN and isinstance(value, str):
            tokens += count(value)
    if not files and not tokens:
        return FLAT.get(media.kind) or _image(None, detail, rates)
    return tokens + sum(_file(found, found.kind or media.kind, detail, rates) for found in files)


def file_tokens(found: File, rates: Rates = CHAT) -> int:
    """The tokens of a file found outside a media part."""
    return _file(found, found.kind, "", rates)


def leaves(value: Json) -> Iterator[tuple[str, str | bytes]]:
    """Every text and byte string inside a JSON value, with the field it is in (of a list: the list's field).

    Raises `WireError` for a value that has no end.
    """
    left: list[tuple[str, Json]] = [("", value)]
    seen = 0
    while left:
        key, value = left.pop()
        if isinstance(value, str | bytes | bytearray):
            yield key, bytes(value) if isinstance(value, bytearray) else value
        elif isinstance(value, Mapping):
            left.extend((name, each) for name, each in value.items() if str(name)[:1] != "_")
        elif isinstance(value, list | tuple):
            left.extend((key, each) for each in value)
        seen += 1
        if seen > VALUES:
            raise WireError("", f"holds more than {VALUES:,} values, or itself")


def file(value: str | bytes, sure: bool = True) -> File | None:
    """The file a string holds, if any. `sure`: base64 alone will not do, it must start like a known kind of file."""
    if isinstance(value, bytes):
        return File(_kind(value[:16]), data=value)
    url = DATA_URL.match(value)
    if url is not None:
        return File(_kind(_decoded(value, url.end(), 16)), value, url.end())
    if BASE64.fullmatch(value, 0, 256) is None:
        return None
    kind = _kind(_decoded(value, 0, 16))
    return None if sure and not kind else File(kind, value)


def _kind(head: bytes) -> str:
    if head[:4] == b"RIFF":
        return RIFF.get(head[8:12], "")
    if head[4:8] == b"ftyp":
        return "audio" if head[8:11] == b"M4A" else "video"
    return next((kind for magic, kind in MAGIC if head.startswith(magic)), "")


def _decoded(text: str, start: int, length: int) -> bytes:
    """About `length` bytes of the base64 that starts there. Empty if it is broken."""
    digits = text[start : start + length * 4 // 3 + 8].translate(ALPHABET)
    try:
        return binascii.a2b_base64(digits[: len(digits) // 4 * 4])
    except (binascii.Error, ValueError):
        return b""


def _file(found: File, kind: str, detail: str, rates: Rates) -> int:
    if kind == "image":
        return _image(found, detail, rates)
    if kind == "audio":
        head = found.head(32)
        rate = int.from_bytes(head[28:32], "little") if head[8:12] == b"WAVE" else 16_000
        return 1 + 32 * found.length // (rate or 16_000)
    if kind == "video":
        return 1 + 263 * found.length // 250_000
    return 2000 * (1 + found.length // 50_000) if found.head(4).startswith(b"%PDF") else 1 + found.length // 3


def _image(found: File | None, detail: str, rates: Rates) -> int:
    width, height = (_size(found) if found else None) or images.UNKNOWN
    return images.FORMULAS[rates.image](max(width, 1), max(height, 1), detail)


def _size(found: File) -> images.Size | None:
    for length in HEADS:
        head = found.head(length)
        size = images.size(head)
        if size is not None or not head.startswith(b"\xff\xd8"):
            return size
    return None
