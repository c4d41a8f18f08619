"""One job in the in-memory fakes: its record, its webhooks, its objects."""

from dataclasses import dataclass, field

from core.codec import encode
from core.job import Job
from storage.jobs.objects import keys_of
from storage.jobs.outbox import Delivery
from storage.redis.keys import list_of


@dataclass(slots=True, kw_only=True)
class Record:
    """One job and what only the store knows of it."""

    job: Job
    priority: int
    message: str  #: the template, its delivery tag written `@@TAG@@`
    publication: int = 1  #: times its message was put on a list
    rings: int = 0  #: times it was published again for want of a message, since the last claim
    lease_until: float = 0.0  #: epoch s
    fences: list[int] = field(default_factory=list)  #: handed out
    finished_by: int | None = None  #: fence of the claim that ended it
    finishes: int = 0  #: times it ended; one at most
    posted_at: float = 0.0  #: epoch s of its last progress webhook
    alone: int | None = None  #: fence of the claim that was made alone in its worker
    verdict: tuple[int, str] | None = None  #: fence, and whether its loss is `shared` or `spared`
    furthest: int = 0  #: how far it had come when a claim after a loss began
    retries: int = 0  #: times it was buried and tried again
    work: float = 1.0  #: by which tenants are served alike
    start: float | None = None  #: its turn among the queued of its list
    brings_bytes: int = 0  #: of pictures stored for it
    leaves_bytes: int = 0  #: of its images at most
    device_type: str = ""  #: of the worker that claimed it last
    device_s: float = 0.0  #: time of a device that it has taken there
    followed: float = 0.0  #: until when its progress is told (epoch s)
    previewed: float = 0.0  #: until when previews are made (epoch s)

    def of_life(self, name: str) -> str:
        """Name a webhook of this life of the job."""
        return f"{name}:again{self.retries}" if self.retries else name

    @property
    def list_name(self) -> str:
        return list_of(self.job.placement.queue, self.priority)

    @property
    def tagged(self) -> str:
        return self.message.replace("@@TAG@@", f"{self.job.id}:{self.publication}")


@dataclass(slots=True, kw_only=True)
class Posted:
    """One webhook delivery in the outbox or among the dead."""

    delivery: Delivery
    at: float  #: epoch s: due, or given up


def objects_of(record: Record) -> tuple[str, ...]:
    """Name every object of a job."""
    job = record.job
    fences = ",".join(map(str, record.fences)).encode()
    return keys_of(
        job.id.encode(), job.tenant.encode(), fences, encode(job.request), encode(job.images)
    )
