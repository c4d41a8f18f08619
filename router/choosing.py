"""Choose the cell of a request, by what is known of all cells. Pure, apart from what it counts.

A tenant has a home: the first cell of its rendezvous order that is open and ready. What it keeps is
kept there, and its jobs are made there, except for the share that the plan over cells moves; which
jobs those are hangs on tenant and template, so edits of one template stay together.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from core.cells.capacity import CellCapacity
from router.cells import Cells, CellState
from router.plan import Shares, plan_shares
from router.rendezvous import ranked, stepped, uniform
from router.watching import CellHealth, SeenCell

#: Seconds over which arrivals are averaged.
MEMORY_S: Final = 15.0


class NoCell(Exception):
    """No cell can take a request now."""


class HomeArrivals:
    """Jobs a second of each home, averaged over the last seconds."""

    def __init__(self) -> None:
        self._counts: dict[str, float] = {}
        self._at = -math.inf

    def note(self, home: str, now: float) -> None:
        """Count a job."""
        self._fade(now)
        self._counts[home] = self._counts.get(home, 0.0) + 1.0

    def shares(self, now: float) -> Mapping[str, float]:
        """Tell which share of all jobs each home has; empty: nothing has come lately."""
        self._fade(now)
        whole = sum(self._counts.values())
        return {home: n / whole for home, n in self._counts.items()} if whole > 1e-3 else {}

    def _fade(self, now: float) -> None:
        kept = math.exp(-max(0.0, now - self._at) / MEMORY_S)
        self._counts = {home: n * kept for home, n in self._counts.items()}
        self._at = now


class CellChooser:
    """What is known of all cells, and which of them is asked."""

    def __init__(self) -> None:
        self.cells: Cells = {}
        self.seen: Mapping[str, SeenCell] = {}
        self.shares: Shares = {}
        self.arrivals = HomeArrivals()

    def learn(self, cells: Cells, seen: Mapping[str, SeenCell], now: float) -> None:
        """Take in what was last seen, and plan anew."""
        self.cells, self.seen = cells, seen
        self.shares = plan_shares(*self._situation(now))

    def health(self, name: str) -> CellHealth:
        """Tell what was last seen of a cell."""
        return self.seen[name].health if name in self.seen else CellHealth.AWAY

    def homes(self, tenant: str) -> Sequence[str]:
        """List the cells that may be home to a tenant now, the nearest first."""
        able = self._able() or [name for name in self._open() if self._answers(name)]
        weights = self._weights()
        return ranked(tenant, {name: weights[name] for name in able})

    def home(self, tenant: str) -> str:
        """Name the home of a tenant.

        Raises:
            NoCell: none answers.
        """
        if homes := self.homes(tenant):
            return homes[0]
        raise NoCell("no cell answers")

    def for_job(self, tenant: str, stays_with: str, now: float) -> Sequence[str]:
        """List cells for a new job, the best first; `stays_with` names what it should stay with.

        Raises:
            NoCell: none answers.
        """
        home = self.home(tenant)
        self.arrivals.note(home, now)
        first = _drawn(self.shares.get(home, {home: 1.0}), uniform(tenant, stays_with))
        rest = [name for name in self.homes(tenant) if name != first]
        return [first, *rest] if self.health(first) is CellHealth.READY else rest or [home]

    def _situation(self, now: float) -> tuple[dict[str, CellCapacity], dict[str, float]]:
        """Give the curves of the cells that take new jobs, and the jobs a second of each home."""
        capacities = {
            name: capacity
            for name in self._able()
            if (capacity := self.seen[name].capacity) is not None
        }
        whole = sum(each.demand for each in capacities.values())
        demand = {home: whole * share for home, share in self.arrivals.shares(now).items()}
        return capacities, demand

    def _weights(self) -> Mapping[str, float]:
        """Weigh cells: as the file says, else by what they can serve, or as others can."""
        rates = {
            name: seen.capacity.rate
            for name, seen in self.seen.items()
            if seen.capacity is not None and seen.capacity.rate > 0
        }
        mean = sum(rates.values()) / len(rates) if rates else 1.0
        return {
            name: cell.weight or stepped(rates.get(name, mean)) for name, cell in self.cells.items()
        }

    def _open(self) -> list[str]:
        return [name for name, cell in self.cells.items() if cell.state is CellState.OPEN]

    def _able(self) -> list[str]:
        return [name for name in self._open() if self.health(name) is CellHealth.READY]

    def _answers(self, name: str) -> bool:
        return self.health(name) is not CellHealth.AWAY


def _drawn(shares: Mapping[str, float], at: float) -> str:
    """Take the cell at a place of [0, 1)."""
    for name, share in shares.items():
        if at < share:
            return name
        at -= share
    return next(iter(shares))
