"""Compile the loops of the rollout before they are needed: seconds on a machine's first start.

`python -m scheduler.allocation.rollout.warm` leaves them compiled for every process to come.
"""

import numpy as np

from scheduler.allocation.rollout.inputs import Changes, Levels, RolledFleet, RolledJobs
from scheduler.allocation.rollout.kernel import roll
from scheduler.allocation.rollout.rows import Uses, share


def warm() -> None:
    """Roll out one job on one worker."""
    zero, one, nothing = np.zeros(1, np.int64), np.ones(1), np.zeros(0)
    none = np.zeros(0, np.int64)
    rows = share(np.ones((1, 1)), one, Uses(level=zero, slot=zero, seconds=one), one, 1)
    roll(
        Levels(zero, np.ones((1, 1, 1)), np.ones((1, 1)), 0.0),
        RolledFleet(zero, zero, np.zeros((1, 1)), np.zeros(1)),
        Changes(nothing, none, none),
        RolledJobs(np.zeros(1), np.zeros(1), one, one, one, np.zeros(1), zero, zero - 1, zero),
        np.stack([rows[np.newaxis]] * 3),
        0.0,
        (1.0, 1.0),
    )


if __name__ == "__main__":
    warm()
