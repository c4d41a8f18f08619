"""The engine itself in virtual time, with steps that take what a curve says."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from core.errors import JobStopped
from core.job import Job, JobRequest, JobStatus
from core.levels.level import Level
from core.model import Model
from core.placement import Placement
from worker.engine.batch import NextBatch, Sharing, best_size
from worker.engine.engine import Engine
from worker.families.noop import NoopRunner

SIZE = 64  #: pixels, of a small image; a large one has four times as many
MODEL = Model(name="timed", family="noop", default_size=SIZE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One job of a case."""

    at: float
    steps: int
    images: int = 1
    is_large: bool = False
    slo_s: float = 10.0
    deadline_s: float | None = None
    stop_s: float | None = None  #: after its arrival its client cancels it


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class TimedRunner(NoopRunner):
    """Lets virtual time pass for stepping and decoding."""

    def __init__(self, clock: Clock, curve: Sequence[float], decode_s: float) -> None:
        super().__init__(MODEL)
        self._clock, self._curve, self._decode_s = clock, curve, decode_s
        self.on_step: Callable[[], None] = lambda: None

    def forward(self, samples):
        scale = samples[0].size[0] ** 2 / SIZE**2
        self._clock.now += scale * self._curve[len(samples) - 1]
        self.on_step()
        return super().forward(samples)

    def decode(self, sample):
        self._clock.now += self._decode_s
        return super().decode(sample)


class Known(Sharing):
    """Knows what steps take from the start, and tries nothing."""

    def __init__(self, seconds: Sequence[float]) -> None:
        super().__init__()
        self._seconds = seconds

    def seconds(self, rows):
        return self._seconds[rows - 1]

    def size(self, rows, *, is_full):
        rising = [max(self._seconds[:each]) for each in rows]
        return best_size(rows, rising, is_full=is_full)


def knowing(curve: Sequence[float]) -> type[NextBatch]:
    """Make batches as the engine does once it knows a curve."""

    class Batch(NextBatch):
        def _sharing_of(self, slot):
            scale = slot.sample.size[0] ** 2 / SIZE**2
            return Known([scale * each for each in curve])

        def slowest_s(self, running):
            """Give decoders slices of minutes: they are told by a clock that runs in stalls too."""
            return 1000 * super().slowest_s(running)

    return Batch


def job_of(row: int, asked: Asked) -> Job:
    side = 2 * SIZE if asked.is_large else SIZE
    request = JobRequest(
        prompt="p",
        model=MODEL.name,
        width=side,
        height=side,
        steps=asked.steps,
        guidance=1.0,
        seed=row,
        n=asked.images,
        slo_s=asked.slo_s,
    )
    level = Level(model=MODEL.name)
    return Job(
        id=f"{row:06d}",
        tenant="t",
        request=request,
        placement=Placement.on(level),
        status=JobStatus.RUNNING,
        created_at=asked.at,
        deadline_at=None if asked.deadline_s is None else asked.at + asked.deadline_s,
    )


def made_at(
    cases: Sequence[Asked], curve: Sequence[float], *, slots: int, decode_s: float = 0.0
) -> dict[int, float]:
    """Say when the engine has made each job; who is stopped or late is missing."""
    clock, ends = Clock(), dict[int, float]()
    engine = Engine(
        max_slots=slots,
        max_rows=slots,
        slo_s=60.0,
        clock=clock,
        stopwatch=clock,
        next_batch=knowing(curve),
    )
    runner = TimedRunner(clock, curve, decode_s)
    engine.attach(runner)
    coming = sorted([(each.at, row) for row, each in enumerate(cases)], reverse=True)
    stops = [(c.at + c.stop_s, row) for row, c in enumerate(cases) if c.stop_s is not None]

    def stop() -> None:
        for at, row in stops:
            if at <= clock.now:
                engine.stop(job_of(row, cases[row]).id, JobStopped("canceled"))

    runner.on_step = stop
    while coming or engine.stats().running or engine.stats().waiting:
        stats = engine.stats()
        if not (stats.running or stats.waiting) and coming:
            clock.now = max(clock.now, coming[-1][0])
        while coming and coming[-1][0] <= clock.now:
            _, row = coming.pop()
            job = job_of(row, cases[row])
            future = engine.add(job, job.deadline_at)

            def note(done, row=row) -> None:
                if done.exception() is None:
                    ends[row] = clock.now

            future.add_done_callback(note)
        stop()
        engine.step()
    return ends
