"""Say what a rollout is given, and what it answers: named tuples of arrays. Pure data."""

from typing import NamedTuple

from scheduler.allocation.rollout.compiled import Floats, Ints


class Levels(NamedTuple):
    """What can be made of a job, where, and what it is worth."""

    model: Ints  #: [L]
    seconds: Floats  #: [L, T, S], of an image that so many share a worker with
    quality: Floats  #: [C, L]; negative where it is not allowed
    caution: float  #: a promise leaves room for so much more of a job's own time


class RolledFleet(NamedTuple):
    """Workers, as they are now; a rollout copies what it changes."""

    kind: Ints  #: [G], device type
    model: Ints  #: [G], -1 for none
    free_s: Floats  #: [G, S], when each slot is free; `NEVER` for those that a worker has not
    claims_s: Floats  #: [G], before it begins a job it claims it, and makes it whatever it holds


class Served(NamedTuple):
    """What becomes of one future."""

    earned: float  #: quality of what is done in time, added up
    behind_s: Floats  #: [G], for which workers have jobs at the end
    soon: float  #: quality of what comes soon, late or not, added up
    soon_jobs: float  #: that it is of


class Changes(NamedTuple):
    """What becomes of the workers."""

    at_s: Floats  #: [E], rising
    worker: Ints  #: [E]
    model: Ints  #: [E], -1 for none


class RolledJobs(NamedTuple):
    """Images of those that wait, the oldest first, then of those that arrive, in order.

    Each image goes its own way. Engines let small jobs pass large ones, which these queues do not:
    for that, either bears that its images wait here for longer (`bears_s`).
    """

    at_s: Floats  #: [J], 0 for those that wait
    age_s: Floats  #: [J], since it came, at `at_s`
    promised_s: Floats  #: [J], after it came, as those who place it know it
    bears_s: Floats  #: [J], after it came, in which it is in time
    weight: Floats  #: [J], part that an image is of its job
    turn: Floats  #: [J], in [0, 1): which level of its row is meant for it
    kind: Ints  #: [J], class
    level: Ints  #: [J], of those that wait; -1 for those that arrive
    cell: Ints  #: [J], which forecast its row is for
