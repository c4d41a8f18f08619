"""Put a day of load into the terms of the sizing program."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from core.levels.level import Level
from loadgen.workload import Workload
from scheduler.profile.profile import Profile
from scheduler.routing.classify import ANY
from simulator.prompts import completed
from simulator.sizing.relaxation import DayOfLoad, Floats, grouped
from simulator.world import World

STRETCHES = 16  #: groups of stretches of like demand
SLOS = 10.0  #: a stretch is so many times as long as the SLO
SHORTEST_S = 60.0  #: of a stretch
TINY = 1e-9  #: a job of a class of which none comes


def day_of_load(world: World, types: Iterable[str], slo_s: float) -> DayOfLoad:
    """Sum a workload up by stretches and classes, with costs and qualities of every level.

    Wherever it is in doubt it makes the load too light, so that what follows stays a bound: work
    may be done up to an SLO after its stretch, as many images share a step as pays.
    """
    names = tuple(types)
    world = completed(world)
    world = replace(world, profile=replace(world.profile, can_resume=True))
    levels = world.profile.levels
    classes, of_request = _classes(world)
    length_s = max(SHORTEST_S, SLOS * slo_s)
    work = _work(world.workload, world.profile)
    of_class = [work[of_request == c] for c in range(len(classes))]
    rates, seconds = _rates(world, of_request, work, len(classes), length_s)
    demand, weight = grouped(rates, seconds, STRETCHES)
    tau = np.array([[_tau_s(world, level, kind, slo_s) for kind in names] for level in levels])
    return DayOfLoad(
        types=names,
        levels=tuple(level.name for level in levels),
        classes=classes,
        weight=weight,
        demand=demand,
        tau=tau / (1.0 + slo_s / float(seconds.max())),
        quality=_quality(world, classes, levels),
        jobs=np.bincount(of_request, minlength=len(classes)).astype(np.float64),
        least=np.array([each.min(initial=np.inf) for each in of_class]),
        most=np.array([each.max(initial=TINY) for each in of_class]),
    )


def _classes(world: World) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """List the classes of the prompts that come, and the class of each request."""
    named = [name or ANY for name in world.prompts.classes]
    of_text = dict(zip(world.prompts.texts, named, strict=True))
    of_prompt = [of_text.get(text, ANY) for text in world.workload.prompts]
    classes = tuple(sorted(set(of_prompt)))
    index = np.array([classes.index(name) for name in of_prompt], np.int64)
    return classes, index[world.workload.prompt]


def _rates(
    world: World, of_request: NDArray[np.int64], work: Floats, classes: int, length_s: float
) -> tuple[Floats, Floats]:
    """Count the images of each stretch and class. Returns: images/s [S, C], seconds [S]."""
    workload = world.workload
    span_s = max(workload.duration_s, 1.0)
    count = max(1, round(span_s / length_s))
    width_s = span_s / count
    stretch = np.minimum((workload.at_s / width_s).astype(np.int64), count - 1)
    cells = stretch * classes + of_request
    images = np.bincount(cells, work, count * classes)
    return images.reshape(count, classes) / width_s, np.full(count, width_s)


def _work(workload: Workload, profile: Profile) -> Floats:
    """Count the images of default length and size that each request takes at least."""
    most = max((model.default_steps for model in profile.models.values()), default=1)
    steps = np.where(workload.steps > 0, np.minimum(1.0, workload.steps / most), 1.0)
    masked = np.where(workload.mask_ratio > 0, workload.mask_ratio, 1.0)
    work: Floats = workload.images.astype(np.float64) * steps * masked
    return work * _area(workload, profile)


def _area(workload: Workload, profile: Profile) -> Floats:
    """Say which part of the largest default size each image has at least; one at most."""
    sides = [model.default_size for model in profile.models.values()]
    least, most = min(sides, default=1), max(sides, default=1)
    width, height = (
        np.where(side > 0, side, least).astype(np.float64)
        for side in (workload.width, workload.height)
    )
    is_said = (workload.width > 0) | (workload.height > 0)
    return np.where(is_said, np.minimum(1.0, width * height / most**2), 1.0)


def fits(world: World, model: str, kind: str) -> bool:
    """Tell whether a worker of a type has room for a model."""
    return world.profile.models[model].size_gib <= world.memory_of(kind)


def _tau_s(world: World, level: Level, kind: str, slo_s: float) -> float:
    """Say what an image takes of a worker where it is best shared; inf where never in time."""
    profile = world.profile
    alone = profile.tau_s(level, kind)
    if not fits(world, level.model, kind) or alone > slo_s:
        return float("inf")
    cost = profile.cost(level.model, kind)
    shared = [cost.step_s(count) / count for count in range(1, world.slots + 1)]
    return alone * min(shared) / shared[0]


def _quality(world: World, classes: tuple[str, ...], levels: tuple[Level, ...]) -> Floats:
    """Average what prompts of each class are worth at each level. Shape: [C, L]."""
    named = np.array([name or ANY for name in world.prompts.classes])
    columns = [world.prompts.levels.index(level.name) for level in levels]
    rows = [world.prompts.quality[named == name].mean(axis=0)[columns] for name in classes]
    return np.array(rows)
