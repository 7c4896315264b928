"""Making a draft fit its budget: the largest cut that fits once it is mended, else the least one with its texts shrunk.

A candidate is judged by what the repair makes of it, since that costs tokens too.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from legato import wire
from legato.draft import Draft
from legato.edits import HEAD, Edit
from legato.errors import OverBudget
from legato.fit import fold, markers, shrink, snip
from legato.fit.fold import Broke, Fold
from legato.policy import Policy, keeper
from legato.rules import FAMILIES, size
from legato.wire import shape

TRIES = 6
"""How often a length is corrected by what the shrunk request really costs."""


def cap(draft: Draft, window: int) -> Draft:
    """The draft with its output limit lowered to what the window leaves, where the provider adds the two up."""
    asked = wire.limits.output(draft.request.head)
    room = window - draft.tokens()
    if asked is None or asked <= room or room <= 0:
        return draft
    head = wire.limits.with_output(draft.request.head, room)
    reason = f"{asked:,} tokens of output are asked for, the window leaves {room:,}"
    return draft.make([Edit(HEAD, (), size.CAP.code, reason, head)], {HEAD})


class Fitted(msgspec.Struct, frozen=True):
    """A draft that is mended and within its budget.

    `spent` is what its messages were counted for: as long as that and what is appended leave room, nothing else is cut.
    None where it was cut by itself. `walk` is the fold that was made, if one had to be.
    """

    draft: Draft
    spent: int | None = None
    walk: fold.Walk | None = None


def fit(draft: Draft, policy: Policy, budget: int | None) -> Fitted:
    """The draft within its budget. Raises `OverBudget`, and `StoreError` if what is dropped cannot be kept."""
    if budget is not None and policy.fold is not None:
        fitted = _folded(draft, policy, policy.fold, budget)
    else:
        fitted = Fitted(draft.mend(FAMILIES), 0)
        if budget is not None and fitted.draft.tokens() > budget:
            fitted = Fitted(_snipped(draft, policy, budget))
    _keep(fitted.draft, policy)
    return fitted


def _keep(draft: Draft, policy: Policy) -> None:
    """Put what was dropped into the policy's store, as JSON; the reason of its change has the handle."""
    keep = keeper(policy)
    if keep is None:
        return
    for change in draft.changes:
        if change.code == snip.OVER.code and not change.new:
            items = [item for message in change.old for item in draft.ledger.encode(message)]
            change.reason += f", kept as {keep(shape.dump(items))}"


def _folded(draft: Draft, policy: Policy, how: Fold, budget: int) -> Fitted:
    """The draft cut where its folds have come to be; what they leave too long is snipped.

    What comes out leaves a little of the budget free, so that governing it again folds nothing.
    """
    ledger, walk, folded = draft.ledger, None, draft
    room = fold.room(budget, ledger.head(draft.request.head))
    spent = ledger.messages(draft.request.transcript) + fold.bridges(draft.request, draft.profile, ledger.message)
    if spent > room:
        ways = (ledger.message, ledger.count, keeper(policy), _pin(draft, policy))
        walk = fold.Walk(draft.profile, how, room, *ways)
        walk.read(draft.request.transcript, draft.request.pairs[0])
        spent = walk.reach()
        folded = _cut(draft, walk.edits(), walk.broke)
    whole = folded.mend(FAMILIES)
    most = ledger.head(draft.request.head) + room
    if whole.tokens() <= most:
        return Fitted(whole, spent, walk)
    try:
        return Fitted(_snipped(folded, policy, most))
    except OverBudget:
        return Fitted(_snipped(folded, policy, budget))  # nothing can be left free, if it fits at all


def _pin(draft: Draft, policy: Policy) -> fold.Pin | None:
    """The caller's predicate on wire items, asked of messages."""
    wanted, encode = policy.pinned, draft.ledger.encode
    return None if wanted is None else lambda message: any(map(wanted, encode(message)))


def _snipped(draft: Draft, policy: Policy, budget: int) -> Draft:
    """The largest cut that fits once it is mended, else the least one with its texts shrunk."""
    cut = snip.Cut(draft.request, draft.profile, draft.ledger.message)
    last = max(0, len(cut) - 1)
    head = draft.ledger.head(draft.request.head)
    aim, best, seen = budget - head, None, set()
    for _ in range(snip.ATTEMPTS):
        k = cut.largest(aim)
        if k in seen:
            break
        seen.add(k)
        candidate = _cut(draft, cut.edits(k)).mend(FAMILIES)
        slack = budget - candidate.tokens()
        if slack >= 0 and (best is None or k < best[0]):
            best = (k, candidate)
        aim = cut.tokens(k) + slack
    if best is not None:
        return best[1]
    step, k = 1, min(max(seen) + 1, last)
    while k < last:
        candidate = _cut(draft, cut.edits(k)).mend(FAMILIES)
        if candidate.tokens() <= budget:
            return candidate
        step, k = step * 2, min(k + step, last)
    return _shrunk(_cut(draft, cut.edits(last)), policy, budget)


def _cut(draft: Draft, edits: list[Edit], folds: Sequence[Broke] = ()) -> Draft:
    """The draft with units dropped or cleared, the cache markers of what is gone on what stays before it."""
    return draft.make(markers.carry(draft.request, edits, draft.profile.format), folds=folds)


def _shrunk(least: Draft, policy: Policy, budget: int) -> Draft:
    """The least cut, its longest texts cut in the middle until it fits."""
    mended = least.mend(FAMILIES)
    over = mended.tokens() - budget
    if over <= 0:
        return mended
    for attempt in range(TRIES):
        goal = over if attempt < TRIES - 1 else mended.tokens()
        edits = shrink.plan(least.request, goal, least.ledger.text, keeper(policy))
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
