"""Say why no fleet keeps a goal, and what would let one do."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from core.levels.level import Level
from simulator.sizing.goal import FleetTrial, Goal, name_of, unseen
from simulator.sizing.load import fits
from simulator.sizing.relaxation import DayOfLoad, best_quality
from simulator.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why there is no fleet."""

    text: str
    would_help: tuple[str, ...]  #: options, each of which would let a fleet do


def unprovable(jobs: int, days: int, goal: Goal) -> Reason | None:
    """Tell whether there are too few jobs to be as sure as is asked, however good a fleet is."""
    least = unseen(jobs, goal)
    if least <= goal.max_late:
        return None
    text = f"{jobs} jobs in {days} days cannot make it {goal.confidence:.1%} sure"
    helps = [f"--max-late {_above(least):g}, or more"]
    if goal.max_late > 0:
        needed = math.ceil(days * least / goal.max_late)
        helps.insert(0, f"--days {needed}, or a longer trace")
    return Reason(text=text, would_help=tuple(helps))


def on_paper(day: DayOfLoad, world: World, slo_s: float) -> Reason:
    """Say why no number of workers can keep a goal."""
    if not np.isfinite(day.tau).any():
        return _nothing_in_time(world, day.types, slo_s)
    quality = math.floor(best_quality(day) * 1000) / 1000
    helps = [f"--min-quality {quality:.3f}, or less"]
    models = [Level.read(name).model for name in day.levels]
    has_room = np.array([[fits(world, model, kind) for kind in day.types] for model in models])
    if (has_room & ~np.isfinite(day.tau)).any():
        helps.append("a longer --slo or faster devices, with which better levels are in time")
    if not has_room.all():
        helps.append("devices with more memory, in which better models fit")
    text = f"levels that are in time give a quality of {quality:.3f} on any number of workers"
    return Reason(text=text, would_help=tuple(helps))


def _nothing_in_time(world: World, types: Sequence[str], slo_s: float) -> Reason:
    """Say that no image is made in time, or that no model fits anywhere."""
    profile = world.profile
    levels = replace(profile, can_resume=True).levels
    pairs = [(level, kind) for level in levels for kind in types if fits(world, level.model, kind)]
    if not pairs:
        gib = min(profile.models[level.model].size_gib for level in levels)
        text = f"no model fits in the memory of {' or '.join(types)}: the least takes {gib:g} GiB"
        return Reason(text=text, would_help=(f"devices with {gib:g} GiB, or more",))
    seconds, level, kind = min((profile.tau_s(level, kind), level, kind) for level, kind in pairs)
    text = f"the fastest image takes {seconds:.2f} s ({level.name} on {kind})"
    return Reason(
        text=f"{text}, and the SLO is {slo_s:g} s",
        would_help=(f"--slo {_above(seconds):g}, or more",),
    )


def _above(figure: float) -> float:
    """Round up to three digits."""
    scale = 10.0 ** (math.floor(math.log10(figure)) - 2)
    return float(math.ceil(figure / scale - 1e-9) * scale)


def in_trials(trials: Sequence[FleetTrial], goal: Goal, slo_s: float) -> Reason:
    """Say by how much the fleet that came nearest missed, and what it would keep."""
    if not trials:
        return Reason(text="no fleet was tried", would_help=())
    nearest = min(trials, key=lambda trial: _distance(trial, goal))
    fleet, helps = name_of(nearest.fleet), []
    if nearest.late.high > goal.max_late:
        helps.append(f"--max-late {_above(nearest.late.high):.3g} on {fleet}")
        reach_s = max(day.reach_s for day in nearest.days)
        if slo_s < reach_s < math.inf:
            helps.append(f"--slo {_above(reach_s):g} on {fleet}")
    if nearest.quality.low < goal.min_quality:
        low = math.floor(nearest.quality.low * 1000) / 1000
        helps.append(f"--min-quality {low:.3f} on {fleet}")
    text = f"{fleet}, the one that came nearest, had {_said(nearest)}"
    return Reason(text=text, would_help=tuple(helps))


def _distance(trial: FleetTrial, goal: Goal) -> float:
    late = max(0.0, trial.late.high - goal.max_late)
    return late + max(0.0, goal.min_quality - trial.quality.low)


def _said(trial: FleetTrial) -> str:
    late, quality = trial.late, trial.quality
    return (
        f"{late.middle:.2%} late (up to {late.high:.2%}) and "
        f"a quality of {quality.middle:.3f} (at least {quality.low:.3f})"
    )
