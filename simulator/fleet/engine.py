"""Model of the engine: slots, shared steps and decoding, from one change of the batch to the next.

Between two changes the same images step together: the order of `worker/engine/batch` puts first
who has least left, and stepping makes it less. So a change comes with an image that takes its last
step, one that has been decoded, a job that arrived, or one that left. Pure: the caller brings the
clock, in seconds.
"""

import math
from bisect import insort
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from simulator.fleet.job import SimulatedJob
from simulator.fleet.step_times import StepTimes, slices
from worker.engine.batch import PATIENCE

_EPSILON = 1e-9
_MANY = 1_000_000


class Image:
    """One image in a slot."""

    __slots__ = ("group", "index", "is_plain", "job", "left")

    def __init__(self, job: SimulatedJob, index: int) -> None:
        self.job = job
        self.index = index
        self.left = job.steps
        self.group = (job.model, job.size)
        self.is_plain = job.burden is None and not job.surcharge


class Decoding:
    """One image that is decoded beside the steps of others."""

    __slots__ = ("has_begun", "job", "left", "slice_s")

    def __init__(self, job: SimulatedJob, left: int, slice_s: float) -> None:
        self.job = job
        self.left = left  #: slices, one after each step of the others
        self.slice_s = slice_s
        self.has_begun = False


Group = tuple[str, float]  #: model and size: who may share steps
Made = list[tuple[SimulatedJob, float]]  #: and when


