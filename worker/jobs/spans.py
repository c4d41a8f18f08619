"""Tell a trace what a worker did for a job, once it is over: nothing is timed for it."""

import time

from core.telemetry.traces import TRACES, Value
from worker.engine.slot import JobImages
from worker.jobs.claimed import ClaimedJob, Result


def tell(result: Result, status: str) -> None:
    """Tell of the stages of one claim: from the queue to where its images are stored."""
    held, job, now = result.held, result.held.claim.job, time.time()
    whose: dict[str, Value] = {"job": job.id, "tenant": job.tenant, "worker": job.worker or ""}
    ended = whose | {"status": status}
    why = type(result.error).__name__ if result.error is not None else ""
    TRACES.note("queued", job.trace, job.waits_since, held.taken_at, whose)
    if result.made is None:
        TRACES.note("make", job.trace, held.taken_at, now, ended, why)
        return
    _tell_of_engine(held, result.made, whose)
    TRACES.note("store", job.trace, held.made_at, now, ended, why)


def _tell_of_engine(held: ClaimedJob, made: JobImages, whose: dict[str, Value]) -> None:
    job = held.claim.job
    what: dict[str, Value] = {
        "model": job.request.model,
        "level": job.placement.level,
        "images": job.request.n,
        "steps": job.request.steps,
        "device_s": made.device_s,
    }
    TRACES.note("encode", job.trace, held.taken_at, made.admitted_at, whose)
    TRACES.note("steps", job.trace, made.admitted_at, made.denoised_at, whose | what)
    TRACES.note("decode", job.trace, made.denoised_at, held.made_at, whose)
