"""What else happens to jobs in memory: they come back, are stopped, buried or forgotten."""

from dataclasses import dataclass, replace

from core.job import Failure, JobStatus
from core.tenants.limits import DAY_S
from storage.fakes.record import Record
from storage.fakes.state import StoreState
from storage.redis.keys import PRIORITIES, list_of


@dataclass
class MemoryStore(StoreState):
    """One store; hand the same one to every fake that shall see it."""

    def pop(self, queue_name: str) -> str | None:
        """Take the next message of a queue, as kombu does."""
        with self.lock:
            for priority in PRIORITIES:
                messages = self.lists[list_of(queue_name, priority)]
                if messages:
                    return messages.pop()
            return None

    def held(self, worker: str | None) -> list[Record]:
        """List what one worker has claimed and not ended."""
        running = (r for r in self.records.values() if r.job.status is JobStatus.RUNNING)
        return [record for record in running if record.job.worker == worker]

    def ring(self, record: Record) -> None:
        """Put a message of a job on its list, where it is popped next."""
        record.publication += 1
        self.lists[record.list_name].append(record.tagged)

    def requeue(self, record: Record, reason: str, work: float | None = None) -> None:
        """Put a job back on its list: at its turn if it has one, with work at a new one."""
        record.job = replace(record.job, status=JobStatus.QUEUED)
        record.device_s = 0.0
        self.missing.pop(record.job.id, None)
        self.queues.add(record.job.placement.queue)
        if record.start is None:
            self.enter(record, work)
        self.ring(record)
        self.stats[reason] += 1

    def bury(self, record: Record, failure: Failure) -> None:
        """Fail a job that has been tried too often, and index it."""
        self.stats["jobs_dead"] += 1
        record.job = replace(record.job, failure=failure, is_buried=True)
        self.close(record, JobStatus.FAILED)

    def forget(self, record: Record) -> None:
        """Delete a job that has ended; its bytes are kept no more."""
        job = record.job
        kept_bytes = sum(image.size_bytes for image in job.images)
        self.accounts[job.tenant].kept_bytes -= record.brings_bytes + kept_bytes
        del self.records[job.id]
        self.events.pop(job.id, None)

    def stop(self, record: Record) -> None:
        """Tell the worker of a job to stop it."""
        if record.job.worker is not None:
            self.stops[record.job.worker].put(record.job.id)

    def reopen(self, record: Record) -> None:
        """Take back that a job had failed."""
        job = record.job
        day = int((job.finished_at or self.now()) // DAY_S)
        self.accounts[job.tenant].usage[day]["jobs:failed"] -= 1
        self.open_account(record)
