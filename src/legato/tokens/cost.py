"""What a whole request costs: a head and its messages, each by itself, so that the account adds up.

The total of a request is `head_tokens(head)` plus `message_tokens(message)` of every message. `count` gives the
tokens of a text. The rules are those of OpenAI Chat Completions; its overheads are the constants of `Rates`, fitted
to the usage that providers reported for recorded requests. What costs nothing: call ids (measured), fields that
legato does not know, and keys that start with `_`, the caller's notes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from legato.errors import WireError
from legato.messages import Fields, Json, Media, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult
from legato.tokens import schema
from legato.tokens.media import Count, file, file_tokens, leaves, media_tokens
from legato.tokens.rates import CHAT, Rates
from legato.wire import shape

SYSTEM = ("system", "instructions", "systemInstruction", "system_instruction")
"""The fields outside the messages that hold a system prompt."""

SIGNATURES = ("thoughtSignature", "thought_signature")
"""The fields of a text or a call that hold sealed reasoning."""

SEALED = (*SIGNATURES, "encrypted_content", "data", "signature", "redactedContent")
"""The fields that hold encrypted text, of reasoning or of a part legato does not know."""

THOUGHT = ("text", "summary", "thinking", "content", "reasoning")
"""The fields that hold readable text in structured reasoning."""

SCHEMAS = (
    ("response_format", "json_schema", "schema"),
    ("text", "format", "schema"),
    ("output_config", "format", "schema"),
    ("output_format", "schema"),
    ("generationConfig", "responseSchema"),
    ("generationConfig", "responseJsonSchema"),
)
"""Where a response schema stands; its name and description are beside it."""


def message_tokens(message: Message, count: Count, rates: Rates = CHAT) -> int:
    """The tokens of one message and all that is in it. Raises `WireError` for what cannot be written as JSON."""
    total = rates.message + count(message.role)
    if message.name is not None:
        total += rates.name + count(message.name)
    calls = results = 0
    for part in message.parts:
        if type(part) is Text:
            total += count(part.text)
            if rates.signatures and part.extra:
                total += _sealed(part.extra, rates)
        elif type(part) is ToolCall:
            calls += 1
            total += _call(part, count, rates)
        elif type(part) is ToolResult:
            results += 1
            for inner in part.parts:
                if type(inner) is not Text:
                    total += _other(inner, count, rates)
                elif rates.quoted:
                    total += count(_written(shape.dump, inner.text, "result"))
                else:
                    total += count(inner.text)
        else:
            total += _other(part, count, rates)
    if calls > 1:
        total += sum(rates.parallel + count(call.name or "") for call in message.calls)
    if results > 1:  # each further result is a message of its own to the model
        total += (results - 1) * (rates.message + 1)
    if message.extra and isinstance(message.extra.get("refusal"), str):
        total += count(message.extra["refusal"])
    return total


def most_tokens(message: Message, most: Count, rates: Rates = CHAT) -> int:
    """No less than what a message costs, where `most` says no less than what a text does; usual ones at a glance."""
    total = rates.message + len(message.role)
    plain = not (message.extra or message.name or rates.quoted or rates.signatures) and message.role.isascii()
    for part in message.parts if plain else ():
        if type(part) is ToolResult and len(message.parts) == 1 == len(part.parts):
            part = part.parts[0]
        if type(part) is Text:
            total += len(part.text) if part.text.isascii() else most(part.text)
        elif type(part) is ToolCall and type(part.arguments) is str and part.arguments.isascii():
            total += rates.call + rates.parallel + 3 * most(part.name or "") + len(part.arguments)
        else:
            return message_tokens(message, most, rates)
    return total if plain else message_tokens(message, most, rates)


def head_tokens(head: Fields, count: Count, rates: Rates = CHAT) -> int:
    """The tokens of what is not a message: the fixed cost of a request, system field, tools, response schema."""
    total = rates.request
    for key in SYSTEM:
        if head.get(key):
            total += rates.message + count("system") + _system(head[key], count)
    config = head.get("toolConfig")
    tools = head.get("tools") or head.get("functions") or (config.get("tools") if isinstance(config, Mapping) else None)
    total += tools_tokens(tools, count, rates)
    for *path, key in SCHEMAS:
        beside: Json = head
        for step in path:
            beside = beside.get(step) if isinstance(beside, Mapping) else None
        if isinstance(beside, Mapping) and isinstance(beside.get(key), Mapping):
            total += rates.schema + count(_written(schema.compact, beside[key], key))
            total += sum(count(beside[name]) for name in ("name", "description") if isinstance(beside.get(name), str))
    return total


def tools_tokens(tools: Json, count: Count, rates: Rates = CHAT) -> int:
    """The tokens of a list of tool definitions, in any wire's form. Gemini takes a single one for a list."""
    if isinstance(tools, Mapping) and tools:
        tools = [tools]
    if not isinstance(tools, list | tuple) or not tools:
        return 0
    if rates.json:
        return rates.tools + sum(1 + count(_written(shape.dump, tool, "tools")) for tool in tools)
    return rates.tools + count(_written(schema.namespace, tools, "tools"))


