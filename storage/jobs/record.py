"""A job's record in Redis, read back as a `Job`; the log learns whose it is."""

from collections.abc import Iterable, Iterator

from core.codec import decode
from core.errors import Conflict, LimitReached, NotFound, NotRetriable, TooManyRequests
from core.job import Failure, Job, JobEvent, JobRequest, JobStatus, Progress, StoredImage, Timing
from core.log import note_owner
from core.placement import Placement
from core.schema import SCHEMA, Versioned
from core.tenants.limits import Standing, TenantLimits
from storage.archive.records import Fields


def read_job(job_id: str, fields: Fields) -> Job:
    """Read one record; waiting and total time come from the store's clock, not a worker's.

    Raises:
        NewerSchema: a newer version wrote it.
    """
    SCHEMA.check(Versioned.RECORD, int(fields.get(b"schema", 1)), f"job {job_id}")
    tenant = fields[b"tenant"].decode()
    note_owner(job_id, tenant)
    created_at, finished_at = float(fields[b"created_at"]) / 1e3, _seconds(fields, b"finished_at")
    started_at = _seconds(fields, b"started_at")
    retried_at = _seconds(fields, b"retried_at")
    return Job(
        id=job_id,
        tenant=tenant,
        request=decode(fields[b"request"], JobRequest),
        placement=decode(fields[b"placement"], Placement),
        status=JobStatus(fields[b"status"].decode()),
        created_at=created_at,
        started_at=started_at,
        finished_at=finished_at,
        deadline_at=_seconds(fields, b"deadline_at"),
        attempts=int(fields[b"attempts"]),
        is_buried=b"buried" in fields,
        is_suspect=b"suspect" in fields,
        retried_at=retried_at,
        fence=int(fields[b"fence"]),
        trace=fields.get(b"trace", b"").decode(),
        worker=fields[b"worker"].decode() if b"worker" in fields else None,
        progress=Progress(step=int(fields.get(b"step", 0)), steps=int(fields.get(b"steps", 0))),
        images=decode(fields[b"images"], tuple[StoredImage, ...]) if b"images" in fields else (),
        failure=decode(fields[b"failure"], Failure) if b"failure" in fields else None,
        timing=(decode(fields[b"timing"], Timing) if b"timing" in fields else Timing()).measured(
            created_at if retried_at is None else retried_at, started_at, finished_at
        ),
    )


def _seconds(fields: Fields, name: bytes) -> float | None:
    value = fields.get(name)
    return float(value) / 1e3 if value else None


def history_of(fields: Fields) -> list[JobEvent]:
    """List what has happened to a job that nobody followed, as its stream would have it.

    Its record has each time that it was claimed and went back: `<fence>:<attempts>`, `<ms>:`.
    """
    past = [line.split(":") for line in fields.get(b"history", b"").decode().split(",") if line]
    ended, claim = fields.get(b"finished_at"), fields[b"fence"].decode()
    if fields.get(b"started_at") and claim not in (at for at, attempts in past if attempts):
        past.append([claim, fields[b"attempts"].decode()])
    told = [(int(at), "status", _status_of(attempts)) for at, attempts in past]
    if ended:
        told.append((int(ended), "done", {"status": fields[b"status"].decode()}))
    return list(_in_order(told))


def _status_of(attempts: str) -> dict[str, object]:
    if not attempts:
        return {"status": JobStatus.QUEUED.value}
    return {"status": JobStatus.RUNNING.value, "attempts": int(attempts)}


def _in_order(told: Iterable[tuple[int, str, dict[str, object]]]) -> Iterator[JobEvent]:
    """Name events as a stream does, each later than the one before.

    A fence may be ahead of the clock: no two claims have the same, however soon one follows.
    """
    last_ms, number = -1, 0
    for ms, event, data in told:
        last_ms, number = (ms, 0) if ms > last_ms else (last_ms, number + 1)
        yield JobEvent(id=f"{last_ms}-{number}", event=event, data=data)


def no_such_job(job_id: str) -> NotFound:
    """Refuse a job id that nobody has, or another tenant."""
    return NotFound(f"there is no job {job_id!r}")


def key_reused() -> Conflict:
    """Refuse an idempotency key that came with another request."""
    return Conflict("this Idempotency-Key was used within a day for a request that differs")


def queue_full(queue: str, retry_after_s: float) -> TooManyRequests:
    """Refuse a job whose queue is at its limit."""
    return TooManyRequests(f"the queue {queue} is full", retry_after_s, "queue")


def limit_reached(
    limits: TenantLimits, name: str, wait_s: float, standing: Standing | None = None
) -> LimitReached:
    """Refuse what is beyond a limit of its tenant."""
    said = {
        "jobs_per_s": f"{limits.jobs_per_s} jobs a second are accepted of this tenant",
        "open_jobs": f"{limits.open_jobs} jobs of this tenant may be open: wait until one ends",
        "images_a_day": f"{limits.images_a_day} images a day may be asked for by this tenant",
        "kept_bytes": f"{limits.kept_bytes} bytes may be kept by this tenant: delete some jobs",
    }
    return LimitReached(said[name], wait_s, name, standing)


def not_buried(job: Job) -> NotRetriable:
    """Refuse to retry a job that is not buried."""
    return NotRetriable(f"job {job.id} is {job.status}, not buried: there is nothing to try again")


def too_late(job: Job) -> NotRetriable:
    """Refuse to retry a job whose deadline has passed."""
    return NotRetriable(f"the deadline of job {job.id} has passed: submit it anew with a later one")


def tried_too_often(job: Job) -> Failure:
    """Say to a client that the attempts of a job are used up."""
    again = f"Try it again (POST /v1/jobs/{job.id}/retry), or ask the operator."
    return Failure(
        type="attempts_exhausted",
        title="The job was tried too often",
        detail=f"Its worker was lost {job.attempts} times. {again}",
    )


def undeliverable(publications: int) -> Failure:
    """Say to a client that no worker could read the message of a job."""
    return Failure(
        type="undeliverable",
        title="No worker could read the message of the job",
        detail=f"It was published {publications} times. Ask the operator.",
    )
