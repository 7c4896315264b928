"""BODY, third part: media and the shapes of content."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from legato import traits
from legato.edits import Edit, Request
from legato.messages import SHOWN, Json, Media, Message, Opaque, Part, Text, ToolResult, changed
from legato.profiles import Profile
from legato.rules.violation import Fix, Rule, Violation, of_message
from legato.tokens import images
from legato.tokens.media import HEADS, file, leaves

PARTS = Rule("BODY011", "content-not-text", "The content is a list, or holds media, where the provider takes text.")
PIXELS = Rule("BODY012", "image-too-large", "An image is wider or higher than the provider takes.")
DOCUMENT = Rule("BODY013", "bad-document-name", "A document's name is refused, or used twice.")
OUTSIDE = Rule("BODY014", "media-outside-user", "A message that is not the user's holds media, where only his may.")
TABLE = (PARTS, PIXELS, DOCUMENT, OUTSIDE)

BELOW = "(shown in a message of its own)"
NO_MEDIA = "[{kind} left out: this model takes text only]"
TOO_LARGE = "[image left out: {width} x {height} pixels, at most {most} a side are taken]"


def find(request: Request, profile: Profile) -> Iterator[Violation]:
    """Every fault of this part. Where two fixes touch one message, the one found first goes first."""
    if profile.content != "any":
        yield from _parts(request, profile)
    if not {"system", "user", "assistant"}.issubset(profile.media_in):
        yield from _outside(request, profile)
    if profile.image_side_max or profile.many_images:
        yield from _images(request, profile)
    if profile.document_names:
        yield from _documents(request, profile)


def _parts(request: Request, profile: Profile) -> Iterator[Violation]:
    """Media become a text that says what is missing; where only a string is taken the texts become one."""
    for at in request.having(traits.RAW | traits.BLOCKS):
        message = request.transcript[at]
        parts = tuple([_plain_result(part, profile) for part in _plain(message.parts, profile)])
        if parts != message.parts:
            media = any(isinstance(part, Media | Opaque) for part in _all(message.parts))
            reason = "the content holds media" if media else "the content is a list"
            title = "leave them out" if media else "make it one text"
            new = changed(message, parts=parts)
            yield of_message(request, at, profile, PARTS, "content", reason, title, new, "lossy" if media else "safe")


def _outside(request: Request, profile: Profile) -> Iterator[Violation]:
    """Media of other roles go into a user message of their own, directly after; beside calls into one before."""
    for at in request.having(traits.RAW):
        message = request.transcript[at]
        role = "system" if message.is_system else message.role
        shown = tuple([part for part in message.parts if isinstance(part, Media)])
        if not shown or role in profile.media_in:
            continue
        rest = tuple([part for part in message.parts if not isinstance(part, Media)])
        kept = changed(message, parts=rest or (Text(BELOW, flat=True),))
        carrier = Message("user", (Text(SHOWN[role if role in SHOWN else "assistant"]), *shown), message.origin)
        where = request.index(at)
        reason = f"the {role} message holds {shown[0].kind}"
        new = (carrier, kept) if message.calls else (kept, carrier)
        fix = Fix("move it to a user message", "safe", (Edit(at, new, OUTSIDE.code, reason),))
        yield Violation(OUTSIDE.code, where, reason, profile.severity("media_in"), f"[{where}]", fix)


def _all(parts: tuple[Part, ...]) -> Iterator[Part]:
    for part in parts:
        yield part
        if isinstance(part, ToolResult):
            yield from part.parts


def _plain_result(part: Part, profile: Profile) -> Part:
    if not isinstance(part, ToolResult) or _plain(part.parts, profile) == part.parts:
        return part
    return changed(part, parts=_plain(part.parts, profile))


def _plain(parts: tuple[Part, ...], profile: Profile) -> tuple[Part, ...]:
    told = [Text(NO_MEDIA.format(kind=part.kind)) if isinstance(part, Media) else part for part in parts]
    texts = [part.text for part in told if isinstance(part, Text)]
    listed = any(isinstance(part, Text) and not part.flat for part in told)
    if profile.content == "text-parts" or not listed:
        return tuple(told)
    joined: list[Part] = []
    for part in told:
        if not isinstance(part, Text):
            joined.append(part)
        elif texts:
            joined.append(Text("\n".join(texts), flat=True))
            texts = []
    return tuple(joined)


def _images(request: Request, profile: Profile) -> Iterator[Violation]:
    """An image that is too large is replaced by a text. The newest one is spared if leaving out others is enough."""
    found = [
        (at, part)
        for at in request.having(traits.RAW)
        for part in _all(request.transcript[at].parts)
        if isinstance(part, Media) and part.kind == "image"
    ]
    side = profile.image_side_max
    surplus = max(0, len(found) - profile.many_images) if profile.many_images else 0
    wide = surplus and any(_side(part) > profile.many_image_side_max for _, part in found)
    gone: dict[int, dict[int, str]] = {}
    for nth, (at, part) in enumerate(found):
        if side and _side(part) > side:
            gone.setdefault(at, {})[id(part)] = _told(part, side)
        elif wide and nth < surplus:
            gone.setdefault(at, {})[id(part)] = _told(part, profile.many_image_side_max)
    for at, texts in gone.items():
        new = _map_media(request.transcript[at], texts)
        reason = f"{len(texts)} of {len(found)} images are too large, or too many of their size"
        fact = "many_images" if surplus else "image_side_max"
        yield of_message(request, at, profile, PIXELS, fact, reason, "leave the oldest out, and say so", new, "lossy")


def _side(part: Media) -> int:
    return max(_dimensions(part))


def _dimensions(part: Media) -> tuple[int, int]:
    """Width and height in pixels as the image's own header says; 0 where its bytes are not in the request."""
    for _, value in leaves(part.raw):
        found = file(value, sure=False)
        for length in HEADS if found else ():
            size = images.size(found.head(length)) if found else None
            if size is not None:
                return size
    return 0, 0


