"""The one door to the model: no request leaves but through here, and none leaves ungoverned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

from legato.agent.body import Head
from legato.agent.events import AfterRequest, BeforeRequest, Event, RequestFailed, TextDelta
from legato.agent.provider import LLMProvider, ProviderError, Reply
from legato.agent.result import Iteration, Purpose
from legato.errors import GovernanceError
from legato.messages import Json
from legato.pipeline import Governed
from legato.profiles.overflow import Overflow, overflow
from legato.session import Session
from legato.wire import codec, shape


class Overflowed(GovernanceError):
    """The provider found the request too long, and the smaller one after it too."""


class Gate:
    """Governs each request by one session, sends it, and tells the session what came of it."""

    def __init__(self, provider: LLMProvider, session: Session, head: Head, emit: Callable[[Event], None]) -> None:
        self.provider = provider
        self.session = session
        self.head = head
        self.made: list[Iteration] = []
        self._emit = emit
        self._number = 0
        self._sent = Sent(codec(head.form).KEY)

    async def send(
        self, items: Sequence[Json], purpose: Purpose, quiet: bool = False
    ) -> tuple[Iteration, Governed, Reply]:
        """The answer to these items, governed; where it is found too long, the answer to one smaller request.

        `quiet`: no tool may be called. Raises what governance raises, with nothing sent; `Overflowed` and
        `ProviderError`.
        """
        body = self.head.body(items, quiet)
        try:
            return await self._once(body, purpose)
        except ProviderError as error:
            if self._too_long(error) is None:
                raise
            refused = self.made[-1]
        try:
            return await self._once(body, "smaller")
        except ProviderError as error:
            if self._too_long(error) is None:
                raise
            sent = [f"{iteration.report.tokens_out:,}" for iteration in (refused, self.made[-1])]
            raise Overflowed(
                f"the provider refused {sent[0]} tokens as too long, and then {sent[1]} (by our count): {error}; "
                "give the policy the window the model really has, or shorten the system prompt, the tools or the task"
            ) from error

    async def _once(self, body: Json, purpose: Purpose) -> tuple[Iteration, Governed, Reply]:
        governed = self.session.prepare(body)
        self._number += 1
        share = self._sent.follow(governed.body)
        iteration = Iteration(number=self._number, purpose=purpose, report=governed.report, prefix_share=share)
        self.made.append(iteration)
        self._emit(BeforeRequest(iteration, governed.body))
        try:
            reply = await self.provider.complete(governed.body, lambda text: self._emit(TextDelta(text)))
        except ProviderError as error:
            self._emit(RequestFailed(iteration, str(error), _overflow(error) is not None))
            raise
        self.session.observe(reply.usage)
        self._emit(AfterRequest(iteration, reply))
        return iteration, governed, reply

    def _too_long(self, error: ProviderError) -> Overflow | None:
        found = _overflow(error)
        return None if found is None else self.session.overflowed(found)


def _overflow(error: ProviderError) -> Overflow | None:
    return overflow(error.status, str(error) if error.body is None else error.body)


class Sent:
    """The request that was sent last, each of its items with its size."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._head: Json = None
        self._items: list[Json] = []
        self._sizes: list[int] = []

    def follow(self, body: Json) -> float | None:
        """Take the next request. How much of the one before it begins with: see `Iteration.prefix_share`."""
        head = {name: value for name, value in body.items() if name != self._key}
        items = body[self._key]
        same = head == self._head
        pairs = zip(self._items, items, strict=False)
        equal = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1] or pair[0] == pair[1], pairs)) if same else 0
        share = None
        if self._head is not None:
            fixed = _size(head)
            share = (fixed + sum(self._sizes[:equal])) / (fixed + sum(self._sizes)) if same else 0.0
        self._sizes = [*self._sizes[:equal], *map(_size, items[equal:])]
        self._head, self._items = head, list(items)
        return share


def _size(value: Json) -> int:
    return len(shape.dump(value))
