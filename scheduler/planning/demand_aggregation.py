"""Demand aggregation over all schedulers, with the forecast error."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.boards.demand import ReportedDemand
from scheduler.demand.demand import joined
from scheduler.metrics import Metrics
from scheduler.placement.placer import Placer
from storage.boards.demand import Peers

KEPT = 0.95  #: of what was known before, when a forecast more is judged: about the last twenty


@dataclass(frozen=True, slots=True, kw_only=True)
class UrgentDemand:
    """What of the demand may call for a plan before its period is over."""

    wanted: Mapping[str, float]  #: model that nobody holds -> seconds asked for in vain
    is_burst: bool  #: more arrives than the last plan was made for


class DemandAggregator:
    """Joins what is asked for here with what is asked for elsewhere."""

    def __init__(self, placer: Placer, metrics: Metrics, peers: Peers | None = None) -> None:
        self._placer = placer
        self._metrics = metrics
        self._peers = peers  #: None: there is one scheduler
        self._others: Sequence[ReportedDemand] = ()  #: as last read
        self._forecast_error = ForecastError()

    async def read(self, now: float) -> UrgentDemand:
        """Read what others are asked for, and say what does not wait: all of it is seldom needed.

        Raises: Unavailable if the store does not answer.
        """
        self._others = await self._peers.others() if self._peers is not None else ()
        if self._others:
            asked = self.asked(now)
            return UrgentDemand(wanted=asked.wanted, is_burst=asked.is_burst)
        placer = self._placer
        wanted, is_burst = placer.wanted.waited(now), placer.arrivals.is_burst(now)
        return UrgentDemand(wanted=wanted, is_burst=is_burst)

    def asked(self, now: float) -> ReportedDemand:
        """Add up what all schedulers are asked for: others as they said when they were read."""
        return joined([self._placer.asked(now), *self._others])

    async def tell(self, now: float) -> None:
        """Say what is asked for here, for the leader and for whoever leads next.

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
        self._forecast_error.judge(expected, arrivals.arrived, now)
        self._metrics.see_forecasts(self._forecast_error.error, self._forecast_error.missed)
        arrivals.note_plan(now)


class ForecastError:
    """Compares each forecast with what came until the next one."""

    def __init__(self, kept: float = KEPT) -> None:
        self._kept = kept
        self._expected: Mapping[str, float] = {}
        self._before: Mapping[str, float] = {}
        self._at: float | None = None
        self._came = self._missed = self._excess = 0.0

    def judge(
        self, expected: Mapping[str, float], arrived: Mapping[str, float], now: float
    ) -> None:
        """Judge the forecast before this one.

        Args:
            expected: application -> jobs/s, from now on.
            arrived: application -> jobs since the start.
        """
        if self._at is not None and now > self._at:
            self._settle(arrived, now - self._at)
        self._expected, self._before, self._at = dict(expected), dict(arrived), now

    @property
    def error(self) -> float:
        """Sum of what was missed and what did not come, as a share of what came (WAPE)."""
        return (self._missed + self._excess) / self._came if self._came > 0 else 0.0

    @property
    def missed(self) -> float:
        """Share of what came that no forecast had expected, in [0, 1]."""
        return self._missed / self._came if self._came > 0 else 0.0

    def _settle(self, arrived: Mapping[str, float], seconds: float) -> None:
        self._came, self._missed, self._excess = (
            self._kept * known for known in (self._came, self._missed, self._excess)
        )
        for name in arrived.keys() | self._expected.keys():
            came = arrived.get(name, 0.0) - self._before.get(name, 0.0)
            off = came - seconds * self._expected.get(name, 0.0)
            self._came += came
            self._missed += max(0.0, off)
            self._excess += max(0.0, -off)
