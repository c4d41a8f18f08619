"""Prometheus metrics of the scheduler."""

from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from core.boards.fleet import QueueDepth
from core.boards.plan import Plan, Strategy, Switch
from core.placement import Placement

#: Upper edges of the solve time, seconds: 100 ms is the bar up to 64 devices.
SOLVE_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
#: The same of a retrieval: 50 ms is all that a job waits.
RETRIEVAL_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.25)
#: The same of classifying a batch of prompts.
CLASSIFY_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32)
LATENTS = "latents"  #: the one cache the scheduler looks into


class Metrics:
    """One registry a process, so that tests do not share it."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        to = self._registry
        self._saturation = Gauge(
            "atelier_saturation", "Unserved share of the demand in the current plan", registry=to
        )
        self._quality = Gauge(
            "atelier_quality_estimate", "Mean quality the current plan expects", registry=to
        )
        self._version = Gauge("atelier_plan_version", "Version of the plan followed", registry=to)
        self._leads = Gauge("atelier_scheduler_is_leader", "1 if this one publishes", registry=to)
        self._workers = Gauge("atelier_workers", "Workers that report", registry=to)
        self._waiting = Gauge(
            "atelier_num_requests_waiting", "Jobs queued, not claimed", ["queue"], registry=to
        )
        self._oldest = Gauge(
            "atelier_oldest_waiting_seconds", "Wait of the first of them", ["queue"], registry=to
        )
        self._queues: dict[str, tuple[Gauge, Gauge]] = {}  #: both of each queue
        self._levels = Counter(
            "atelier_level", "Jobs placed at each level", ["model", "level"], registry=to
        )
        self._refused = Counter("atelier_unplaced", "Jobs that no worker can make", registry=to)
        self._solves = Histogram(
            "atelier_solve_seconds", "Time of a decision", registry=to, buckets=SOLVE_BUCKETS
        )
        self._failures = Counter(
            "atelier_plan_failures", "Rounds without a new plan", ["reason"], registry=to
        )
        self._forecast_error = Gauge(
            "atelier_demand_forecast_error", "Jobs forecast wrongly, per job that came", registry=to
        )
        self._forecast_missed = Gauge(
            "atelier_demand_forecast_missed", "Share of jobs that no plan expected", registry=to
        )
        self._classified = Counter(
            "atelier_prompts_classified", "Prompts, by their class", ["affinity"], registry=to
        )
        self._late = Counter(
            "atelier_prompts_unclassified",
            "Prompts placed before their class was known",
            registry=to,
        )
        self._classifying = Histogram(
            "atelier_classify_seconds",
            "Time to classify one batch",
            registry=to,
            buckets=CLASSIFY_BUCKETS,
        )
        self._retrievals = Histogram(
            "atelier_cache_retrieval_seconds",
            "How long jobs waited for it to be looked up what they start from",
            ["cache"],
            registry=to,
            buckets=RETRIEVAL_BUCKETS,
        )
        self._hits = Counter(
            "atelier_cache_hits",
            "Lookups, by where they were found",
            ["cache", "tier"],
            registry=to,
        )
        self._misses = Counter(
            "atelier_cache_misses", "Lookups that found nothing in time", ["cache"], registry=to
        )
        self._hit_rate = Gauge(
            "atelier_cache_hit_rate", "Share of prompts the plan counts on", ["level"], registry=to
        )
        self._residual = Gauge(
            "atelier_quality_residual",
            "Median quality of scored images less what was predicted",
            ["window"],
            registry=to,
        )
        self._drifts = Counter(
            "atelier_drifts", "Falls of quality that call for retraining", registry=to
        )
        self._classifiers = Counter(
            "atelier_classifier_changes", "Classifiers that came into force", registry=to
        )
        self._strategy = Gauge(
            "atelier_strategy", "1 for the strategy in force", ["strategy"], registry=to
        )
        self._switches = Counter(
            "atelier_strategy_switches", "Changes of strategy", ["to"], registry=to
        )
        self._slowness = Gauge(
            "atelier_device_slowness",
            "Time of steps in profiled ones, as the plan counts on",
            ["device_type"],
            registry=to,
        )
        self._overflows = Counter(
            "atelier_overflows",
            "Jobs that the plan's model would have made too late, and where they went",
            ["planned", "model"],
            registry=to,
        )
        self._kept = Gauge("atelier_cache_bytes", "Bytes that are kept", ["cache"], registry=to)

    def see_fleet(self, workers: int, depths: Sequence[QueueDepth]) -> None:
        """Note what a leader has read."""
        self._workers.set(workers)
        for depth in depths:
            if depth.queue not in self._queues:
                labels = self._waiting.labels(depth.queue), self._oldest.labels(depth.queue)
                self._queues[depth.queue] = labels
            waiting, oldest = self._queues[depth.queue]
            waiting.set(depth.waiting)
            oldest.set(depth.oldest_s)

    def leave_lead(self) -> None:
        """Say nothing any more of what only a leader reads: alerts go by the most of all."""
        self._workers.set(0)
        self._quality.set(0.0)
        for gauges in self._queues.values():
            for gauge in gauges:
                gauge.set(0.0)

    def see_plan(self, plan: Plan) -> None:
        """Note the plan that is followed from now on."""
        self._version.set(plan.version)
        self._saturation.set(plan.saturation)
        for device_type, times in plan.slowness.items():
            self._slowness.labels(device_type).set(times)

    def see_decision(self, seconds: float, quality: float | None) -> None:
        """Note how long a decision took and what it expects."""
        self._solves.observe(seconds)
        if quality is not None:
            self._quality.set(quality)

    def see_forecasts(self, error: float, missed: float) -> None:
        """Note how far off the last forecasts of the demand were."""
        self._forecast_error.set(error)
        self._forecast_missed.set(missed)

    def see_failure(self, reason: str) -> None:
        """Count a round that could not plan."""
        self._failures.labels(reason).inc()

    def see_leadership(self, is_leader: bool) -> None:
        """Note who publishes."""
        self._leads.set(is_leader)

    def see_placement(self, placement: Placement) -> None:
        """Count a job at its level."""
        self._levels.labels(placement.model, placement.level).inc()

    def see_unplaced(self) -> None:
        """Count a job that no worker can make; who is to come again is the api's to count."""
        self._refused.inc()

    def see_overflow(self, planned: str, model: str) -> None:
        """Count a job that another model than the planned one has in time."""
        self._overflows.labels(planned, model).inc()

    def see_classes(self, seconds: float, classes: Sequence[str]) -> None:
        """Note one batch of prompts that were classified together."""
        self._classifying.observe(seconds)
        self.see_known(classes)

    def see_known(self, classes: Sequence[str]) -> None:
        """Count prompts whose classes are known."""
        for name in classes:
            self._classified.labels(name).inc()

    def see_late(self, count: int) -> None:
        """Count prompts that were not classified in time."""
        self._late.inc(count)

    def see_retrieval(self, seconds: float, found: int, asked: int) -> None:
        """Note one search for the starts of jobs that were placed together."""
        for _ in range(asked):
            self._retrievals.labels(LATENTS).observe(seconds)
        self._hits.labels(LATENTS, "index").inc(found)
        self._misses.labels(LATENTS).inc(asked - found)

    def see_hit_rates(self, rates: Mapping[str, float]) -> None:
        """Note the share of prompts that each level is expected to serve from latents."""
        for level, rate in rates.items():
            self._hit_rate.labels(level).set(rate)

    def see_residuals(self, median: float | None, average: float | None) -> None:
        """Note how far quality was from what the classifier predicted: lately, and before."""
        for window, value in (("last", median), ("before", average)):
            if value is not None:
                self._residual.labels(window).set(value)

    def see_drift(self) -> None:
        """Count a fall of quality against what was predicted."""
        self._drifts.inc()

    def see_classifier(self) -> None:
        """Count a classifier that came into force."""
        self._classifiers.inc()

    def see_strategy(self, strategy: Strategy) -> None:
        """Note whether jobs may start from latents."""
        for each in Strategy:
            self._strategy.labels(each).set(each is strategy)

    def see_switch(self, switch: Switch) -> None:
        """Count a change of strategy; its cause is in the log and in the plan."""
        self._switches.labels(switch.to).inc()

    def see_kept(self, num_bytes: int) -> None:
        """Note how many bytes of latents are kept for others."""
        self._kept.labels(LATENTS).set(num_bytes)

    def render(self) -> bytes:
        """Write them in Prometheus' text format."""
        return generate_latest(self._registry)
