"""Workers of one model behind one queue in virtual time, and who is told what about them.

The workers are those of the simulator (`simulator/fleet`); what is decided at the door is decided
here, by the scheduler's predictions.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from core.boards.cost import Cost
from core.model import Model
from core.placement import PlacementQuery, queue_of
from scheduler.placement.step_cost import StepCosts
from scheduler.routing.holders import Kind, StationWorker
from scheduler.routing.stations import Station, Work, station_of_kinds
from simulator.fleet.job import SimulatedJob
from simulator.fleet.queues import VariantQueues
from simulator.fleet.step_times import StepTimes
from simulator.fleet.worker import SimulatedWorker, WorkerType
from simulator.timeline import Timeline

REPORT_S = 1.0  #: workers say so often how much they have; the api has heard it as long ago
MODEL = Model(name="timed", family="noop", load_s=0.0)


class Drop(StrEnum):
    """When a job is given up that is late, or will be."""

    NEVER = "never"
    LATE = "when late"  #: as soon as its deadline has passed
    DOOR = "at the door"  #: when its deadline cannot be met; and as soon as it has passed


@dataclass(slots=True, kw_only=True)
class Asked:
    """One job and what became of it."""

    at: float  #: s
    steps: int
    deadline_s: float
    predicted_s: float = 0.0  #: until it is done, as said when it came
    is_refused: bool = False
    done_s: float | None = None  #: until it was done; None: it was not made

    @property
    def deadline_at(self) -> float:
        return self.at + self.deadline_s

    @property
    def is_in_time(self) -> bool:
        return self.done_s is not None and self.done_s <= self.deadline_s


class Workshop:
    """Workers of one model behind one queue."""

    def __init__(self, cost: Cost, *, workers: int, slots: int, drop: Drop) -> None:
        self._cost, self._slots, self._drop = cost, slots, drop
        self._timeline, queues = Timeline(0.0), VariantQueues()
        self._queue = queues[queue_of(MODEL.name)]
        self._asked: list[Asked] = []  #: by the row of the job
        self._present = 0  #: images in slots, as last reported
        self._mean_steps = 1.0
        whole = StepCosts(start_s=0.0, row_s=0.0, pixels=1)
        kind = WorkerType(
            device_type="cpu",
            slots=slots,
            memory_gib=1.0,
            models={MODEL.name: MODEL},
            times={MODEL.name: StepTimes(cost, whole, slots=slots)},
            load_s={MODEL.name: 0.0},
            has_own_queues=False,
        )
        self._workers = [
            SimulatedWorker(
                f"w{number}",
                kind,
                self._timeline,
                queues,
                phase_s=0.0,
                on_made=self._on_made,
                on_models=lambda worker: None,
            )
            for number in range(workers)
        ]
        for worker in self._workers:
            worker.start(0.0)
            worker.follow(MODEL.name, 0.0)
        self._timeline.pass_to(0.0)

    def make(self, jobs: Sequence[Asked]) -> None:
        """Let jobs come and see what becomes of them."""
        self._mean_steps = sum(job.steps for job in jobs) / len(jobs)
        for job in jobs:
            self._at(job.at, lambda now, job=job: self._arrive(job, now))  # type: ignore[misc]
        for second in range(int(jobs[-1].at / REPORT_S) + 1):
            self._at(second * REPORT_S, self._report)
        self.run()

    def run(self) -> None:
        """Do what is to come, until there is nothing more."""
        while self._timeline.next_at < math.inf:
            self._timeline.step()

    def station(self) -> Station:
        """See the workers as whoever predicts does."""
        kind = Kind(self._cost)
        kind.add(StationWorker(cost=self._cost, slots=self._slots), len(self._workers))
        return station_of_kinds([kind], present=self._present, mean_steps=self._mean_steps)

    def _at(self, when: float, act: Callable[[float], None]) -> None:
        self._timeline.at(when, act)

    def _report(self, now: float) -> None:
        del now
        self._present = sum(len(worker.engine.running) for worker in self._workers)

    def _arrive(self, job: Asked, now: float) -> None:
        work = Work(steps=job.steps)
        station, ahead = self.station(), len(self._queue)
        job.predicted_s = station.eta_s(work, ahead)
        can_meet = station.can_meet(work, ahead, job.deadline_s)
        job.is_refused = self._drop is Drop.DOOR and not can_meet
        if not job.is_refused:
            self._queue_up(job, now)

    def _queue_up(self, asked: Asked, now: float) -> None:
        query = PlacementQuery(prompt="", models=(MODEL.name,))
        job = SimulatedJob(row=len(self._asked), at=now, due=asked.deadline_at, query=query)
        job.model, job.steps = MODEL.name, asked.steps
        job.begin()
        self._asked.append(asked)
        if self._drop is not Drop.NEVER:
            self._at(asked.deadline_at, lambda at: self._expire(job, at))
        self._queue.push(job, now)

    def _on_made(self, job: SimulatedJob, now: float) -> None:
        if not job.is_over:
            job.is_over = True
            asked = self._asked[job.row]
            asked.done_s = now - asked.at

    def _expire(self, job: SimulatedJob, now: float) -> None:
        if job.is_over:
            return
        job.is_over = True
        if not self._queue.drop(job):
            any(worker.stop(job, now) for worker in self._workers)
