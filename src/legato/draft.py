"""A request on its way through the pipeline."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from legato.edits import HEAD, Edit, Request, apply
from legato.errors import GovernanceError, Unrepairable
from legato.fit.fold import Broke
from legato.profiles import Profile
from legato.report import Change, Ledger
from legato.rules import Family
from legato.rules.violation import edits_of, harmless

ROUNDS = 24
"""A family that has not settled by then never will: that is a fault of ours, said as one."""


class Draft:
    """A request on its way, and the changes that made it. Nothing is altered: each step gives a new draft.

    `settled` are the families that have found nothing wrong with this very request. `cost` is no less than its tokens,
    where that is known.
    """

    def __init__(
        self,
        request: Request,
        changes: tuple[Change, ...],
        profile: Profile,
        ledger: Ledger,
        settled: frozenset[Family] = frozenset(),
        folds: tuple[Broke, ...] = (),
        cost: int | None = None,
    ) -> None:
        self.request = request
        self.changes = changes
        self.profile = profile
        self.ledger = ledger
        self.settled = settled
        self.folds = folds
        self.cost = cost

    def make(self, edits: Iterable[Edit], harmless: Collection[int] = (), folds: Sequence[Broke] = ()) -> Draft:
        """The draft with the edits applied and written down. At the `harmless` places nothing is lost."""
        edits = sorted(edits, key=lambda edit: edit.at)
        if not edits:
            return self
        made = []
        for edit in edits:
            place = edit.at if edit.about is None else edit.about
            at = None if place == HEAD else self.request.index(place)
            made.append(Change(edit, self.request, at, self.ledger, edit.at in harmless))
        changes = (*self.changes, *made)
        return Draft(apply(self.request, edits), changes, self.profile, self.ledger, folds=(*self.folds, *folds))

    def mend(self, families: Sequence[Family]) -> Draft:
        """The draft with every error of these families fixed. Raises `Unrepairable` if one has no fix of its own."""
        draft = self
        for family in families:
            if family not in draft.settled:
                draft = draft._settle(family)
        return draft

    def tokens(self) -> int:
        if self.cost is None:
            self.cost = self.ledger.request(self.request)
        return self.cost

    def _settle(self, family: Family) -> Draft:
        draft = self
        for _ in range(ROUNDS):
            errors = [violation for violation in family(draft.request, self.profile) if violation.severity == "error"]
            edits = edits_of(errors)
            if not edits:
                if errors:
                    raise Unrepairable(errors)
                settled = draft.settled | {family}
                about = (draft.changes, draft.profile, draft.ledger, settled, draft.folds, draft.cost)
                return Draft(draft.request, *about)
            draft = draft.make(edits, harmless(errors))
        raise GovernanceError(f"a fault of legato: {', '.join(sorted({error.code for error in errors}))} do not settle")
