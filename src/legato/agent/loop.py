"""From what was said to an answer: when to ask the model again, and when to stop."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from legato.agent import turn
from legato.agent.gate import Gate, Overflowed
from legato.agent.history import History
from legato.agent.provider import ProviderError, Reply
from legato.agent.result import Ending, Purpose, summed
from legato.agent.work import Work
from legato.errors import OverBudget, WireError
from legato.messages import Json, ToolCall

CUTS = 3
"""So many times in a row the model may go on after the output limit."""
BLANKS = 2
"""So many empty or malformed replies in a row are followed by another request; the last of these is without tools."""
FAULTS = 2
"""So many answers in a row may be lost on their way before the run ends."""
TAIL = 64
"""Characters of its own text that the model is shown where it is to go on."""

GO_ON = "Your answer was cut off at the output limit. Go on exactly where it stops and repeat nothing. It ends with: {}"
BE_BRIEF = "Your reply reached the output limit before it was complete, and nothing of it was run. Be shorter."
NO_TOOLS = "No tool can be called for the next reply. Answer now, with what is known so far."
FALLBACK = "(stopped after {} rounds of tool calls, without an answer)"


class Ended(msgspec.Struct, frozen=True):
    """How the run came to a stop."""

    text: str
    stop: Ending
    error: str | None = None


class Turn(msgspec.Struct, frozen=True):
    """What a reply says. `calls` are those that can be run, `request` the number of the request it answers."""

    request: int
    reply: Reply
    text: str = ""
    calls: tuple[ToolCall, ...] = ()

    @property
    def is_blank(self) -> bool:
        return not self.text.strip() and not self.calls

    @property
    def works(self) -> bool:
        """Whether its calls are to be run: not where the turn was refused, cut off, or ended otherwise."""
        return bool(self.calls) and self.reply.stop in ("calls", "end")


class Progress(msgspec.Struct):
    """Where a run stands. `said` is what a cut-off answer says so far, `prompt` what the model is told next."""

    rounds: int = 0
    blanks: int = 0
    cuts: int = 0
    faults: int = 0
    said: str = ""
    prompt: tuple[Json, ...] = ()
    purpose: Purpose = "turn"

    def anew(self) -> None:
        """There is something new to answer: a result, or a word of the user's."""
        self.blanks = self.cuts = self.faults = 0
        self.said, self.prompt, self.purpose = "", (), "turn"


class Loop:
    """Asks, runs tools and asks again, until there is an answer or a reason to stop.

    `inbox` holds what is said meanwhile, a list of wire items each. `usage` is the sum of what the provider reported.
    """

    def __init__(
        self, history: History, gate: Gate, work: Work, inbox: deque[Sequence[Json]], limit: int, strict: bool
    ) -> None:
        self.history = history
        self.gate = gate
        self.work = work
        self.inbox = inbox
        self.limit = limit
        self.strict = strict
        self.usage: dict[str, Json] = {}

    async def run(self) -> Ended:
        """Answer, and then whatever was said meanwhile."""
        while True:
            ended = await self._answer()
            if not self.inbox or ended.stop == "over_budget":
                return ended

    async def _answer(self) -> Ended:
        now = Progress()
        while True:
            if self._listen():
                now.anew()
            quiet = now.rounds >= self.limit or now.blanks == BLANKS
            try:
                said = await self._ask(now, quiet)
            except ProviderError as error:
                if error.retryable and error.status == 200 and now.faults < FAULTS:
                    now.faults += 1  # the answer was cut off on its way; all else was retried by the SDK, which waits
                    continue
                return self._spent(now, "", str(error)) or Ended(now.said, "error", str(error))
            except (OverBudget, Overflowed) as error:
                return Ended(now.said, "over_budget", str(error))
            if said.works and not quiet:
                outputs = await self.work.run(said.calls, said.request)
                failed = [output.text for output in outputs if output.error]
                if failed and self.strict:
                    return Ended("", "tool_error", failed[0])
                now.rounds += 1
                now.anew()
                continue
            ended = self._spent(now, said.text) or self._judge(now, said)
            if ended is not None:
                return ended

    async def _ask(self, now: Progress, quiet: bool) -> Turn:
        """One turn of the model, written down unless it says nothing or cannot be read."""
        form = self.history.form
        prompt = (*now.prompt, *self._prompt(NO_TOOLS)) if quiet else now.prompt
        purpose: Purpose = "final" if quiet else now.purpose
        iteration, governed, reply = await self.gate.send([*self.history.shown, *prompt], purpose, quiet)
        self.usage = summed(self.usage, reply.usage)
        try:
            items = turn.renamed(reply.items, governed, form)
            messages = turn.read(items, form)
        except WireError:
            return Turn(iteration.number, reply)
        said = Turn(iteration.number, reply, turn.text_of(messages), turn.calls_of(messages))
        if not said.is_blank:
            self.history.reply(items, prompt, self.gate.session.state())
            if quiet or not said.works:
                self.history.answer_lost()
        return said

    def _judge(self, now: Progress, said: Turn) -> Ended | None:
        """What a turn without tool work means. None: the model is asked again."""
        whole = now.said if said.calls else now.said + said.text
        if said.reply.stop == "length":
            now.said = whole
            now.cuts += 1
            if now.cuts > CUTS:
                return Ended(whole, "error", f"cut off at the output limit {now.cuts} times in a row; raise max_output")
            words = GO_ON.format(whole[-TAIL:]) if said.text.strip() and not said.calls else BE_BRIEF
            now.prompt, now.purpose = self._prompt(words), "continuation"
            return None
        if said.text.strip():
            return Ended(now.said + said.text, "completed")
        if said.reply.stop == "refusal":
            return Ended(now.said, "empty", f"the model refused to answer ({said.reply.finish or 'no reason given'})")
        if now.blanks == BLANKS:
            return Ended(now.said, "empty", f"the model said nothing, {BLANKS + 1} times in a row")
        now.blanks += 1
        now.purpose = "retry"
        return None

    def _prompt(self, words: str) -> tuple[Json, ...]:
        """What the model is told and nobody said, as wire items."""
        return turn.aside(words, self.history.form)

    def _spent(self, now: Progress, text: str, error: str | None = None) -> Ended | None:
        """The end of a run whose rounds are used up: what it said, or that it said nothing."""
        if now.rounds < self.limit:
            return None
        return Ended((now.said + text).strip() or FALLBACK.format(now.rounds), "max_iterations", error)

    def _listen(self) -> bool:
        """Write down what was said meanwhile; whether there was anything."""
        heard = False
        while self.inbox:
            self.history.say(self.inbox[0])
            self.inbox.popleft()
            heard = True
        return heard
