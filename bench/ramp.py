"""Benchmark a live service under rising, then falling load: quality and SLO violations.

The embedded stack, two workers, the models of the zoo. Load goes from 0.3 to 1.5 times what the
fleet ends of its best model at K = 0, which is measured first, and back. Claims: no accepted job
is lost; fewer than 5 % take longer than three times a lone job of the best model, as long as the
plan can serve all of them; quality falls with the load, level by level, and comes back.

    python -m bench.ramp --quick
"""

import asyncio
import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import msgspec
import typer

from bench.parts.live import PlanWatch, base_s, capacity, connect, drive, service
from bench.parts.report import Figure, at_least, at_most, finish, machine, percentile, plain
from core.levels.level import Level
from core.settings import get_settings
from loadgen.arrivals.varying import varying
from loadgen.ask import TimedRequest
from loadgen.mixes.mix import draw
from loadgen.sample import ClientOutcome, RequestSample
from run.scheduler import read_profile
from scheduler.profile.profile import Profile
from scheduler.routing.classify import ANY
from zoo.scenes import LEVELS, held_out

BEST = "shapes-xl"
SLO = 3.0  #: times a lone job of the best model
LOW, HIGH = 0.3, 1.5  #: of the capacity at K = 0
BINS = 4  #: of the load, on the way up
REMEMBERED_S = 60.0  #: a forecast looks back so long: until then the load is not down for it
SEED = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How the load moves."""

    level_s: float  #: at the low end first, and at the high end
    up_s: float
    down_s: float
    back_s: float  #: at the low end again

    @property
    def at_s(self) -> tuple[float, ...]:
        """Moments at which it turns."""
        top = self.level_s + self.up_s
        back = top + self.level_s + self.down_s
        return (0.0, self.level_s, top, top + self.level_s, back, back + self.back_s)

    @property
    def loads(self) -> tuple[float, ...]:
        """Load at these moments, in capacities."""
        return (LOW, LOW, HIGH, HIGH, LOW, LOW)


FULL = Course(level_s=40.0, up_s=120.0, down_s=30.0, back_s=180.0)
QUICK = Course(level_s=10.0, up_s=35.0, down_s=8.0, back_s=100.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One run."""

    course: Course
    capacity: float  #: jobs/s
    base_s: float  #: of a lone job of the best model
    samples: Sequence[RequestSample]
    plans: PlanWatch
    profile: Profile

    def quality(self, low_s: float, high_s: float) -> float:
        """Mean quality, by the profile, of what was asked for in a stretch; NaN of nothing."""
        levels = [s.level for s in self.good if low_s <= s.due_s < high_s and s.level]
        qualities = [self.profile.quality(ANY, Level.read(level)) for level in levels]
        return sum(qualities) / len(qualities) if qualities else float("nan")

    @property
    def good(self) -> list[RequestSample]:
        return [s for s in self.samples if s.ending is ClientOutcome.SUCCEEDED]

    @property
    def feasible(self) -> list[RequestSample]:
        """Jobs of moments at which the plan could serve all that was asked for."""
        plans = ((s, self.plans.at(s.due_s)) for s in self.samples if s.accepted_s is not None)
        return [s for s, plan in plans if plan is not None and plan.saturation == 0.0]


def prompts() -> list[str]:
    """Scenes of every difficulty: some are near to each other, most are not."""
    return [scene.caption for level in LEVELS for scene in held_out(level, 60, SEED)]


async def run(folder: Path, course: Course, rounds: int) -> Found:
    """Measure what the fleet can do, then load it, each with a service of its own."""
    with service(folder / "capacity") as started:
        async with connect(started) as http:
            most, alone_s = await capacity(http, BEST), await base_s(http, BEST, rounds)
    with service(folder / "ramp") as started:
        async with connect(started) as http:
            plans = PlanWatch(http)
            watching = asyncio.create_task(plans.run())
            samples = await drive(http, asks_of(course, most))
            watching.cancel()
    settings = get_settings()
    return Found(
        course=course,
        capacity=most,
        base_s=alone_s,
        samples=samples,
        plans=plans,
        profile=read_profile(settings.models_dir, settings.profile_path),
    )


