"""What happens in a run, as it happens. A hook is called with each event, in order, in the event loop's thread.

A hook must not block for long. What it raises ends the run, as its own mistake would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from legato.agent.provider import Reply
from legato.agent.result import Iteration, Result
from legato.messages import Json


class RunStarted(msgspec.Struct, frozen=True, tag="run_started"):
    """`said` are the wire items the run adds; `notes` what there is to say of the session file."""

    profile: str
    said: tuple[Json, ...]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Json]:
        return {"type": "run_started", "profile": self.profile, "said": list(self.said), "notes": list(self.notes)}


class BeforeRequest(msgspec.Struct, frozen=True, tag="before_request"):
    """A governed request is about to be sent: `body` is what the provider is given."""

    iteration: Iteration
    body: Json

    @property
    def context_share(self) -> float | None:
        """How full the budget is, 1.0 at most; None where no window is known."""
        report = self.iteration.report
        return report.tokens_out / report.budget if report.budget else None

    def to_dict(self) -> dict[str, Json]:
        return {
            "type": "before_request",
            "request": self.iteration.number,
            "purpose": self.iteration.purpose,
            "context_share": self.context_share,
            "prefix_share": self.iteration.prefix_share,
            "report": self.iteration.report.to_dict(),
        }


class TextDelta(msgspec.Struct, frozen=True, tag="text"):
    """A piece of the answer. What came before a `RequestFailed` is not part of any answer."""

    text: str

    def to_dict(self) -> dict[str, Json]:
        return {"type": "text", "text": self.text}


class AfterRequest(msgspec.Struct, frozen=True, tag="after_request"):
    """The answer to a request."""

    iteration: Iteration
    reply: Reply

    def to_dict(self) -> dict[str, Json]:
        return {
            "type": "after_request",
            "request": self.iteration.number,
            "stop": self.reply.stop,
            "finish": self.reply.finish,
            "usage": self.reply.usage,
            "items": list(self.reply.items),
        }


class RequestFailed(msgspec.Struct, frozen=True, tag="request_failed"):
    """The provider answered with an error. `overflow`: it says "too long", and one smaller request may follow."""

    iteration: Iteration
    error: str
    overflow: bool

    def to_dict(self) -> dict[str, Json]:
        return {
            "type": "request_failed",
            "request": self.iteration.number,
            "error": self.error,
            "overflow": self.overflow,
        }


class ToolStarted(msgspec.Struct, frozen=True, tag="tool_started"):
    """A tool begins to run. `request` is the number of the request that was answered with the call, `nth` its place."""

    request: int
    nth: int
    id: str | None
    name: str
    arguments: Json

    def to_dict(self) -> dict[str, Json]:
        return {"type": "tool_started", **msgspec.structs.asdict(self)}


class ToolFinished(msgspec.Struct, frozen=True, tag="tool_finished"):
    """A call has its result, which is in the session file. `ran`: by running the tool, not by refusing the call."""

    request: int
    nth: int
    id: str | None
    name: str
    arguments: Json
    text: str
    error: bool
    ran: bool

    def to_dict(self) -> dict[str, Json]:
        return {"type": "tool_finished", **msgspec.structs.asdict(self)}


class RunEnded(msgspec.Struct, frozen=True, tag="run_ended"):
    """The last event of every run, one that raises included: `result` is what there was until then."""

    result: Result

    def to_dict(self) -> dict[str, Json]:
        return {"type": "run_ended", **self.result.to_dict()}


Event: TypeAlias = (
    RunStarted | BeforeRequest | TextDelta | AfterRequest | RequestFailed | ToolStarted | ToolFinished | RunEnded
)
Hook: TypeAlias = Callable[[Event], None]
