"""One conversation, governed before each of its requests, and corrected by what the provider says of them.

    session = Session("openai", policy)
    governed = session.prepare(messages)
    answer = send(governed.messages)
    session.observe(answer.usage)
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from legato.calibration import Calibration, input_tokens
from legato.errors import GovernanceError
from legato.messages import Json
from legato.pipeline import Governed, govern
from legato.policy import Policy
from legato.profiles import Profile
from legato.profiles.overflow import Overflow, overflow


class Session:
    """The same answers as `govern` with this session's calibration, at the cost of what was appended.

    A session belongs to one conversation. It may be handed from thread to thread, not shared between them.
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
    ) -> None:
        self.profile = profile
        self.policy = policy or Policy()
        self.tools = tools
        self.format = format
        self.model = model
        self.calibration = calibration
        self._sent: Governed | None = None

    def prepare(self, messages: Json, *, tools: Sequence[Json] | None = None) -> Governed:
        """What to send of this history: see `govern`, which it equals and whose errors it raises."""
        self._sent = govern(
            messages,
            tools=self.tools if tools is None else tools,
            profile=self.profile,
            policy=self.policy,
            format=self.format,
            model=self.model,
            calibration=self.calibration,
        )
        return self._sent

    def observe(self, usage: object) -> None:
        """Learn from the usage of an answer to what was prepared last: a provider's JSON, an SDK's object, or the answer.

        What says nothing of the input teaches nothing. Raises `GovernanceError` before the first `prepare`.
        """
        report = self._last().report
        self.calibration = self._known().observe(report.counted, input_tokens(usage), len(self._last().messages))

    def overflowed(self, error: object) -> Overflow | None:
        """Learn from a refusal of what was prepared last: an SDK's exception, an answer, its JSON or its text.

        If it says "too long" that is returned, and the next `prepare` of this history is strictly smaller, or raises
        `OverBudget`. None: it says something else, and nothing was learnt.
        """
        found = error if isinstance(error, Overflow) else overflow(error)
        if found is not None:
            self.calibration = self._known().overflowed(self._last().report.counted, found)
        return found

    def state(self) -> Json:
        """What was learnt, as JSON: `Session(…, calibration=Session.learnt(state))` goes on with it after a crash."""
        return {"calibration": None if self.calibration is None else msgspec.to_builtins(self.calibration)}

    @staticmethod
    def learnt(state: Json) -> Calibration | None:
        """The calibration of a `state()`."""
        return msgspec.convert(state["calibration"], Calibration | None)

    def _last(self) -> Governed:
        if self._sent is None:
            raise GovernanceError("nothing was prepared yet")
        return self._sent

    def _known(self) -> Calibration:
        return self.calibration or Calibration(self._last().report.factor)
