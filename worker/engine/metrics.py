"""Prometheus histograms of a worker: times of steps, latent reads and jobs.

Counters of jobs are the store's, shown by the api: they are right over crashes. A worker serves
its histograms alone, so that no family is counted twice.
"""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server

from core.job import Job
from core.telemetry import metrics
from worker.engine.slot import Slot

#: What a worker reads of approximate caching; the scheduler has looked into its index before.
LATENTS = "latents_store"

#: What a worker serves.
FAMILIES = (
    metrics.queue_time,
    metrics.step_time,
    metrics.e2e_latency,
    metrics.model_load,
    metrics.cache_hits,
    metrics.cache_retrieval,
    metrics.latents_left,
    metrics.image_states,
    metrics.recordings_dropped,
    metrics.ranks,
    metrics.ranks_lost,
)


def serve(host: str, port: int) -> None:
    """Serve /metrics of this process; port 0 does nothing."""
    if not port:
        return
    registry = CollectorRegistry()
    for family in FAMILIES:
        registry.register(family)
    ProcessCollector(registry=registry)
    start_http_server(port, addr=host, registry=registry)


def observe_step(batch: Sequence[Slot], step_s: float) -> None:
    """Note how long one denoising step took."""
    metrics.step_time.labels(batch[0].ticket.runner.model.name).observe(step_s)


def observe_start(read_s: float, is_there: bool) -> None:
    """Note how long it took to read the latents that a job goes on from."""
    metrics.cache_retrieval.labels(LATENTS).observe(read_s)
    metrics.cache_hits.labels(LATENTS, "store" if is_there else "none").inc()


def observe_job(job: Job, total_s: float) -> None:
    """Note how long a job took that has succeeded."""
    if job.started_at is not None:
        metrics.queue_time.observe(job.started_at - job.waits_since)
    metrics.e2e_latency.labels(job.request.task).observe(total_s)
