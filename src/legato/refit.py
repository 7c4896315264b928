"""Where the fit of a history stands that grows, so that it goes on from there and not from the beginning.

Results that are no longer among the newest are compacted, the fold or the cut reads on, and what that leaves is mended
anew: all of it, or no more of it than what was not found clean before. What `Refit` makes is what `fit` makes of the
whole history; where that takes more than it knows it makes nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence

from legato import fit, wire
from legato.draft import Draft
from legato.edits import Request
from legato.fit import fold, snip
from legato.fit.fold import Broke
from legato.fitting import cap, largest, written
from legato.history import MENDERS, SEAM, History
from legato.messages import Message
from legato.pairing import match
from legato.pipeline import Run
from legato.policy import keeper
from legato.rules import FAMILIES, Family, role

FITTED = frozenset(rule.code for rule in fit.TABLE)
"""What the fit changes."""


class Refit:
    """The fit of a history: `lean` is that history as the fit sees it, `walk` the fold or the cut that was made of it.

    `spent` is no less than what its messages cost, `total` no less than what is sent does; `left` is what may be
    appended before something has to be cut. Messages whose bytes leave room are `owed`: not counted yet.
    """

    def __init__(self, run: Run, history: History) -> None:
        request, ledger, how = run.compacted.request, run.local.ledger, run.policy.microcompact
        self.run, self.history = run, history
        self.walk = run.fitted.walk
        self.lean = self.walk.transcript if isinstance(self.walk, snip.Cut) else list(request.transcript)
        found = [] if how is None else how.results(run.local.request.pairs[0], run.local.request.transcript)
        self.recent = deque(found if how is None else found[max(0, len(found) - how.keep) :])
        self.spent = run.fitted.spent or 0
        self.owed: list[Message] = []
        self.due = self.total = self.left = 0
        self.bridge = fold.bridge(run.target, ledger.message) if run.policy.fold is not None else 0
        self.stored, self.unstored = 0, list[int]()
        self.clean: int | None = None
        """The unit from which on the last repair has found nothing in what the fit left."""
        if run.budget is not None:
            self.top = ledger.head(request.head)
            room = run.budget - self.top if run.policy.fold is None else fold.room(run.budget, self.top)
            self.most = self.top + room
        if self.walk is not None:
            self._dropped()
        self.send(run.whole)

    def send(self, whole: Draft) -> None:
        """Note what is sent now."""
        run = self.run
        self.whole = whole.request
        if whole.settled:  # it was mended, all of it
            late = whole.changes[len(run.local.changes) :]
            cut = 0 if self.walk is None else self.walk.dropped
            self.clean = cut if FITTED.issuperset(change.code for change in late) else None
        if run.budget is not None:
            self.total = self.top + self.spent if whole.request is run.compacted.request else whole.tokens()
            self.left = self._room()

    def take(self, mended: Sequence[Message], offset: int) -> list[int]:
        """Take on what is appended, and compact what is old by that. The messages in which that was."""
        if isinstance(self.walk, snip.Cut):
            self.walk.read(mended)
        else:
            self.lean += mended
        return self._compact(mended, offset)

    def is_small(self, mended: Sequence[Message]) -> bool:
        """Whether there is room for it. Texts are counted only where their bytes could be too many tokens."""
        if self.run.budget is None:
            return True
        self.owed += mended
        self.due += self._bridges(mended) + sum(map(self.run.local.ledger.most, mended))
        if self.due > self.left:
            self._count()
        return self.due <= self.left

    def anew(self, stale: Sequence[int], follows: bool) -> Draft | None:
        """What is sent of the history as it is now. `follows`: the last repair finds nothing in what was appended.

        None where the whole pipeline has to tell. Raises `Unrepairable`.
        """
        if stale and isinstance(self.walk, fold.Walk):
            return None
        if not follows or self.history.is_linked or not all(map(self._is_clean_at, stale)):
            self.clean = None
        whole = self._refit()
        if whole is not None:
            self._store()
        return whole

    def is_clean(self, messages: Sequence[Message], families: Sequence[Family] = (*MENDERS, role.find)) -> bool:
        """Whether the last repair finds nothing in these messages of what is sent."""
        request = Request(self.whole.head, tuple(messages), self.whole.altered)
        found = (violation for family in families for violation in family(request, self.history.profile))
        return not any(violation.severity == "error" for violation in found)

    def _compact(self, mended: Sequence[Message], offset: int) -> list[int]:
        """Replace the results that are no longer among the newest. The messages that hold them."""
        how, ledger = self.run.policy.microcompact, self.run.local.ledger
        done: list[int] = []
        if how is None:
            return done
        self.recent.extend(how.results(match(tuple(mended))[0], mended, offset))
        while len(self.recent) > how.keep:
            place = self.recent.popleft()
            old = self.lean[place.at]
            new = how.compacted(old, place, ledger.count, keeper(self.run.policy))
            if new is None:
                continue
            done.append(place.at)
            if self.run.budget is not None:
                more = ledger.message(new) - ledger.message(old)
                self.spent, self.total = self.spent + more, self.total + more
            if isinstance(self.walk, snip.Cut):
                self.walk.put(place.at, new)
            else:
                self.lean[place.at] = new
        return done

    def _count(self) -> None:
        """Count what was only weighed."""
        cost = self.run.local.ledger.messages(self.owed)
        bridges = self._bridges(self.owed)
        if isinstance(self.walk, fold.Walk):
            self.walk.read(self.owed, match(tuple(self.owed))[0])
        self.spent += bridges + cost
        self.total += cost
        self.left -= bridges + cost
        self.owed, self.due = [], 0

    def _bridges(self, messages: Sequence[Message]) -> int:
        return self.bridge * sum(message.role == "user" for message in messages) if self.bridge else 0

    def _refit(self) -> Draft | None:
        """What is sent of the history as it is now: the fit goes on, and what it leaves is mended anew."""
        run, walk = self.run, self.walk
        if run.budget is None:
            return self._mended(self.lean, 0, None)
        self._count()
        whole: Draft | None = None
        if isinstance(walk, fold.Walk):
            if self._is_told_whole():
                return None
            self.spent = walk.reach()
            whole = self._draft(walk.kept(), folds=tuple(walk.broke)).mend(FAMILIES)
        elif self.top + self.spent <= self.most:
            cost = self.top + walk.cost_of(0) if isinstance(walk, snip.Cut) else self.total
            whole = self._mended(self.lean, 0, None if self.clean is None else cost)
        if whole is None or whole.tokens() > self.most:
            if not isinstance(walk, snip.Cut) or self._is_told_whole():
                return None
            cut: snip.Cut = walk
            whole = largest(
                cut, run.budget, self.top, lambda k: self._mended(cut.kept(k), k, self.top + cut.cost_of(k))
            )
        elif isinstance(walk, snip.Cut):
            walk.dropped = 0
        if whole is not None and run.target.output_counts:
            whole = cap(whole, run.policy.window or run.target.window or 0)
        return whole

    def _draft(self, kept: Sequence[Message], folds: tuple[Broke, ...] = (), cost: int | None = None) -> Draft:
        local = self.run.local
        request = Request(local.request.head, tuple(kept), local.request.altered)
        return Draft(request, local.changes, local.profile, local.ledger, folds=folds, cost=cost)

    def _mended(self, kept: Sequence[Message], k: int, cost: int | None) -> Draft:
        """Cut `k`, mended: as it is, where it has nothing in it that was not looked at before, but how it starts."""
        draft = self._draft(kept, cost=cost)
        known = self.clean is not None and k >= self.clean and (k == 0 or self._starts_clean(kept, k))
        return draft if known else draft.mend(FAMILIES)

    def _starts_clean(self, kept: Sequence[Message], k: int) -> bool:
        found = self.walk.units[k : k + SEAM] if self.walk is not None else []
        front = len(kept) - (len(self.lean) - found[0].start) if found else 0
        return len(found) == SEAM and self.is_clean(kept[: front + found[-1].end - found[0].start])

    def _is_clean_at(self, at: int) -> bool:
        """Whether nothing is wrong with the unit in which a message stands."""
        starts = self.history.starts
        k = bisect_right(starts, at) - 1
        end = starts[k + 1] if k + 1 < len(starts) else len(self.lean)
        return self.is_clean((*self.history.asking, *self.lean[starts[k] : end]))

    def _is_told_whole(self) -> bool:
        """Whether what is dropped has to be told at once: a summary is asked of it, or it may bear a marker."""
        return self.run.policy.summarise or self.history.marked

    def _store(self) -> None:
        """Put what is dropped now into the policy's store."""
        keep = keeper(self.run.policy)
        if keep is not None and self.walk is not None:
            for at in self._dropped():
                keep(written((self.lean[at],), self.run.local.ledger))

    def _dropped(self) -> list[int]:
        """The messages that were not dropped before. One that stays for the others of its turn may yet be."""
        walk = self.walk
        assert walk is not None
        pinned = walk.pinned if isinstance(walk, fold.Walk) else ()
        opener = walk.openers[walk.dropped] if walk.units else None
        gone = [unit for k, unit in enumerate(walk.units[self.stored : walk.dropped], self.stored) if k not in pinned]
        places = self.unstored + [at for unit in gone for at in range(unit.start, unit.end)]
        self.stored = max(self.stored, walk.dropped)
        self.unstored = [at for at in places if at == opener]
        return [at for at in places if at != opener]

    def _room(self) -> int:
        """What may be appended before something has to be cut."""
        run, total = self.run, self.total
        room = self.most - max(total, self.top + self.spent)
        if run.target.output_counts:
            asked = wire.limits.output(self.whole.head) or 0
            room = min(room, (run.policy.window or run.target.window or 0) - asked - total)
        return room
