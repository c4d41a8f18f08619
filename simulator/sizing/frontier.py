"""List whole fleets in the order of their price, each that could carry more than all cheaper ones.

How much a fleet could carry is what prices of capacity allow (`relaxation`): exact where the
program was solved, too much elsewhere, so it is solved where that decides.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator.report.costs import Prices
from simulator.sizing.goal import Fleet, Split, price_of
from simulator.sizing.relaxation import Floats, fleet_of

#: k and y of a fleet (`Relaxation.carried`).
Carried = Callable[[Split], tuple[float, Floats]]

MOST_POINTS = 400_000  #: fleets looked at
ROUNDS = 6  #: of solving the program at fleets that were thought to carry too much
CLOSE = 1e-3


@dataclass(slots=True)
class Lattice:
    """Whole fleets up to some size, with what they cost and could carry."""

    types: tuple[str, ...]
    prices: Prices
    carried: Carried
    counts: NDArray[np.int64]  #: [F, T]
    cost: Floats  #: [F], an hour
    worth: list[Floats] = field(default_factory=list)  #: y of every solution so far

    @classmethod
    def around(cls, split: Split, prices: Prices, carried: Carried, *, most: float) -> "Lattice":
        """Span all fleets of at most so many times the workers of one type that would do."""
        types = tuple(prices)
        ceilings = [_ceiling(kind, split, carried, most) for kind in types]
        step = 1
        while np.prod([top // step + 2 for top in ceilings], dtype=float) > MOST_POINTS:
            step += 1
        axes = [np.arange(0, top + step, step) for top in ceilings]
        grid = np.meshgrid(*axes, indexing="ij")
        counts = np.stack([axis.ravel() for axis in grid], axis=1).astype(np.int64)
        cost = counts @ np.array([prices[kind] for kind in types])
        lattice = cls(types, prices, carried, counts, cost)
        lattice.solve_at(split)
        for kind in types:
            lattice.solve_at({kind: 1})
        return lattice

    def solve_at(self, fleet: Split) -> float:
        """Solve the program for a fleet; what it prices holds for all."""
        scale, worth = self.carried(fleet)
        self.worth.append(worth)
        return scale

    @property
    def scales(self) -> Floats:
        """[F], how many times the demand each could carry."""
        least: Floats = np.min([self.counts @ worth for worth in self.worth], axis=0)
        return least

    def frontier(self) -> list[Fleet]:
        """List fleets that carry the demand, cheapest first, each more than all before."""
        for _ in range(ROUNDS):
            found = self._frontier()
            guessed = self.scales[found]
            solved = [self.solve_at(fleet_of(self.types, self.counts[row])) for row in found]
            if all(guess - k <= CLOSE * guess for guess, k in zip(guessed, solved, strict=True)):
                break
        return [fleet_of(self.types, self.counts[row]) for row in self._frontier()]

    def _frontier(self) -> Sequence[int]:
        scales = self.scales
        order = np.lexsort((-scales, np.round(self.cost, 9)))
        order = order[scales[order] >= 1.0 - CLOSE]
        best = np.maximum.accumulate(scales[order])
        is_new = np.concatenate([[True], best[1:] > best[:-1] * (1 + CLOSE)])
        rows: list[int] = order[is_new[: len(order)]].tolist()
        return rows

    def cheaper(self, than: Fleet, *, share: float) -> list[Fleet]:
        """List cheaper fleets that could carry this share of what a fleet could, most first."""
        scales, price = self.scales, price_of(than, self.prices)
        own = float(np.min([self._vector(than) @ worth for worth in self.worth]))
        rows = np.flatnonzero((self.cost < price * (1 - 1e-9)) & (scales >= max(1.0, share * own)))
        rows = rows[np.lexsort((self.cost[rows], -scales[rows]))]
        return [fleet_of(self.types, self.counts[row]) for row in rows]

    def _vector(self, fleet: Fleet) -> Floats:
        return np.array([float(fleet.get(kind, 0)) for kind in self.types])


def _ceiling(kind: str, split: Split, carried: Carried, most: float) -> int:
    """Count the workers of one type that could carry so many times the demand alone.

    A type that cannot alone, such as one too slow for the SLO, is used as far as the split does.
    """
    alone, _ = carried({kind: 1})
    if alone > 0:
        return int(np.ceil(most / alone))
    return int(np.ceil(most * split.get(kind, 0)))
