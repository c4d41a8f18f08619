"""Estimate the current batch of each worker. Pure: the caller brings the clock.

The estimate is the last report of a worker, about once a second, and what was sent to it since. A
worker does one second of work per second, so a slightly old report still tells what is left.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from core.boards.fleet import Worker
from core.boards.image_work import ImageWork
from core.placement import own_queue_of
from scheduler.placement.step_cost import Burden, StepCosts, Tier

#: How long after it was sent an image is in the reports of its worker, if it has not ended.
SETTLE_S = 3.0

#: Says what steps of a model take on a type of device.
Costs = Callable[[str, str], StepCosts]


class BatchImage(NamedTuple):
    """One image of a batch, or on the way there; a tuple, as thousands are added up a decision."""

    work: ImageWork
    steps: int  #: left
    compute_s: float  #: that it adds to each of them, seconds
    load_s: float  #: likewise

    @classmethod
    def of(cls, work: ImageWork, burden: Burden) -> "BatchImage":
        """Weigh an image that begins now."""
        return cls(work, work.steps, burden.compute_s, burden.load_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class EditOffer:
    """An edit as workers of one kind would make it."""

    tasks: tuple[BatchImage, ...]  #: an image each
    tier: Tier  #: where they have its template
    steps: int  #: until the last of them is done
    compute_s: float  #: of all those steps, the start of each among them
    load_s: float  #: likewise

    @classmethod
    def of(cls, tasks: tuple[BatchImage, ...], costs: StepCosts, tier: Tier) -> "EditOffer":
        """Add up what the images of one edit cost until the last is done."""
        steps = max(task.steps for task in tasks)
        compute_s, load_s = _seconds(tasks, steps)
        return cls(
            tasks=tasks,
            tier=tier,
            steps=steps,
            compute_s=compute_s + steps * costs.start_s,
            load_s=load_s,
        )

    @property
    def job(self) -> str:
        return self.tasks[0].work.job


@dataclass(slots=True, kw_only=True)
class Batch:
    """What one worker has to do."""

    worker: Worker
    seen_at: float  #: when its report was first read, seconds of the caller's clock
    reported: tuple[BatchImage, ...] = ()
    longest: int = 0  #: steps left of what was reported
    total_s: tuple[float, float] = (0.0, 0.0)  #: to compute and to load for all of it
    in_memory: frozenset[str]  #: names of recordings
    on_disk: frozenset[str]
    sent: dict[str, tuple[float, tuple[BatchImage, ...]]] = field(
        default_factory=dict
    )  #: by job, since
    sent_at: float = 0.0  #: when something was last sent there

    @property
    def tasks(self) -> list[BatchImage]:
        """Everything it is known to have."""
        return [*self.reported, *(task for _, tasks in self.sent.values() for task in tasks)]

    def tier(self, recording: str) -> Tier:
        """Say where it has a recording."""
        if recording in self.in_memory:
            return Tier.MEMORY
        return Tier.DISK if recording in self.on_disk else Tier.NOWHERE

    def pipeline_s(self, offer: EditOffer, now: float) -> float:
        """Expect when an edit would be done: the batch with it, all its steps long.

        Loads run behind the computing, so whichever takes longer counts (InstGenIE, Algorithm 2).
        """
        compute_s, load_s = self._reported_s(offer.steps)
        passed_s = max(0.0, now - self.seen_at)
        compute_s = max(0.0, compute_s - passed_s) + offer.compute_s
        load_s = max(0.0, load_s - passed_s) + offer.load_s
        for _, tasks in self.sent.values():
            more_s, more_loads_s = _seconds(tasks, offer.steps)
            compute_s += more_s
            load_s += more_loads_s
        return max(compute_s, load_s)

    def report(self, tasks: Iterable[BatchImage]) -> None:
        """Take in what its worker says that it has to do."""
        self.reported = tuple(tasks)
        self.longest = max((task.steps for task in self.reported), default=0)
        self.total_s = _seconds(self.reported, self.longest)

    def _reported_s(self, steps: int) -> tuple[float, float]:
        return self.total_s if steps >= self.longest else _seconds(self.reported, steps)


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

    def offers(
        self, queue: str, works: Sequence[ImageWork], now: float
    ) -> list[tuple[Batch, EditOffer]]:
        """List the batches that an edit of a queue may join, and what it would be there."""
        known: dict[tuple[str, Tier], EditOffer] = {}
        found = []
        for name, batch in self._batches.items():
            is_fresh = now - batch.seen_at <= self._stale_s
            if is_fresh and own_queue_of(queue, name) in batch.worker.queues:
                kind = (batch.worker.device_type, batch.tier(works[0].recording))
                if kind not in known:
                    known[kind] = self._offer(works, *kind)
                found.append((batch, known[kind]))
        return found

    def send(self, batch: Batch, offer: EditOffer, now: float) -> None:
        """Note that an edit was given to a worker."""
        batch.sent[offer.job] = (now, offer.tasks)
        batch.sent_at = now

    def forget(self, job: str) -> None:
        """Take back what is known of a job: it is placed again."""
        for batch in self._batches.values():
            batch.sent.pop(job, None)
            batch.report(task for task in batch.reported if task.work.job != job)

    def _updated(self, worker: Worker, now: float) -> Batch:
        known = self._batches.get(worker.name)
        if known is not None and known.worker.beat_at == worker.beat_at:
            return known
        batch = Batch(
            worker=worker,
            seen_at=now,
            in_memory=frozenset(worker.recordings),
            on_disk=frozenset(worker.shelved),
        )
        batch.report(self._task(batch, work) for work in worker.works)
        if known is not None:
            seen = {work.job for work in worker.works}
            batch.sent = {
                job: (at, tasks)
                for job, (at, tasks) in known.sent.items()
                if job not in seen and now - at < SETTLE_S
            }
            batch.sent_at = known.sent_at
        return batch

    def _offer(self, works: Sequence[ImageWork], device_type: str, tier: Tier) -> EditOffer:
        costs = self._costs(works[0].model, device_type)
        tasks = tuple(BatchImage.of(work, costs.burden(work, tier)) for work in works)
        return EditOffer.of(tasks, costs, tier)

    def _task(self, batch: Batch, work: ImageWork) -> BatchImage:
        costs = self._costs(work.model, batch.worker.device_type)
        return BatchImage.of(work, costs.burden(work, batch.tier(work.recording)))


def _seconds(tasks: Iterable[BatchImage], steps: int) -> tuple[float, float]:
    """Add up what tasks compute and load during so many steps."""
    computed_s = loaded_s = 0.0
    for _, left, compute_s, load_s in tasks:
        shared = left if left < steps else steps
        computed_s += shared * compute_s
        loaded_s += shared * load_s
    return computed_s, loaded_s
