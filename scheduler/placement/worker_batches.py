"""Estimate the current batch of each worker. Pure: the caller brings the clock.

The estimate is the last report of a worker, about once a second, and what was sent to it since. A
worker does one second of work per second, so a slightly old report still tells what is left.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from core.boards.fleet import FleetChange, Worker
from core.boards.image_work import ImageWork
from core.placement import owner_of, shared_queue_of
from scheduler.placement.rotation import Rotation
from scheduler.placement.step_cost import Burden, StepCosts, Tier

#: How long after it was sent an image is in the reports of its worker, if it has not ended.
SETTLE_S = 3.0

#: Workers up to which an edit looks at all of them.
MOST = 64

Key = TypeVar("Key")

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
    is_weighed: bool = False  #: what its worker says that it has is in `reported`
    longest: int = 0  #: steps left of what was reported
    total_s: tuple[float, float] = (0.0, 0.0)  #: to compute and to load for all of it
    in_memory: frozenset[str] = frozenset()  #: names of recordings
    on_disk: frozenset[str] = frozenset()  #: likewise
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
        self.reported, self.is_weighed = tuple(tasks), True
        self.longest = max((task.steps for task in self.reported), default=0)
        self.total_s = _seconds(self.reported, self.longest)

    def _reported_s(self, steps: int) -> tuple[float, float]:
        return self.total_s if steps >= self.longest else _seconds(self.reported, steps)


class Batches:
    """The batches of all workers that are there."""

    def __init__(self, costs: Costs, *, stale_s: float, most: int = MOST) -> None:
        """Know of no worker yet; if nothing is heard for `stale_s` nobody is known any more.

        An edit looks at all workers while there are at most `most`; else at half as many in turn,
        up to half of these such as have what was recorded of its template. The best of some is
        nearly as good, and several schedulers do not all send to the same one (Mitzenmacher, The
        Power of Two Choices in Randomized Load Balancing, 2001).
        """
        self._costs = costs
        self._stale_s = stale_s
        self._most = most
        self._heard_at = -math.inf
        self._batches: dict[str, Batch] = {}  #: by worker
        self._serving: dict[str, Rotation] = {}  #: by variant queue: workers with one of their own
        self._having: dict[tuple[Tier, str], Rotation] = {}  #: by recording
        self._makers: dict[str, str] = {}  #: job -> the worker that is known to have it

    def hear(self, change: FleetChange, now: float) -> None:
        """Take in what changed."""
        self._heard_at = now
        for name in change.gone:
            if name in self._batches:
                self._forget(self._batches.pop(name), None)
        for worker in change.workers:
            known = self._batches.get(worker.name)
            batch = self._batches[worker.name] = _updated(worker, known, now)
            self._forget(known, batch)
            self._note(batch, known)

    def offers(
        self, queue: str, works: Sequence[ImageWork], now: float
    ) -> list[tuple[Batch, EditOffer]]:
        """List batches that an edit of a queue may join, and what it would be there."""
        if now - self._heard_at > self._stale_s or queue not in self._serving:
            return []
        known: dict[tuple[str, Tier], EditOffer] = {}
        found, recording = [], works[0].recording
        for name in self._candidates(self._serving[queue], recording):
            batch = self._batches[name]
            kind = (batch.worker.device_type, batch.tier(recording))
            if kind not in known:
                known[kind] = self._offer(works, *kind)
            self._settle(batch, now)
            found.append((batch, known[kind]))
        return found

    def send(self, batch: Batch, offer: EditOffer, now: float) -> None:
        """Note that an edit was given to a worker."""
        batch.sent[offer.job] = (now, offer.tasks)
        batch.sent_at = now
        self._makers[offer.job] = batch.worker.name

    def forget(self, job: str) -> None:
        """Take back what is known of a job: it is placed again."""
        batch = self._batches.get(self._makers.pop(job, ""))
        if batch is not None:
            batch.sent.pop(job, None)
            self._weigh(batch)
            batch.report(task for task in batch.reported if task.work.job != job)

    def _candidates(self, serving: Rotation, recording: str) -> Collection[str]:
        if len(serving) <= self._most:
            return serving.take(self._most)
        names: dict[str, None] = {}
        for tier in (Tier.MEMORY, Tier.DISK):
            if (having := self._having.get((tier, recording))) is not None:
                names |= dict.fromkeys(n for n in having.take(self._most // 8) if n in serving)
        return names | dict.fromkeys(serving.take(self._most // 2 - len(names)))

    def _settle(self, batch: Batch, now: float) -> None:
        """Weigh what its worker reported; what no report told of for long has ended."""
        self._weigh(batch)
        for job in [job for job, (at, _) in batch.sent.items() if now - at >= SETTLE_S]:
            del batch.sent[job]
            self._makers.pop(job, None)

    def _weigh(self, batch: Batch) -> None:
        """Weigh what its worker reported, once and only where an edit looks at it."""
        if not batch.is_weighed:
            batch.report(self._task(batch, work) for work in batch.worker.works)

    def _note(self, batch: Batch, before: Batch | None) -> None:
        """Find a worker by the queues it serves, by what it keeps, and by its jobs."""
        name = batch.worker.name
        if before is None or before.worker.queues != batch.worker.queues:
            for queue in _served(batch):
                self._serving.setdefault(queue, Rotation()).add(name)
        for tier, had, has in _kept(before, batch):
            for recording in has - had if has is not had else ():
                self._having.setdefault((tier, recording), Rotation()).add(name)
        for work in batch.worker.works:
            self._makers[work.job] = name

    def _forget(self, before: Batch | None, now: Batch | None) -> None:
        """Find it no more by what is over."""
        if before is None:
            return
        name = before.worker.name
        if now is None or now.worker.queues != before.worker.queues:
            for queue in set(_served(before)).difference(_served(now) if now is not None else ()):
                _take_out(self._serving, queue, name)
        for tier, has, had in _kept(now, before):
            for recording in had - has if has is not had else ():
                _take_out(self._having, (tier, recording), name)
        for job in {work.job for work in before.worker.works}.union(before.sent):
            if self._makers.get(job) == name and (now is None or job not in now.sent):
                del self._makers[job]

    def _offer(self, works: Sequence[ImageWork], device_type: str, tier: Tier) -> EditOffer:
        costs = self._costs(works[0].model, device_type)
        tasks = tuple(BatchImage.of(work, costs.burden(work, tier)) for work in works)
        return EditOffer.of(tasks, costs, tier)

    def _task(self, batch: Batch, work: ImageWork) -> BatchImage:
        costs = self._costs(work.model, batch.worker.device_type)
        return BatchImage.of(work, costs.burden(work, batch.tier(work.recording)))


def _updated(worker: Worker, known: Batch | None, now: float) -> Batch:
    batch = Batch(worker=worker, seen_at=now)
    if known is None:
        batch.in_memory, batch.on_disk = frozenset(worker.recordings), frozenset(worker.shelved)
        return batch
    before = known.worker  # what it keeps seldom changes
    is_kept = before.recordings == worker.recordings
    batch.in_memory = known.in_memory if is_kept else frozenset(worker.recordings)
    is_shelved = before.shelved == worker.shelved
    batch.on_disk = known.on_disk if is_shelved else frozenset(worker.shelved)
    if known.sent:
        seen = {work.job for work in worker.works}
        batch.sent = {job: sent for job, sent in known.sent.items() if job not in seen}
    batch.sent_at = known.sent_at
    return batch


def _served(batch: Batch) -> list[str]:
    """List the variant queues of which a worker serves one of its own."""
    worker = batch.worker
    return [shared_queue_of(name) for name in worker.queues if owner_of(name) == worker.name]


def _kept(
    before: Batch | None, after: Batch
) -> Iterator[tuple[Tier, frozenset[str], frozenset[str]]]:
    """Compare which recordings a worker has."""
    none: frozenset[str] = frozenset()
    yield Tier.MEMORY, before.in_memory if before is not None else none, after.in_memory
    yield Tier.DISK, before.on_disk if before is not None else none, after.on_disk


def _take_out(rotations: dict[Key, Rotation], key: Key, name: str) -> None:
    rotations[key].remove(name)
    if not rotations[key]:
        del rotations[key]


def _seconds(tasks: Iterable[BatchImage], steps: int) -> tuple[float, float]:
    """Add up what tasks compute and load during so many steps."""
    computed_s = loaded_s = 0.0
    for _, left, compute_s, load_s in tasks:
        shared = left if left < steps else steps
        computed_s += shared * compute_s
        loaded_s += shared * load_s
    return computed_s, loaded_s
