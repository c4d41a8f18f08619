"""What is each worker busy with, as far as is known? Pure: the caller brings the clock.

Known is what workers report, about once a second, and what was sent to them since. A worker works
a second off in a second, so a report that is a moment old still tells what is left.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from core.fleet import Worker
from core.placement import own_queue_of
from core.work import Work
from scheduler.burden import Burden, StepCosts, Tier

#: How long after it was sent an image is in the reports of its worker, if it has not ended.
SETTLE_S = 3.0

#: Says what steps of a model take on a type of device.
Costs = Callable[[str, str], StepCosts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One image of a batch, or on the way there."""

    work: Work
    burden: Burden


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """An edit as workers of one kind would make it."""

    tasks: tuple[Task, ...]  #: an image each
    start_s: float  #: of each step of theirs, seconds
    tier: Tier  #: where they have its template

    @property
    def job(self) -> str:
        return self.tasks[0].work.job


@dataclass(slots=True, kw_only=True)
class Batch:
    """What one worker has to do."""

    worker: Worker
    seen_at: float  #: when its report was first read, seconds of the caller's clock
    reported: tuple[Task, ...]
    in_memory: frozenset[str]  #: names of recordings
    on_disk: frozenset[str]
    sent: dict[str, tuple[float, tuple[Task, ...]]] = field(default_factory=dict)  #: by job, since

    @property
    def tasks(self) -> list[Task]:
        """Everything it is known to have."""
        return [*self.reported, *(task for _, tasks in self.sent.values() for task in tasks)]

    @property
    def sent_at(self) -> float:
        """When something was last sent there that no report tells of yet."""
        return max((at for at, _ in self.sent.values()), default=0.0)

    def tier(self, recording: str) -> Tier:
        """Say where it has a recording."""
        if recording in self.in_memory:
            return Tier.MEMORY
        return Tier.DISK if recording in self.on_disk else Tier.NOWHERE

    def pipeline_s(self, offer: Offer, now: float) -> float:
        """Expect when an edit would be done: the batch with it, all its steps long.

        Loads run behind the computing, so whichever takes longer counts (InstGenIE, Algorithm 2).
        """
        steps = max(task.work.steps for task in offer.tasks)
        compute_s, load_s = _seconds(self.reported, steps)
        passed_s = max(0.0, now - self.seen_at)
        compute_s, load_s = max(0.0, compute_s - passed_s), max(0.0, load_s - passed_s)
        for tasks in (*(tasks for _, tasks in self.sent.values()), offer.tasks):
            more_s, more_loads_s = _seconds(tasks, steps)
            compute_s, load_s = compute_s + more_s, load_s + more_loads_s
        return max(compute_s + steps * offer.start_s, load_s)


class Batches:
    """The batches of all workers whose state is fresh."""

    def __init__(self, costs: Costs, *, stale_s: float) -> None:
        """Know of no worker yet; one that is silent for `stale_s` is not known any more."""
        self._costs = costs
        self._stale_s = stale_s
        self._batches: dict[str, Batch] = {}

    def see(self, workers: Iterable[Worker], now: float) -> None:
        """Take in the last report of every worker there is."""
        self._batches = {worker.name: self._updated(worker, now) for worker in workers}

    def offers(self, queue: str, works: Sequence[Work], now: float) -> list[tuple[Batch, Offer]]:
        """List the batches that an edit of a queue may join, and what it would be there."""
        known: dict[tuple[str, Tier], Offer] = {}
        found = []
        for name, batch in self._batches.items():
            is_fresh = now - batch.seen_at <= self._stale_s
            if is_fresh and own_queue_of(queue, name) in batch.worker.queues:
                kind = (batch.worker.device_type, batch.tier(works[0].recording))
                if kind not in known:
                    known[kind] = self._offer(works, *kind)
                found.append((batch, known[kind]))
        return found

    def send(self, batch: Batch, offer: Offer, now: float) -> None:
        """Note that an edit was given to a worker."""
        batch.sent[offer.job] = (now, offer.tasks)

    def forget(self, job: str) -> None:
        """Take back what is known of a job: it is placed again."""
        for batch in self._batches.values():
            batch.sent.pop(job, None)
            batch.reported = tuple(task for task in batch.reported if task.work.job != job)

    def _updated(self, worker: Worker, now: float) -> Batch:
        known = self._batches.get(worker.name)
        if known is not None and known.worker.beat_at == worker.beat_at:
            return known
        batch = Batch(
            worker=worker,
            seen_at=now,
            reported=(),
            in_memory=frozenset(worker.recordings),
            on_disk=frozenset(worker.shelved),
        )
        batch.reported = tuple(self._task(batch, work) for work in worker.works)
        if known is not None:
            seen = {work.job for work in worker.works}
            batch.sent = {
                job: (at, tasks)
                for job, (at, tasks) in known.sent.items()
                if job not in seen and now - at < SETTLE_S
            }
        return batch

    def _offer(self, works: Sequence[Work], device_type: str, tier: Tier) -> Offer:
        costs = self._costs(works[0].model, device_type)
        tasks = tuple(Task(work=work, burden=costs.burden(work, tier)) for work in works)
        return Offer(tasks=tasks, start_s=costs.start_s, tier=tier)

    def _task(self, batch: Batch, work: Work) -> Task:
        costs = self._costs(work.model, batch.worker.device_type)
        return Task(work=work, burden=costs.burden(work, batch.tier(work.recording)))


def _seconds(tasks: Iterable[Task], steps: int) -> tuple[float, float]:
    """Add up what tasks compute and load during so many steps."""
    compute_s = load_s = 0.0
    for task in tasks:
        theirs = min(task.work.steps, steps)
        compute_s += theirs * task.burden.compute_s
        load_s += theirs * task.burden.load_s
    return compute_s, load_s
