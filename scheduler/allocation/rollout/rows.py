"""Share classes of prompts among the levels of given workers, quickly. Pure.

The program gives better rows, but takes milliseconds; a rollout needs those of dozens of counts and
forecasts. Subgradients on the prices of workers' time are within a per cent in a tenth of one.
"""

from typing import NamedTuple

import numpy as np

from scheduler.allocation.rollout.compiled import Floats, Ints, compiled

ROUNDS = 300


class Uses(NamedTuple):
    """Where each level can be served; one may have several places."""

    level: Ints  #: [U]
    slot: Ints  #: [U]
    seconds: Floats  #: [U], of a worker


@compiled
def _best_use(quality: Floats, costs: Floats) -> int:
    """Find the place that gains a class most, at what workers' time costs now; -1 if none is."""
    highest, chosen = -1e18, -1
    for use in range(len(costs)):
        gain = quality[use] - costs[use]
        if gain > highest:
            highest, chosen = gain, use
    return chosen


@compiled
def _with_room(uses: tuple[Ints, Ints, Floats], room: Floats) -> tuple[Ints, Ints, Floats]:
    """Leave out the places that no worker has time for."""
    level, slot, seconds = uses
    kept = [use for use in range(len(level)) if room[slot[use]] > 0]
    chosen = np.array(kept, np.int64)
    return level[chosen], slot[chosen], seconds[chosen]


@compiled
def _share(
    quality: Floats, rates: Floats, uses: tuple[Ints, Ints, Floats], room: Floats, rounds: int
) -> Floats:
    level, slot_of, seconds = _with_room(uses, room)
    worth = np.ascontiguousarray(quality[:, level])
    shares, costs = np.zeros(quality.shape), np.zeros(len(level))
    prices, load = np.zeros(len(room)), np.zeros(len(room))
    whole, first = max(1e-9, room.sum()), rounds // 4
    for turn in range(rounds):
        load[:] = 0.0
        for use in range(len(level)):
            costs[use] = prices[slot_of[use]] * seconds[use]
        for c in range(len(rates)):
            use = _best_use(worth[c], costs)
            if use >= 0:
                load[slot_of[use]] += rates[c] * seconds[use]
                shares[c, level[use]] += (turn >= first) / (rounds - first)
        step = 0.25 / (1.0 + turn / 40.0)
        for slot in range(len(room)):
            if room[slot] > 0:
                prices[slot] = max(0.0, prices[slot] + step * (load[slot] - room[slot]) / whole)
    return shares


def share(quality: Floats, rates: Floats, uses: Uses, room: Floats, rounds: int = ROUNDS) -> Floats:
    """Find rows that use workers whose models are given best.

    Args:
        quality: negative where a level is not allowed.
        room: seconds a second that the workers of each slot have.

    Shapes: quality [C, L], rates [C], room [slots] -> shares [C, L]; rows sum to one
    """
    return np.asarray(_share(quality, rates, uses[:], room, rounds))
