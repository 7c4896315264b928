"""PAIR, third part: tools that the provider runs itself.

Their calls and results are blocks of the assistant's own messages. A call still open in the newest assistant turn is
in flight, and legal as long as nothing but results of the client's tools follows; any other without its result, and a
result without a call before it, are refused for ever.
"""

from __future__ import annotations

from collections.abc import Iterator

from legato import traits
from legato.edits import Request
from legato.messages import Opaque, Part, changed
from legato.profiles import Profile
from legato.rules.violation import Rule, Violation, violation

UNPAIRED = Rule(
    "PAIR014", "unpaired-server-tool", "A call of a tool that the provider runs and its result are not both there."
)
TABLE = (UNPAIRED,)

CALLS = ("server_tool_use", "mcp_tool_use")
RESULT = "_tool_result"
"""How the type of a result ends; those of the client are no `Opaque` parts."""


def find(request: Request, profile: Profile) -> Iterator[Violation]:
    """Calls without a result, those of the newest turn apart, and results without a call before them."""
    unread = request.having(traits.RAW) if profile.server_tools else ()
    if not unread:
        return
    answered = {_answers(part) for at in unread for part in request.transcript[at].parts} - {None}
    newest = len(request.transcript)
    while newest > 0 and not request.transcript[newest - 1].asks and request.transcript[newest - 1].role != "assistant":
        newest -= 1
    while newest > 0 and request.transcript[newest - 1].role == "assistant":
        newest -= 1
    called: set[str] = set()
    for at in unread:
        message = request.transcript[at]
        kept: list[Part] = []
        for part in message.parts:
            call, result = _calls(part), _answers(part)
            if call is not None:
                called.add(call)
            lost = (call is not None and call not in answered and at < newest) or (
                result is not None and result not in called
            )
            if not lost:
                kept.append(part)
        if len(kept) < len(message.parts):
            reason = "a call of the provider's own tool has no result, or a result no call"
            new = (changed(message, parts=tuple(kept)),) if kept else ()
            yield violation(request, at, profile, UNPAIRED, "server_tools", reason, "drop it", {at: new}, "lossy")


def _calls(part: Part) -> str | None:
    return _text(part, "id") if _kind(part) in CALLS else None


def _answers(part: Part) -> str | None:
    return _text(part, "tool_use_id") if _kind(part).endswith(RESULT) else None


def _kind(part: Part) -> str:
    return _text(part, "type") or ""


def _text(part: Part, key: str) -> str | None:
    value = part.raw.get(key) if isinstance(part, Opaque) and isinstance(part.raw, dict) else None
    return value if isinstance(value, str) else None
