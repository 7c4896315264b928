"""A request of one wire format as a request of another: messages, system text, tools, limits.

What both formats have is carried over under the other's name. Fields that only the old one has stay behind; `move`
says which.
"""

from __future__ import annotations

from collections.abc import Iterator

from legato.edits import Request
from legato.messages import Json, Media, Message, Opaque, Text
from legato.wire import limits, system, tools
from legato.wire.foreign import foreign

LIMIT = {
    "openai-chat": "max_tokens",
    "openai-responses": "max_output_tokens",
    "anthropic": "max_tokens",
    "gemini": "maxOutputTokens",
    "bedrock": "maxTokens",
}
INNER = {"gemini": "generationConfig", "bedrock": "inferenceConfig"}
"""Where a format keeps its limits, if not in the body itself."""
SHARED = ("model", "stream", "temperature")
TOOLS = ("tools", "toolConfig", "functions")
STRUCTURE = ("role", "type", "id", "status", "content", "parts", "refusal", "function_call")
"""The fields of a message that are carried over, or say nothing in another format."""
CACHING = "cache_control"


def move(request: Request, to: str) -> tuple[Request, tuple[str, ...]]:
    """The request in the format `to`, and the fields of the head and of messages that stayed behind."""
    head = request.head
    said = system.texts(head)
    opening = (Message("system", (Text(system.JOINT.join(said), flat=True),)),) if said else ()
    transcript = tuple([new for message in request.transcript for new in foreign(message, to)])
    new: dict[str, Json] = {key: head[key] for key in SHARED if key in head}
    definitions = list(tools.definitions(head))
    if definitions:
        new.update(tools.write(definitions, to))
    limit = limits.output(head)
    if limit is not None:
        holder = INNER.get(to)
        new.update({holder: {LIMIT[to]: limit}} if holder else {LIMIT[to]: limit})
    known = {*system.FIELDS, *SHARED, *TOOLS, *limits.FIELDS, *limits.HOLDERS}
    left = sorted(key for key in head if key not in known)
    fields = {field for message in request.transcript for field in _left(message)}
    return Request(new, (*opening, *transcript)), (*left, *[f"{field} of messages" for field in sorted(fields)])


def _left(message: Message) -> Iterator[str]:
    """The fields of a message, and the caching of its parts, that no other format has."""
    if message.name is not None and not message.results:
        yield "name"
    for key, value in message.extra.items():
        if key[:1] != "_" and key not in STRUCTURE and value not in (None, "", [], {}):
            yield key
    for part in message.parts:
        if not isinstance(part, Media | Opaque) and CACHING in part.extra:
            yield CACHING
