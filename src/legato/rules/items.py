"""THINK, second part: reasoning items of OpenAI Responses and the items that followed them.

The server pairs them by item id: a reasoning item is taken only before the item that followed it. A call may follow
without an id of its own, a message may not (recorded: "Item 'rs_…' of type 'reasoning' was provided without its
required following item"). A call under its item id may need its reasoning item; under its `call_id` alone it does not.
"""

from __future__ import annotations

from collections.abc import Iterator

from legato import traits
from legato.edits import Request
from legato.messages import Message, Reasoning, ToolCall, changed, without
from legato.profiles import Profile
from legato.rules.violation import Rule, Violation, violation

SPLIT = Rule("THINK008", "split-response-item", "A reasoning item and the item that followed it are not together.")
ITEM_ID = Rule("THINK009", "bad-item-id", "The item id of a call is not one that the server gave to a call.")
TABLE = (SPLIT, ITEM_ID)

FACT = "items_bound"
"""What both rest on."""

NEEDS = "_required_reasoning"
"""The caller's note on a call: the id of the reasoning item that the server expects before it."""
CALL_IDS = ("fc", "ctc", "lsh", "sh", "apc", "cu", "tsc")
"""How the item ids of calls start. One that starts otherwise was put there by a client."""


def find(request: Request, profile: Profile) -> Iterator[Violation]:
    """Every fault of this part; nothing where the profile does not bind items."""
    if not profile.items_bound:
        return
    thoughts: set[str] = set()
    transcript = request.transcript
    for at in request.having(traits.THINKS | traits.CALLS):
        message = transcript[at]
        after = transcript[at + 1] if at + 1 < len(transcript) else None
        item_id = _thought_id(message)
        if item_id is not None and not (after is not None and _follows(after)):
            reason = f"the reasoning item {item_id} stands without the item that followed it"
            yield violation(request, at, profile, SPLIT, FACT, reason, "leave it out", {at: ()}, "lossy")
        elif item_id is not None:
            thoughts.add(item_id)
        for part in message.calls:
            yield from _call(request, at, profile, part, thoughts)


def _thought_id(message: Message) -> str | None:
    """The id of a message that is one reasoning item kept by the server or signed by it."""
    if len(message.parts) != 1 or not isinstance(message.parts[0], Reasoning):
        return None
    found = message.parts[0].extra.get("id")
    return found if isinstance(found, str) and found else None


def _follows(message: Message) -> bool:
    """Whether it may be what followed a reasoning item: more reasoning, a call, or a message under its own id."""
    if message.role != "assistant":
        return False
    if message.calls or _thought_id(message) is not None:
        return True
    return "id" in message.extra or message.extra.get("type") not in (None, "message")


def _call(request: Request, at: int, profile: Profile, call: ToolCall, thoughts: set[str]) -> Iterator[Violation]:
    item_id = call.extra.get("id")
    if not isinstance(item_id, str):
        return
    message = request.transcript[at]
    needed = message.extra.get(NEEDS)
    if isinstance(needed, str) and needed not in thoughts:
        rule, reason = SPLIT, f"the call {item_id} needs the reasoning item {needed} before it"
    elif not item_id.startswith(CALL_IDS):
        rule, reason = ITEM_ID, f"{item_id!r} is not the id of a call item"
    else:
        return
    bare = changed(call, extra=without(call.extra, "id"))
    new = changed(message, parts=tuple([bare if part is call else part for part in message.parts]))
    title = "leave the item id out, keep the call id"
    yield violation(request, at, profile, rule, FACT, reason, title, {at: (new,)})
