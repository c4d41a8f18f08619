"""Prometheus endpoint of the whole service: `/metrics`.

Everything here comes from the store, so it is right over restarts and the same on every api
process: counters that the scripts keep, and gauges of fleet, queues and plan at this moment.
What workers and scheduler keep themselves they show themselves; `atelier up` has it shown here too.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from api.services.requests import services_of
from api.services.services import Services
from api.views.process_metrics import merge
from core.boards.fleet import QueueDepth, Worker
from core.boards.plan import Plan
from core.errors import StoreUnavailable
from core.levels.level import Level
from core.log import get_logger
from core.telemetry import metrics
from storage.redis.stats import REDELIVERIES

#: Seconds the store has to answer: Prometheus gives up after ten, and would not hear that it hangs.
BUDGET_S = 4.0

router = APIRouter(tags=["service"])
log = get_logger(__name__)

_process = CollectorRegistry()
ProcessCollector(registry=_process)

#: Jobs that this process refused though nothing is wrong with them, by why.
refused = Counter(
    "atelier_jobs_refused",
    "Jobs answered 429: wait, queue, deadline, or a limit of their tenant.",
    ["reason"],
    registry=_process,
)

Row = tuple[tuple[str, ...], float]  #: label values, value


class ComputedFamilies(Collector):
    """Metric families that are computed already."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Give the families to a registry."""
        return self._families


@router.get("/metrics", response_class=Response, summary="Metrics for Prometheus")
async def read_metrics(request: Request) -> Response:
    """Show the service as the store knows it; without a store, only that it is missing."""
    services = services_of(request)
    own, processes = await asyncio.gather(gather(services), services.process_metrics.answer())
    registry = CollectorRegistry()
    registry.register(ComputedFamilies([*own, *merge(processes, taken=_names(own))]))
    content = generate_latest(registry) + generate_latest(_process)
    return Response(content, headers={"Content-Type": CONTENT_TYPE_LATEST})


async def gather(services: Services) -> list[Metric]:
    """Read fleet, queues, plan and counters, and make metric families of them."""
    up = GaugeMetricFamily("atelier_store_up", "Whether the job store answers.")
    try:
        async with asyncio.timeout(BUDGET_S):
            stats = await services.board.stats()
            workers = await services.board.fleet()
            depths = await services.jobs.depths(services.queues)
            plan = await services.board.plan()
            behind_s = await services.board.archive_behind()
            is_led = await services.board.has_upkeep()
    except (StoreUnavailable, TimeoutError) as error:
        log.warning("metrics_without_store", error=str(error) or f"no answer in {BUDGET_S} s")
        up.add_metric((), 0.0)
        return [up]
    up.add_metric((), 1.0)
    behind = [] if behind_s is None else [_family(metrics.archive_behind, [((), behind_s)])]
    led = _family(metrics.upkeep_is_led, [((), float(is_led))])
    return [up, led, *_counted(stats), *_gauged(workers, depths, plan), *behind]


def _names(own: Sequence[Metric]) -> set[str]:
    """Name what is the api's to say, without a store too: others mean something else by it."""
    of_the_store = *_counted({}), *_gauged((), (), None)
    return {family.name for family in (*own, *of_the_store, *_process.collect())}


def _counted(stats: Mapping[str, int]) -> Iterator[Metric]:
    yield _family(metrics.jobs, _rows(stats, "jobs", 2))
    yield _family(metrics.levels, _levels(stats))
    yield _family(metrics.webhook_deliveries, _rows(stats, "webhooks", 1))
    yield _family(
        metrics.redeliveries, [((reason,), stats.get(reason, 0)) for reason in REDELIVERIES]
    )
    yield _family(metrics.fenced_writes, [((), stats.get("fenced", 0))])
    yield _family(metrics.slo_violations, [((), stats.get("slo_violations", 0))])
    yield _family(metrics.jobs_dead, [((), stats.get("jobs_dead", 0))])
    yield _family(metrics.messages_unreadable, [((), stats.get("messages_unreadable", 0))])


def _gauged(
    workers: Sequence[Worker], depths: Sequence[QueueDepth], plan: Plan | None
) -> Iterator[Metric]:
    running = [((w.name, ",".join(w.models)), float(w.running)) for w in workers]
    yield _family(metrics.requests_running, running)
    yield _family(metrics.requests_waiting, [((d.queue,), float(d.waiting)) for d in depths])
    yield _family(metrics.oldest_waiting, [((d.queue,), d.oldest_s) for d in depths])
    saturation = [] if plan is None else [((), plan.saturation)]
    yield _family(metrics.saturation, saturation)


def _rows(stats: Mapping[str, int], prefix: str, labels: int) -> list[Row]:
    """Read counters named `<prefix>:<label>:<label>`."""
    split = {name: tuple(name.split(":")) for name in stats}
    return [
        (parts[1:], float(stats[name]))
        for name, parts in split.items()
        if parts[0] == prefix and len(parts) == labels + 1
    ]


def _levels(stats: Mapping[str, int]) -> list[Row]:
    """Read counters named `level:<model>@<approximation>`."""
    names = [name for name in stats if name.startswith("level:")]
    levels = [(name.removeprefix("level:"), float(stats[name])) for name in names]
    return [((Level.read(level).model, level), value) for level, value in levels]


def _family(metric: MetricWrapperBase, rows: Iterable[Row]) -> Metric:
    """Fill a family that has the name, help and labels `core.telemetry.metrics` gives it."""
    described = next(iter(metric.describe()))
    family = Metric(described.name, described.documentation, described.type)
    suffix = "_total" if described.type == "counter" else ""
    for values, value in rows:
        labels = dict(zip(metric._labelnames, values, strict=True))
        family.add_sample(described.name + suffix, labels, value)
    return family