def _call(call: ToolCall, count: Count, rates: Rates) -> int:
    total = rates.call
    if call.name is not None:
        total += 2 * count(call.name)
    if isinstance(call.arguments, str):
        total += count(call.arguments)
    elif call.arguments is not None:
        total += count(_written(shape.dump, call.arguments, "arguments"))
    return total + _sealed(call.extra, rates) if rates.signatures and call.extra else total


def _other(part: Part, count: Count, rates: Rates) -> int:
    """The parts that are rare, or slow to count."""
    if isinstance(part, Media):
        return media_tokens(part, count, rates)
    if isinstance(part, Opaque):
        return _opaque(part.raw, count, rates)
    if isinstance(part, Reasoning):
        return _reasoning(part, count, rates)
    raise WireError("", f"a {type(part).__name__} cannot stand inside a tool result")


def _opaque(raw: Json, count: Count, rates: Rates) -> int:
    """Its JSON as text, without the caller's notes; files and encrypted text in it at their own price."""
    if isinstance(raw, dict):
        raw = {key: value for key, value in raw.items() if str(key)[:1] != "_"}
    text, total = _written(shape.dump, raw, ""), 0
    for key, value in leaves(raw) if len(text) > 256 else ():
        found = file(value, sure=key not in SEALED)
        if found is not None:
            sealed = not found.kind and not found.start
            total += int(len(found.text) * rates.sealed) if sealed else file_tokens(found, rates)
            text = text.replace(shape.dump(found.text)[1:-1], "")
    return total + count(text)


def _reasoning(part: Reasoning, count: Count, rates: Rates) -> int:
    """Readable text (often a summary) or what is sealed, whichever is more: they stand for the same thoughts."""
    readable, sealed = count(part.text) if part.text else 0, len(part.signature or "")
    if not readable and not sealed:
        for key, value in leaves(part.extra if part.raw is None else part.raw):
            if key in THOUGHT and isinstance(value, str):
                readable += count(value)
            elif key in SEALED:
                sealed += len(value)
    return max(readable, int(sealed * rates.sealed))


def _sealed(fields: Fields, rates: Rates) -> int:
    return sum(int(len(fields[key]) * rates.sealed) for key in SIGNATURES if isinstance(fields.get(key), str))


def _system(value: Json, count: Count) -> int:
    """A system field: text, a list of blocks, or an object with `parts`."""
    if isinstance(value, Mapping):
        value = value.get("parts", value)
    total = 0
    for block in value if isinstance(value, list | tuple) else (value,):
        text = block.get("text") if isinstance(block, Mapping) else block
        total += count(text if isinstance(text, str) else _written(shape.dump, block, "system"))
    return total


def _written(write: Callable[[Json], str], value: Json, place: str) -> str:
    """The text of a JSON value, or a `WireError` that names the place."""
    try:
        return write(value)
    except RecursionError:
        raise WireError(place, "is nested too deep to be counted") from None
    except (TypeError, ValueError) as error:
        raise WireError(place, f"cannot be written as JSON: {error}") from None
