"""Submit jobs: what is written of a new job in one script, and what is answered.

Pictures that a job brings are stored before it, and noted before that: what is known of neither a
job nor a refusal is found again by its note.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from redis.asyncio import Redis

from core.codec import encode_short
from core.errors import Conflict, StoreRefused, StoreUnavailable, TooManyRequests
from core.job import JobRequest
from core.placement import Placement
from core.schema import SCHEMA, Versioned
from core.tenants.limits import UNLIMITED, Standing, TenantLimits
from storage.archive.archive import Archive
from storage.jobs.record import key_reused, limit_reached, queue_full
from storage.redis.connect import Word, ask, converting_errors
from storage.redis.keys import EXPECTED, job_key
from storage.redis.script import NO_LIMIT, call, load

TAG = "@@TAG@@"  #: stands in a message for the delivery tag, which the script fills in
GROUP = 256  #: jobs one submit script takes at most
LOOK = 100  #: notes of pictures that are looked at in one go
MAX_NOTES = 1_000_000  #: of those, about; of the oldest beyond it the pictures stay


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """An accepted request on its way into the store."""

    id: str
    tenant: str
    request: JobRequest
    placement: Placement
    deadline_s: float | None  #: seconds from now
    message: str  #: the queue message, its delivery tag written `@@TAG@@`
    priority: int  #: 0, 6 or 9; 0 is served first
    idempotency_key: str | None = None
    digest: str = ""  #: of the request as the client sent it
    work: float = 1.0  #: by which tenants are served alike: `JobRequest.work` over their weight
    limits: TenantLimits = UNLIMITED  #: of its tenant
    retention_s: float = 0.0  #: for which the tenant's jobs are kept after their end
    brings_bytes: int = 0  #: of pictures stored for it
    leaves_bytes: int = 0  #: of its images at most
    trace: str = ""  #: the span that it was accepted in (`core/telemetry/traces.py`)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A job that is stored and queued, now or by an earlier request with the same key."""

    id: str
    is_new: bool
    #: Jobs that are served before it, when it was queued; of an earlier request nothing is said.
    position: int = field(default=0, compare=False)
    standing: Standing | None = field(default=None, compare=False)  #: of a tenant with limits


Answer = Submitted | Conflict | TooManyRequests


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedJob:
    """A job for which objects were stored before it was submitted."""

    note: str  #: id of what was noted of it
    has_come: bool  #: there is a record of it
    keys: tuple[str, ...]  #: of those objects


async def submit(redis: Redis, jobs: Sequence[NewJob], *, max_queue: int) -> list[Answer]:
    """Store and queue jobs, all in one round trip; each is done wholly or not at all.

    Raises:
        StoreRefused: none of them is stored.
        StoreUnavailable: nothing is known of any of them.
    """
    answers: list[Answer] = []
    for start in range(0, len(jobs), GROUP):
        group = jobs[start : start + GROUP]
        args = [a for job in group for a in _arguments(job)]
        try:
            replies = await call(redis, load("submit"), max_queue, *args)
        except StoreRefused as error:
            if not start:
                raise
            raise StoreUnavailable(str(error)) from error  # the groups before it are stored
        answers += [_answer(job, *reply) for job, reply in zip(group, replies, strict=True)]
    return answers


def _arguments(job: NewJob) -> tuple[Word, ...]:
    hook = job.request.webhook
    return (
        job.id,
        job.tenant,
        encode_short(job.request),
        encode_short(job.placement),
        job.placement.queue,
        job.priority,
        job.message,
        "" if job.deadline_s is None else int(job.deadline_s * 1000),
        job.idempotency_key or "",
        job.digest,
        job.request.task.value,
        job.placement.level,
        hook.url if hook else "",
        ",".join(hook.events) if hook else "",
        "" if job.request.slo_s is None else int(job.request.slo_s * 1000),
        repr(job.work),
        job.request.n,
        job.brings_bytes,
        job.leaves_bytes,
        _packed(job),
        SCHEMA.stamp(Versioned.RECORD),
        job.trace,
    )