def asks_of(course: Course, most: float) -> list[TimedRequest]:
    """Draw the arrivals of a course and their prompts."""
    rates = [load * most for load in course.loads]
    arrivals = varying(course.at_s, rates, seed=SEED)
    return list(draw(arrivals, prompts(), seed=SEED).requests(seed=SEED))


def figures(found: Found) -> dict[str, Figure]:
    """Lay a run beside what was promised."""
    accepted = [s for s in found.samples if s.accepted_s is not None]
    slo_s = SLO * found.base_s
    late = [s for s in found.feasible if s.latency_s > slo_s]
    _, low_end, high, high_end, back, end = found.course.at_s
    ups = _bins(low_end, high)
    steps = [found.quality(0.0, low_end), *(found.quality(a, b) for a, b in ups)]
    top, after = found.quality(high, high_end), found.quality(back + REMEMBERED_S, end)
    slownesses = [t for _, plan in found.plans.seen for t in plan.slowness.values()]
    return {
        "jobs accepted": plain(len(accepted), ""),
        "accepted jobs that did not succeed": at_most(len(accepted) - len(found.good), 0, ""),
        "jobs refused": plain(len(found.samples) - len(accepted), ""),
        "capacity at K = 0": plain(found.capacity, "jobs/s"),
        "a lone job of the best model": plain(found.base_s, "s"),
        "late while the plan is feasible": at_most(_share(late, found.feasible), 0.05, ""),
        "jobs while the plan is feasible": plain(_share(found.feasible, accepted), ""),
        "latency, p50": plain(percentile([s.latency_s for s in found.good], 0.5), "s"),
        "latency, p95": plain(percentile([s.latency_s for s in found.good], 0.95), "s"),
        **{f"quality, step {i} up": plain(quality, "") for i, quality in enumerate(steps)},
        "quality, at the top": plain(top, ""),
        "quality, back down": plain(after, ""),
        "quality, largest rise under rising load": at_most(_rise([*steps, top]), 0.02, ""),
        "quality that the load costs": at_least(steps[0] - top, 0.02, ""),
        "share of it that comes back": at_least(_regained(steps[0], top, after), 0.8, ""),
        "levels used": at_least(len({s.level for s in found.good}), 4, ""),
        "slowness that was planned by, most": plain(max(slownesses, default=1.0), ""),
        "plans": plain(len(found.plans.seen), ""),
    }


def _bins(low_s: float, high_s: float) -> list[tuple[float, float]]:
    width = (high_s - low_s) / BINS
    return list(pairwise(low_s + i * width for i in range(BINS + 1)))


def _share(some: Sequence[RequestSample], whole: Sequence[RequestSample]) -> float:
    return len(some) / len(whole) if whole else 0.0


def _regained(before: float, top: float, after: float) -> float:
    return (after - top) / max(1e-9, before - top)


def _rise(qualities: Sequence[float]) -> float:
    known = [quality for quality in qualities if not math.isnan(quality)]
    return max(later - sooner for sooner, later in pairwise(known))


def save(found: Found, folder: Path) -> None:
    """Write every sample and every plan, for a closer look."""
    folder.mkdir(parents=True, exist_ok=True)
    raw: Mapping[str, object] = {"samples": found.samples, "plans": found.plans.seen}
    for name, rows in raw.items():
        (folder / f"ramp-{name}.json").write_bytes(msgspec.json.encode(rows))


def main(
    quick: bool = typer.Option(False, help="Three minutes of load in place of seven."),
    json: bool = typer.Option(False, help="Only the JSON object."),
    out: Path | None = typer.Option(None, help="Write samples and plans into this folder."),
) -> None:
    """Load a service from 0.3 to 1.5 of its capacity. Example: `python -m bench.ramp --quick`."""
    course, rounds = (QUICK, 3) if quick else (FULL, 5)
    with tempfile.TemporaryDirectory(prefix="atelier-ramp-") as folder:
        found = asyncio.run(run(Path(folder), course, rounds))
    if out is not None:
        save(found, out)
    where = machine("2 workers of 1 thread")
    raise SystemExit(finish("ramp", figures(found), where=where, is_json=json))


if __name__ == "__main__":
    typer.run(main)
