"""Demand aggregation over all schedulers, with the forecast error."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol

from core.boards.demand import Asked
from scheduler.demand.demand import joined
from scheduler.demand.forecast_error import ForecastError
from scheduler.metrics import Metrics
from scheduler.placement.placer import Placer


class Peers(Protocol):
    """The other schedulers, and what they are asked for."""

    async def tell(self, asked: Asked) -> None:
        """Say what is asked for here."""

    async def others(self) -> Sequence[Asked]:
        """Read what is asked for at the other schedulers."""


class DemandAggregator:
    """Joins what is asked for here with what is asked for elsewhere."""

    def __init__(self, placer: Placer, metrics: Metrics, peers: Peers | None = None) -> None:
        self._placer = placer
        self._metrics = metrics
        self._peers = peers  #: None: there is one scheduler
        self._hindsight = ForecastError()

    async def asked(self, now: float) -> Asked:
        """Add up what all schedulers are asked for.

        Raises: Unavailable if the store does not answer.
        """
        others = await self._peers.others() if self._peers is not None else ()
        return joined([self._placer.asked(now), *others])

    async def tell(self, now: float) -> None:
        """Say what is asked for here, for the leader.

        Raises: Unavailable if the store does not answer.
        """
        if self._peers is not None:
            await self._peers.tell(self._placer.asked(now))

    def note_plan(self, now: float) -> None:
        """Judge the last forecast made here; what a plan is made for now is no burst later."""
        arrivals = self._placer.arrivals
        expected: dict[str, float] = defaultdict(float)
        for stream, rate in arrivals.rates(now).items():
            expected[stream.application] += rate
        self._hindsight.judge(expected, arrivals.arrived, now)
        self._metrics.see_forecasts(self._hindsight.error, self._hindsight.missed)
        arrivals.note_plan(now)
