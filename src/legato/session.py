"""One conversation, governed before each of its requests, and corrected by what the provider says of them.

session = Session("openai", policy)
governed = session.prepare(messages)
answer = send(governed.messages)
session.observe(answer.usage)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import msgspec

from legato.calibration import Calibration, input_tokens
from legato.edits import CONTINUED
from legato.errors import GovernanceError
from legato.messages import Fields, Json
from legato.pipeline import Governed, Run
from legato.policy import Policy
from legato.prefix import Prefix
from legato.profiles import Profile
from legato.profiles.overflow import Overflow, overflow
from legato.summary import Summary, omitted
from legato.wire import shape

UNSEEN = (*CONTINUED, "prompt", "cachedContent", "cached_content")
"""The fields of a body that name text which the provider holds, and counts."""


class State(msgspec.Struct, frozen=True):
    """What a session has learnt, and what it counted of the request that was sent last."""

    calibration: Calibration | None = None
    summary: Summary | None = None
    counted: int = 0
    messages: int = 0
    factor: float = 1.0


class NeedsSummary(Governed):
    """What to send, and what a summary could save of what was dropped for it.

    `prompt` is for any model; `resume(answer)` gives what to send with its answer in place of what was dropped. As it
    is, this is what is sent without one.
    """

    def __init__(self, governed: Governed, prompt: str, resume: Callable[[str], Governed]) -> None:
        super().__init__(governed.body, governed.messages, governed.report)
        self.prompt = prompt
        self.resume = resume


class Session:
    """The same answers as `govern` with this session's calibration, at the cost of what was appended.

    A session belongs to one conversation. It may be handed from thread to thread, not shared between them. It pickles
    without what it remembers of the messages; `state` is what is worth keeping through a crash.

    A past message that is replaced, a fork and a truncation are noticed. With `verify` so is one that was changed in
    place, at the cost of writing the whole history as JSON.
    """

    def __init__(
        self,
        profile: str | Profile | None = None,
        policy: Policy | None = None,
        *,
        tools: Sequence[Json] | None = None,
        format: str | None = None,  # noqa: A002 - the contract's word
        model: str | None = None,
        calibration: Calibration | None = None,
        state: Json = None,
        verify: bool = False,
    ) -> None:
        self.profile = profile
        self.policy = policy or Policy()
        self.tools = tools
        self.format = format
        self.model = model
        self.verify = verify
        self.calibration = calibration
        self.summary: Summary | None = None
        """What stands for the units that were dropped: an input of `govern`, like the calibration."""
        self.broke_at: int | None = None
        """The first message of what was prepared last that is not what was prepared before it; None: all that was
        sent is the beginning of what is sent. 0 where something was changed in place, no matter where."""
        self._prefix: Prefix | None = None
        self._seal: tuple[int, bytes] | None = None
        self._sent: Governed | None = None
        self._known: State | None = None if state is None else _restored(state)
        if self._known is not None:
            self.calibration, self.summary = self._known.calibration, self._known.summary

    def prepare(self, messages: Json, *, tools: Sequence[Json] | None = None) -> Governed:
        """What to send of this history: see `govern`, which it equals and whose errors it raises.

        Where the policy summarises and units had to be dropped, the answer is a `NeedsSummary`.
        """
        tools = self.tools if tools is None else tools
        written = _written(messages, tools) if self.verify else b""
        before, governed = self._prefix, None
        head = None if before is None else before.run.whole.request.head
        if before is not None and (not self.verify or self._is_sealed(written)):
            governed = before.grown(messages, tools, self.calibration)
        if governed is None:
            run = self._run(messages, tools, self.summary)
            governed = run.governed()
            self._prefix = self._known_by(run, tools)
            if self.policy.summarise:
                governed = self._asking(run, governed, tools)
        broke = None
        if self._prefix is not None and (self._prefix is not before or self._prefix.moved):
            broke = self._departs(governed, head)
            if broke is None and self._seal and written and not self._is_sealed(written):
                broke = 0  # changed in place: what was sent is not there any more to be compared with
        self._seal = (len(written), hashlib.sha256(written).digest()) if written else None
        self._sent, self._known, self.broke_at = governed, None, broke
        return governed

    def observe(self, usage: object) -> None:
        """Learn from the usage of an answer to what was prepared last: its JSON, an SDK's object, or the whole answer.

        What says nothing of the input teaches nothing. Raises `GovernanceError` before the first `prepare`.
        """
        known = self._last()
        head = self._prefix.run.before.head if self._prefix is not None else {}
        if any(head.get(field) for field in UNSEEN):
            return  # the provider counts what it holds itself too
        learnt = known.calibration or Calibration(known.factor)
        self.calibration = learnt.observe(known.counted, input_tokens(usage), known.messages)

    def overflowed(self, error: object) -> Overflow | None:
        """Learn from a refusal of what was prepared last: an SDK's exception, an answer, its JSON or its text.

        If it says "too long" that is returned, and the next `prepare` of this history is strictly smaller, or raises
        `OverBudget`. None: it says something else, and nothing was learnt.
        """
        known = self._last()
        found = error if isinstance(error, Overflow) else overflow(error)
        if found is not None:
            learnt = known.calibration or Calibration(known.factor)
            self.calibration = learnt.overflowed(known.counted, found)
        return found

    def state(self) -> Json:
        """What was learnt, as JSON: `Session(…, state=state)` goes on with it, in another process or after a crash."""
        known = State(self.calibration, self.summary) if self._sent is None and self._known is None else self._last()
        found: Json = msgspec.to_builtins(known)
        return found

    def __getstate__(self) -> dict[str, object]:
        known = self._known if self._sent is None else self._last()
        return {**self.__dict__, "_prefix": None, "_seal": None, "_sent": None, "_known": known}

    def _run(self, messages: Json, tools: Sequence[Json] | None, summary: Summary | None) -> Run:
        settings = (self.profile, self.policy, self.format, self.model, self.calibration)
        return Run.of(messages, tools, *settings, summary)

    def _known_by(self, run: Run, tools: Sequence[Json] | None) -> Prefix:
        """What a run tells of its history."""
        settings = (tools, self.profile, self.policy, self.format, self.model, self.calibration, run.summary)
        return Prefix(run, self.calibration, lambda messages: Run.of(messages, *settings))

    def _asking(self, run: Run, governed: Governed, tools: Sequence[Json] | None) -> Governed:
        """What is sent, with what to ask a model for if units were dropped."""
        gone = omitted(run.before, run.whole.changes, run.summary, run.whole, run.budget or 0)
        if gone is None:
            return governed

        def resume(text: str) -> Governed:
            summary = gone.summary(text.strip())
            cost = run.whole.ledger.message(summary.message)
            if not text.strip() or cost >= gone.tokens:
                why = f"the summary was refused: it has {cost:,} tokens, what it would stand for {gone.tokens:,}"
                refused = msgspec.structs.replace(run, remarks=[*run.remarks, why])
                return refused.governed()
            summed = self._run(run.payload, tools, summary)
            answer = summed.governed()
            self._prefix = self._known_by(summed, tools)
            self._sent, self._known, self.summary = answer, None, summary
            return answer

        return NeedsSummary(governed, gone.prompt, resume)

    def _last(self) -> State:
        """What the next answer is an answer to."""
        if self._sent is not None:
            report = self._sent.report
            return State(self.calibration, self.summary, report.counted, len(self._sent.messages), report.factor)
        if self._known is None:
            raise GovernanceError("nothing was prepared yet, so there is nothing to learn from")
        return msgspec.structs.replace(self._known, calibration=self.calibration, summary=self.summary)

    def _departs(self, governed: Governed, head: Fields | None) -> int | None:
        """Where what is sent departs from what was sent before it, under this head."""
        if self._sent is None or self._prefix is None:
            return None
        before, now = self._sent.messages, governed.messages
        if head != self._prefix.run.whole.request.head:
            return 0
        pairs = enumerate(zip(before, now, strict=False))
        place = next((at for at, (old, new) in pairs if old is not new and old != new), len(now))
        return place if place < len(before) else None

    def _is_sealed(self, written: bytes) -> bool:
        """Whether what was seen last is the beginning of what is seen now, to the letter."""
        if self._seal is None:
            return False
        length, digest = self._seal
        return hashlib.sha256(written[:length]).digest() == digest


def _written(messages: Json, tools: Sequence[Json] | None) -> bytes:
    """A history as JSON such that a longer one begins with it; nothing where it is none."""
    lists = [value for value in messages.values() if isinstance(value, list)] if isinstance(messages, dict) else []
    longest = max(lists, key=len, default=[])
    rest = {key: value for key, value in messages.items() if value is not longest} if lists else None
    try:
        text = shape.dump([rest, tools]) + shape.dump(longest if lists else messages)[:-1]
        return text.encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError):
        return b""


def _restored(state: Json) -> State:
    try:
        return msgspec.convert(state, State)
    except msgspec.ValidationError as problem:
        raise GovernanceError(f"this is not the state of a session: {problem}") from None
