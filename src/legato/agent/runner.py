"""The agent: it asks the model, runs the tools it calls, and asks again, with every request governed.

    runner = AgentRunner(provider=provider, tools=tools, policy=Policy(window=128_000), session="task.jsonl")
    result = await runner.run("Find the flaky test and fix it.")

`loop.py` decides when to ask again and when to stop, `gate.py` is the one door to the model, `work.py` runs the calls
of a turn, `history.py` holds what was said, in memory and in the session file.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType

import msgspec

from legato import profiles
from legato.agent import turn
from legato.agent.body import head
from legato.agent.events import Event, Hook, RunEnded, RunStarted
from legato.agent.gate import Gate
from legato.agent.history import History
from legato.agent.loop import Ended, Loop
from legato.agent.provider import Closing, LLMProvider
from legato.agent.result import Result
from legato.agent.sessionfile import Header, SessionFile
from legato.agent.tool import Tool
from legato.agent.work import Approve, Work
from legato.errors import GovernanceError
from legato.messages import Json
from legato.policy import Policy
from legato.profiles import Profile
from legato.session import Session


class AgentRunner:
    """One conversation with a model that may use tools. Close it, or use it in a `with`: it holds its session file.

    `system` is the system prompt, and `options` further fields of the request's body (`temperature`, `thinking`, …).
    `session` is a file to write to and resume from. `max_iterations` is how many rounds of tool calls a run may take.
    `approve` is asked before a tool runs that wants leave; without it such a tool does not run. `hooks` are called with
    every event. `stop_on_tool_error` ends the run where a tool fails, rather than telling the model.

    Raises `UnknownProfile`, `ValueError` for two tools of one name, `SessionFileError`.
    """

    def __init__(
        self,
        *,
        provider: LLMProvider,
        tools: Iterable[Tool] = (),
        policy: Policy | None = None,
        system: str = "",
        session: str | os.PathLike[str] | None = None,
        max_iterations: int = 100,
        approve: Approve | None = None,
        hooks: Iterable[Hook] = (),
        options: Mapping[str, Json] | None = None,
        stop_on_tool_error: bool = False,
    ) -> None:
        tools = list(tools)
        named = {tool.name: tool for tool in tools}
        if len(named) < len(tools):
            raise ValueError(f"two tools of one name among {', '.join(tool.name for tool in tools)}")
        profile = _profile(provider)
        policy = policy or Policy()
        top = head(profile, policy, system, [tool.definition() for tool in tools], options or {})
        self.provider = provider
        self.hooks = tuple(hooks)
        self._running: asyncio.Task[Ended] | None = None
        self._stopping = False
        self._inbox: deque[Sequence[Json]] = deque()
        self._sync: asyncio.Runner | None = None
        self._file = None
        if session is not None:
            self._file = SessionFile(session, Header(format=profile.format, profile=provider.profile))
        try:
            self._history = History(profile.format, self._file, provider.profile)
            governor = Session(profile, policy, format=profile.format, state=self._learnt())
        except BaseException:
            self.close()
            raise
        self._gate = Gate(provider, governor, top, self._emit)
        work = Work(named, approve, self._history, self._emit)
        self._loop = Loop(self._history, self._gate, work, self._inbox, max_iterations, stop_on_tool_error)

    def __enter__(self) -> AgentRunner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> AgentRunner:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @property
    def transcript(self) -> list[Json]:
        """What was said and answered so far, as raw wire items of the provider's format."""
        return self._history.transcript

    async def run(self, task: str | Sequence[Json] = ()) -> Result:
        """Work on a task, given as text or as wire items; without one, go on with what was interrupted.

        Raises what governance raises, with nothing sent (`WireError`, `PolicyError`, `Unrepairable`; what cannot fit is
        a result with the stop `over_budget`), and `SessionFileError`. Cancelled from outside it passes that on. The
        session file can be resumed in every case.
        """
        if self._running is not None:
            raise RuntimeError("this runner is at work; tell it more with say()")
        items = self._items(task)
        self._emit(RunStarted(self.provider.profile, tuple(items), self._file.notes if self._file else ()))
        ended = Ended("", "error", "ended by an exception")
        self._gate.made, self._loop.usage, self._stopping = [], {}, False
        try:
            self._history.answer_lost()
            if items:
                self._history.say(items)
            self._running = asyncio.get_running_loop().create_task(self._loop.run())
            ended = await self._running
        except asyncio.CancelledError:
            ended = Ended("", "cancelled", "cancelled")
            current = asyncio.current_task()
            if not self._stopping or (current is not None and current.cancelling()):
                raise
        except GovernanceError as error:
            ended = Ended("", "error", str(error))
            raise
        finally:
            self._running = None
            result = self._result(ended)
            self._emit(RunEnded(result))
        return result

    def run_sync(self, task: str | Sequence[Json] = ()) -> Result:
        """The same where no event loop runs. Ctrl-C cancels the run and is raised as `KeyboardInterrupt`."""
        if self._sync is None:
            self._sync = asyncio.Runner()
        return self._sync.run(self.run(task))

    def say(self, message: str | Sequence[Json]) -> None:
        """Tell a run more, as text or wire items: the model is told after the calls it has made, or its answer.

        Blank text is not said. Raises `WireError` for what is nothing of the provider's format.
        """
        items = self._items(message)
        if items:
            self._inbox.append(items)

    def cancel(self) -> None:
        """Stop a run where it is: it returns with the stop `cancelled`. To be called in the event loop's thread."""
        if self._running is not None:
            self._stopping = True
            self._running.cancel()

    def close(self) -> None:
        """Give the session file free, and the connections that `run_sync` made."""
        if self._sync is not None:
            if isinstance(self.provider, Closing):
                self._sync.run(self.provider.aclose())
            self._sync.close()
            self._sync = None
        if self._file is not None:
            self._file.close()

    async def aclose(self) -> None:
        """Give the session file free, and the provider's connections."""
        if isinstance(self.provider, Closing):
            await self.provider.aclose()
        self.close()

    def _items(self, message: str | Sequence[Json]) -> Sequence[Json]:
        form = self._history.form
        if isinstance(message, str):
            return turn.said(message, form) if message.strip() else ()
        turn.read(message, form)
        return tuple(message)

    def _learnt(self) -> Json:
        """What the session file says of the provider's counts, where it was the same model."""
        same = self._file is not None and self._file.header.profile == self.provider.profile
        return self._history.state if same else None

    def _result(self, ended: Ended) -> Result:
        return Result(
            text=ended.text,
            stop=ended.stop,
            transcript=self.transcript,
            usage=self._loop.usage,
            iterations=tuple(self._gate.made),
            error=ended.error,
        )

    def _emit(self, event: Event) -> None:
        for hook in self.hooks:
            hook(event)


def _profile(provider: LLMProvider) -> Profile:
    """The provider's profile, for the format it speaks."""
    found = profiles.get(provider.profile)
    if found.format == provider.format:
        return found
    return profiles.sibling(found.name, provider.format) or msgspec.structs.replace(found, format=provider.format)
