"""How many workers of each type hold which model, and which levels serve whom?

The policy `atelier`: one program for all of it (`scheduler/program`), solved exactly where that
is quick. Where it is not, workers are split first and made whole after. Integrality is hard for
few devices and many applications; of many devices a split one is a small part, so rounding
costs little. Pure; docs/adr/0002 and `bench/allocate` have the figures.
"""

from collections.abc import Mapping
from dataclasses import replace

from core.errors import AllocationError
from scheduler.instance import Allocation, Instance, Slot
from scheduler.program import Program, Range
from scheduler.rounding import rounded

EXACT_DEVICES = 200  #: up to so many the program is solved exactly
EXACT_SHARE = 0.7  #: of the time limit; what the exact search leaves undone gets the rest


def allocate(instance: Instance) -> Allocation:
    """Find the best allocation that can be found in time.

    Units:  jobs/s; quality in [0, 1]
    Raises: AllocationError if none is found.
    """
    if instance.num_devices > EXACT_DEVICES:
        return approximate(instance)
    try:
        exact = Program(instance).solve(limit_s=EXACT_SHARE * instance.limit_s)
    except AllocationError:
        return approximate(instance)
    return exact if _is_close(exact, instance) else _better(exact, approximate(instance))


def approximate(instance: Instance) -> Allocation:
    """Split workers at will, make them whole, and share the prompts among the whole ones.

    Where that costs more than the gap, the exact search goes on among the allocations that have
    at most one worker more or less on each model than the split one. That finds what rounding
    alone cannot: a worker moved between models that were whole already.

    Raises: AllocationError if none is found.
    """
    split, bound = Program(instance).relax()
    whole = {slot: (count, count) for slot, count in rounded(split).items()}
    found = _within(instance, whole, bound)
    if _is_close(found, instance):
        return found
    try:
        return _better(found, _within(instance, _around(split, instance), bound))
    except AllocationError:
        return found


def _within(instance: Instance, within: Mapping[Slot, Range], bound: float) -> Allocation:
    limit_s = (1 - EXACT_SHARE) * instance.limit_s
    return replace(Program(instance, within=within).solve(limit_s=limit_s), bound=bound)


def _around(split: Mapping[Slot, float], instance: Instance) -> dict[Slot, Range]:
    ranges: dict[Slot, Range] = {}
    for slot, count in split.items():
        least, most = instance.settling.get(slot, 0), instance.devices[slot[0]]
        ranges[slot] = max(least, round(count) - 1), min(most, round(count) + 1)
    return ranges


def _is_close(allocation: Allocation, instance: Instance) -> bool:
    return allocation.gap is not None and allocation.gap <= instance.gap


def _better(one: Allocation, other: Allocation) -> Allocation:
    return max(one, other, key=lambda each: each.objective or 0.0)
