"""PAIR: every call has exactly one result where the provider looks for it, and every result has its call.

Which result answers which call is told in `pairing.py`. Real results are moved back to their call; only what is
really missing gets a synthetic one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from legato import wire
from legato.edits import Edit, Request
from legato.messages import Message, Part, Reasoning, Text, ToolCall, ToolResult, changed, text_of
from legato.pairing import Call, turns
from legato.profiles import Profile
from legato.rules.violation import Fix, Rule, Safety, Violation

ORPHAN = Rule("PAIR001", "orphan-tool-result", "A tool result answers no call before it.")
MISSING = Rule("PAIR002", "missing-tool-result", "A tool call has no result.")
DETACHED = Rule("PAIR003", "detached-tool-result", "A result does not stand directly after the turn that called.")
DUPLICATE = Rule("PAIR004", "duplicate-tool-result", "A call has more than one result.")
HALF = Rule("PAIR005", "half-streamed-call", "A call has no name or no arguments at all, so it was never run.")
LAST = Rule("PAIR006", "results-not-first", "Something stands before the tool results in a user message.")
FOREIGN = Rule("PAIR015", "misplaced-call", "A call stands in a message that is not the assistant's.")
TABLE = (ORPHAN, MISSING, DETACHED, DUPLICATE, HALF, LAST, FOREIGN)
LOSSY = (ORPHAN, DUPLICATE, HALF)

BACKFILL = "[Tool result unavailable — call was interrupted or lost]"
"""The text of a synthetic result (the document's)."""


def find(request: Request, profile: Profile) -> Iterator[Violation]:
    """Every fault of the family in one walk. The fixes are disjoint: applied together they leave none.

    Where a call is not the assistant's, that alone is told: what pairs with what is seen once it stands in its turn.
    """
    transcript = request.transcript
    calls, orphans = request.pairs
    if not calls and not orphans:
        return
    misplaced = dict.fromkeys(call.at for call in calls if transcript[call.at].role != "assistant")
    if misplaced:
        for at in misplaced:
            yield _misplaced(request, at)
        return
    repair = _Repair(request, profile)
    for at, part in () if request.continues else orphans:
        result = transcript[at].parts[part]
        assert isinstance(result, ToolResult)
        named = f"no call before it has the id {result.call_id!r}" if result.call_id else "no call before it is open"
        repair.drop(ORPHAN, at, part, named)
    for turn in turns(transcript, calls, profile.pairs_by_run):
        repair.turn(*turn)
    yield from repair.violations()


def _misplaced(request: Request, at: int) -> Violation:
    """The calls of a message that is not the assistant's, and their reasoning, become an assistant message after it."""
    message, where = request.transcript[at], request.index(at)
    turn = tuple([part for part in message.parts if isinstance(part, ToolCall | Reasoning)])
    rest = tuple([part for part in message.parts if not isinstance(part, ToolCall | Reasoning)])
    made = Message("assistant", turn, message.origin)
    new = (changed(message, parts=rest), made) if rest else (made,)
    reason = f"a call stands in a message of the {message.role}"
    fix = Fix("put it into an assistant message", "safe", (Edit(at, new, FOREIGN.code, reason),))
    return Violation(FOREIGN.code, where, reason, "error", f"[{where}]", fix)


class _Repair:
    """The violations of one transcript, and what their fixes put where.

    Fixes are planned as parts dropped and results added after a message, and become one edit a message, so that any
    number of faults in one message is mended in one pass.
    """

    def __init__(self, request: Request, profile: Profile) -> None:
        self.request = request
        self.transcript = request.transcript
        self._ordinals: dict[int, list[int]] = {}
        self.profile = profile
        self.own = profile.results_in == "tool" and not profile.results_together
        self.found: list[_Fault] = []
        self.dropped: dict[int, set[int]] = {}
        self.added: dict[int, list[Message]] = {}
        self.reasons: dict[int, list[tuple[Rule, str, int]]] = {}

    def drop(self, rule: Rule, at: int, part: int, reason: str, title: str = "drop it") -> _Fault:
        """Report a fault whose fix removes one part."""
        fault = self._report(rule, at, part, reason, title)
        self._remove(fault, at, part, reason)
        return fault

    @cached_property
    def named(self) -> Counter[str | None]:
        """How many calls there are of each id."""
        return Counter(call.call.id for call in self.request.pairs[0])

    def turn(self, end: int, calls: list[Call]) -> None:
        """Judge one turn: its half calls, then the result of each call and where it stands."""
        if self._is_whole(end, calls):
            return
        block = self._block(end)
        target = (block[0] if self.profile.results_together else block[-1]) if block else end
        standing = {target} if self.profile.results_together else set(block)
        for call in calls:
            if call.half:
                fault = self.drop(
                    HALF, call.at, call.part, f"{call.label} was cut off", "remove the call and its results"
                )
                for at, part in call.results:
                    self._remove(fault, at, part, "it answers a call that was cut off and never run")
                continue
            answer = self._choose(call)
            if answer is None:
                reason = f"{call.label} has no result"
                fault = self._report(MISSING, call.at, call.part, reason, "add a result that says so")
                self._add(fault, target, _synthetic(call.call, self.profile.format), reason)
            elif (self.profile.results_adjacent or not call.call.id or self.named[call.call.id] > 1) and (
                answer[0] not in standing  # without an id of its own its place is all that tells which call it answers
            ):
                self._move(call, answer, target)
        if self.profile.results_first:
            self._reorder(block)

    def _is_whole(self, end: int, calls: list[Call]) -> bool:
        """Whether the results of the calls, and nothing else, follow in their order: the usual turn, told at once."""
        at, part, own = end + 1, 0, self.own
        size = 1 if own else len(calls)
        for call in calls:
            if call.results != [(at, part)] or len(self.transcript[at].parts) != size or call.half:
                return False
            at, part = (at + 1, 0) if own else (at, part + 1)
        return self.profile.results_in == "tool" or self.transcript[end + 1].role == "user"

    def violations(self) -> Iterator[Violation]:
        """What was found, each fault with the edits of every message its fix touches."""
        edits = {at: self._edit(at) for at in self.reasons}
        for fault in self.found:
            safety: Safety = "lossy" if fault.rule in LOSSY else "safe"
            fix = Fix(fault.title, safety, tuple(edits[at] for at in fault.touched))
            severity = self.profile.severity("results_adjacent") if fault.rule is DETACHED else "error"
            at = self.request.index(fault.at)
            yield Violation(fault.rule.code, at, fault.reason, severity, self._place(fault.at, fault.part), fix)

    def _choose(self, call: Call) -> tuple[int, int] | None:
        """The best of a call's results: real before synthetic, success before error, else the first. The rest go."""
        if len(call.results) < 2:
            return call.results[0] if call.results else None

        def rank(place: tuple[int, int]) -> tuple[bool, bool]:
            result = self._result(place)
            return text_of(result.parts) == BACKFILL, result.error

        best = min(call.results, key=rank)
        for at, part in call.results:
            if (at, part) != best:
                self.drop(DUPLICATE, at, part, f"{call.label} has another result, which is kept")
        return best

    def _move(self, call: Call, answer: tuple[int, int], target: int) -> None:
        reason = f"the result of {call.label} stands apart from its call"
        fault = self._report(DETACHED, *answer, reason, "move it to its call")
        self._remove(fault, *answer, f"{reason}: moved to message {self.request.index(call.at)}")
        came = self.request.index(answer[0])
        message = self.transcript[answer[0]]
        alone = message if len(message.parts) == 1 else Message("tool", (self._result(answer),), message.origin)
        self._add(fault, target, alone, f"{reason}: moved here from message {came}")

    def _block(self, end: int) -> list[int]:
        """The messages directly after a turn in which its results may stand."""
        block = []
        for at in range(end + 1, len(self.transcript)):
            message = self.transcript[at]
            if self.profile.results_in == "tool":
                fits, more = bool(message.parts) and not message.says_something, True
            else:
                fits, more = message.role == "user", self.profile.pairs_by_run and not message.says_something
            if fits:
                block.append(at)
            if not fits or not more:
                break
        return block

    def _reorder(self, block: list[int]) -> None:
        for at in block:
            results_are = [type(part) is ToolResult for part in self.transcript[at].parts]
            if True in results_are and results_are != sorted(results_are, reverse=True):
                reason = "something stands before the tool results"
                fault = self._report(LAST, at, results_are.index(False), reason, "put the results first")
                self._touch(fault, at, reason, at)

    def _report(self, rule: Rule, at: int, part: int, reason: str, title: str) -> _Fault:
        fault = _Fault(rule, at, part, reason, title)
        self.found.append(fault)
        return fault

    def _remove(self, fault: _Fault, at: int, part: int, reason: str) -> None:
        self.dropped.setdefault(at, set()).add(part)
        self._touch(fault, at, reason, at)

    def _add(self, fault: _Fault, target: int, result: Message, reason: str) -> None:
        self.added.setdefault(target, []).append(result)
        self._touch(fault, target, reason, fault.at)

    def _touch(self, fault: _Fault, at: int, reason: str, about: int) -> None:
        fault.touched.append(at)
        self.reasons.setdefault(at, []).append((fault.rule, reason, about))

    def _result(self, place: tuple[int, int]) -> ToolResult:
        result = self.transcript[place[0]].parts[place[1]]
        assert isinstance(result, ToolResult)
        return result

    def _place(self, at: int, part: int) -> str:
        """The path of a part, put together only for what was found."""
        message = self.transcript[at]
        if at not in self._ordinals:
            self._ordinals[at] = list(accumulate((type(value) is ToolCall for value in message.parts), initial=0))
        nth = self._ordinals[at][part] if type(message.parts[part]) is ToolCall else None
        return f"[{self.request.index(at)}]{wire.place(self.profile.format, part, nth)}"

    def _edit(self, at: int) -> Edit:
        """What stands at a message once every part is dropped and every result added."""
        rules = sorted(self.reasons[at], key=lambda reason: reason[2] != at)
        new = self._rebuilt(self.transcript[at], self.dropped.get(at, set()), self.added.get(at, []))
        reason = "; ".join(dict.fromkeys(reason for _, reason, _ in rules))
        return Edit(at, new, rules[0][0].code, reason, about=rules[0][2])

    def _rebuilt(self, message: Message, dropped: set[int], added: list[Message]) -> tuple[Message, ...]:
        """The message without the dropped parts, and the added results where the provider wants them."""
        parts: tuple[Part, ...] = tuple([part for at, part in enumerate(message.parts) if at not in dropped])
        nothing = bool(dropped) and all(type(part) is Text and not part.text.strip() for part in parts)
        kept = () if nothing else (changed(message, parts=parts) if dropped else message,)
        if self.profile.results_in == "tool":
            return (*kept, *added)
        new = [result for message in added for result in message.results]
        if message.role == "assistant":
            return (*kept, Message("user", tuple(new))) if new else kept
        results = [part for part in parts if type(part) is ToolResult]
        others = [part for part in parts if type(part) is not ToolResult]
        front = (*results, *new, *others)
        return (changed(message, parts=front),) if front else ()


@dataclass(slots=True)
class _Fault:
    """What was found at one part, and the messages its fix touches."""

    rule: Rule
    at: int
    part: int
    reason: str
    title: str
    touched: list[int] = field(default_factory=list)


def _synthetic(call: ToolCall, form: str) -> Message:
    """The message that answers a call whose result is lost."""
    text = (Text(BACKFILL, flat=True),)
    result = ToolResult(call.id, text, call.name, error=True, extra=wire.answer_fields(call, form))
    return Message("function" if "function_call" in call.extra else "tool", (result,))
