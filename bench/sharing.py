"""Benchmark how many images share a step: latency against sharing all, on curves of four kinds.

The engine itself in virtual time: the same arrivals of jobs of 8, 20 and 50 steps, once as it is,
once with every slot in every step. A model is how long its steps take by how many rows they have:
in proportion, as assumed of SDXL on a large device (best with four), as the zoo's on a CPU, and
as measured but never known well, where all must share. Steps take 2 % more or less, at random.

    python -m bench.sharing --quick
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import fmean
from typing import Any

import typer

from bench.parts.report import Figure, at_least, at_most, finish, machine, percentile, plain
from bench.parts.subject import a_job
from core.job import Job
from core.model import Model
from worker.engine.batch import NextBatch, fitting
from worker.engine.engine import Engine
from worker.engine.slot import Slot
from worker.families.noop import NoopRunner, NoopSample

SLOTS = 8
STEPS = (8, 20, 50)
STEP_S = 0.05  #: of one image alone
NOISE = 0.02  #: of a step's time, standard deviation
ROUGH = 0.5  #: likewise, of a device that others use
WARM_UP = 0.1  #: share of the jobs, while times are not known
#: Seconds of a step of one, two ... eight rows, in those of one.
CURVES: dict[str, tuple[float, ...]] = {
    "linear": tuple(float(rows) for rows in range(1, 9)),
    "SDXL": (1, 1.55, 2.2, 2.9, 3.65, 4.45, 5.2, 6.0),
    "zoo": tuple(1 + 2.3 / 7 * (rows - 1) for rows in range(1, 9)),
}


class Clock:
    """Virtual time."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class TimedRunner(NoopRunner):
    """Takes as long for a step as a curve says, in virtual time."""

    def __init__(self, clock: Clock, curve: Sequence[float], noise: float) -> None:
        super().__init__(Model(name="timed", family="noop"))
        self._clock, self._curve, self._noise = clock, curve, noise
        self._rng = Random(0)

    def forward(self, samples: Sequence[NoopSample]) -> list[Any]:
        error = max(0.2, self._rng.gauss(1.0, self._noise))
        self._clock.now += STEP_S * self._curve[len(samples) - 1] * error
        return super().forward(samples)


