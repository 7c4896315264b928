"""Making a draft fit its budget: the largest cut that fits once it is mended, else the least one with its texts shrunk.

A candidate is judged by what the repair makes of it, since that costs tokens too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from legato import wire
from legato.draft import Draft
from legato.edits import HEAD, Edit
from legato.errors import OverBudget
from legato.fit import fold, markers, shrink, snip
from legato.fit.fold import Broke, Fold
from legato.messages import Message
from legato.policy import Policy, keeper
from legato.report import Ledger
from legato.rules import FAMILIES, size
from legato.wire import shape

TRIES = 6
"""How often a length is corrected by what the shrunk request really costs."""


def cap(draft: Draft, window: int) -> Draft:
    """The draft with its output limit lowered to what the window leaves, where the provider adds the two up."""
    asked = wire.limits.output(draft.request.head)
    if asked is None or draft.ledger.within(draft.request, window - asked):
        return draft
    room = window - draft.ledger.request(draft.request)
    if room <= 0:
        return draft
    head = wire.limits.with_output(draft.request.head, room)
    reason = f"{asked:,} tokens of output are asked for, the window leaves {room:,}"
    return draft.make([Edit(HEAD, (), size.CAP.code, reason, head)], {HEAD})


class Fitted(msgspec.Struct, frozen=True):
    """A draft that is mended and within its budget.

    `spent` is no less than what its messages cost: as long as that and what is appended leave room, nothing is cut.
    None where it can't be gone on from. `walk` is the fold or the cut that was made, if one had to be.
    """

    draft: Draft
    spent: int | None = None
    walk: fold.Walk | snip.Cut | None = None


def fit(draft: Draft, policy: Policy, budget: int | None) -> Fitted:
    """The draft within its budget. Raises `OverBudget`, and `StoreError` if what is dropped cannot be kept."""
    if budget is not None and policy.fold is not None:
        fitted = _folded(draft, policy, policy.fold, budget)
    else:
        fitted = _unfolded(draft, policy, budget)
    _keep(fitted.draft, policy)
    return fitted


def _unfolded(draft: Draft, policy: Policy, budget: int | None) -> Fitted:
    """The draft whole if its messages fit, else snipped."""
    if budget is None:
        return Fitted(draft.mend(FAMILIES), 0)
    ledger = draft.ledger
    room = budget - ledger.head(draft.request.head)
    spent = ledger.spent(draft.request.transcript, room)
    if spent <= room:
        whole = draft.mend(FAMILIES)
        if whole.request is draft.request or ledger.within(whole.request, budget):
            return Fitted(whole, spent)
    return _snipped(draft, policy, budget)


def _keep(draft: Draft, policy: Policy) -> None:
    """Put what was dropped into the policy's store; the reason of its change has the handle."""
    keep = keeper(policy)
    if keep is None:
        return
    for change in draft.changes:
        if change.code == snip.OVER.code and not change.new:
            change.reason += f", kept as {keep(written(change.old, draft.ledger))}"


def written(messages: Iterable[Message], ledger: Ledger) -> str:
    """Messages as the JSON that is kept of them."""
    return shape.dump([item for message in messages for item in ledger.encode(message)])


def _folded(draft: Draft, policy: Policy, how: Fold, budget: int) -> Fitted:
    """The draft cut where its folds have come to be; what they leave too long is snipped.

    What comes out leaves a little of the budget free, so that governing it again folds nothing.
    """
    ledger, walk, folded = draft.ledger, None, draft
    head = ledger.head(draft.request.head)
    room = fold.room(budget, head)
    bridges = fold.bridges(draft.request, draft.profile, ledger.message)
    spent = ledger.spent(draft.request.transcript, room - bridges) + bridges
    if spent > room:
        ways = (ledger.message, ledger.count, ledger.text, keeper(policy), _pin(draft, policy))
        walk = fold.Walk(draft.profile, how, room, *ways)
        walk.read(draft.request.transcript, draft.request.pairs[0])
        spent = walk.reach()
        folded = _cut(draft, walk.edits(), walk.broke)
    whole = folded.mend(FAMILIES)
    most = head + room
    if (walk is None and whole.request is draft.request) or ledger.within(whole.request, most):
        return Fitted(whole, spent, walk)
    try:
        return Fitted(_snipped(folded, policy, most).draft)
    except OverBudget:
        return Fitted(_snipped(folded, policy, budget).draft)  # nothing can be left free, if it fits at all


def _pin(draft: Draft, policy: Policy) -> fold.Pin | None:
    """The caller's predicate on wire items, asked of messages."""
    wanted, encode = policy.pinned, draft.ledger.encode
    return None if wanted is None else lambda message: any(map(wanted, encode(message)))


def _snipped(draft: Draft, policy: Policy, budget: int) -> Fitted:
    """The largest cut that fits once it is mended, else the least one with its texts shrunk."""
    cut = snip.Cut(draft.profile, draft.ledger.message)
    cut.read(draft.request.transcript)
    head = draft.ledger.head(draft.request.head)
    found = largest(cut, budget, head, lambda k: _cut(draft, cut.edits(k)).mend(FAMILIES))
    if found is not None:
        return Fitted(found, draft.ledger.messages(draft.request.transcript), cut)
    return Fitted(_shrunk(_cut(draft, cut.edits(max(0, len(cut) - 1))), policy, budget))


def largest(cut: snip.Cut, budget: int, head: int, mended: Callable[[int], Draft]) -> Draft | None:
    """The largest cut that fits once it is mended, which then is the one that was made. None if not even the least.

    `head` is what the head of the request costs before the repair.
    """
    last = max(0, len(cut) - 1)
    aim, best, seen = budget - head, None, set()
    for _ in range(snip.ATTEMPTS):
        k = cut.largest(aim)
        if k in seen:
            break
        seen.add(k)
        candidate = mended(k)
        slack = budget - candidate.tokens()
        if slack >= 0 and (best is None or k < best[0]):
            best = (k, candidate)
        aim = cut.tokens(k) + slack
    step, k = 1, max(seen) + 1
    while best is None and k <= last:
        candidate = mended(k)
        if candidate.tokens() <= budget:
            best = (k, candidate)
        step, k = step * 2, last if k < last < k + step else k + step
    if best is None:
        return None
    cut.dropped = best[0]
    return best[1]


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
    asked = [message for message in transcript if message.asks][-1:]
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
