"""Simulate one policy in one world: arrivals, workers, faults and the scheduler on one timeline."""

import gc
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from core.boards.plan import Plan
from core.levels.level import Level
from core.placement import Placement, PlacementQuery, shared_queue_of
from scheduler.approximate_cache.strategy import Dependency
from simulator.fleet.job import SimulatedJob
from simulator.fleet.worker import SimulatedWorker
from simulator.fleet.workers import SETTINGS, SimulatedFleet
from simulator.outcome import PolicyOutcome
from simulator.prompts import completed
from simulator.recorder import Recorder, WorkerState
from simulator.requests import Arrival, Requests, query_of
from simulator.scheduler import SimulatedScheduler
from simulator.timeline import START_S, Timeline
from simulator.world import Outage, World

#: Jobs on queues that nobody serves are looked for so often, and moved after so long
#: (tasks/upkeep/reroute).
UPKEEP_S, ASTRAY_S = 1.0, 2.0
#: New objects that live, at which garbage is collected.
COLLECT_AT = 100_000
#: Progress is told after so many arrivals.
TELL_EVERY = 1000

#: Hears which share of the workload has arrived.
Progress = Callable[[float], object]


def simulate(world: World, policy: str, progress: Progress = lambda share: None) -> PolicyOutcome:
    """Let a workload come to a fleet under one policy, and see what becomes of it.

    Raises:
        ConfigurationError: there is no such policy, or the workload asks for what is not there.
    """
    with rare_collections():
        return Simulation(world, policy).run(progress)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage seldom, and leave out what was there before: a run makes few cycles.

    It was a tenth of the time: collections looked at every module and at each report, to find none.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(COLLECT_AT, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


class Simulation:
    """One run; `run` may be called once."""

    def __init__(self, world: World, policy: str) -> None:
        warm_up_s = _warm_up_s(world) if world.warm_up_s is None else world.warm_up_s
        world = completed(world)
        self._world, self._policy = world, policy
        self.timeline = Timeline(START_S - warm_up_s)
        self._requests = Requests(world)
        self._recorder = Recorder(world, self._requests.known)
        self.fleet = SimulatedFleet(
            world,
            self.timeline,
            has_edits=self._requests.has_edits,
            on_made=self._on_made,
            on_change=self._on_change,
            can_read=self._can_read,
        )
        self._scheduler = SimulatedScheduler(
            world,
            policy,
            self.timeline,
            self.fleet,
            has_edits=self._requests.has_edits,
            on_plan=self._on_plan,
        )
        self._jobs: dict[int, SimulatedJob] = {}  #: that have not ended, by row
        self._retrieval_s = world.profile.measured.about.retrieval_s
        self._steps: dict[tuple[str, int | None], tuple[int, int]] = {}
        self._astray: dict[int, float] = {}  #: row -> since when its queue is served by nobody

    def run(self, progress: Progress = lambda share: None) -> PolicyOutcome:
        """Go through all of it."""
        timeline = self.timeline
        self.fleet.start(timeline.now)
        self._scheduler.start(timeline.now)
        timeline.every(UPKEEP_S, self._reroute, first=timeline.now + UPKEEP_S)
        for outage in self._world.outages:
            timeline.at(START_S + outage.begin_s, partial(self._fail, outage))
        self._watch()
        count = len(self._world.workload)
        for arrival in self._requests.arrivals():
            at = START_S + arrival.at_s
            timeline.pass_to(at)
            self._arrive(arrival, at)
            if arrival.row % TELL_EVERY == 0:
                progress(arrival.row / count)
        last = START_S + self._world.workload.duration_s + self._world.patience_s
        while self._jobs and timeline.next_at <= last:
            timeline.step()
        progress(1.0)
        self._recorder.plans = self._scheduler.notes
        return self._recorder.outcome(self._policy, timeline.now)

    # jobs

    def _arrive(self, arrival: Arrival, now: float) -> None:
        kind, row = arrival.kind, arrival.row
        query = query_of(arrival)
        self._recorder.promise(row, kind.slo_s)
        answer = self._scheduler.placer.place_one(query, arrival.affinity, now)
        answer = self._scheduler.start_latents(answer, now)
        if not isinstance(answer, Placement) or self._is_too_late(query, answer):
            self._recorder.refuse(row)
            return
        job = SimulatedJob(
            row=row,
            at=now,
            due=now + kind.slo_s,
            query=query,
            affinity=arrival.affinity,
            pixels=kind.pixels,
            images=query.rows,
            surcharge=kind.surcharge,
        )
        self._place(job, answer)
        self._jobs[row] = job
        if arrival.cancel_s == arrival.cancel_s:
            self.timeline.at(now + arrival.cancel_s, partial(self._cancel, job))
        if self._world.deadline_s is not None:
            job.deadline = now + self._world.deadline_s
            self.timeline.at(job.deadline, partial(self._expire, job))
        if job.skipped and self._retrieval_s:
            self.timeline.at(now + self._retrieval_s, partial(self._send, job))
        else:
            self._send(job, now)

    def _is_too_late(self, query: PlacementQuery, placement: Placement) -> bool:
        deadline_s = self._world.deadline_s
        if deadline_s is None or query.works:  # of edits nobody foresees it
            return False
        ahead = len(self.fleet.queues[placement.queue])
        return not self._scheduler.is_in_time(placement, query, deadline_s, ahead)

    def _place(self, job: SimulatedJob, placement: Placement) -> None:
        """Note where and at which level a job is made."""
        job.queue, job.model, job.level = placement.queue, placement.model, placement.level
        job.steps, job.skipped = self._steps_of(job.level, job.query.steps)
        if job.pixels:
            job.size = job.pixels / self._world.profile.models[job.model].default_size ** 2
        if job.query.works:
            job.work = next(work for work in job.query.works if work.model == job.model)
        job.begin()

    def _steps_of(self, name: str, steps: int | None) -> tuple[int, int]:
        """Count the steps that an image takes at a level, and those that it skips."""
        found = self._steps.get((name, steps))
        if found is None:
            level = Level.read(name)
            whole = steps or self._world.profile.models[level.model].default_steps
            left = max(1, level.approximation.steps_left(whole))
            skipped = whole - left if level.approximation.needs_latents else 0
            found = self._steps[name, steps] = (left, skipped)
        return found

    def _send(self, job: SimulatedJob, now: float) -> None:
        if not job.is_over:
            self.fleet.queues[job.queue].push(job, now)

    def _on_made(self, job: SimulatedJob, now: float) -> None:
        if not job.is_over:
            job.is_over = True
            del self._jobs[job.row]
            self._recorder.end(job, now)

    def _cancel(self, job: SimulatedJob, now: float) -> None:
        if not job.is_over:
            self._recorder.cancel(job.row)
            self._leave(job, now)

    def _expire(self, job: SimulatedJob, now: float) -> None:
        if not job.is_over:
            self._leave(job, now)

    def _leave(self, job: SimulatedJob, now: float) -> None:
        job.is_over = True
        del self._jobs[job.row]
        if not self.fleet.queues[job.queue].drop(job):
            self.fleet.stop(job, now)

    def _reroute(self, now: float) -> None:
        """Place jobs again that wait where nobody serves."""
        stray = [queue for queue in self.fleet.queues if len(queue)]
        served = self.fleet.served_queues() if stray else frozenset()
        waiting = [job for queue in stray if queue.name not in served for job in queue]
        since = {job.row: self._astray.get(job.row, now) for job in waiting}
        self._astray = since
        for job in waiting:
            if now - since[job.row] >= ASTRAY_S:
                self._move(job, now)

    def _move(self, job: SimulatedJob, now: float) -> None:
        models = tuple(m for m in job.query.models if m in self.fleet.serving())
        if not models:
            return
        query = replace(job.query, models=models, is_again=True)
        answer = self._scheduler.placer.place_one(query, job.affinity, now)
        answer = self._scheduler.start_latents(answer, now)
        if isinstance(answer, Placement) and answer.queue != job.queue:
            self.fleet.queues[job.queue].drop(job)
            self._place(job, answer)
            self._send(job, now)

    # workers

    def _on_plan(self, plan: Plan) -> None:
        self.fleet.follow(plan, self.timeline.now)

    def _on_change(self, worker: SimulatedWorker, now: float) -> None:
        state = WorkerState(
            worker.kind.device_type, worker.is_up, worker.loading is not None, worker.resident
        )
        self._recorder.see_worker(worker.name, state, now)

    def _can_read(self) -> bool:
        return not self._scheduler.is_stalled(Dependency.STORE, self.timeline.now)

    def _fail(self, outage: Outage, now: float) -> None:
        """End some workers; what they had comes back when its leases have run out."""
        for worker in self.fleet.spread(outage.workers):
            for job in worker.die(now):
                self.timeline.at(now + SETTINGS.lease_s, partial(self._requeue, job))
            self.timeline.at(START_S + outage.end_s, worker.start)

    def _requeue(self, job: SimulatedJob, now: float) -> None:
        if not job.is_over:
            job.begin()
            self.fleet.queues[shared_queue_of(job.queue)].push(job, now, first=True)

    def _watch(self) -> None:
        """Note at the end of each stretch how long workers computed in it."""
        before: dict[str, float] = {}
        loads = 0

        def look(stretch: int, now: float) -> None:
            nonlocal before, loads
            busy_s, so_far = self.fleet.busy_s(now), self.fleet.loads()
            if stretch < 0:
                loads = so_far
            else:
                seconds = {kind: s - before.get(kind, 0.0) for kind, s in busy_s.items()}
                self._recorder.see_busy(stretch, seconds)
                self._recorder.loads = so_far - loads
            before = busy_s

        for stretch in range(-1, self._recorder.stretches):
            at = START_S + (stretch + 1) * self._recorder.stretch_s
            self.timeline.at(at, partial(look, stretch))


def _warm_up_s(world: World) -> float:
    """Say how long it takes until every worker serves what the first plan gave it."""
    loads = [world.profile.load_s(m, kind) for m in world.profile.models for kind in world.fleet]
    return math.ceil(2 * max(loads, default=0.0) + world.period_s)
