"""Governing a request: `pair -> fit -> repair`.

    check   shows what the rules find
    repair  applies their fixes
    govern  makes the request fit as well

Before the fit only what concerns a message by itself, or a call and its result, is mended: merging roles first would
weld the units that the fit may drop. After it every family runs. The fit judges a candidate by what that makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property

import msgspec

from legato import profiles, wire
from legato.edits import HEAD, Edit, Request, apply, disjoint
from legato.errors import GovernanceError, OverBudget, Unrepairable, WireError
from legato.fit import shrink, snip
from legato.messages import Json, ToolCall
from legato.policy import DEFAULT_OUTPUT, Policy
from legato.profiles import Profile
from legato.report import Change, Ledger, Report
from legato.rules import FAMILIES, LOCAL, Family, Violation, size
from legato.rules.violation import edits_of, harmless
from legato.tokens import RATES, counter

ROUNDS = 24
"""A family that has not settled by then never will: that is a fault of ours, said as one."""
TRIES = 6
"""How often a length is corrected by what the shrunk request really costs."""


class Governed:
    """What to send. `body` has the shape that came in, and is the very object if nothing had to change."""

    def __init__(self, body: Json, messages: list[Json], report: Report) -> None:
        self.body = body
        self.messages = messages
        self.report = report

    def __repr__(self) -> str:
        return f"<Governed: {len(self.messages)} messages, {len(self.report.changes)} changes>"

    @cached_property
    def ids(self) -> dict[str, str]:
        """The call ids that were rewritten: new to old, to translate what the model answers."""
        calls = [(old.id, new.id) for old, new in self._calls()]
        return {new: old for old, new in calls if old and new and old != new}

    @cached_property
    def tool_names(self) -> dict[str, str]:
        """The tool names that were rewritten: new to old, to translate what the model calls."""
        calls = [(old.name, new.name) for old, new in self._calls()]
        heads = [change.heads for change in self.report.changes if change.heads is not None]
        defined = [pair for heads_of in heads for pair in zip(*map(wire.tools.names, heads_of), strict=False)]
        return {new: old for old, new in [*calls, *defined] if old and new and old != new}

    def _calls(self) -> Iterator[tuple[ToolCall, ToolCall]]:
        """Every call that a change touched, before and after."""
        for change in self.report.changes:
            for old, new in zip(change.old, change.new, strict=False):
                yield from zip(old.calls, new.calls, strict=False)


def check(
    messages: Json,
    profile: str | Profile | None = None,
    *,
    tools: Sequence[Json] | None = None,
    format: str | None = None,  # noqa: A002 - the contract's word
    model: str | None = None,
) -> list[Violation]:
    """What the provider would refuse (severity `error`) or what may do harm (`warning`), in the order of the messages.

    Raises `WireError` where the payload is not what its format says, `UnknownProfile`.
    """
    target = _target(messages, profile, format, model)
    request = wire.read(messages, target.format, tools)
    key = wire.codec(target.format).KEY
    found = [violation for family in FAMILIES for violation in family(request, target)]
    found.sort(key=lambda violation: -1 if violation.at is None else violation.at)
    return [msgspec.structs.replace(violation, place=_path(key, violation.place)) for violation in found]


def repair(
    messages: Json,
    profile: str | Profile | None = None,
    *,
    tools: Sequence[Json] | None = None,
    format: str | None = None,  # noqa: A002 - the contract's word
    model: str | None = None,
    policy: Policy | None = None,
) -> Governed:
    """The rules' fixes alone: nothing is compacted, nothing snipped. Raises as `check` does, and `Unrepairable`."""
    target = _target(messages, profile, format, model)
    before = wire.read(messages, target.format, tools)
    ledger = _ledger(policy or Policy(), target)
    draft = Draft(before, (), target, ledger).mend(FAMILIES)
    return _governed(messages, before, draft, None, target)


