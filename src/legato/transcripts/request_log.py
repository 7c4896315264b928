"""Plain files: a list of messages, a body, JSONL with one of them a line, and logs of requests with their responses.

In a log each line is the next request of some conversation. One that goes on where an earlier one stopped is the same
conversation: of those it is the last request that counts. So many conversations are held open at once, the newest.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from legato import wire
from legato.messages import Fields, Json
from legato.transcripts import files
from legato.transcripts.recording import Recording, Turn, seconds, text_of

OPEN = 16
USAGES = ("usage", "usageMetadata", "usage_metadata")
TIMES = ("timestamp", "time", "created_at", "created", "ts")
ASSISTANTS = ("assistant", "model")
ANSWERS = ("reasoning", "function_call", "custom_tool_call", "local_shell_call", "web_search_call")


def recordings(conversations: Iterator[files.Conversation]) -> Iterator[Recording]:
    """What was recorded, in the order in which the conversations ended. Raises as `files.read` does."""
    held: list[Recording] = []
    for conversation in conversations:
        recording = _recording(conversation)
        before = next((each for each in reversed(held) if _goes_on(each, recording)), None)
        if before is not None:
            held.remove(before)
            recording = _told(before, recording)
        held.append(recording)
        if len(held) > OPEN:
            yield held.pop(0)
    yield from held


def _goes_on(before: Recording, after: Recording) -> bool:
    """Whether the later one starts with all that the earlier one holds."""
    if before.format != after.format or len(after.messages) <= len(before.messages) or not before.messages:
        return False
    return after.messages[: len(before.messages)] == before.messages and before.head == after.head


def _told(before: Recording, after: Recording) -> Recording:
    """The later one with what only the earlier one says of its answers, and the lines its messages first came in."""
    known = {turn.at: turn for turn in before.turns if turn.usage is not None or turn.time is not None}
    turns = tuple(
        Turn(turn.at, turn.end, known[turn.at].usage, turn.model or known[turn.at].model, known[turn.at].time)
        if turn.usage is None and turn.at in known
        else turn
        for turn in after.turns
    )
    lines = (*before.lines, *after.lines[len(before.lines) :])
    return Recording(
        after.file,
        after.source,
        after.format,
        after.messages,
        lines,
        after.head,
        turns,
        (),
        after.label,
        size=after.size,
    )


def _recording(conversation: files.Conversation) -> Recording:
    payload, envelope = conversation.payload, conversation.value if isinstance(conversation.value, dict) else {}
    form = wire.sniff(payload)
    body: Fields = payload if isinstance(payload, dict) else {}
    items = wire.read(payload, form).transcript
    messages = [message.raw if message.raw is not None else message for message in items]
    head = {
        name: value for name, value in body.items() if name in ("system", "systemInstruction", "instructions", "tools")
    }
    turns = list(_turns(messages, body, form))
    answer, usage = _response(envelope, form)
    model = text_of(body.get("model")) or text_of(envelope.get("model"))
    time = next((found for name in TIMES if (found := seconds(envelope.get(name))) is not None), None)
    if answer or usage is not None:
        turns.append(Turn(len(messages), len(messages) + len(answer), usage, model, time))
        messages = [*messages, *answer]
    line = conversation.line or 1
    label = "" if conversation.line is None else str(conversation.line)
    lines = ((line,),) * len(messages)
    return Recording(
        conversation.file, "request-log", form, messages, lines, head, tuple(turns), (), label, size=conversation.size
    )


def _turns(messages: list[Json], body: Fields, form: str) -> Iterator[Turn]:
    """A turn for every answer in the history; in Responses an answer may be several items."""
    model = text_of(body.get("model"))
    at = 0
    for said, group in groupby(messages, _is_answer):
        run = list(group)
        spans = [run] if form == "openai-responses" else [[message] for message in run]
        for span in spans:
            if said:
                noted = span[0].get("_usage") if isinstance(span[0], dict) else None
                yield Turn(at, at + len(span), noted, _model(noted) or model)
            at += len(span)


def _model(noted: Json) -> str | None:
    return text_of(noted.get("model")) if isinstance(noted, dict) else None


def _is_answer(message: Json) -> bool:
    return isinstance(message, dict) and (message.get("role") in ASSISTANTS or message.get("type") in ANSWERS)


def _response(envelope: Fields, form: str) -> tuple[list[Json], Json]:
    """The messages of the response that stands beside the request, and the usage."""
    response = envelope.get("response")
    if isinstance(response, dict) and isinstance(response.get("body"), dict):
        response = response["body"]
    found = response if isinstance(response, dict) else {}
    usage = next((holder[key] for holder in (found, envelope) for key in USAGES if holder.get(key) is not None), None)
    said: Json
    if form == "openai-responses":
        said = found.get("output")
    elif form == "anthropic":
        said = [{"role": found.get("role", "assistant"), "content": found["content"]}] if "content" in found else None
    elif form == "gemini":
        said = [_first(found.get("candidates")).get("content")]
    elif form == "bedrock":
        output = found.get("output")
        said = [output.get("message")] if isinstance(output, dict) else None
    else:
        said = [_first(found.get("choices")).get("message")]
    return [each for each in said if isinstance(each, dict)] if isinstance(said, list) else [], usage


def _first(values: Json) -> Fields:
    return values[0] if isinstance(values, list) and values and isinstance(values[0], dict) else {}
