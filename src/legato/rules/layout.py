"""PAIR, second part: how the calls and results of one turn are laid out, once every call has its result.

These are planned on paired transcripts: what `pair` finds is mended first.
"""

from __future__ import annotations

from collections.abc import Iterator

from legato import traits
from legato.edits import Request
from legato.messages import (
    SHOWN,
    Media,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Transcript,
    changed,
    without,
)
from legato.pairing import Call, turns
from legato.profiles import Profile
from legato.rules.violation import Rule, Violation, violation

PARALLEL = Rule("PAIR007", "parallel-calls", "A turn calls several tools, where the provider takes one call a turn.")
BESIDE = Rule("PAIR008", "content-beside-results", "A message with tool results holds something else too.")
MEDIA = Rule("PAIR009", "media-in-result", "A tool result holds media that the model does not get to see there.")
ERROR = Rule("PAIR010", "empty-error-result", "A tool result that is flagged as an error is empty.")
NAMELESS = Rule("PAIR011", "nameless-result", "A tool result does not carry the name of its tool.")
BETWEEN = Rule("PAIR012", "interleaved-calls", "Something stands between the calls of one turn.")
FLAGGED = Rule("PAIR013", "refused-error-flag", "A tool result says whether it failed, and the provider refuses that.")
TABLE = (PARALLEL, BESIDE, MEDIA, ERROR, NAMELESS, BETWEEN, FLAGGED)

STATUS = "status"
KINDS = ("image", "audio", "video", "document")
SEEN_BELOW = "[The {kind} follows below.]"
"""The text of a result whose only content was moved."""
FAILED = "error"
"""The text of an error result that says nothing."""


def find(request: Request, profile: Profile) -> Iterator[Violation]:
    """Every fault of this part. Where two fixes touch one message, the one found first goes first."""
    calls, orphans = request.pairs
    if not calls or orphans:
        return
    if not profile.parallel_calls:
        yield from _parallel(request, calls, profile)
    if profile.calls_contiguous:
        yield from _between(request, calls, profile)
    if profile.result_names:
        yield from _nameless(request, calls, profile)
    if not profile.error_flags:
        yield from _flags(request, profile)
    if not profile.empty_error_results:
        yield from _empty_errors(request, profile)
    if len(profile.result_media) < len(KINDS) and request.having(traits.RAW):
        yield from _media(request, calls, profile)
    if profile.results_alone:
        yield from _beside(request, profile)


def _parallel(request: Request, calls: list[Call], profile: Profile) -> Iterator[Violation]:
    """A turn of several calls becomes one turn a call, each with its result."""
    transcript = request.transcript
    for _, turn in turns(transcript, calls, profile.pairs_by_run):
        answers = {id(call): call.results[0] for call in turn if len(call.results) == 1}
        if len(turn) < 2 or len(answers) < len(turn):
            continue
        edits: dict[int, tuple[Message, ...]] = {}
        for at in dict.fromkeys(call.at for call in turn):
            message = transcript[at]
            own = [call for call in turn if call.at == at]
            new: list[Message] = []
            for call in own:
                said = tuple([part for part in message.parts if part not in message.calls]) if call is own[0] else ()
                parts = (*said, call.call)
                new.append(changed(message, parts=parts) if call is own[0] else Message("assistant", parts))
                new.append(_moved(transcript, answers[id(call)], profile))
            edits[at] = tuple(new)
        for place in dict.fromkeys(place for place, _ in answers.values()):
            rest = tuple([part for part in transcript[place].parts if not isinstance(part, ToolResult)])
            edits[place] = (changed(transcript[place], parts=rest),) if rest else ()
        reason = f"a turn calls {len(turn)} tools at once"
        title = "make it one turn a call"
        yield violation(request, turn[0].at, profile, PARALLEL, "parallel_calls", reason, title, edits)


def _moved(transcript: Transcript, answer: tuple[int, int], profile: Profile) -> Message:
    """A result as a message of its own: the very message if it holds nothing else."""
    place, part = answer
    whole = transcript[place]
    role = "tool" if profile.results_in == "tool" else "user"
    return whole if len(whole.parts) == 1 else Message(role, (whole.parts[part],))


def _between(request: Request, calls: list[Call], profile: Profile) -> Iterator[Violation]:
    """What the assistant said between the calls of one turn is said before them."""
    for _, turn in turns(request.transcript, calls, profile.pairs_by_run):
        places = range(turn[0].at, turn[-1].at + 1)
        run = [request.transcript[at] for at in places]
        if not any(_says(message) for message in run[1:]):
            continue
        said = [_split(message, says=True) for message in run if _says(message)]
        edits: dict[int, tuple[Message, ...]] = {}
        for at, message in zip(places, run, strict=True):
            kept = _split(message, says=False)
            edits[at] = (kept,) if kept.parts else ()
        edits[turn[0].at] = (*said, *edits[turn[0].at])
        moved = {at: new for at, new in edits.items() if new != (request.transcript[at],)}
        reason = "something stands between the calls of one turn"
        yield violation(request, turn[0].at, profile, BETWEEN, "calls_contiguous", reason, "say it before them", moved)


def _says(message: Message) -> bool:
    return any(not isinstance(part, ToolCall | Reasoning) for part in message.parts)