def govern(
    messages: Json,
    *,
    tools: Sequence[Json] | None = None,
    profile: str | Profile | None = None,
    policy: Policy | None = None,
    format: str | None = None,  # noqa: A002 - the contract's word
    model: str | None = None,
    to: str | None = None,
) -> Governed:
    """The messages to send: legal for the provider, within the budget, and a report of every change.

    `messages` is a bare list or a whole body; it is never changed. `to` moves them: they are read as `format` (sniffed
    without one) and written in the format `to`, for a `profile` of that format. Raises `WireError`, `UnknownProfile`,
    `PolicyError`, `Unrepairable` (only faults are left that the caller must decide), `OverBudget` (what must stay does
    not fit).
    """
    policy = policy or Policy()
    remarks: list[str] = []
    if to is None:
        target = _target(messages, profile, format, model)
        before = wire.read(messages, target.format, tools)
    else:
        target = _target(messages, profile or OWN[to], to, model)
        source = format or wire.sniff(messages)
        before, left = wire.move(wire.read(messages, source, tools), to)
        remarks = [f"moved from {source} to {to}" + (f"; left behind: {', '.join(left)}" if left else "")]
    ledger = _ledger(policy, target)
    draft = Draft(before, (), target, ledger).mend(LOCAL)
    budget = _budget(policy, target, draft.request)
    if policy.microcompact is not None:
        draft = draft.make(policy.microcompact.plan(draft.request, ledger.count))
    whole = draft.mend(FAMILIES)
    if budget is not None and ledger.request(whole.request) > budget:
        whole = _fit(draft, policy, budget)
    if budget is not None and target.output_counts:
        whole = _capped(whole, policy.window or target.window or 0)
    return _governed(messages, before, whole, budget, target, remarks)


class Draft:
    """A request on its way, and the changes that made it. Nothing is altered: each step gives a new draft.

    `settled` are the families that have found nothing wrong with this very request.
    """

    def __init__(
        self,
        request: Request,
        changes: tuple[Change, ...],
        profile: Profile,
        ledger: Ledger,
        settled: frozenset[Family] = frozenset(),
    ) -> None:
        self.request = request
        self.changes = changes
        self.profile = profile
        self.ledger = ledger
        self.settled = settled

    def make(self, edits: Iterable[Edit], harmless: Collection[int] = ()) -> Draft:
        """The draft with the edits applied and written down. At the `harmless` places nothing is lost."""
        edits = sorted(edits, key=lambda edit: edit.at)
        if not edits:
            return self
        made = []
        for edit in edits:
            place = edit.at if edit.about is None else edit.about
            at = None if place == HEAD else self.request.index(place)
            made.append(Change(edit, self.request, at, self.ledger, edit.at in harmless))
        return Draft(apply(self.request, edits), (*self.changes, *made), self.profile, self.ledger)

    def mend(self, families: Sequence[Family]) -> Draft:
        """The draft with every error of these families fixed. Raises `Unrepairable` if one has no fix of its own."""
        draft = self
        for family in families:
            if family not in draft.settled:
                draft = draft._settle(family)
        return draft

    def tokens(self) -> int:
        return self.ledger.request(self.request)

    def _settle(self, family: Family) -> Draft:
        draft = self
        for _ in range(ROUNDS):
            errors = [violation for violation in family(draft.request, self.profile) if violation.severity == "error"]
            edits = disjoint(edits_of(errors))
            if not edits:
                if errors:
                    raise Unrepairable(errors)
                settled = draft.settled | {family}
                return Draft(draft.request, draft.changes, draft.profile, draft.ledger, settled)
            draft = draft.make(edits, harmless(errors))
        raise GovernanceError(f"a fault of legato: {', '.join(sorted({error.code for error in errors}))} do not settle")


def _capped(draft: Draft, window: int) -> Draft:
    """The draft with its output limit lowered to what the window leaves, where the provider adds the two up."""
    asked = wire.limits.output(draft.request.head)
    room = window - draft.tokens()
    if asked is None or asked <= room or room <= 0:
        return draft
    head = wire.limits.with_output(draft.request.head, room)
    reason = f"{asked:,} tokens of output are asked for, the window leaves {room:,}"
    return draft.make([Edit(HEAD, (), size.CAP.code, reason, head)], {HEAD})


def _fit(draft: Draft, policy: Policy, budget: int) -> Draft:
    """The largest cut that fits once it is mended, else the least one with its texts shrunk. Raises `OverBudget`."""
    cut = snip.Cut(draft.request, draft.profile, draft.ledger.message)
    last = max(0, len(cut) - 1)
    head = draft.ledger.head(draft.request.head)
    aim, best, seen = budget - head, None, set()
    for _ in range(snip.ATTEMPTS):
        k = cut.largest(aim)
        if k in seen:
            break
        seen.add(k)
        candidate = draft.make(cut.edits(k)).mend(FAMILIES)
        slack = budget - candidate.tokens()
        if slack >= 0 and (best is None or k < best[0]):
            best = (k, candidate)
        aim = cut.tokens(k) + slack
    if best is not None:
        return best[1]
    step, k = 1, min(max(seen) + 1, last)
    while k < last:
        candidate = draft.make(cut.edits(k)).mend(FAMILIES)
        if candidate.tokens() <= budget:
            return candidate
        step, k = step * 2, min(k + step, last)
    return _shrunk(draft.make(cut.edits(last)), policy, budget)


