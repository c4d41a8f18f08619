"""Simulated fleet of masked-edit workers in virtual time, stepped like the engine.

Edits join at the next step while there is a slot, the one due first goes first, and a template
that is nowhere on the worker is recorded by the edit itself, in one row more. How long a step
takes are the measured costs; who makes an edit is decided by the scheduler's own code.
"""

import heapq
import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from core.boards.fleet import FleetChange, Worker
from core.boards.image_work import ImageWork
from core.placement import Placement, own_queue_of, queue_of
from core.settings import Settings
from scheduler.placement.dispatch import Dispatcher, Score
from scheduler.placement.step_cost import KNOBS, Burden, StepCosts, Tier
from scheduler.placement.worker_batches import MOST, Batches

MODEL, DEVICE = "medium", "cpu"
QUEUE = queue_of(MODEL)
STEPS = 50
REPORT_S = 1.0  #: workers report so often, and are read half of that later
#: Real steps differ from what is expected of them by so much (standard deviation of the logarithm).
NOISE = 0.05
SETTINGS = Settings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What is asked for, and what workers may keep."""

    mean_mask: float  #: share of an image under a mask; InstGenIE, Fig. 3: 0.11 and 0.19
    templates: int
    skew: float = 1.0  #: of their popularity: the k-th is asked for 1/k^skew as often as the first
    memory: int  #: recordings that fit in a worker's host memory
    disk: int  #: and on its disk
    pixels: int
    workers: int = 4


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """One edit."""

    work: ImageWork
    at: float  #: it is asked for, s
    left: int = STEPS
    burden: Burden | None = None  #: once it has begun
    rows: int = 0
    is_recorded: bool = False  #: by itself
    done_at: float = math.inf


def draw(scene: Scene, rate: float, count: int, seed: int) -> list[Job]:
    """Draw edits of a Poisson process. Most masks are small, a few are large (Fig. 3)."""
    rng = Random(seed)
    weights = [1 / rank**scene.skew for rank in range(1, scene.templates + 1)]
    templates = rng.choices(range(scene.templates), weights, k=count)
    jobs, at = [], 0.0
    for number, template in enumerate(templates):
        at += rng.expovariate(rate)
        # A beta distribution whose density falls from the left, as both in the figure do.
        masked = max(0.005, rng.betavariate(0.9, 0.9 / scene.mean_mask - 0.9))
        work = ImageWork(
            job=str(number),
            model=MODEL,
            steps=STEPS,
            rows=2,
            pixels=scene.pixels,
            masked=masked,
            recording=_name(template),
        )
        jobs.append(Job(work=work, at=at))
    return jobs


def _name(template: int) -> str:
    return f"t{template}"


class Kept:
    """Names of recordings, the last used ones."""

    def __init__(self, room: int, templates: int) -> None:
        """Begin with the most popular ones, as if edits had come to all workers alike for long."""
        self._room = room
        known = (_name(number) for number in reversed(range(min(room, templates))))
        self.names: OrderedDict[str, None] = OrderedDict.fromkeys(known)

    def use(self, name: str) -> bool:
        """Say whether it is there, and keep it for longer."""
        if name in self.names:
            self.names.move_to_end(name)
        return name in self.names

    def add(self, name: str) -> None:
        self.names[name] = None
        self.names.move_to_end(name)
        while len(self.names) > self._room:
            self.names.popitem(last=False)


@dataclass(slots=True, kw_only=True, eq=False)
class Engine:
    """One worker."""

    name: str
    costs: StepCosts
    memory: Kept
    disk: Kept
    rng: Random
    running: list[Job] = field(default_factory=list)
    waiting: list[Job] = field(default_factory=list)
    batch: list[Job] = field(default_factory=list)  #: whose step is being computed

    def begin(self) -> float | None:
        """Begin a step; its seconds, or None if there is nothing to do or one is on."""
        if self.batch:
            return None
        while self.waiting and len(self.running) < SETTINGS.max_slots:
            self._admit(self.waiting.pop(0))
        self.batch = self._choose()
        if not self.batch:
            return None
        burdens = [job.burden for job in self.batch if job.burden is not None]
        compute_s = self.costs.start_s + sum(burden.compute_s for burden in burdens)
        load_s = sum(burden.load_s for burden in burdens)
        return max(compute_s, load_s) * math.exp(self.rng.gauss(0.0, NOISE))

    def end(self, now: float) -> None:
        """End a step; what is finished leaves."""
        for job in self.batch:
            job.left -= 1
            if job.left == 0:
                job.done_at = now
                self.running.remove(job)
                if job.is_recorded:
                    self.memory.add(job.work.recording)
                    self.disk.add(job.work.recording)
        self.batch = []

    def report(self, beat_at: float) -> Worker:
        """Say what it has to do, as a worker's heartbeat does."""
        begun = [
            replace(job.work, steps=job.left, rows=job.rows, masked=self._share(job), recording="")
            for job in self.running
        ]
        return Worker(
            name=self.name,
            device_type=DEVICE,
            models=(MODEL,),
            queues=(QUEUE, own_queue_of(QUEUE, self.name)),
            memory_gib=4.0,
            works=(*begun, *(job.work for job in self.waiting)),
            recordings=tuple(self.memory.names),
            shelved=tuple(self.disk.names),
            beat_at=beat_at,
        )

    def _share(self, job: Job) -> float:
        return 1.0 if job.is_recorded else job.work.masked

    def _admit(self, job: Job) -> None:
        tier = self._find(job.work.recording)
        reuses = job.work.masked <= KNOBS.break_even
        job.is_recorded = reuses and tier is Tier.NOWHERE
        job.rows = job.work.rows + job.is_recorded
        job.burden = self.costs.burden(job.work, tier)
        self.running.append(job)

    def _find(self, name: str) -> Tier:
        if self.memory.use(name):
            self.disk.use(name)
            return Tier.MEMORY
        if self.disk.use(name):
            self.memory.add(name)  # while the edit runs
            return Tier.DISK
        return Tier.NOWHERE

    def _choose(self) -> list[Job]:
        """Take those due first, as many as fit (worker/engine/batch.py)."""
        chosen: list[Job] = []
        rows = 0
        for job in sorted(self.running, key=lambda job: job.at):
            if not chosen or rows + job.rows <= SETTINGS.max_rows:
                chosen.append(job)
                rows += job.rows
        return chosen