def _told(part: Media, most: int) -> str:
    width, height = _dimensions(part)
    return TOO_LARGE.format(width=width, height=height, most=most)


def _map_media(message: Message, texts: dict[int, str]) -> Message:
    def told(part: Part) -> Part:
        if isinstance(part, ToolResult):
            return changed(part, parts=tuple([told(inner) for inner in part.parts]))
        return Text(texts[id(part)]) if id(part) in texts else part

    return changed(message, parts=tuple([told(part) for part in message.parts]))


def _documents(request: Request, profile: Profile) -> Iterator[Violation]:
    taken: set[str] = set()
    for at in request.having(traits.RAW):
        message = request.transcript[at]
        renamed = {}
        for part in _all(message.parts):
            name = _name(part)
            if name is None or not isinstance(part, Media):
                continue
            plain = re.sub(r"\s+", " ", re.sub(r"[^A-Za-z0-9\s()\[\]-]", "-", name)).strip() or "document"
            new, step = plain, 2
            while new in taken:
                new, step = f"{plain} {step}", step + 1
            taken.add(new)
            if new != name:
                renamed[id(part)] = new
        if renamed:
            reason = f"document names are refused or used twice: now {', '.join(renamed.values())}"
            mended = changed(message, parts=tuple([_renamed(part, renamed) for part in message.parts]))
            yield of_message(request, at, profile, DOCUMENT, "document_names", reason, "rename it", mended, "safe")


def _name(part: Part) -> str | None:
    document: Json = part.raw.get("document") if isinstance(part, Media) and isinstance(part.raw, dict) else None
    name = document.get("name") if isinstance(document, dict) else None
    return name if isinstance(name, str) else None


def _renamed(part: Part, names: dict[int, str]) -> Part:
    if isinstance(part, ToolResult):
        return changed(part, parts=tuple([_renamed(inner, names) for inner in part.parts]))
    if isinstance(part, Media) and id(part) in names:
        return msgspec.structs.replace(
            part, raw={**part.raw, "document": {**part.raw["document"], "name": names[id(part)]}}
        )
    return part
