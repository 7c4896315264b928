"""What the runner asks of a model: one governed body in, one assistant turn out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from legato.errors import GovernanceError
from legato.messages import Json

Stop: TypeAlias = Literal["end", "calls", "length", "refusal", "other"]
"""Why the model stopped: it had said all, it wants tools, the output limit, a refusal or filter, anything else."""

OnText: TypeAlias = Callable[[str], None]
"""Is given each piece of the answer's text as it comes."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The assistant turn. `items` are wire items of the provider's format, appended to the transcript as they are.

    `usage` is JSON as the provider gave it; `finish` its own word for why it stopped.
    """

    items: tuple[Json, ...]
    usage: Json | None = None
    stop: Stop = "end"
    finish: str | None = None


class ProviderError(GovernanceError):
    """What the provider answered instead of a turn, after the SDK's own retries.

    `status` is the HTTP status (None: no answer came), `body` the answer's JSON or text as it came: both are what
    `legato.overflow(status, body)` takes. `retryable`: the same request may well succeed later.
    """

    def __init__(
        self, message: str, *, status: int | None = None, body: object = None, retryable: bool = False
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = body
        self.retryable = retryable


class LLMProvider(Protocol):
    """A model behind an API.

    `profile` is a profile of legato's, such as `anthropic:claude-…`; `format` the wire format it speaks: `openai-chat`,
    `openai-responses`, `anthropic` or `gemini`.
    """

    @property
    def profile(self) -> str: ...

    @property
    def format(self) -> str: ...

    async def complete(self, body: Json, on_text: OnText | None = None) -> Reply:
        """The answer to one whole governed body: messages (contents, input), system field, tools, output limit.

        Adds the model, sends it as it is, and streams if `on_text` is given. Retries with back-off by the SDK's own
        means; an overflow is never retried here. Raises `ProviderError`. When cancelled it stops at once.
        """
        ...


@runtime_checkable
class Closing(Protocol):
    """A provider that holds connections until it is closed. A request after that opens them again."""

    async def aclose(self) -> None: ...