class Fleet:
    """Some workers and the scheduler before them, in virtual time."""

    def __init__(
        self, scene: Scene, costs: StepCosts, score: Score, seed: int, most: int = MOST
    ) -> None:
        self._batches = Batches(lambda model, device: costs, stale_s=10 * REPORT_S, most=most)
        self._dispatcher = Dispatcher(self._batches, score)
        self._engines = {
            own_queue_of(QUEUE, name): Engine(
                name=name,
                costs=costs,
                memory=Kept(scene.memory, scene.templates),
                disk=Kept(scene.disk, scene.templates),
                rng=Random(f"{seed} {name}"),
            )
            for name in (f"w{number}@host" for number in range(scene.workers))
        }
        self._reports = [engine.report(0.0) for engine in self._engines.values()]
        self._steps: list[tuple[float, str]] = []  #: when each running step ends, and whose

    def run(self, jobs: Sequence[Job]) -> None:
        """Make some edits, to the last one's end."""
        report_at = 0.0
        for job in jobs:
            skipped = int((job.at - report_at) / REPORT_S) - 2  # nobody would read these
            report_at += max(0, skipped) * REPORT_S
            while report_at <= job.at:
                self._pass(report_at)
                self._exchange(report_at)
                report_at += REPORT_S
            self._pass(job.at)
            self._send(job)
        self._pass(math.inf)

    def _exchange(self, now: float) -> None:
        """Read the last reports, and make the next ones: the scheduler is always behind."""
        self._batches.hear(FleetChange(workers=self._reports), now)
        self._reports = [engine.report(now) for engine in self._engines.values()]

    def _send(self, job: Job) -> None:
        placement = Placement(queue=QUEUE, model=MODEL, level=f"{MODEL}@0")
        queue = self._dispatcher.dispatch(placement, [job.work], job.at)
        assert queue is not None
        self._engines[queue].waiting.append(job)
        self._begin(queue, job.at)

    def _pass(self, until: float) -> None:
        """Let time pass."""
        while self._steps and self._steps[0][0] <= until:
            now, queue = heapq.heappop(self._steps)
            self._engines[queue].end(now)
            self._begin(queue, now)

    def _begin(self, queue: str, now: float) -> None:
        seconds = self._engines[queue].begin()
        if seconds is not None:
            heapq.heappush(self._steps, (now + seconds, queue))