def _shrunk(least: Draft, policy: Policy, budget: int) -> Draft:
    """The least cut, its longest texts cut in the middle until it fits."""
    mended = least.mend(FAMILIES)
    over = mended.tokens() - budget
    if over <= 0:
        return mended
    for attempt in range(TRIES):
        goal = over if attempt < TRIES - 1 else mended.tokens()
        edits = shrink.plan(least.request, goal, least.ledger.count)
        candidate = least.make(edits).mend(FAMILIES)
        short = candidate.tokens() - budget
        if short <= 0:
            return candidate
        over += max(short, 8)
    raise OverBudget(candidate.tokens(), budget, _account(candidate, policy))


def _account(draft: Draft, policy: Policy) -> dict[str, int]:
    """Where the tokens of a request sit that cannot be made any smaller."""
    transcript, ledger = draft.request.transcript, draft.ledger
    system = ledger.messages([message for message in transcript if message.is_system])
    asked = [message for message in transcript if message.role == "user"][-1:]
    task = ledger.messages(asked)
    head, overhead = ledger.head(draft.request.head), ledger.head({})
    return {
        "system": system,
        "tools": head - overhead,
        "pinned": task,
        "newest unit": draft.tokens() - system - head - task,
        "overhead": overhead,
        "reserve": policy.reserve,
    }


OWN = {
    "openai-chat": "portable",
    "openai-responses": "openai-responses",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "bedrock": "bedrock",
}
"""The profile of a format where the caller names none."""


def _target(payload: Json, profile: str | Profile | None, form: str | None, model: str | None) -> Profile:
    """The profile whose rules apply, its `format` the one the payload is in.

    A provider with more than one API is judged by the one that the payload is for.
    """
    if form is not None:
        wire.codec(form)
    if model is not None and profile is None and "/" in model:
        profile, _, model = model.partition("/")
    if profile is None:
        profile = OWN[form or wire.sniff(payload)]
    if isinstance(profile, str):
        named = model or (payload.get("model") if isinstance(payload, dict) else None)
        if ":" not in profile and isinstance(named, str) and named:
            profile = f"{profile}:{named}"
        profile = profiles.get(profile)
    wanted = form or wire.evidence(payload) or profile.format
    if wanted == profile.format:
        return profile
    sibling = profiles.sibling(profile.name, wanted)
    if sibling is not None:
        return sibling
    if form is None:
        remedy = f'format="{wanted}" judges it as it is, to="{profile.format}" moves it'
        raise WireError("", f"looks like {wanted}, and {profile.name} reads {profile.format}: {remedy}")
    return msgspec.structs.replace(profile, format=form)


def _ledger(policy: Policy, profile: Profile) -> Ledger:
    count: Callable[[str], int] = policy.counter or counter(profile.encoding)
    return Ledger(count, RATES[profile.rates], wire.codec(profile.format).encode)


def _budget(policy: Policy, profile: Profile, request: Request) -> int | None:
    window = policy.window if policy.window is not None else profile.window
    if window is None:
        return None
    asked = wire.limits.output(request.head)
    usual = min(DEFAULT_OUTPUT, window // 4) if asked is None else min(asked, window // 2)
    output = usual if policy.max_output is None else policy.max_output
    budget = policy.budget(window, output)
    return budget if profile.max_input is None or policy.window is not None else min(budget, profile.max_input)


def _governed(
    payload: Json, before: Request, draft: Draft, budget: int | None, target: Profile, remarks: Sequence[str] = ()
) -> Governed:
    body = wire.write(draft.request, before, payload, target.format, moved=bool(remarks))
    noted = wire.notes(before)
    remarks = [*remarks, *([f"{', '.join(noted)}: notes of the caller, never sent"] if noted else [])]
    if target.note:
        remarks.append(target.note)
    report = Report(before, draft.request, draft.changes, budget, draft.ledger, remarks)
    messages = body[wire.codec(target.format).KEY] if isinstance(body, dict) else body
    return Governed(body, messages, report)


def _path(key: str, place: str) -> str:
    return f"{key}{place}" if place.startswith("[") else place
