"""The judgement on one request, without sockets: its bytes and what is known in, what to send out.

Both sides of it can be sent to another process, so that a large body is governed where nobody waits for it.
"""

from __future__ import annotations

import hashlib
import json
import traceback
from collections.abc import Iterable, Sequence
from zlib import crc32

import msgspec

import legato
from legato import Calibration, Governed, Overflow, Policy
from legato.errors import GovernanceError, WireError
from legato.messages import Json
from legato.proxy.account import Account, account
from legato.proxy.sessions import Sessions
from legato.session import UNSEEN
from legato.wire import codec, limits

FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, OSError, RuntimeError, TypeError)
"""What a fault of legato's own may raise, `RecursionError` among it. It costs the governing, never the request."""
OPENING = 4_096
"""Characters of the system text and of the first question that tell a conversation from others."""
NESTING = "JSON nested too deeply"
LEAST_OUTPUT = 256
"""An output limit is not lowered below this: the input is made smaller instead."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be governed. `body` is plain JSON; `model` is what the path names, empty where the body does."""

    body: bytes
    format: str
    policy: Policy
    profile: str | None = None
    model: str = ""
    calibration: Calibration | None = None
    output: int | None = None
    """The limit of output to ask for instead of the request's own."""
    contents: bool = False
    """Whether the decision is to hold what was changed, word for word."""


Prints = tuple[tuple[int, int], ...]
"""The head, then each message that is sent: a checksum, and its bytes."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What to send. `body` is None where the very bytes that came in are right.

    `failure` says why the request could not be governed, `fault` where legato broke, and then nothing else is known.
    """

    body: bytes | None = None
    model: str = ""
    stream: bool = False
    conversation: str = ""
    messages: int = 0
    ids: dict[str, str] = {}
    tool_names: dict[str, str] = {}
    unseen: bool = False
    """The provider adds what is not in the request: its counts teach nothing, and a smaller one cures nothing."""
    failure: str = ""
    kind: str = ""
    fault: str = ""
    account: Account | None = None
    prints: Prints = ()


class Verdict:
    """A decision, and what is known of it besides when that is asked for: not before the request is on its way."""

    def __init__(self, decision: Decision, governed: Governed | None = None, contents: bool = False) -> None:
        self.decision = decision
        self._governed = governed
        self._contents = contents

    def account(self) -> Account | None:
        """What was done; None where nothing was governed."""
        if self._governed is not None and self.decision.account is None:
            try:
                found = account(self._governed, self._contents)
            except (*FAULTS, GovernanceError):
                return None
            self.decision = msgspec.structs.replace(self.decision, account=found)
        return self.decision.account

    def prints(self) -> Prints:
        """What tells how much of a request begins the next one. What was governed is let go."""
        if self._governed is not None:
            self.decision = msgspec.structs.replace(self.decision, prints=_prints(self._governed))
            self._governed = None
        return self.decision.prints


def judge(ask: Ask, sessions: Sessions) -> Verdict:
    """Governs a request. Never raises: a failure is a decision too. `sessions` save time, and change nothing."""
    try:
        payload = parse(ask.body)
    except ValueError as problem:
        return _failed(ask.model, problem, _unread(problem))
    except RecursionError as problem:
        return _failed(ask.model, problem, NESTING)
    if not isinstance(payload, dict):
        return _failed(ask.model, WireError("", ""), "WireError: the body must be an object")
    model = ask.model or str(payload.get("model") or "")
    try:
        return _judged(payload, ask, model, sessions)
    except GovernanceError as problem:
        return _failed(model, problem, f"{type(problem).__name__}: {problem}")
    except RecursionError as problem:
        return _failed(model, problem, NESTING)
    except (*FAULTS, ValueError) as problem:
        place = traceback.extract_tb(problem.__traceback__)[-1]
        fault = f"{type(problem).__name__} in {place.name}, line {place.lineno}"
        return _failed(model, problem, f"a fault of legato: {fault}", fault)


def shrink(ask: Ask, account: Account, overflow: Overflow) -> Ask:
    """What to try once after a refusal: less output if that cures it, else less input."""
    if overflow.kind == "output" and overflow.limit is not None and overflow.used is not None:
        room = overflow.limit - overflow.used
        if room >= LEAST_OUTPUT:
            return msgspec.structs.replace(ask, output=room)
    before = ask.calibration or Calibration(account.factor)
    taught = before.overflowed(account.counted, overflow)
    return msgspec.structs.replace(ask, calibration=taught)


