"""One worker in virtual time: jobs claimed from queues, an engine, models loaded as a plan says."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from core.boards.fleet import Worker
from core.boards.image_work import ImageWork
from core.model import Model
from core.placement import own_queue_of, queue_of
from scheduler.placement.step_cost import Tier
from scheduler.routing.stations import Mould
from simulator.fleet.engine import EngineModel, Made
from simulator.fleet.job import TEMPLATE, SimulatedJob, works_of
from simulator.fleet.queues import VariantQueue, VariantQueues
from simulator.fleet.step_times import StepTimes
from simulator.timeline import Timeline

#: A worker hears of a new plan after at most so long (worker/process/residency).
FOLLOW_S = 0.5
#: Seconds of steps before which a worker does not say how fast it is (worker/engine/slowdown).
SEEN_S = 0.5
#: Of a worker's report: what changes while it serves the same models.
CHANGING = (
    *("running", "waiting", "step_s", "step_images", "slowness", "starts_read", "starts_late"),
    "beat_at",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerType:
    """What workers of one type have in common."""

    device_type: str
    slots: int
    memory_gib: float
    models: Mapping[str, Model]
    times: Mapping[str, StepTimes]  #: by model
    load_s: Mapping[str, float]  #: by model
    has_own_queues: bool  #: jobs are sent to one worker alone: edits


class SimulatedWorker:
    """Claims, makes and reports; the models it serves change as `worker/process/residency` does."""

    def __init__(
        self,
        name: str,
        kind: WorkerType,
        timeline: Timeline,
        queues: VariantQueues,
        *,
        phase_s: float,
        on_made: Callable[[SimulatedJob, float], None],
        on_models: Callable[["SimulatedWorker"], None],
        can_read: Callable[[], bool] = lambda: True,
    ) -> None:
        """Begin without a model.

        Args:
            phase_s: when in `FOLLOW_S` it looks at the plan.
            on_models: hears of it whenever it comes, goes, or changes what it serves or loads.
            can_read: whether the store of latents answers.
        """
        self.name = name
        self.kind = kind
        self.engine = EngineModel(kind.slots, kind.times)
        self.is_up = False
        self.resident: tuple[str, ...] = ()  #: models that it serves
        self.loading: str | None = None
        self.loads = 0
        self.starts_read = 0
        self.starts_late = 0
        self._timeline = timeline
        self._queues = queues
        self._phase_s = phase_s
        self._on_made = on_made
        self._on_models = on_models
        self._can_read = can_read
        self._target: str | None = None
        self._leaving: tuple[str, ...] = ()  #: models it serves no more and still makes images of
        self._held = 0  #: jobs claimed that have slots, or are to get some
        self._event_at = math.inf
        self._life = 0  #: grows when it dies: what was to happen to it before does not
        self.reported: Worker | None = None  #: what it said last
        self._reports: Mould[Worker] | None = None  #: of what it serves now
        self._told = -1  #: changes of the engine by then; none holds since it serves others
        self.served: tuple[str, ...] = ()  #: queues
        self._lines: list[VariantQueue] = []  #: those queues

    # jobs

    def wants(self, queue: str) -> bool:
        """Tell whether it takes a job of a queue now."""
        return self._held < self.kind.slots and queue in self.served

    def take(self, job: SimulatedJob, now: float) -> None:
        """Claim a job."""
        self._claim(job, now)
        self._go_on(now)
        if self._held < self.kind.slots:
            for queue in self._lines:
                queue.wait(self)

    def stop(self, job: SimulatedJob, now: float) -> bool:
        """Stop making a job that is over; say whether it was here."""
        if all(each is not job for each in self.engine.jobs()):
            return False
        self._held -= not job.has_left
        self.engine.stop(now)
        self._go_on(now)
        self._pull(now)
        return True

    def _pull(self, now: float) -> None:
        """Claim what waits, as long as there is room."""
        if not self.is_up:
            return
        slots = self.kind.slots
        for queue in self._lines:
            while self._held < slots and (job := queue.pop()) is not None:
                self._claim(job, now)
        self._go_on(now)
        if self._held < slots:
            for queue in self._lines:
                queue.wait(self)

    def _claim(self, job: SimulatedJob, now: float) -> None:
        self._held += 1
        times = self.kind.times[job.model]
        if job.work is not None:
            job.burden = times.burden(job.work, Tier.MEMORY)
        if job.skipped:
            self.starts_read += 1
            if not self._can_read():
                self.starts_late += 1
                job.start_from_noise()
        job.decode_s = times.decode_s(job.level)
        self.engine.add(job, now)

    def _go_on(self, now: float) -> None:
        """See to it that the next change of the batch is not missed."""
        engine = self.engine
        while engine.change_at <= now:
            self._settle(engine.change(now), now)
        change_at = engine.change_at
        if change_at != self._event_at:
            self._event_at = change_at
            if change_at < math.inf:
                self._timeline.at(change_at, self._on_change)

    def _on_change(self, now: float) -> None:
        if now != self._event_at:
            return  # something came before it
        self._event_at = math.inf
        if self._settle(self.engine.change(now), now):
            self._pull(now)
        else:
            self._go_on(now)

    def _settle(self, made: Made, now: float) -> bool:
        """Let jobs end that are made, now or when they are; tell whether any has left its slots."""
        freed = self.engine.freed()
        self._held -= freed
        for job, at in made:
            if at <= now:
                self._on_made(job, at)
            else:
                life = self._life
                self._timeline.at(at, lambda at, job=job, life=life: self._end(job, at, life))  # type: ignore[misc]
        return freed > 0

    def _end(self, job: SimulatedJob, now: float, life: int) -> None:
        if life == self._life:
            self._on_made(job, now)

    # models

    def follow(self, target: str | None, now: float) -> None:
        """Hear of a plan, when it next looks."""
        if target is None or target == self._target:
            return
        self._target = target
        self._look_later(now)

    def _look_later(self, now: float) -> None:
        after_s = (self._phase_s - now) % FOLLOW_S
        life = self._life
        self._timeline.at(now + after_s, lambda at: self._look(at, life))

    def _look(self, now: float, life: int) -> None:
        """Begin a change of the model, if one is due and none is on."""
        target = self._target
        is_done = target is None or self.resident == (target,)
        if life != self._life or not self.is_up or self.loading or is_done:
            return
        assert target is not None
        if target in self.resident:
            self._serve((target,), now)
            return
        if not self._fits((*self.resident, target)):
            self._serve((), now)
        self._leaving = tuple(m for m in self._leaving if self.engine.holds(m))
        if not self._fits((*self.resident, target)):  # until what it had is made
            self._timeline.at(now + FOLLOW_S, lambda at: self._look(at, life))
            return
        self.loading = target
        self.loads += 1
        self._on_models(self)
        self._timeline.at(now + self.kind.load_s[target], lambda at: self._loaded(at, life))

    def _loaded(self, now: float, life: int) -> None:
        if life != self._life or self.loading is None:
            return
        model, self.loading = self.loading, None
        self._serve((model,), now)
        self._look_later(now)

    def _serve(self, models: tuple[str, ...], now: float) -> None:
        left = tuple(m for m in self.resident if m not in models)
        self._leaving = (*self._leaving, *left)
        self.resident = models
        own = [own_queue_of(queue_of(m), self.name) for m in models]
        shared = [queue_of(m) for m in models]
        self.served = (*own, *shared) if self.kind.has_own_queues else tuple(shared)
        self._lines, self._reports = [self._queues[name] for name in self.served], None
        self._told = -1
        self._on_models(self)
        self._pull(now)

    def _fits(self, names: tuple[str, ...]) -> bool:
        sizes = self.kind.models
        whole = sum(sizes[name].size_gib for name in {*names, *self._leaving})
        return whole <= self.kind.memory_gib

    # life

    def start(self, now: float) -> None:
        """Begin to report and to follow the plan."""
        self.is_up = True
        self._on_models(self)
        self._look_later(now)

    def die(self, now: float) -> list[SimulatedJob]:
        """Lose everything at once; give the jobs that somebody must make again."""
        lost = [job for job in self.engine.jobs() if not job.is_over]
        self.engine.clear(now)
        self._life += 1
        self.is_up, self.loading, self.resident, self._leaving = False, None, (), ()
        self._held, self._event_at, self.reported, self.served = 0, math.inf, None, ()
        self._lines, self._reports, self._told = [], None, -1
        self._on_models(self)
        return lost

    @property
    def has_news(self) -> bool:
        """Whether its report may say more than the last one did."""
        return self._told != self.engine.changes or self.kind.has_own_queues

    def report(self, now: float) -> Worker:
        """Say what it holds and does, as last time if nothing has changed."""
        engine, before = self.engine, self.reported
        self._told = engine.changes
        running, waiting = len(engine.running), engine.num_waiting if engine.waiting else 0
        if (
            before is not None
            and not self.kind.has_own_queues
            and before.running == running
            and before.waiting == waiting
            and before.models == self.resident
            and before.step_images == (engine.last_shared or 1)
            and before.starts_read == self.starts_read
        ):
            return before
        if self._reports is None or self.kind.has_own_queues:
            report = self._describe(running, waiting, now)
            self._reports = Mould(report, *CHANGING)
        else:
            report = self._reports.cast(running, waiting, *self._changing(), now)
        self.reported = report
        return report

    def _changing(self) -> tuple[float, float, float, int, int]:
        """Give the fields of `CHANGING` between images and time."""
        engine, kind = self.engine, self.kind
        times = kind.times[self.resident[0]] if self.resident else None
        slowness = times.factor if times is not None and engine.busy_s > SEEN_S else 0.0
        step_images = engine.last_shared or 1
        return engine.last_step_s, step_images, slowness, self.starts_read, self.starts_late

    def _describe(self, running: int, waiting: int, now: float) -> Worker:
        kind = self.kind
        times = kind.times[self.resident[0]] if self.resident else None
        shared = times.full_sizes[-1] if times is not None else 0
        step_s, step_images, slowness, starts_read, starts_late = self._changing()
        return Worker(
            name=self.name,
            device_type=kind.device_type,
            models=self.resident,
            queues=self.served,
            memory_gib=kind.memory_gib,
            running=running,
            waiting=waiting,
            max_slots=kind.slots,
            step_s=step_s,
            step_images=step_images,
            most_sharing=shared if shared < kind.slots else 0,
            slowness=slowness,
            starts_read=starts_read,
            starts_late=starts_late,
            works=self._works() if kind.has_own_queues else (),
            recordings=(TEMPLATE,) if kind.has_own_queues else (),
            beat_at=now,
        )

    def _works(self) -> tuple[ImageWork, ...]:
        """List the images it makes or will, as a worker's report does."""
        names = [own_queue_of(queue_of(model), self.name) for model in self.resident]
        queued = [job for name in names for job in self._queues[name]]
        found = [*self.engine.jobs(), *queued]
        return tuple(work for job in found if not job.is_over for work in works_of(job))
