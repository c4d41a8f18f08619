"""Draw the prompt of each request, from a mix that may drift. Pure."""

import numpy as np
from numpy.typing import NDArray

from loadgen.arrivals.gaps import Seconds
from loadgen.prompts import PromptSet
from loadgen.workload import Counts

#: Spread of the prompts about the centre of the mix, as a part of all.
SPREAD = 0.15


def steady(count: int, size: int, rng: np.random.Generator) -> Counts:
    """Draw prompts, each as likely as any other, whenever it is."""
    return rng.integers(count, size=size, dtype=np.int32)


def drifting(
    order: NDArray[np.int64], at_s: Seconds, *, period_s: float, rng: np.random.Generator
) -> Counts:
    """Draw prompts from about a place in their order that goes to its end and back in a period.

    Args:
        order: prompts, such as from easy to hard.
    """
    centre = 0.5 - 0.5 * np.cos(2 * np.pi * at_s / period_s)
    place = np.abs(centre + rng.normal(0, SPREAD, len(at_s)))  # reflected at both ends
    place = np.where(place > 1, 2 - place, place)
    row = np.clip((place * len(order)).astype(np.int64), 0, len(order) - 1)
    return order[row].astype(np.int32)


def by_difficulty(prompts: PromptSet) -> NDArray[np.int64]:
    """Order prompts by their mean quality, best first; as they stand if it is not known."""
    if not prompts.has_quality:
        return np.arange(len(prompts))
    return np.argsort(-prompts.quality.mean(axis=1), kind="stable")
