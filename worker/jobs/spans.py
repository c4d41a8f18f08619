"""Tell a trace what a worker did for a job, once it is over: nothing is timed for it."""

import time

from core.job import Job
from core.telemetry.traces import TRACES, Value
from worker.engine.slot import JobImages


def tell(
    job: Job,
    status: str,
    *,
    taken_at: float,
    made: JobImages | None = None,
    made_at: float = 0.0,
    error: Exception | None = None,
) -> None:
    """Tell of the stages of one claim: from the queue to where its images are stored.

    Units: taken_at, made_at monotonic s, when it was claimed and when it left the engine
    """
    now = time.time()
    shift_s = now - time.monotonic()  # to epoch s
    taken_at, made_at = shift_s + taken_at, shift_s + made_at
    whose: dict[str, Value] = {"job": job.id, "tenant": job.tenant, "worker": job.worker or ""}
    ended = whose | {"status": status}
    why = type(error).__name__ if error is not None else ""
    TRACES.note("queued", job.trace, job.waits_since, taken_at, whose)
    if made is None:
        TRACES.note("make", job.trace, taken_at, now, ended, why)
        return
    what: dict[str, Value] = {
        "model": job.request.model,
        "level": job.placement.level,
        "images": job.request.n,
        "steps": job.request.steps,
        "device_s": made.device_s,
    }
    admitted_at, denoised_at = shift_s + made.admitted_at, shift_s + made.denoised_at
    TRACES.note("encode", job.trace, taken_at, admitted_at, whose)
    TRACES.note("steps", job.trace, admitted_at, denoised_at, whose | what)
    TRACES.note("decode", job.trace, denoised_at, made_at, whose)
    TRACES.note("store", job.trace, made_at, now, ended, why)
