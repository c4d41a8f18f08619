"""Allocation policy `program`: MILP of workers per model and prompts per level.

One program for the whole allocation (`scheduler/allocation/program`). The exact search is quick
for few workers. For more, the relaxation is solved first and its fractional workers are rounded:
one worker of many is a small part, so that costs little; where it costs too much the exact search
runs, as far as its nodes go. So what is found hangs on the work done, not on how busy the host is.
Pure; docs/adr/0002 and `bench/allocate` have the figures.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import floor

from core.errors import AllocationError
from scheduler.allocation.problem import Allocation, Instance, Slot
from scheduler.allocation.program import Program, Range

Search = Callable[[Instance], Allocation]

SMALL_DEVICES = 16  #: up to so many the exact search comes first
EXACT_DEVICES = 200  #: above so many there is none
EXACT_SHARE = 0.7  #: of the time limit, for the exact search
ROUNDED_SHARE = 0.3  #: for each search near what was rounded


def allocate(instance: Instance) -> Allocation:
    """Find the best allocation that can be found in time.

    Units:  jobs/s; quality in [0, 1]
    Raises: AllocationError if none is found.
    """
    return first_close(instance, *_searches(instance.num_devices))


def first_close(instance: Instance, *searches: Search) -> Allocation:
    """Search in one way after the other until an answer is close enough to the bound.

    Raises: AllocationError if no search finds any.
    """
    found, failed = None, AllocationError("there is no way to search")
    for search in searches:
        try:
            found = _joined(found, search(instance))
        except AllocationError as error:
            failed = error
            continue
        if _is_close(found, instance):
            return found
    if found is None:
        raise failed
    return found


def exact(instance: Instance) -> Allocation:
    """Solve the program as it is.

    Raises: AllocationError if no allocation is found.
    """
    return Program(instance).solve(limit_s=EXACT_SHARE * instance.limit_s)


def approximate(instance: Instance) -> Allocation:
    """Split workers at will, make them whole, and share the prompts among the whole ones.

    Where that costs more than the gap, the search goes on among the allocations that have at most
    one worker more or less on each model than the split one. That finds what rounding cannot: a
    worker moved between models that were whole already.

    Raises: AllocationError if no allocation is found.
    """
    program = Program(instance)
    split, bound = program.relax()
    whole = {slot: (count, count) for slot, count in rounded(split).items()}
    near = _around(split, instance)
    within = partial(_within, program=program, bound=bound)
    return first_close(instance, *(partial(within, ranges=ranges) for ranges in (whole, near)))


def _searches(devices: int) -> tuple[Search, ...]:
    if devices <= SMALL_DEVICES:
        return exact, approximate
    return (approximate, exact) if devices <= EXACT_DEVICES else (approximate,)


def _within(
    instance: Instance, *, program: Program, ranges: Mapping[Slot, Range], bound: float
) -> Allocation:
    program.limit(ranges)
    return replace(program.solve(limit_s=ROUNDED_SHARE * instance.limit_s), bound=bound)


def _around(split: Mapping[Slot, float], instance: Instance) -> dict[Slot, Range]:
    ranges: dict[Slot, Range] = {}
    for slot, count in split.items():
        least, most = instance.settling.get(slot, 0), instance.most(slot)
        ranges[slot] = max(least, round(count) - 1), min(most, round(count) + 1)
    return ranges


def _is_close(allocation: Allocation, instance: Instance) -> bool:
    return allocation.gap is not None and allocation.gap <= instance.gap


def _joined(one: Allocation | None, other: Allocation) -> Allocation:
    """Take the better allocation, and the closer bound: each holds for both."""
    if one is None:
        return other
    best = max(one, other, key=lambda each: each.objective or 0.0)
    return replace(best, bound=min(x.bound for x in (one, other) if x.bound is not None))


def rounded(split: Mapping[Slot, float]) -> dict[Slot, int]:
    """Round counts by largest remainder, so that each device type keeps its number of workers.

    Every count is rounded down or up, never further.

    Args:
        split: (device type, model) -> workers; the sum over each type is whole.
    """
    whole = {slot: floor(count) for slot, count in split.items()}
    for device_type in {t for t, _ in split}:
        slots = [slot for slot in split if slot[0] == device_type]
        left = round(sum(split[slot] for slot in slots)) - sum(whole[slot] for slot in slots)
        slots.sort(key=lambda slot: (whole[slot] - split[slot], slot))
        for slot in slots[:left]:
            whole[slot] += 1
    return whole
