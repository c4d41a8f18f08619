"""Find the cheapest fleet that keeps a goal: on paper first, then by trials, as few as will do."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from simulator.report.costs import Prices
from simulator.sizing.frontier import Lattice
from simulator.sizing.goal import Fleet, FleetTrial, price_of

#: Puts a fleet on trial.
Try = Callable[[Fleet], FleetTrial]

#: Fleets that carry so much of what the best one carries on paper may do as well.
NEAR = 0.97
#: Trials of cheaper fleets far from all others, in case a policy does worse with more workers.
SPREAD = 4


class OutOfTrials(Exception):
    """As many fleets were tried as were allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search came to."""

    best: FleetTrial | None  #: the cheapest that keeps the goal; None: no fleet does
    trials: tuple[FleetTrial, ...]  #: in the order in which they were made
    untried: int = 0  #: cheaper fleets that might do as well, left out for want of trials


@dataclass(slots=True)
class Search:
    """One search; fleets are tried once each."""

    lattice: Lattice
    prices: Prices
    attempt: Try
    most: int  #: trials
    trials: list[FleetTrial] = field(default_factory=list)

    def run(self) -> Found:
        """Search until nothing cheaper is left to try, or as many were tried as may be."""
        fleets = self.lattice.frontier()
        try:
            self._bisect(fleets)
            self._spread(fleets)
            while self._step_down():
                pass
        except OutOfTrials:
            pass
        left = len(list(self._promising())) if self.best else 0
        return Found(best=self.best, trials=tuple(self.trials), untried=left)

    @property
    def best(self) -> FleetTrial | None:
        """The cheapest fleet so far that keeps the goal."""
        keeping = [trial for trial in self.trials if trial.keeps]
        return min(keeping, key=lambda trial: price_of(trial.fleet, self.prices), default=None)

    def _keeps(self, fleet: Fleet) -> bool:
        if len(self.trials) >= self.most:
            raise OutOfTrials
        self.trials.append(self.attempt(fleet))
        return self.trials[-1].keeps

    def _bisect(self, fleets: Sequence[Fleet]) -> None:
        """Find two neighbours of which only the dearer keeps the goal: gallop, then halve.

        Fleets are ordered by what they could carry, so that what one keeps all after it do.
        """
        low, high, stride = -1, 0, 1
        while not self._keeps(fleets[high]):
            if high == len(fleets) - 1:
                return
            low, high, stride = high, min(high + stride, len(fleets) - 1), 2 * stride
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._keeps(fleets[middle]) else (middle, high)

    def _spread(self, fleets: Sequence[Fleet]) -> None:
        """Try fleets in the middle of the widest gaps between those tried below the best."""
        for _ in range(SPREAD):
            best = self.best
            if best is None:
                return
            tried = [trial.fleet for trial in self.trials]
            known = [-1, *(row for row, fleet in enumerate(fleets) if fleet in tried)]
            gaps = [(b - a, a) for a, b in pairwise(known) if b <= fleets.index(best.fleet)]
            width, low = max(gaps, default=(0, 0))
            if width < 2:
                return
            self._keeps(fleets[low + width // 2])

    def _step_down(self) -> bool:
        """Try what might do as well and is cheaper; tell whether something was."""
        return any(self._keeps(fleet) for fleet in list(self._promising()))

    def _promising(self) -> Iterator[Fleet]:
        """List cheaper fleets worth a trial: nearly as able on paper, or a worker less."""
        best = self.best
        if best is None:
            return
        near = self.lattice.cheaper(best.fleet, share=NEAR)
        less = [{**best.fleet, kind: count - 1} for kind, count in best.fleet.items() if count > 0]
        seen = {tuple(sorted(trial.fleet.items())) for trial in self.trials}
        for fleet in (*near, *less):
            key = tuple(sorted(fleet.items()))
            if key not in seen and not self._is_less_than_failed(fleet) and any(fleet.values()):
                seen.add(key)
                yield fleet

    def _is_less_than_failed(self, fleet: Fleet) -> bool:
        return any(
            all(count <= trial.fleet.get(kind, 0) for kind, count in fleet.items())
            for trial in self.trials
            if not trial.keeps
        )
