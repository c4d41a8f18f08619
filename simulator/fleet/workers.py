"""All workers of a world in virtual time: their queues, their reports, what plans tell them."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from core.boards.fleet import FleetChange, QueueDepth, Worker
from core.boards.plan import Plan
from core.placement import queue_of
from core.settings import Settings
from scheduler.placement.step_cost import step_costs
from simulator.fleet.job import SimulatedJob
from simulator.fleet.queues import VariantQueues
from simulator.fleet.step_times import StepTimes, fixed_s_of
from simulator.fleet.worker import FOLLOW_S, SimulatedWorker, WorkerType
from simulator.timeline import Timeline
from simulator.world import World

#: As the service runs where nobody sets anything.
SETTINGS = Settings.model_construct()
#: Workers report so often (worker/jobs/heartbeat), each at its own tenth of a second.
REPORT_S, TICKS = 1.0, 10


class SimulatedFleet:
    """Workers, their queues, and what both report."""

    def __init__(
        self,
        world: World,
        timeline: Timeline,
        *,
        has_edits: bool,
        on_made: Callable[[SimulatedJob, float], None],
        on_change: Callable[[SimulatedWorker, float], None],
        can_read: Callable[[], bool],
    ) -> None:
        """Prepare workers that are not up yet.

        Args:
            on_made: hears of each job whose images are there.
            on_change: hears of a worker that comes, goes, or changes what it serves or loads.
            can_read: whether the store of latents answers.
        """
        self.queues = VariantQueues()
        self._timeline = timeline
        self._on_change = on_change
        self._names = [queue_of(name) for name in sorted(world.profile.models)]
        rng = np.random.default_rng(world.seed)
        self.all = [
            SimulatedWorker(
                f"{kind.device_type}-{number:05d}",
                kind,
                timeline,
                self.queues,
                phase_s=float(rng.uniform(0, FOLLOW_S)),
                on_made=on_made,
                on_models=self._note,
                can_read=can_read,
            )
            for kind in kinds_of(world, has_edits=has_edits)
            for number in range(world.fleet[kind.device_type])
        ]
        self.by_name = {worker.name: worker for worker in self.all}
        self._reports: dict[str, Worker] = {}
        self._changed: dict[str, Worker] = {}
        self._gone: list[str] = []
        self._is_sorted = True

    def start(self, now: float) -> None:
        """Start every worker."""
        for worker in self.all:
            worker.start(now)
        for tick in range(TICKS):
            some = self.all[tick::TICKS]
            first = now + tick * REPORT_S / TICKS

            def report(at: float, some: Sequence[SimulatedWorker] = some) -> None:
                for worker in some:
                    if worker.is_up and worker.has_news:
                        self._report(worker, at)

            self._timeline.every(REPORT_S, report, first=first)

    async def workers(self) -> list[Worker]:
        """List those that reported lately, by name."""
        if not self._is_sorted:
            self._reports, self._is_sorted = dict(sorted(self._reports.items())), True
        return list(self._reports.values())

    def change(self) -> FleetChange:
        """Say what changed since this was asked last."""
        found = FleetChange(workers=tuple(self._changed.values()), gone=tuple(self._gone))
        self._changed, self._gone = {}, []
        return found

    async def depths(self) -> list[QueueDepth]:
        """Measure the variant queues."""
        return [self.queues[name].depth(self._timeline.now) for name in self._names]

    def follow(self, plan: Plan, now: float) -> None:
        """Let every worker hear of a plan."""
        for name, model in plan.assignments.items():
            self.by_name[name].follow(model, now)

    def busy_s(self, now: float) -> dict[str, float]:
        """Say how long workers of each type have computed by now."""
        found: dict[str, float] = {}
        for worker in self.all:
            kind = worker.kind.device_type
            found[kind] = found.get(kind, 0.0) + worker.engine.busy_by(now)
        return found

    def loads(self) -> int:
        """Count the loads that have begun."""
        return sum(worker.loads for worker in self.all)

    def stop(self, job: SimulatedJob, now: float) -> None:
        """Stop making a job, whoever does."""
        for worker in self.all:
            if worker.is_up and worker.stop(job, now):
                return

    def spread(self, count: int) -> list[SimulatedWorker]:
        """Choose so many of those that are up, of every type in proportion."""
        up: dict[str, list[SimulatedWorker]] = {}
        for worker in self.all:
            if worker.is_up:
                up.setdefault(worker.kind.device_type, []).append(worker)
        ranked = [
            ((number + 0.5) / len(some), worker.name, worker)
            for some in up.values()
            for number, worker in enumerate(some)
        ]
        return [worker for _, _, worker in sorted(ranked)[:count]]

    def served_queues(self) -> frozenset[str]:
        """Name the queues that some worker serves."""
        return frozenset(name for worker in self.all for name in worker.served)

    def serving(self) -> set[str]:
        """Name the models that some worker serves."""
        return {model for worker in self.all for model in worker.resident}

    def _report(self, worker: SimulatedWorker, now: float) -> None:
        before = worker.reported
        report = worker.report(now)
        if report is before:
            return
        name = worker.name
        self._is_sorted = self._is_sorted and name in self._reports
        self._reports[name] = self._changed[name] = report

    def _fall_silent(self, worker: SimulatedWorker, now: float) -> None:
        """Forget a worker that is still gone."""
        del now
        if not worker.is_up and self._reports.pop(worker.name, None) is not None:
            self._changed.pop(worker.name, None)
            self._gone.append(worker.name)

    def _note(self, worker: SimulatedWorker) -> None:
        now = self._timeline.now
        self._on_change(worker, now)
        if worker.is_up:
            self._report(worker, now)  # it says so at once
        else:
            silent_at = now + SETTINGS.worker_stale_s
            self._timeline.at(silent_at, partial(self._fall_silent, worker))


def kinds_of(world: World, *, has_edits: bool) -> list[WorkerType]:
    """Say what workers of each type of a fleet are like."""
    profile = world.profile
    kinds = []
    for device_type in sorted(world.fleet):
        times = {
            name: StepTimes(
                profile.cost(name, device_type),
                step_costs(profile, name, device_type),
                slots=world.slots,
                factor=world.misjudged.get(name, 1.0),
                fixed_s=fixed_s_of(profile, model, device_type),
            )
            for name, model in profile.models.items()
        }
        kinds.append(
            WorkerType(
                device_type=device_type,
                slots=world.slots,
                memory_gib=world.memory_of(device_type),
                models=profile.models,
                times=times,
                load_s={name: profile.load_s(name, device_type) for name in profile.models},
                has_own_queues=has_edits,
            )
        )
    return kinds
