"""Record what becomes of jobs and of the fleet, and sum it up as an outcome."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.fleet.job import SimulatedJob
from simulator.outcome import NO_LEVEL, PlanNote, PolicyOutcome, Series
from simulator.timeline import START_S
from simulator.world import World

#: Stretches of a series, about; none is shorter than a second.
STRETCHES = 240

Floats = NDArray[np.float64]


def stretch_of(world: World) -> float:
    """Choose how long a stretch of the series is, s."""
    return float(max(1, math.ceil(world.workload.duration_s / STRETCHES)))


@dataclass(frozen=True, slots=True)
class WorkerState:
    """What one worker is doing, as far as series show it."""

    device_type: str
    is_up: bool = False
    is_loading: bool = False
    models: tuple[str, ...] = ()


class Recorder:
    """Notes everything at the moment at which it happens."""

    def __init__(self, world: World, known: NDArray[np.int64]) -> None:
        """Prepare; `known`: prompt of the workload -> row of the prompt set."""
        load, count = world.workload, len(world.workload)
        self._world, self._known = world, known
        profiled = [level.name for level in world.profile.levels]
        self.levels = tuple(dict.fromkeys((*world.prompts.levels, *profiled)))
        self.models = tuple(sorted(world.profile.models))
        self._index = {name: index for index, name in enumerate(self.levels)}
        self._ended = np.full(count, np.nan)
        self._slo = np.zeros(count)
        self._level = np.full(count, NO_LEVEL, np.int16)
        self._refused = np.zeros(count, np.bool_)
        self._canceled = np.zeros(count, np.bool_)
        self.loads = 0
        self.plans: list[PlanNote] = []
        self.stretch_s = stretch_of(world)
        self.stretches = max(1, math.ceil(load.duration_s / self.stretch_s + 1e-9))
        self._states: dict[str, WorkerState] = {}
        self._since: dict[str, float] = {}
        self._up = {kind: np.zeros(self.stretches) for kind in world.fleet}
        self._loading = np.zeros(self.stretches)
        self._holding = np.zeros((self.stretches, len(self.models)))
        self._busy = {kind: np.zeros(self.stretches) for kind in world.fleet}

    def promise(self, row: int, slo_s: float) -> None:
        """Note by when a job is promised."""
        self._slo[row] = slo_s

    def refuse(self, row: int) -> None:
        """Note that a job was not taken."""
        self._refused[row] = True

    def cancel(self, row: int) -> None:
        """Note that its client took a job back."""
        self._canceled[row] = True

    def end(self, job: SimulatedJob, now: float) -> None:
        """Note that a job's images are there."""
        self._ended[job.row] = now - START_S
        index = self._index.get(job.level)
        if index is None:
            index = self._index[job.level] = len(self.levels)
            self.levels = (*self.levels, job.level)
        self._level[job.row] = index

    def see_worker(self, name: str, state: WorkerState, now: float) -> None:
        """Note what a worker does from now on."""
        before = self._states.get(name)
        if before is not None:
            self._add(before, self._since[name] - START_S, now - START_S)
        self._states[name], self._since[name] = state, now

    def see_busy(self, stretch: int, seconds: Mapping[str, float]) -> None:
        """Note how long workers of each type computed in a stretch."""
        for kind, busy_s in seconds.items():
            self._busy[kind][stretch] = busy_s

    def outcome(self, policy: str, now: float) -> PolicyOutcome:
        """Sum up."""
        for name, state in list(self._states.items()):
            self.see_worker(name, state, now)
        quality = self._quality()
        return PolicyOutcome(
            policy=policy,
            seed=self._world.seed,
            levels=self.levels,
            models=self.models,
            at_s=self._world.workload.at_s,
            slo_s=self._slo,
            ended_s=self._ended,
            level=self._level,
            quality=quality,
            was_refused=self._refused,
            was_canceled=self._canceled,
            loads=self.loads,
            up_s={kind: float(up.sum()) for kind, up in self._up.items()},
            busy_s={kind: float(busy.sum()) for kind, busy in self._busy.items()},
            plans=tuple(self.plans),
            series=self._series(quality),
        )

    def _add(self, state: WorkerState, begin: float, end: float) -> None:
        """Add a worker's state to the stretches that it lasted for."""
        begin, end = max(0.0, begin), min(end, self.stretches * self.stretch_s)
        if end <= begin or not state.is_up:
            return
        first, last = int(begin / self.stretch_s), math.ceil(end / self.stretch_s) - 1
        for stretch in range(first, last + 1):
            low, high = stretch * self.stretch_s, (stretch + 1) * self.stretch_s
            seconds = min(end, high) - max(begin, low)
            self._up[state.device_type][stretch] += seconds
            self._loading[stretch] += seconds * state.is_loading
            for model in state.models:
                self._holding[stretch, self.models.index(model)] += seconds

    def _quality(self) -> Floats:
        """Look up what each job got: [N]."""
        prompts = self._world.prompts
        table = np.full((len(prompts), len(self.levels) + 1), np.nan)
        table[:, : len(prompts.levels)] = prompts.quality
        if not len(self._level):
            return np.zeros(0)
        rows = self._known[self._world.workload.prompt]
        found: Floats = table[rows, self._level]
        found[np.isnan(self._ended)] = np.nan
        return found

    def _series(self, quality: Floats) -> Series:
        at_s, count = self._world.workload.at_s, self.stretches
        arrived = np.minimum((at_s / self.stretch_s).astype(np.int64), count - 1)
        made = ~np.isnan(self._ended)
        ended = np.minimum(self._ended[made] / self.stretch_s, count).astype(np.int64)
        late = ~(self._ended - at_s <= self._slo) & ~self._canceled
        gained = np.where(late | self._canceled, 0.0, np.nan_to_num(quality))
        asked = self._counts(arrived[~self._canceled])
        levels = np.zeros((count + 1, len(self.levels)), np.int64)
        np.add.at(levels, (ended, self._level[made]), 1)
        done = np.bincount(ended, minlength=count + 1)[:count]
        up = sum(self._up.values(), np.zeros(count))
        with np.errstate(invalid="ignore", divide="ignore"):
            whole = np.bincount(ended, np.nan_to_num(quality[made]), count + 1)[:count]
            return Series(
                stretch_s=self.stretch_s,
                demand=self._counts(arrived),
                done=done,
                late=self._counts(arrived[late]),
                quality=whole / done,
                goodput=np.bincount(arrived, gained, count) / asked,
                levels=levels[:count],
                loading=self._loading / self.stretch_s,
                holding=self._holding / self.stretch_s,
                busy=sum(self._busy.values(), np.zeros(count)) / up,
            )

    def _counts(self, stretches: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.bincount(stretches, minlength=self.stretches)
