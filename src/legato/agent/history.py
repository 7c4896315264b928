"""The conversation so far, in memory and in its session file: what was really said, and what the model is shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import msgspec

from legato.agent import turn
from legato.agent.sessionfile import Finished, Replied, Said, SessionFile, SessionFileError, Started, Unanswered
from legato.errors import WireError
from legato.messages import Json, ToolCall

PERHAPS = (
    "[No result: the run was interrupted while this call was running. It may or may not have run, or only in part. "
    "Look at what it did before you repeat it.]"
)
"""What the model is shown for a call whose result was lost."""
NEVER = "[No result: the run was interrupted before this call was started. It did not run.]"
ORIGIN = "_origin"
"""The caller's note of whose a turn is, as governance reads it."""


class Entry(msgspec.Struct, frozen=True):
    """A wire item. `shown`: the model was told it, but nobody said it: it is sent, and is no part of the transcript.

    `noted` is the item with a note for governance, where there is one.
    """

    item: Json
    shown: bool = False
    noted: Json = None


class History:
    """Every change goes to the file first, so that memory never knows more than the disk.

    A turn that calls tools is open until something else is said. Its results come in any order, and stand in that of
    the calls. `profile` is whose model answers now: what another one said is noted as its own, whose thoughts and seals
    may be nothing to this one.
    """

    def __init__(self, form: str, file: SessionFile | None = None, profile: str = "") -> None:
        self.form = form
        self.file = file
        self.profile = profile
        self.state: Json = None
        self._entries: list[Entry] = []
        self._calls: tuple[ToolCall, ...] = ()
        self._started: set[int] = set()
        self._results: dict[int, Json] = {}
        if file is not None:
            self._load(file)

    @property
    def transcript(self) -> list[Json]:
        """What was said and answered, as raw wire items."""
        return [entry.item for entry in chain(self._entries, self._answers()) if not entry.shown]

    @property
    def shown(self) -> list[Json]:
        """What the next request is made of: the transcript, and what only the model is told."""
        return [entry.noted or entry.item for entry in chain(self._entries, self._answers())]

    def say(self, items: Sequence[Json]) -> None:
        """The user says something. Raises `WireError` if it is nothing of this format."""
        turn.read(items, self.form)
        self.answer_lost()
        self._write(Said(list(items)))

    def reply(self, items: Sequence[Json], prompt: Sequence[Json], state: Json) -> tuple[ToolCall, ...]:
        """The model answers, after it was told `prompt`. The calls of the turn, which are open from now on."""
        own = "" if self.profile == self._first else self.profile
        self._write(Replied(list(items), state, list(prompt), own))
        return self._calls

    def started(self, calls: Sequence[int]) -> None:
        """These calls of the open turn are about to run."""
        self._write(Started(list(calls)))

    def finished(self, call: int, text: str, error: bool) -> None:
        """A call of the open turn has its result."""
        self._write(Finished(call, turn.answer(self._calls[call], text, error, self.form)))

    def answer_lost(self) -> None:
        """Close the open turn: what has no result is answered by what is known of it, for the model only."""
        lost = [
            turn.answer(call, PERHAPS if at in self._started else NEVER, True, self.form)
            for at, call in enumerate(self._calls)
            if at not in self._results
        ]
        if lost:
            self._write(Unanswered(turn.joined(lost, self.form)))
        self._settle()

    def _write(self, line: Said | Replied | Started | Finished | Unanswered) -> None:
        if self.file is not None:
            self.file.append(line)
        self._take(line)

    def _take(self, line: Said | Replied | Started | Finished | Unanswered) -> None:
        """What a line does, whether it was just written or is read again."""
        match line:
            case Started():
                self._started.update(line.calls)
            case Finished():
                self._results[line.call] = line.item
            case Unanswered():
                self._settle()
                self._entries += [Entry(item, shown=True) for item in line.items]
            case Said():
                self._settle()
                self._entries += map(Entry, line.items)
            case Replied():
                self._settle()
                self._calls = turn.calls_of(turn.read(line.items, self.form))
                self._entries += [Entry(item, shown=True) for item in line.prompt]
                self._entries += [Entry(item, noted=self._noted(item, line.profile)) for item in line.items]
                self.state = line.state if line.state is not None else self.state

    def _noted(self, item: Json, profile: str) -> Json:
        """What another model said, with a note of whose it is; None: it is this one's."""
        of = profile or self._first
        if of == self.profile or not (of and self.profile):
            return None
        provider, _, model = of.partition(":")
        return {**item, ORIGIN: {"provider": provider, "model": model or None}}

    @property
    def _first(self) -> str:
        """The profile that the session began with."""
        return self.profile if self.file is None else self.file.header.profile

    def _settle(self) -> None:
        self._entries += self._answers()
        self._calls, self._started, self._results = (), set(), {}

    def _answers(self) -> Iterator[Entry]:
        """The results of the open turn, in the order of its calls."""
        results = [self._results[at] for at in sorted(self._results)]
        return map(Entry, turn.joined(results, self.form))

    def _load(self, file: SessionFile) -> None:
        if file.header.format != self.form:
            raise SessionFileError(
                f"{file.path}: was written for {file.header.format}, and this provider speaks {self.form}; "
                f"move its items with legato.govern(items, format={file.header.format!r}, to={self.form!r})"
            )
        for at, line in enumerate(file.lines, 2):
            try:
                if isinstance(line, Said | Unanswered):
                    turn.read(line.items, self.form)
                self._take(line)
            except WireError as problem:
                raise SessionFileError(f"{file.path}:{at}: {problem}") from None
            if isinstance(line, Finished) and line.call >= len(self._calls):
                raise SessionFileError(f"{file.path}:{at}: a result of a call that its turn does not make")
