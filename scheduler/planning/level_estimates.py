"""Current cost and quality of levels: the profile, corrected by what workers report."""

from collections.abc import Sequence
from dataclasses import replace

from core.boards.cost import Cost
from core.boards.fleet import Worker
from core.boards.plan import Strategy, Switch
from core.log import get_logger
from scheduler.approximate_cache.hit_rates import HitRates
from scheduler.approximate_cache.strategy import Dependency, StrategySwitch
from scheduler.metrics import Metrics
from scheduler.planning.replan_triggers import FleetNews
from scheduler.planning.worker_stats import StartCounts, model_slowness, slowness
from scheduler.profile.profile import Profile

log = get_logger(__name__)


class Outlook:
    """Learns from workers' reports, and from whoever looks for latents."""

    def __init__(
        self,
        profile: Profile,
        metrics: Metrics,
        *,
        hits: HitRates | None = None,
        switch: StrategySwitch | None = None,
    ) -> None:
        self.profile = self._measured_of = profile  #: with the classes that are planned for
        self._metrics = metrics
        self._hits = hits  #: None: jobs cannot start from latents here
        self._switch = switch or StrategySwitch()
        self._starts = StartCounts()
        self._measured: Profile | None = None  #: None: it is to be put together again
        # what workers have measured, gone or not, by device type and model
        self._seen: dict[tuple[str, str], Cost] = {}
        self._loaded_s: dict[tuple[str, str], float] = {}
        self._needs_gib: dict[tuple[str, str], float] = {}
        self._slowness: dict[tuple[str, str], float] = {}

    @property
    def measured(self) -> Profile:
        """The profile, with what workers have measured."""
        if self._measured is None or self._measured_of is not self.profile:
            self._measured_of, self._measured = self.profile, self._put_together()
        return self._measured

    @property
    def takes_latents(self) -> bool:
        """Whether jobs may start from latents here."""
        return self._hits is not None

    @property
    def strategy(self) -> Strategy:
        return self._switch.strategy

    @property
    def switched(self) -> Switch | None:
        """Give the last change of strategy."""
        return self._switch.last

    @property
    def margin(self) -> float:
        """Plan for so many times the demand."""
        return self._switch.margin

    def resume(self, last: Switch | None) -> None:
        """Go on with the strategy of another leader, or of an earlier life."""
        self._switch.resume(last)

    def look(
        self, workers: Sequence[Worker], now: float, news: FleetNews, *, is_settled: bool
    ) -> None:
        """Take in what workers report, and switch the strategy if there is reason to."""
        if news.is_lasting:
            self._measure(workers)
        good, bad = self._starts.news(news.changed)
        self._switch.see(Dependency.READS, good=good, bad=bad, now=now)
        switched = self._switch.turn(now, is_settled=is_settled)
        if switched is not None:
            log.warning("strategy_switched", to=switched.to, cause=switched.cause)
            self._metrics.see_switch(switched)
        self._metrics.see_strategy(self._switch.strategy)

    def _measure(self, workers: Sequence[Worker]) -> None:
        """Note what workers have measured, and how fast each model runs."""
        for worker in workers:
            t = worker.device_type
            if worker.costs:
                self._seen |= {(t, m): cost for m, cost in worker.costs.items()}
            if worker.load_s:
                self._loaded_s |= {(t, m): seconds for m, seconds in worker.load_s.items()}
        self._needs_gib |= _least_gib(workers)
        self._slowness |= model_slowness(workers)
        self._measured = None

    def _put_together(self) -> Profile:
        return replace(
            self.profile,
            seen=dict(self._seen),
            loaded_s=dict(self._loaded_s),
            needs_gib=dict(self._needs_gib),
        )

    def expect(self, workers: Sequence[Worker]) -> Profile:
        """Say what levels cost on devices as they run, and give with starts as they are found.

        While latents are withdrawn no prompt finds any, so no level that needs them is left.
        """
        profile = replace(
            self.measured, slowness=slowness(workers), model_slowness=dict(self._slowness)
        )
        if self._hits is None:
            return profile
        rates = self._hits.rates()
        self._metrics.see_hit_rates(rates)
        if not self._switch.allows_latents:
            rates = dict.fromkeys(rates, 0.0)
        return replace(profile, can_resume=True, hit_rates=rates)


def _least_gib(workers: Sequence[Worker]) -> dict[tuple[str, str], float]:
    """Say what each model takes where it takes least: who has more memory may keep more in it."""
    found: dict[tuple[str, str], float] = {}
    for worker in workers:
        for model, gib in worker.needs_gib.items():
            slot = (worker.device_type, model)
            found[slot] = min(gib, found.get(slot, gib))
    return found