def _packed(job: NewJob) -> str:
    limits = job.limits
    if limits.is_empty:
        return ""
    pause_ms = 1000 / limits.jobs_per_s if limits.jobs_per_s else 0
    counts = (limits.open_jobs, limits.images_a_day, limits.kept_bytes)
    counted = " ".join(str(each or NO_LIMIT) for each in counts)
    return f"{pause_ms!r} {limits.most_at_once} {counted} {int(job.retention_s * 1000)}"


def _answer(job: NewJob, code: int, *rest: bytes | int) -> Answer:
    match code, *rest:
        case 0, bytes(name):
            return Submitted(id=name.decode(), is_new=False)
        case 1, bytes(name), int(position), *account:
            standing = _standing(job.limits, account)
            return Submitted(id=name.decode(), is_new=True, position=position, standing=standing)
        case 2, _:
            return key_reused()
        case 3, int(wait_ms):
            return queue_full(job.placement.queue, wait_ms / 1e3)
        case 4, int(wait_ms), bytes(name), *account:
            return limit_reached(
                job.limits, name.decode(), wait_ms / 1e3, _standing(job.limits, account)
            )
    raise RuntimeError(f"the submit script answers {code}, {rest}")


def _standing(limits: TenantLimits, account: Sequence[bytes | int]) -> Standing | None:
    if not account:
        return None
    full_ms, free_jobs, open_jobs, images, day_left_ms = map(int, account)
    return Standing(
        limits=limits,
        full_in_s=full_ms / 1e3,
        free_jobs=free_jobs,
        open_jobs=open_jobs,
        images=images,
        day_left_s=day_left_ms / 1e3,
    )


async def expect(
    redis: Redis, job_id: str, keys: Sequence[str], max_notes: int = MAX_NOTES
) -> None:
    """Note which objects are about to be stored for a job, before it is submitted.

    Raises:
        StoreUnavailable: store nothing.
    """
    note = "job", job_id, "keys", "\n".join(keys)
    await ask(redis, "XADD", EXPECTED, "MAXLEN", "~", max_notes, "*", *note)


class ExpectedJobs:
    """Jobs for which objects were stored, as they were noted."""

    def __init__(self, redis: Redis, archive: Archive) -> None:
        self._redis = redis
        self._archive = archive

    async def find(self, older_s: float, after: str = "") -> list[ExpectedJob]:
        """Read up to `LOOK` notes that are older, the oldest first, each with whether it came.

        `after`: only those that follow this note.

        Raises:
            ArchiveUnavailable, StoreUnavailable: one of both cannot serve now.
        """
        seconds, us = await ask(self._redis, "TIME")
        before_ms = int(seconds) * 1000 + int(us) // 1000 - int(older_s * 1000)
        first = f"({after}" if after else "-"
        rows = await ask(self._redis, "XRANGE", EXPECTED, first, before_ms, "COUNT", LOOK)
        jobs = {note.decode(): fields[b"job"].decode() for note, fields in rows}
        here = await self._known(list(jobs.values()))
        return [
            ExpectedJob(
                note=note.decode(),
                has_come=jobs[note.decode()] in here,
                keys=tuple(fields[b"keys"].decode().split("\n")),
            )
            for note, fields in rows
        ]

    async def settle(self, expected: Sequence[ExpectedJob]) -> None:
        """Drop notes."""
        if expected:
            await ask(self._redis, "XDEL", EXPECTED, *(each.note for each in expected))

    async def _known(self, ids: Sequence[str]) -> set[str]:
        """Name those that are in Redis or in the archive."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for job_id in ids:
                pipe.execute_command("EXISTS", job_key(job_id))
            with converting_errors():
                found = await pipe.execute() if ids else []
        here = {job_id for job_id, is_here in zip(ids, found, strict=True) if is_here}
        left = [job_id for job_id in ids if job_id not in here]
        archived = await self._archive.find(left) if left else ()
        return here | {each.id for each in archived}
