"""Choose who shares a step in the model of an engine, and how long it takes. Pure.

The twin of `worker/engine/batch`, with step times that are known: it tries nothing, and learns
nothing.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from simulator.fleet.job import SimulatedJob
from simulator.fleet.step_times import StepTimes
from worker.engine.batch import PATIENCE

_MANY = 1_000_000

Group = tuple[str, float]  #: model and size: who may share steps
Times = Mapping[str, StepTimes]  #: by model


class Image:
    """One image in a slot."""

    __slots__ = ("group", "index", "is_plain", "job", "left")

    def __init__(self, job: SimulatedJob, index: int) -> None:
        self.job = job
        self.index = index
        self.left = job.steps
        self.group: Group = (job.model, job.size)
        self.is_plain = job.is_plain


def choose(
    running: list[Image], times: Times, *, is_alike: bool, is_full: bool
) -> tuple[list[Image], float]:
    """Choose who steps, and say how long each step takes (s).

    Args:
        is_alike: all are known to be plain and of one group; otherwise they are looked at.
        is_full: every slot is taken.
    """
    chosen = running if is_alike else _first_group(running, times)
    model, size = chosen[0].group
    known, count = times[model], len(chosen)
    if not is_alike and not all(image.is_plain for image in chosen):
        return chosen, _burdened_s(chosen, size, known)
    sharing = (known.full_sizes if is_full else known.open_sizes)[count]
    if sharing < count:
        ranked = _ranked(running, times) if chosen is running else chosen
        chosen = ranked[:sharing]
    return chosen, size * known.seconds[sharing]


def steps_in_order(chosen: Sequence[Image], running: Sequence[Image], times: Times) -> int:
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
        _steps_before_passing(job, other, counts[key] - counts[each], times)
        for key, job in behind.items()
        for each, other in passed.items()
    )


def _steps_before_passing(job: SimulatedJob, other: SimulatedJob, more: int, times: Times) -> int:
    if more <= 0:
        return _MANY
    one_s = PATIENCE * job.size * times[job.model].one_s
    gap_s = job.at - other.at + one_s * (job.left - other.left)
    return max(1, math.floor(gap_s / (one_s * more)))


def _first_group(running: list[Image], times: Times) -> list[Image]:
    """List who may share a step with the image whose turn it is: if not all, by their turns."""
    first = running[0].group
    if all(image.group == first for image in running):
        return running
    ranked = _ranked(running, times)
    return [image for image in ranked if image.group == ranked[0].group]


def _ranked(images: Sequence[Image], times: Times) -> list[Image]:
    """Sort images by whose turn it is."""
    counts: dict[Group, int] = {}
    for image in images:
        counts[image.group] = counts.get(image.group, 0) + 1
    paces: dict[Group, tuple[float, float]] = {}
    for group, count in counts.items():
        seconds, size = times[group[0]].seconds, group[1]
        paces[group] = (size * seconds[1], size * seconds[count])
    return sorted(images, key=lambda image: _rank(image, *paces[image.group]))


def _rank(image: Image, one_s: float, all_s: float) -> tuple[float, int, int]:
    """Rank an image as `worker/engine/batch.rank` does."""
    job = image.job
    rank = job.at + PATIENCE * job.left * one_s
    if job.deadline < math.inf:
        rank = min(rank, job.deadline - job.left * all_s)
    return (rank, job.row, image.index)


def _burdened_s(chosen: Sequence[Image], size: float, times: StepTimes) -> float:
    """Say how long a step takes that edits share, or images with adapters (s)."""
    surcharge_s = times.one_s * sum(image.job.surcharge for image in chosen)
    burdens = [image.job.burden for image in chosen if image.job.burden is not None]
    if not burdens:
        return size * (times.seconds[len(chosen)] + surcharge_s)
    whole_s = size * times.seconds[len(chosen) - len(burdens)]
    start_s = times.start_s if not whole_s else 0.0
    compute_s = start_s + whole_s + sum(each.compute_s for each in burdens)
    return max(compute_s, sum(each.load_s for each in burdens)) + size * surcharge_s
