"""How cheap a session could have been, knowing the future: the least cost at which so much evidence is kept.

`exact` tries every sequence of cuts of the family in `cuts.py` by dynamic programming, with the best costs for each
number of names kept. That is for small sessions. `bound` is never more than the optimum: positions are taken together
in cells, each as cheap as its cheapest cut and as good as its best, moving inside a cell is free, and the floor is a
price on what is lost (Lagrange), the best such price being searched for.

Who knows the future also clears what nobody will ask for while there is still room. `pressed` leaves that out: the cut
only moves before a request that would not fit, as with every policy that waits for the window to be full.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from legato.replay.cuts import Cuts

SMALL = 12
"""The units of a session up to which the optimum is exact."""
WORK = 2_000_000
"""The positions of a large session are taken together in so many spans that requests times spans cubed is no more."""
STEPS = 14
"""How often the price of what is lost is bettered."""
MOST = 1e6
"""The highest such price, in dollars for a name."""

State = tuple[int, int]
Label = tuple[float, int]
"""Dollars so far, names kept so far."""


@dataclass(frozen=True, slots=True)
class Best:
    """The least dollars found. `kind`: `exact`, or `bound`: no sequence of cuts costs less."""

    kind: str
    cost: float
    pressed: float | None
    """The same where the cut only moves when it must; None: so much is not kept then."""


def best(cuts: Cuts, floor: int) -> Best | None:
    """The least cost at which at least `floor` names are kept; None where no cut of the family does that."""
    if not cuts.requests:
        return None
    small = len(cuts.whole) - 1 <= SMALL
    least = exact(cuts, floor) if small else bound(cuts, floor)
    pressed = exact(cuts, floor, pressed=True) if small else bound(cuts, floor, pressed=True)
    if least is None:
        return None
    return Best("exact" if small else "bound", least, pressed)


def exact(cuts: Cuts, floor: int, pressed: bool = False) -> float | None:
    """The least cost of all sequences of cuts that keep at least so many names; None where there is none."""
    rest = [0]
    for request in reversed(cuts.requests):
        rest.append(rest[-1] + len(request.names))
    labels: dict[State, list[Label]] = {(0, 0): [(0.0, 0)]}
    for at in range(len(cuts.requests)):
        needed = floor - rest[len(cuts.requests) - at - 1]
        free = labels if not pressed else {old: known for old, known in labels.items() if not cuts.fits(at, *old)}
        reached: dict[State, list[Label]] = {}
        for new in _states(cuts.requests[at].units):
            if not cuts.fits(at, *new):
                continue
            kept = cuts.kept(at, *new)
            sources = free if new not in labels else {**free, new: labels[new]}
            found = [
                (cost + cuts.cost(at, old, new), names + kept)
                for old, known in sources.items()
                if old[0] <= new[0] and old[1] <= new[1]
                for cost, names in known
                if names + kept >= needed
            ]
            if found:
                reached[new] = _undominated(found)
        labels = reached
    return min((cost for known in labels.values() for cost, names in known if names >= floor), default=None)


def bound(cuts: Cuts, floor: int, cells: int | None = None, pressed: bool = False) -> float | None:
    """A cost that no sequence of cuts can be below which keeps at least so many names; None where there is none."""
    grid = _Grid(cuts, cells or int((WORK / len(cuts.requests)) ** (1 / 3)), pressed)
    least, kept = grid.least(0.0)
    if least == inf:
        return None
    low, high = 0.0, 1e-6
    while kept < floor and high < MOST:
        low, high = high, high * 8
        cost, kept = grid.least(high)
        least = max(least, cost + high * floor)
    if kept < floor:
        return None
    for _ in range(STEPS if high > 1e-6 else 0):
        middle = (low + high) / 2
        cost, kept = grid.least(middle)
        least = max(least, cost + middle * floor)
        low, high = (low, middle) if kept >= floor else (middle, high)
    return least


def _states(units: int) -> Iterator[State]:
    return ((clear, drop) for clear in range(max(1, units)) for drop in range(clear + 1))


def _undominated(labels: list[Label]) -> list[Label]:
    """Those of which none is both cheaper and keeps as much."""
    kept: list[Label] = []
    most = -1
    for cost, names in sorted(labels, key=lambda label: (label[0], -label[1])):
        if names > most:
            kept.append((cost, names))
            most = names
    return kept


class _Grid:
    """The cells of the relaxed problem: spans of `clear` times spans of `drop`."""

    def __init__(self, cuts: Cuts, cells: int, pressed: bool) -> None:
        self.cuts, self.pressed = cuts, pressed
        units = len(cuts.whole) - 1
        cells = min(cells, units)
        self.edges = [units * nth // cells for nth in range(cells + 1)]
        self.cells = cells
        self.kept = [self._kept_of(at) for at in range(len(cuts.requests))]
        self.sizes = [self._sizes_of(at) for at in range(len(cuts.requests))]

    def least(self, worth: float) -> tuple[float, int]:
        """The least of cost minus `worth` for each name kept, and the names that are kept there."""
        labels: dict[State, Label] = {}
        for at in range(len(self.cuts.requests)):
            labels = self._next(at, labels, worth)
        return min(labels.values(), default=(inf, 0))

    def _next(self, at: int, labels: dict[State, Label], worth: float) -> dict[State, Label]:
        reached: dict[State, Label] = {}
        sizes = self.sizes[at]
        free = labels if not self.pressed else {cell: known for cell, known in labels.items() if self._must(at, cell)}
        dropped = self._cheapest_before(free) if at else {}
        for cell, size in sizes.items():
            a, b = cell
            kept = self.kept[at][cell]
            if at == 0:
                reached[cell] = (self._charge(size, 0) - worth * kept, kept)
                continue
            found = []
            most = 0 if self.cuts.requests[at].cold else max(0, size - self.cuts.fresh(at))
            if cell in labels:  # inside it the cut may move for nothing: all that is not new is in the cache
                found.append(_plus(labels[cell], self._charge(size, most)))
            for low in range(b, a):
                if (low, b) in free:
                    found.append(_plus(free[low, b], self._charge(size, min(most, self._upto(at, low, b)))))
            if cell in dropped:
                fixed = self.cuts.requests[at - 1].fixed + self.cuts.gone[-1]
                found.append(_plus(dropped[cell], self._charge(size, min(most, fixed))))
            if found:
                cost, names = min(found)
                reached[cell] = (cost - worth * kept, names + kept)
        return reached

    def _cheapest_before(self, labels: dict[State, Label]) -> dict[State, Label]:
        """For each cell the cheapest of those with a lower span of `drop` and no higher one of `clear`."""
        best: dict[State, Label] = {}
        for b in range(1, self.cells):
            for a in range(b - 1, self.cells):
                found = [
                    label
                    for label in (best.get((a, b - 1)), best.get((a - 1, b)), labels.get((a, b - 1)))
                    if label is not None
                ]
                if found:
                    best[a, b] = min(found)
        return best

    def _must(self, at: int, cell: State) -> bool:
        """Whether some cut of the cell would not fit."""
        return not self.cuts.fits(at, self.edges[cell[0]], self.edges[cell[1]])

    def _charge(self, size: int, prefix: int) -> float:
        """The least that a request of at least this size costs."""
        price = self.cuts.price
        if size >= price.rules.minimum:
            return self.cuts.charge(size, prefix)
        return price.cost(size, prefix, 0)

    def _upto(self, at: int, a: int, b: int) -> int:
        """The most that a move of `clear` out of a cell leaves unchanged: all before the highest `clear` in it."""
        clear, drop = self.cuts.unchanged(self.edges[a + 1] - 1), self.edges[b]
        return self.cuts.requests[at - 1].fixed + self.cuts.gone[-1] + self.cuts.short[clear] - self.cuts.short[drop]

    def _sizes_of(self, at: int) -> dict[State, int]:
        """The least that a request costs in each cell where it fits."""
        found = {}
        units = max(1, self.cuts.requests[at].units)
        for a in range(self.cells):
            clear = min(self.edges[a + 1], units) - 1
            if self.edges[a] >= units:
                break
            for b in range(a + 1):
                drop = min(self.edges[b + 1] - 1, clear)
                size = self.cuts.size(at, clear, drop)
                if size <= self.cuts.budget:
                    found[a, b] = size
        return found

    def _kept_of(self, at: int) -> dict[State, int]:
        """The most names that are kept in each cell."""
        return {
            (a, b): self.cuts.kept(at, self.edges[a], self.edges[b]) for a in range(self.cells) for b in range(a + 1)
        }


def _plus(label: Label, cost: float) -> Label:
    return label[0] + cost, label[1]
