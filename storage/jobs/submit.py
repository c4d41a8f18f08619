"""Submit jobs: what is written of a new job in one script, and what is answered."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from redis.asyncio import Redis

from core.codec import encode
from core.errors import Conflict, TooManyRequests
from core.job import JobRequest
from core.placement import Placement
from storage.jobs.record import key_reused, queue_full
from storage.redis.connect import Word
from storage.redis.script import call, load

TAG = "@@TAG@@"  #: stands in a message for the delivery tag, which the script fills in
GROUP = 256  #: jobs one submit script takes at most


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """An accepted request on its way into the store."""

    id: str
    tenant: str
    request: JobRequest
    placement: Placement
    deadline_s: float | None  #: seconds from now
    message: str  #: the queue message, its delivery tag written `@@TAG@@`
    priority: int  #: 0, 3, 6 or 9; 0 is served first
    idempotency_key: str | None = None
    digest: str = ""  #: of the request as the client sent it
    work: float = 1.0  #: by which tenants are served alike: `JobRequest.work` over their weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A job that is stored and queued, now or by an earlier request with the same key."""

    id: str
    is_new: bool
    #: Jobs that are served before it, when it was queued; of an earlier request nothing is said.
    position: int = field(default=0, compare=False)


Answer = Submitted | Conflict | TooManyRequests


async def submit(redis: Redis, jobs: Sequence[NewJob], *, max_queue: int) -> list[Answer]:
    """Store and queue jobs, all in one round trip; each is done wholly or not at all.

    Raises:
        StoreUnavailable: nothing is known of any of them.
    """
    answers: list[Answer] = []
    for start in range(0, len(jobs), GROUP):
        group = jobs[start : start + GROUP]
        args = [a for job in group for a in _arguments(job)]
        replies = await call(redis, load("submit"), max_queue, *args)
        answers += [_answer(job, *reply) for job, reply in zip(group, replies, strict=True)]
    return answers


def _arguments(job: NewJob) -> tuple[Word, ...]:
    hook = job.request.webhook
    return (
        job.id,
        job.tenant,
        encode(job.request),
        encode(job.placement),
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
    )


def _answer(job: NewJob, code: int, value: bytes, position: int = 0) -> Answer:
    match code:
        case 0 | 1:
            return Submitted(id=value.decode(), is_new=code == 1, position=position)
        case 2:
            return key_reused()
        case _:
            return queue_full(job.placement.queue, int(value) / 1e3)