def is_smaller(after: Decision, before: Account, ask: Ask) -> bool:
    """Whether the second attempt asks for less than the first."""
    if after.account is None or after.body is None:
        return False
    return ask.output is not None or after.account.counted < before.counted


def conversation(payload: Json, key: str) -> str:
    """A name for a conversation that its later requests have too: of its system text and its first question."""
    items = payload.get(key)
    first = _opening(items) if isinstance(items, list) else items
    system = next((payload[name] for name in SYSTEM if name in payload), "")
    digest = hashlib.blake2b(digest_size=6)
    for value in (system, first):
        digest.update(json.dumps(value)[:OPENING].encode())
    return digest.hexdigest()


SYSTEM = ("system", "instructions", "systemInstruction", "system_instruction")
"""Where a body holds its system text, if that is not a message."""


def parse(body: bytes) -> Json:
    """What `json.loads` makes of a body, at half its cost. Raises `ValueError` and `RecursionError`."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return json.loads(body)  # it also takes lone surrogates, NaN, and other encodings than UTF-8


def dump(body: Json) -> bytes:
    """A body as JSON. A lone surrogate, which UTF-8 has no bytes for, stays the escape that it came as.

    Raises `WireError` for a number that JSON has not, such as what 1e400 was read as.
    """
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:
        raise WireError("", "a number is too large, or none") from None


def kept(before: Prints, after: Prints) -> float | None:
    """The share of an earlier request that begins a later one; None without an earlier one."""
    whole = sum(size for _, size in before)
    same = 0
    for old, new in zip(before, after, strict=False):
        if old != new:
            break
        same += old[1]
    return same / whole if whole else None


def _judged(payload: dict[str, Json], ask: Ask, model: str, sessions: Sessions) -> Verdict:
    name = conversation(payload, codec(ask.format).KEY)
    capped = payload if ask.output is None else dict(limits.with_output(payload, ask.output))
    key = (name, ask.format, ask.profile, ask.model)
    governed = sessions.govern(capped, key, len(ask.body), ask.policy, ask.calibration)
    governed = governed or _govern(capped, ask, ask.policy)
    changed = governed.body is not payload
    decision = Decision(
        body=dump(governed.body) if changed else None,
        model=model,
        stream=payload.get("stream") is True,
        conversation=name,
        messages=len(governed.messages),
        ids=governed.ids if changed else {},
        tool_names=governed.tool_names if changed else {},
        unseen=any(payload.get(name) for name in UNSEEN),
    )
    return Verdict(decision, governed, ask.contents)


def _govern(payload: Json, ask: Ask, policy: Policy) -> Governed:
    return legato.govern(
        payload,
        profile=ask.profile,
        policy=policy,
        format=ask.format,
        model=ask.model or None,
        calibration=ask.calibration,
    )


def _prints(governed: Governed) -> Prints:
    body, messages = governed.body, governed.messages
    head = {key: value for key, value in body.items() if value is not messages} if isinstance(body, dict) else {}
    items: Iterable[Json] = messages if isinstance(messages, list) else [messages]
    try:
        found = [msgspec.json.encode(value) for value in (head, *items)]
    except (ArithmeticError, UnicodeEncodeError, RecursionError):  # numbers and texts that it does not write
        return ()
    return tuple([(crc32(data), len(data)) for data in found])


def _opening(items: Sequence[Json]) -> Sequence[Json]:
    """The items up to the first that is the user's."""
    first = next((at for at, item in enumerate(items) if isinstance(item, dict) and item.get("role") == "user"), 0)
    return items[: first + 1]


def _failed(model: str, problem: Exception, words: str, fault: str = "") -> Verdict:
    return Verdict(Decision(model=model, failure=words, kind="fault" if fault else type(problem).__name__, fault=fault))


def _unread(problem: ValueError) -> str:
    """Why a body is no JSON, in words that quote nothing of it."""
    if not isinstance(problem, json.JSONDecodeError):
        return f"no JSON: {type(problem).__name__}"
    return f"no JSON: {problem.msg.removesuffix(' at')} at {problem.pos}"
