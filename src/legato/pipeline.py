"""Governing a request: `pair -> fit -> repair`.

    check   shows what the rules find
    repair  applies their fixes
    govern  makes the request fit as well

Before the fit only what concerns a message by itself, or a call and its result, is mended: merging roles first would
weld the units that the fit may drop. After it every family runs. The fit judges a candidate by what that makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

import msgspec

from legato import profiles, wire
from legato.edits import HEAD, Edit, Request, apply, disjoint
from legato.errors import GovernanceError, OverBudget, Unrepairable
from legato.fit import shrink, snip
from legato.messages import Json
from legato.policy import DEFAULT_OUTPUT, Policy
from legato.profiles import Profile
from legato.report import Change, Ledger, Report
from legato.rules import FAMILIES, LOCAL, Family, Violation
from legato.rules.violation import edits_of, index
from legato.tokens import RATES, TextCounter

ROUNDS = 24
"""A family that has not settled by then never will: that is a fault of ours, said as one."""
TRIES = 6
"""How often a length is corrected by what the shrunk request really costs."""
OUTPUT_LIMITS = ("max_completion_tokens", "max_tokens", "max_output_tokens")


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
        pairs = [(old, new) for change in self.report.changes for old, new in zip(change.old, change.new, strict=False)]
        return {
            new_call.id: old_call.id
            for old, new in pairs
            for old_call, new_call in zip(old.calls, new.calls, strict=False)
            if new_call.id and old_call.id and new_call.id != old_call.id
        }


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
    request = wire.read(messages, target.form, tools)
    key = wire.codec(target.form).KEY
    found = [violation for family in FAMILIES for violation in family(request, target.profile)]
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
    before = wire.read(messages, target.form, tools)
    ledger = _ledger(policy or Policy(), target.profile)
    draft = Draft(before, (), target.profile, ledger).mend(FAMILIES)
    return _governed(messages, before, draft, None, target)


def govern(
    messages: Json,
    *,
    tools: Sequence[Json] | None = None,
    profile: str | Profile | None = None,
    policy: Policy | None = None,
    format: str | None = None,  # noqa: A002 - the contract's word
    model: str | None = None,
) -> Governed:
    """The messages to send: legal for the provider, within the budget, and a report of every change.

    `messages` is a bare list or a whole body; it is never changed. Raises `WireError`, `UnknownProfile`, `PolicyError`,
    `Unrepairable` (only faults are left that the caller must decide), `OverBudget` (what must stay does not fit).
    """
    policy = policy or Policy()
    target = _target(messages, profile, format, model)
    before = wire.read(messages, target.form, tools)
    budget = _budget(policy, target.profile, before)
    ledger = _ledger(policy, target.profile)
    draft = Draft(before, (), target.profile, ledger).mend(LOCAL)
    if policy.microcompact is not None:
        draft = draft.make(policy.microcompact.plan(draft.request, ledger.count))
    whole = draft.mend(FAMILIES)
    if budget is not None and ledger.request(whole.request) > budget:
        whole = _fit(draft, policy, budget)
    return _governed(messages, before, whole, budget, target)


class Draft:
    """A request on its way, and the changes that made it. Nothing is altered: each step gives a new draft."""

    def __init__(self, request: Request, changes: tuple[Change, ...], profile: Profile, ledger: Ledger) -> None:
        self.request = request
        self.changes = changes
        self.profile = profile
        self.ledger = ledger

    def make(self, edits: Iterable[Edit]) -> Draft:
        """The draft with the edits applied and written down."""
        edits = sorted(edits, key=lambda edit: edit.at)
        if not edits:
            return self
        transcript = self.request.transcript
        made = []
        for edit in edits:
            place = edit.at if edit.about is None else edit.about
            at = None if place == HEAD else index(transcript, place)
            made.append(Change(edit, self.request, at, self.ledger))
        return Draft(apply(self.request, edits), (*self.changes, *made), self.profile, self.ledger)

    def mend(self, families: Sequence[Family]) -> Draft:
        """The draft with every error of these families fixed. Raises `Unrepairable` if one has no fix of its own."""
        draft = self
        for family in families:
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
                return draft
            draft = draft.make(edits)
        raise GovernanceError(f"a fault of legato: {', '.join(sorted({error.code for error in errors}))} do not settle")


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
    head = ledger.head(draft.request.head)
    return {
        "system": system,
        "tools": head,
        "pinned": task,
        "newest unit": draft.tokens() - system - head - task,
        "reserve": policy.reserve,
    }


class Target(msgspec.Struct, frozen=True):
    """Whose rules apply, and the wire format the payload is in."""

    profile: Profile
    form: str


def _target(payload: Json, profile: str | Profile | None, form: str | None, model: str | None) -> Target:
    if isinstance(profile, Profile):
        return Target(profile, form or profile.format)
    if model is not None and profile is None and "/" in model:
        profile, _, model = model.partition("/")
    if profile is None:
        profile = "portable"
    named = model or (payload.get("model") if isinstance(payload, dict) else None)
    if ":" not in profile and isinstance(named, str) and named:
        profile = f"{profile}:{named}"
    found = profiles.get(profile)
    return Target(found, form or found.format)


def _ledger(policy: Policy, profile: Profile) -> Ledger:
    count: Callable[[str], int] = policy.counter or TextCounter(profile.encoding)
    return Ledger(count, RATES[profile.rates])


def _budget(policy: Policy, profile: Profile, request: Request) -> int | None:
    window = policy.window if policy.window is not None else profile.window
    if window is None:
        return None
    asked = [request.head[field] for field in OUTPUT_LIMITS if isinstance(request.head.get(field), int)]
    output = (
        policy.max_output if policy.max_output is not None else asked[0] if asked else min(DEFAULT_OUTPUT, window // 4)
    )
    return policy.budget(window, output)


def _governed(payload: Json, before: Request, draft: Draft, budget: int | None, target: Target) -> Governed:
    body = wire.write(draft.request, before, payload, target.form)
    remarks = [f"{', '.join(noted)}: notes of the caller, never sent" for noted in [wire.notes(before)] if noted]
    report = Report(before, draft.request, draft.changes, budget, draft.ledger, remarks)
    messages = body[wire.codec(target.form).KEY] if isinstance(body, dict) else body
    return Governed(body, messages, report)


def _path(key: str, place: str) -> str:
    return f"{key}{place}" if place.startswith("[") else place
