"""The only code that changes a request: a list of edits, and the function that applies them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import compress, count

import msgspec

from legato import traits
from legato.messages import Fields, Message, Transcript
from legato.pairing import Call, match

CONTINUED = ("previous_response_id", "conversation")
"""The fields of a body that name a conversation which the server holds (OpenAI Responses)."""

HEAD = -1
"""The `at` of an edit that replaces the head."""


class Request(msgspec.Struct, frozen=True, dict=True):
    """A head (every field of the body that is not the message list: system, tools, limits) and a transcript."""

    head: Fields
    transcript: Transcript
    altered: bool = False
    """Whether the head is not the one that came in."""

    @property
    def continues(self) -> bool:
        """Whether the server holds what came before: calls in it are answered here, and nothing new may be said."""
        return any(self.head.get(field) for field in CONTINUED)

    @property
    def thinks(self) -> bool | None:
        """Whether the body switches thinking on; None where it does not say."""
        thinking = self.head.get("thinking")
        kind = thinking.get("type") if isinstance(thinking, dict) else None
        return None if kind is None else kind in ("enabled", "adaptive")

    def index(self, at: int) -> int | None:
        """The caller's own index of the message at a position; of a synthetic one, that of its nearest neighbour."""
        if not self.transcript:
            return None
        origin = self.transcript[at].origin
        return origin[0] if origin else self._indexes[at]

    @cached_property
    def pairs(self) -> tuple[list[Call], list[tuple[int, int]]]:
        """The calls with their results, and the orphans: see `pairing.match`."""
        return match(self.transcript)

    @cached_property
    def traits(self) -> bytes:
        """The traits of each message: see `traits`."""
        return bytes(map(traits.of, self.transcript))

    def having(self, wanted: int) -> list[int]:
        """The positions of the messages that may have any of these traits."""
        return list(compress(count(), self.traits.translate(traits.mask(wanted))))

    @cached_property
    def _indexes(self) -> list[int | None]:
        found: list[int | None] = []
        before: int | None = None
        for message in self.transcript:
            before = message.origin[0] if message.origin else before
            found.append(before)
        after = next((index for index in found if index is not None), None)
        return [after if index is None else index for index in found]


class Edit(msgspec.Struct, frozen=True):
    """Put `new` where message `at` stands; no messages: it is dropped. At `HEAD`: put this `head`.

    `at` is a position in the transcript the edit was planned on, `about` that of the message at fault where it is
    another. `code` is the rule's, `reason` a sentence.
    """

    at: int
    new: tuple[Message, ...]
    code: str
    reason: str
    head: Fields | None = None
    about: int | None = None


def apply(request: Request, edits: Iterable[Edit]) -> Request:
    """The request with every edit done. The edits are disjoint: at most one a place."""
    put = {edit.at: edit for edit in edits}
    if not put:
        return request
    head = put.pop(HEAD).head if HEAD in put else None
    transcript: list[Message] = []
    known = bytearray()
    end = 0
    for at in sorted(put):
        new = put[at].new
        transcript += (*request.transcript[end:at], *new)
        known += request.traits[end:at] + bytes(map(traits.of, new))
        end = at + 1
    transcript += request.transcript[end:]
    known += request.traits[end:]
    made = Request(request.head if head is None else head, tuple(transcript), request.altered or head is not None)
    made.__dict__["traits"] = bytes(known)  # what is known of the messages that stay is not asked again
    return made
