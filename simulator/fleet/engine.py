"""Model of the engine: slots, shared steps and decoding, from one change of the batch to the next.

Between two changes the same images step together: the order of `worker/engine/batch` puts first
who has least left, and stepping makes it less. So a change comes with an image that takes its last
step, one that has been decoded, a job that arrived, or one that left. Pure: the caller brings the
clock, in seconds.
"""

import math
from bisect import insort

from simulator.fleet.batch import Group, Image, Times, choose, steps_in_order
from simulator.fleet.job import SimulatedJob
from simulator.fleet.step_times import slices

_EPSILON = 1e-9


class Decoding:
    """One image that is decoded beside the steps of others."""

    __slots__ = ("has_begun", "job", "left", "slice_s")

    def __init__(self, job: SimulatedJob, left: int, slice_s: float) -> None:
        self.job = job
        self.left = left  #: slices, one after each step of the others
        self.slice_s = slice_s
        self.has_begun = False


Made = list[tuple[SimulatedJob, float]]  #: and when


class EngineModel:
    """The engine of one worker."""

    def __init__(self, slots: int, times: Times) -> None:
        self.slots = slots
        self.times = times
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
        is_alike, is_full = self._alike is not None, len(running) >= self.slots
        chosen, step_s = choose(running, self.times, is_alike=is_alike, is_full=is_full)
        self.last_shared, self.last_step_s = len(chosen), step_s
        steps = min([image.left for image in chosen])
        for each in self._decoding:
            step_s += each.slice_s
            if each.left < steps:
                steps = each.left
        if len(chosen) < len(running):
            steps = min(steps, steps_in_order(chosen, running, self.times))
        self._chosen, self._steps, self._step_s, self._begun = chosen, steps, step_s, at
        self.change_at = at + steps * step_s
        self._tail_s = 0.0
        is_last = not self.waiting and len(chosen) == len(running)
        if is_last and chosen[-1].left <= steps:  # who came last mostly has most left
            self._tail_s = self._tail(chosen, steps)
            self.change_at += self._tail_s

    def _tail(self, chosen: list[Image], steps: int) -> float:
        """Say how long decoding takes after these steps, if nobody is left to step."""
        for image in chosen:
            if image.left > steps:
                return 0.0
        before = sum([each.slice_s * (each.left - steps) for each in self._decoding])
        return before + sum([image.job.decode_s for image in chosen])