class EngineModel:
    """The engine of one worker."""

    def __init__(self, slots: int, times: Mapping[str, StepTimes]) -> None:
        self.slots = slots
        self.times = times  #: by model
        self.running: list[Image] = []
        self.waiting: list[tuple[float, int, SimulatedJob]] = []  #: with images without a slot
        self.change_at = math.inf  #: when to call `change`
        self.busy_s = 0.0  #: that it computed
        self.last_shared = 0  #: images of the last batch
        self.last_step_s = 0.0
        self.changes = 0  #: so many times what a worker says of it may have changed
        self._alike: Group | None = None  #: of all that run, if they are plain and of one
        self._is_left = False  #: some of those that run may be over
        self._freed = 0  #: jobs that have left their slots since `freed` was called
        self._decoding: list[Decoding] = []
        self._chosen: list[Image] = []
        self._steps = 0  #: until the next change
        self._step_s = 0.0
        self._begun = 0.0  #: of the first of these steps
        self._since = 0.0  #: when it was last accounted for
        self._free_at = 0.0  #: of an idle one: until it has decoded what it had
        self._tail_s = 0.0  #: after the last of these steps, to decode what is left

    @property
    def is_idle(self) -> bool:
        return not (self.running or self.waiting or self._decoding)

    @property
    def num_waiting(self) -> int:
        """Count the images that wait for a slot."""
        return sum(job.images - job.opened for _, _, job in self.waiting)

    def holds(self, model: str) -> bool:
        """Tell whether it has images of a model."""
        return (
            any(image.job.model == model for image in self.running)
            or any(job.model == model for _, _, job in self.waiting)
            or any(each.job.model == model for each in self._decoding)
        )

    def jobs(self) -> list[SimulatedJob]:
        """List what it has."""
        found = {id(i.job): i.job for i in self.running}
        found |= {id(job): job for _, _, job in self.waiting}
        found |= {id(each.job): each.job for each in self._decoding}
        return list(found.values())

    def add(self, job: SimulatedJob, now: float) -> None:
        """Take a job in: it joins when the step that runs has ended, if a slot is free."""
        if not (self.running or self.waiting or self._decoding):
            self.change_at = self._since = max(now, self._free_at)
        self.changes += 1
        insort(self.waiting, (job.due, job.row, job))
        if len(self.running) < self.slots:
            self._look_soon(now)

    def stop(self, now: float) -> None:
        """Have those leave whose jobs are over, when the step that runs has ended."""
        self._is_left = True
        self._look_soon(now)

    def change(self, now: float) -> Made:
        """Go on from a change of the batch; give the jobs that are made, and when."""
        self.changes += 1
        self.busy_s += now - self._since
        self._since = now
        if self._steps:
            self._advance(self._steps)
        made: Made = []
        if self._tail_s:
            self._decode_all(now - self._tail_s, made)
        if self._is_left:
            self.running = [image for image in self.running if not image.job.is_over]
            self._is_left = False
        at = self._admit(now, made) if self.waiting else self._decoded_before(now, made)
        if self._decoding:
            at = self._decode(at, made) if self.running else self._decode_all(at, made)
        self._choose(at)
        return made

    def freed(self) -> int:
        """Count the jobs that need no slot any more, since the last call."""
        count, self._freed = self._freed, 0
        return count

    def busy_by(self, now: float) -> float:
        """Seconds that it computed until now, the change that is under way included."""
        return self.busy_s + (max(0.0, now - self._since) if self.change_at < math.inf else 0.0)

    def clear(self, now: float) -> None:
        """Lose everything."""
        self.changes += 1
        self.busy_s = self.busy_by(now)
        self.running, self.waiting, self._decoding, self._chosen = [], [], [], []
        self.change_at, self._steps, self._free_at, self._tail_s = math.inf, 0, now, 0.0
        self._freed = 0

    def _look_soon(self, now: float) -> None:
        if not self._steps or self.change_at <= now:
            return
        steps = max(1, math.ceil((now - self._begun) / self._step_s - _EPSILON))
        if steps < self._steps:
            self._steps, self._tail_s = steps, 0.0
            self.change_at = self._begun + steps * self._step_s

    def _advance(self, steps: int) -> None:
        """Take the steps since the last change; who took the last one is to be decoded."""
        is_any = False
        for image in self._chosen:
            left = image.left = image.left - steps
            image.job.left -= steps
            if not left:
                is_any = True
        for each in self._decoding:
            each.left -= steps
        self._steps = 0
        if is_any:
            done = [i.job for i in self.running if not i.left and not i.job.is_over]
            self._freed += len({id(job) for job in done if job.has_left})
            for job in done:
                self._begin_decoding(job)
            self.running = [image for image in self.running if image.left]

    def _begin_decoding(self, job: SimulatedJob) -> None:
        count = slices(job.decode_s, self.last_step_s)
        self._decoding.append(Decoding(job, count, job.decode_s / count))

    def _decode(self, at: float, made: Made) -> float:
        """Take the first slice of those that just left; those whose last one is over are made."""
        for each in self._decoding:
            if not each.has_begun:
                each.has_begun = True
                each.left -= 1
                at += each.slice_s
            if not each.left:
                self._decoded(each.job, at, made)
        self._decoding = [each for each in self._decoding if each.left]
        return at

    def _decode_all(self, at: float, made: Made) -> float:
        """Decode one after another, while no step is taken; say when that is done."""
        for each in self._decoding:
            if not each.job.is_over:
                at += each.left * each.slice_s
                self._decoded(each.job, at, made)
        self._decoding = []
        self._free_at = at
        return at

    def _decoded(self, job: SimulatedJob, at: float, made: Made) -> None:
        job.undone -= 1
        if not job.undone and not job.is_over:
            made.append((job, at))

    def _admit(self, at: float, made: Made) -> float:
        """Fill the slots with those who are due first.

        What leaves is decoded before if nobody steps, or if one that joins is an edit.
        """
        at, waiting = self._decoded_before(at, made), self.waiting
        while waiting and len(self.running) < self.slots:
            job = waiting[0][2]
            if job.is_over:
                del waiting[0]
                continue
            if self._decoding and job.work is not None:
                at = self._decode_all(at, made)
            self._open(job)
            if job.opened == job.images:
                del waiting[0]
        return at

    def _decoded_before(self, at: float, made: Made) -> float:
        """Decode what has left if nobody steps; say when that is done."""
        return self._decode_all(at, made) if self._decoding and not self.running else at

    def _open(self, job: SimulatedJob) -> None:
        """Give an image of a job a slot."""
        image = Image(job, job.opened)
        if not self.running:
            self._alike = image.group if image.is_plain else None
        elif image.group != self._alike or not image.is_plain:
            self._alike = None
        self.running.append(image)
        job.opened += 1
        job.left -= job.skipped

    def _choose(self, at: float) -> None:
        """Choose who steps from now on, and find out until when."""
        running = self.running
        if not running:
            self._chosen, self._steps, self.change_at, self._tail_s = [], 0, math.inf, 0.0
            self.busy_s += max(0.0, at - self._since)
            return
        chosen, step_s = self._shared(self._alike, running) if self._alike else self._mixed(running)
        self.last_shared, self.last_step_s = len(chosen), step_s
        steps = min([image.left for image in chosen])
        for each in self._decoding:
            step_s += each.slice_s
            if each.left < steps:
                steps = each.left
        if len(chosen) < len(running):
            steps = min(steps, self._steps_in_order(chosen, running))
        self._chosen, self._steps, self._step_s, self._begun = chosen, steps, step_s, at
        self.change_at = at + steps * step_s
        self._tail_s = 0.0
        is_last = not self.waiting and len(chosen) == len(running)
        if is_last and chosen[-1].left <= steps:  # who came last mostly has most left
            self._tail_s = self._tail(chosen, steps)
            self.change_at += self._tail_s

    def _shared(self, group: Group, running: list[Image]) -> tuple[list[Image], float]:
        """Choose who steps of plain images of one group, and say how long a step takes (s)."""
        count, times = len(running), self.times[group[0]]
        size = (times.full_sizes if count >= self.slots else times.open_sizes)[count]
        step_s = group[1] * times.seconds[size]
        if size == count:
            return running, step_s
        return sorted(running, key=self._rank_of(running))[:size], step_s

    def _mixed(self, running: list[Image]) -> tuple[list[Image], float]:
        chosen = self._batch(running)
        return chosen, self._time(chosen)

    def _steps_in_order(self, chosen: list[Image], running: list[Image]) -> int:
        """Count the steps for which these certainly stay first.

        A job of which more images step comes nearer faster, and brings on those that do not; and
        a deadline that comes near may change the order at any step.
        """
        if any(image.job.deadline < math.inf for image in running):
            return 1
        counts = Counter(id(image.job) for image in chosen)
        behind = {id(i.job): i.job for i in running if id(i.job) in counts and i not in chosen}
        if not behind:
            return _MANY
        passed = {id(image.job): image.job for image in chosen}
        return min(
            self._steps_before_passing(job, other, counts[key] - counts[each])
            for key, job in behind.items()
            for each, other in passed.items()
        )

    def _steps_before_passing(self, job: SimulatedJob, other: SimulatedJob, more: int) -> int:
        if more <= 0:
            return _MANY
        one_s = PATIENCE * job.size * self.times[job.model].one_s
        gap_s = job.at - other.at + one_s * (job.left - other.left)
        return max(1, math.floor(gap_s / (one_s * more)))

    def _tail(self, chosen: list[Image], steps: int) -> float:
        """Say how long decoding takes after these steps, if nobody is left to step."""
        for image in chosen:
            if image.left > steps:
                return 0.0
        before = sum([each.slice_s * (each.left - steps) for each in self._decoding])
        return before + sum([image.job.decode_s for image in chosen])

    def _batch(self, running: list[Image]) -> list[Image]:
        """Choose who shares a step, as `worker/engine/batch` does."""
        first, is_alike = running[0].group, True
        for image in running:
            if image.group != first:
                is_alike = False
                break
        if is_alike:
            alike, times = running, self.times[first[0]]
            size = self._size(alike, times)
            if size == len(running):
                return list(running)
            return sorted(running, key=self._rank_of(running))[:size]
        ranked = sorted(running, key=self._rank_of(running))
        alike = [image for image in ranked if image.group == ranked[0].group]
        return alike[: self._size(alike, self.times[ranked[0].group[0]])]

    def _size(self, alike: list[Image], times: StepTimes) -> int:
        if not _are_plain(alike):
            return len(alike)
        is_full = len(self.running) >= self.slots
        return (times.full_sizes if is_full else times.open_sizes)[len(alike)]

    def _rank_of(self, running: list[Image]) -> "RankOf":
        counts: dict[tuple[str, float], int] = {}
        for image in running:
            counts[image.group] = counts.get(image.group, 0) + 1
        paces = {
            group: (group[1] * times.seconds[1], group[1] * times.seconds[count])
            for group, count in counts.items()
            for times in (self.times[group[0]],)
        }
        return RankOf(paces)

    def _time(self, chosen: list[Image]) -> float:
        """Say how long a step takes (s)."""
        model, size = chosen[0].group
        times = self.times[model]
        if _are_plain(chosen):
            return size * times.seconds[len(chosen)]
        surcharge_s = times.one_s * sum(image.job.surcharge for image in chosen)
        burdens = [image.job.burden for image in chosen if image.job.burden is not None]
        if not burdens:
            return size * (times.seconds[len(chosen)] + surcharge_s)
        whole = times.seconds[len(chosen) - len(burdens)] * size
        start_s = times.start_s if not whole else 0.0
        compute_s = start_s + whole + sum(each.compute_s for each in burdens)
        return max(compute_s, sum(each.load_s for each in burdens)) + size * surcharge_s


def _are_plain(images: list[Image]) -> bool:
    """Tell whether all compute whole images and wait for nobody."""
    return all(image.is_plain for image in images)


@dataclass(frozen=True, slots=True)
class RankOf:
    """Ranks images that do not all share a step, as `worker/engine/batch` does."""

    paces: Mapping[tuple[str, float], tuple[float, float]]  #: group -> s of a step of one, of all

    def __call__(self, image: Image) -> tuple[float, int, int]:
        one_s, all_s = self.paces[image.group]
        job = image.job
        rank = job.at + PATIENCE * job.left * one_s
        if job.deadline < math.inf:
            rank = min(rank, job.deadline - job.left * all_s)
        return (rank, job.row, image.index)