class ShareAll(NextBatch):
    """Has every slot take every step."""

    def choose(self, ready: Sequence[Slot], *, is_full: bool) -> list[Slot]:
        """Choose all that fit."""
        del is_full
        return fitting(ready, lambda slot: slot.order, self.caps.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What became of a run: seconds from arrival to the last step."""

    latencies: tuple[float, ...]
    rate: float  #: images per second, from the first arrival to the last end

    @property
    def mean_s(self) -> float:
        return fmean(self.latencies)

    @property
    def p99_s(self) -> float:
        return percentile(self.latencies, 0.99)


def drive(
    jobs: Sequence[Job], curve: Sequence[float], *, noise: float = NOISE, shares_all: bool = False
) -> Course:
    """Have an engine make jobs that arrive when they were created."""
    clock = Clock()
    engine = Engine(
        max_slots=SLOTS,
        max_rows=SLOTS,
        slo_s=60.0,
        clock=clock,
        stopwatch=clock,
        next_batch=ShareAll if shares_all else NextBatch,
    )
    engine.attach(TimedRunner(clock, curve, noise))
    ends: dict[str, float] = {}
    coming = list(reversed(jobs))
    while coming or engine.running:
        if not engine.running:
            clock.now = max(clock.now, coming[-1].created_at)
        while coming and coming[-1].created_at <= clock.now:
            job = coming.pop()
            future = engine.add(job, None)
            future.add_done_callback(lambda made: _note(ends, made.result().job_id, clock.now))
        engine.step()
    counted = jobs[int(WARM_UP * len(jobs)) :]
    taken = tuple(ends[job.id] - job.created_at for job in counted)
    return Course(latencies=taken, rate=len(jobs) / (max(ends.values()) - jobs[0].created_at))


def _note(ends: dict[str, float], job: str, now: float) -> None:
    ends[job] = now


def arrivals(curve: Sequence[float], load: float, count: int, seed: int) -> list[Job]:
    """Draw jobs that come as a Poisson process, at a share of what the device can make."""
    most = max(rows / seconds for rows, seconds in enumerate(curve, 1))
    mean_s = STEP_S * fmean(STEPS) / (load * most)
    rng, now, jobs = Random(seed), 1000.0, []
    for number in range(count):
        now += rng.expovariate(1 / mean_s)
        jobs.append(_job(number, now, rng.choice(STEPS)))
    return jobs


def _job(number: int, at: float, steps: int) -> Job:
    job = a_job(Model(name="timed", family="noop"), number, steps=steps)
    request = replace(job.request, slo_s=3 * steps * STEP_S)
    return replace(job, id=f"{number:08d}", request=request, created_at=at)


def bursts(count: int) -> list[Job]:
    """Eight equal jobs at a time, each time on an idle device, after a while of mixed load."""
    before = arrivals(CURVES["linear"], 0.7, math.ceil(WARM_UP * SLOTS * count), 0)
    begin, every_s = before[-1].created_at + 1000, 2 * SLOTS * max(STEPS) * STEP_S
    return before + [
        _job(len(before) + SLOTS * burst + index, begin + burst * every_s, 20)
        for burst in range(count - len(before) // SLOTS)
        for index in range(SLOTS)
    ]


def ratios(
    jobs: Callable[[int], list[Job]], curve: Sequence[float], seeds: int, noise: float = NOISE
) -> tuple[float, float, float]:
    """Mean, p99 and images a second, each of all seeds together, in those of sharing all."""
    ours = [drive(jobs(seed), curve, noise=noise) for seed in range(seeds)]
    all_ = [drive(jobs(seed), curve, noise=noise, shares_all=True) for seed in range(seeds)]

    def ratio(figure: Callable[[Course], float]) -> float:
        return fmean(map(figure, ours)) / fmean(map(figure, all_))

    return ratio(lambda c: c.mean_s), ratio(lambda c: c.p99_s), ratio(lambda c: c.rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One load on one curve, and what is promised of it."""

    curve: str
    load: float  #: of what the device makes at most
    mean: float  #: bar
    p99: float | None = None  #: bar; None: none
    noise: float = NOISE


CASES = (
    Case(curve="linear", load=0.5, mean=0.80),
    Case(curve="linear", load=0.7, mean=0.70, p99=1.0),
    Case(curve="linear", load=0.85, mean=0.70, p99=1.0),
    Case(curve="SDXL", load=0.7, mean=0.90, p99=1.05),
    Case(curve="zoo", load=0.7, mean=1.02, p99=1.02),
    Case(curve="zoo", load=0.85, mean=1.02, p99=1.02),
    Case(curve="linear", load=0.7, mean=1.02, p99=1.02, noise=ROUGH),
)
SATURATED = 1.5


def measure(count: int, seeds: int) -> dict[str, Figure]:
    """Drive all cases."""
    figures: dict[str, Figure] = {}
    for case in CASES:
        curve = CURVES[case.curve]
        name = case.curve + (", roughly known" if case.noise == ROUGH else "")

        def jobs(seed: int, case: Case = case) -> list[Job]:
            return arrivals(CURVES[case.curve], case.load, count, seed)

        mean, p99, _ = ratios(jobs, curve, seeds, case.noise)
        key = f"{name}, {case.load:g} of capacity: ours / all share"
        figures[f"{key}, mean"] = at_most(mean, case.mean, "ratio")
        figures[f"{key}, p99"] = (
            plain(p99, "ratio") if case.p99 is None else at_most(p99, case.p99, "ratio")
        )
    for name, curve in CURVES.items():
        few = count // 2

        def crowd(seed: int, curve: Sequence[float] = curve, few: int = few) -> list[Job]:
            return arrivals(curve, SATURATED, few, seed)

        rate = ratios(crowd, curve, seeds)[2]
        figures[f"{name}, saturated: images/s, ours / all share"] = at_least(rate, 0.99, "ratio")
    mean, p99, _ = ratios(lambda _: bursts(count // 2), CURVES["linear"], 1)
    figures["linear, bursts of eight: ours / all share, mean"] = at_most(mean, 0.60, "ratio")
    figures["linear, bursts of eight: ours / all share, p99"] = plain(p99, "ratio")
    return figures


def main(
    quick: bool = typer.Option(False, help="Fewer jobs, one seed."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
) -> None:
    """Measure who shares a step. Example: `python -m bench.sharing --quick`."""
    figures = measure(2000, 1) if quick else measure(6000, 3)
    raise SystemExit(finish("sharing", figures, where=machine("1 thread"), is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
