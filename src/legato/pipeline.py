"""Governing a request: `pair -> fit -> repair`.

    check   shows what the rules find
    repair  applies their fixes
    govern  makes the request fit as well

Before the fit only what concerns a message by itself, or a call and its result, is mended: merging roles first would
weld the units that the fit may drop. After it every family runs. The fit judges a candidate by what that makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import msgspec

from legato import profiles, wire
from legato import summary as summaries
from legato.calibration import Calibration
from legato.draft import Draft
from legato.edits import Request
from legato.errors import WireError
from legato.fitting import Fitted, cap, fit
from legato.messages import Json, ToolCall
from legato.policy import DEFAULT_OUTPUT, Policy, keeper
from legato.profiles import Profile
from legato.report import Ledger, Report
from legato.rules import FAMILIES, LOCAL, Violation, name
from legato.summary import Summary
from legato.tokens import RATES, counting


class Governed:
    """What to send. `body` has the shape that came in, and is the very object if nothing had to change."""

    def __init__(self, body: Json, messages: list[Json], report: Report | Callable[[], Report]) -> None:
        self.body = body
        self.messages = messages
        self._report = report

    @cached_property
    def report(self) -> Report:
        """What was changed and why, put together when it is first read."""
        return self._report if isinstance(self._report, Report) else self._report()

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
        """Every call that was renamed, before and after."""
        renamed = {rule.code for rule in name.TABLE}
        for change in self.report.changes:
            if change.code not in renamed:
                continue
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
    calibration: Calibration | None = None,
    summary: Summary | None = None,
) -> Governed:
    """The messages to send: legal for the provider, within the budget, and a report of every change.

    `messages` is a bare list or a whole body; it is never changed. `to` moves them: they are read as `format` (sniffed
    without one) and written in the format `to`, for a `profile` of that format. `calibration` is what earlier answers
    of the provider taught: it corrects counts and limit. `summary` stands for messages of the history, if it is of this
    one. Raises `WireError`, `UnknownProfile`, `PolicyError`, `Unrepairable` (only faults are left that the caller must
    decide), `OverBudget` (what must stay does not fit).
    """
    run = Run.of(messages, tools, profile, policy or Policy(), format, model, calibration, summary, to)
    return run.governed()


class Run(msgspec.Struct, frozen=True):
    """One request through the pipeline: what came in, what is sent, and what a session has to know to go on from it.

    `local` is the draft that the rules mended before the fit, `compacted` what the fit was given, `fitted` what it made
    of that, `whole` what is sent.
    """

    payload: Json
    before: Request
    local: Draft
    compacted: Draft
    whole: Draft
    target: Profile
    policy: Policy
    budget: int | None
    fitted: Fitted
    remarks: Sequence[str]
    summary: Summary | None = None
    """The one that was applied."""
    moved: bool = False
    """Whether the payload is of another format."""

    @classmethod
    def of(
        cls,
        messages: Json,
        tools: Sequence[Json] | None,
        profile: str | Profile | None,
        policy: Policy,
        form: str | None,
        model: str | None,
        calibration: Calibration | None,
        summary: Summary | None = None,
        to: str | None = None,
    ) -> Run:
        """Govern, from top to bottom."""
        remarks: list[str] = []
        if to is None:
            target = _target(messages, profile, form, model)
            before = wire.read(messages, target.format, tools)
        else:
            wire.codec(to)
            target = _target(messages, profile or OWN[to], to, model)
            source = form or wire.sniff(messages)
            before, left = wire.move(wire.read(messages, source, tools), to)
            remarks = [f"moved from {source} to {to}" + (f"; left behind: {', '.join(left)}" if left else "")]
        ledger = _ledger(policy, target, calibration)
        local = Draft(before, (), target, ledger)
        if summary is not None and summary.fits(before):
            local = summaries.apply(local, summary)
        elif summary is not None:
            remarks.append("the summary is of another history, and was left out")
            summary = None
        local = local.mend(LOCAL)
        budget = _budget(policy, target, local.request)
        if calibration is not None:
            budget = calibration.budget(budget)
        compacted = local
        if policy.microcompact is not None:
            compacted = local.make(policy.microcompact.plan(local.request, ledger.count, keeper(policy)))
        fitted = fit(compacted, policy, budget)
        whole = fitted.draft
        if budget is not None and target.output_counts:
            whole = cap(whole, policy.window or target.window or 0)
        drafts = (local, compacted, whole)
        return cls(messages, before, *drafts, target, policy, budget, fitted, remarks, summary, to is not None)

    def governed(self) -> Governed:
        return _governed(self.payload, self.before, self.whole, self.budget, self.target, self.remarks, self.moved)

    def notes(self, noted: Sequence[str]) -> list[str]:
        """The report's remarks, where these are the caller's notes."""
        return _notes(noted, self.target, self.remarks)


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


def _ledger(policy: Policy, profile: Profile, calibration: Calibration | None = None) -> Ledger:
    """What counts: by the caller's own counter as it says, else by the model's vocabulary or one that stands in."""
    count: Callable[[str], int]
    count, known = (policy.counter, 1.0) if policy.counter is not None else counting(profile)
    factor = known if calibration is None else calibration.factor
    return Ledger(count, RATES[profile.rates], wire.codec(profile.format).encode, factor)


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
    payload: Json,
    before: Request,
    draft: Draft,
    budget: int | None,
    target: Profile,
    remarks: Sequence[str] = (),
    moved: bool = False,
) -> Governed:
    body = wire.write(draft.request, before, payload, target.format, moved)
    notes = _notes(wire.notes(before), target, remarks)
    report = Report(before, draft.request, draft.changes, budget, draft.ledger, notes, draft.folds)
    messages = body[wire.codec(target.format).KEY] if isinstance(body, dict) else body
    return Governed(body, messages, report)


def _notes(noted: Sequence[str], target: Profile, remarks: Sequence[str]) -> list[str]:
    found = [*remarks, f"{', '.join(noted)}: notes of the caller, never sent"] if noted else [*remarks]
    return [*found, target.note] if target.note else found


def _path(key: str, place: str) -> str:
    return f"{key}{place}" if place.startswith("[") else place
