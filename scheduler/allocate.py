"""How many workers of each type hold which model, and which levels serve whom?

The policy `atelier`: one program for all of it (`scheduler/program`), solved exactly where that
is quick and by relaxing and rounding where it is not. Integrality is hard for few devices and
many applications; for many devices a split worker is a small part of the fleet, so rounding costs
little. Measured: `bench/allocate`, docs/adr/0002.
"""

from dataclasses import replace

from core.errors import AllocationError
from scheduler.instance import Allocation, Instance
from scheduler.program import Program
from scheduler.rounding import rounded

EXACT_DEVICES = 200  #: up to so many the program is solved exactly


def allocate(instance: Instance) -> Allocation:
    """Find the best allocation that can be found in time.

    Where the exact search ends at its limit short of the gap, rounding may still find a better
    one: that takes a few milliseconds more at any size.

    Units:  jobs/s; quality in [0, 1]
    Raises: AllocationError if there is no allocation.
    """
    if instance.num_devices > EXACT_DEVICES:
        return relax_and_round(instance)
    try:
        exact = Program(instance).solve()
    except AllocationError:
        return relax_and_round(instance)
    if gap_of(exact) <= 2 * instance.gap:  # the solver measures against its own incumbent
        return exact
    return max(exact, relax_and_round(instance), key=lambda each: each.objective or 0.0)


def relax_and_round(instance: Instance) -> Allocation:
    """Split workers at will, make them whole, and share the prompts among the whole ones.

    Raises: AllocationError if there is no allocation.
    """
    split, bound = Program(instance).relax()
    return replace(Program(instance, fixed=rounded(split)).solve(), bound=bound)


def gap_of(allocation: Allocation) -> float:
    """Say how much better another allocation might be, relative or absolute, the lesser of both.

    Raises: AllocationError if no program was solved.
    """
    if allocation.objective is None or allocation.bound is None:
        raise AllocationError("an allocation without a program has no gap")
    return (allocation.bound - allocation.objective) / max(1.0, abs(allocation.objective))