def _split(message: Message, says: bool) -> Message:
    """The message with only what it says, or with only its calls and their reasoning: itself if that is all of it."""
    parts = tuple([part for part in message.parts if isinstance(part, ToolCall | Reasoning) is not says])
    return message if len(parts) == len(message.parts) else changed(message, parts=parts)


def _nameless(request: Request, calls: list[Call], profile: Profile) -> Iterator[Violation]:
    named: dict[int, dict[int, str]] = {}
    for call in calls:
        for at, part in call.results:
            result = request.transcript[at].parts[part]
            if isinstance(result, ToolResult) and not result.name and call.call.name:
                named.setdefault(at, {})[part] = call.call.name
    for at, names in named.items():
        message = request.transcript[at]
        parts = tuple([_with_name(part, names.get(i)) for i, part in enumerate(message.parts)])
        reason = f"a result does not say that it is of {', '.join(names.values())}"
        edits: dict[int, tuple[Message, ...]] = {at: (changed(message, parts=parts),)}
        yield violation(request, at, profile, NAMELESS, "result_names", reason, "add the name", edits)


def _with_name(part: Part, name: str | None) -> Part:
    return changed(part, name=name) if isinstance(part, ToolResult) and name else part


def _flags(request: Request, profile: Profile) -> Iterator[Violation]:
    for at, message in enumerate(request.transcript):
        if any(result.error or STATUS in result.extra for result in message.results):
            parts = tuple([_unflagged(part) for part in message.parts])
            edits: dict[int, tuple[Message, ...]] = {at: (changed(message, parts=parts),)}
            reason = "a result says whether it failed"
            yield violation(request, at, profile, FLAGGED, "error_flags", reason, "drop the flag", edits, "lossy")


def _unflagged(part: Part) -> Part:
    if not isinstance(part, ToolResult):
        return part
    return changed(part, error=False, extra=without(part.extra, STATUS))


def _empty_errors(request: Request, profile: Profile) -> Iterator[Violation]:
    for at in request.having(traits.BARE | traits.BLANK):
        message = request.transcript[at]
        if any(_is_empty_error(part) for part in message.parts):
            parts = tuple([_with_text(part) if _is_empty_error(part) else part for part in message.parts])
            edits: dict[int, tuple[Message, ...]] = {at: (changed(message, parts=parts),)}
            reason = "an error result is empty"
            yield violation(request, at, profile, ERROR, "empty_error_results", reason, "say that it failed", edits)


def _is_empty_error(part: Part) -> bool:
    if not isinstance(part, ToolResult) or not part.error:
        return False
    return all(isinstance(inner, Text) and not inner.text.strip() for inner in part.parts)


def _with_text(part: Part) -> Part:
    assert isinstance(part, ToolResult)
    rest = without(part.extra, "content")
    return changed(part, parts=(Text(FAILED, flat=True),), extra=rest)


def _media(request: Request, calls: list[Call], profile: Profile) -> Iterator[Violation]:
    """Media that a result may not hold go into a user message after all results of the turn."""
    allowed = profile.result_media
    transcript = request.transcript
    for end, turn in turns(transcript, calls, profile.pairs_by_run):
        places = sorted({at for call in turn for at, _ in call.results if at > end})
        moved = [part for at in places for part in _taken(transcript[at], allowed)]
        if not moved:
            continue
        edits: dict[int, tuple[Message, ...]] = {}
        for at in places:
            if _taken(transcript[at], allowed):
                edits[at] = (
                    changed(transcript[at], parts=tuple([_left(part, allowed) for part in transcript[at].parts])),
                )
        last = places[-1]
        carrier = edits.get(last, (transcript[last],))[0]
        shown: tuple[Part, ...] = (Text(SHOWN["tool"]), *moved)
        if profile.results_in == "tool":
            edits[last] = (carrier, Message("user", shown))
        else:
            edits[last] = (changed(carrier, parts=(*carrier.parts, *shown)),)
        kinds = ", ".join(dict.fromkeys(part.kind for part in moved))
        reason = f"a tool result holds {kinds}"
        title = "move it to a user message after the results"
        yield violation(request, places[0], profile, MEDIA, "result_media", reason, title, edits)


def _taken(message: Message, allowed: tuple[str, ...]) -> list[Media]:
    inner = [part for result in message.results for part in result.parts]
    return [part for part in inner if isinstance(part, Media) and part.kind not in allowed]


def _left(part: Part, allowed: tuple[str, ...]) -> Part:
    if not isinstance(part, ToolResult):
        return part
    gone = [inner for inner in part.parts if isinstance(inner, Media) and inner.kind not in allowed]
    if not gone:
        return part
    kept = tuple([inner for inner in part.parts if inner not in gone])
    return changed(part, parts=kept or (Text(SEEN_BELOW.format(kind=gone[0].kind), flat=True),))


def _beside(request: Request, profile: Profile) -> Iterator[Violation]:
    for at, message in enumerate(request.transcript):
        results = message.results
        if not results or message.role == "assistant" or len(results) == len(message.parts):
            continue
        others = tuple([part for part in message.parts if not isinstance(part, ToolResult)])
        split = (changed(message, parts=results), Message("user", others, message.origin))
        reason = "a message with tool results holds something else too"
        yield violation(request, at, profile, BESIDE, "results_alone", reason, "split it in two", {at: split})
