"""Round fractional worker counts by largest remainder, per device type. Pure."""

from collections.abc import Mapping
from math import floor

from scheduler.allocation.problem import Slot

EPSILON = 1e-6  #: what a solver's 3 may lack


def rounded(split: Mapping[Slot, float]) -> dict[Slot, int]:
    """Round counts so that each device type keeps its number of workers.

    Every count is rounded down or up, never further.

    Args:
        split: (device type, model) -> workers; the sum over each type is whole.
    """
    whole = {slot: floor(count + EPSILON) for slot, count in split.items()}
    for device_type in sorted({t for t, _ in split}):
        slots = [slot for slot in split if slot[0] == device_type]
        left = round(sum(split[slot] for slot in slots)) - sum(whole[slot] for slot in slots)
        slots.sort(key=lambda slot: (whole[slot] - split[slot], slot))
        for slot in slots[:left]:
            whole[slot] += 1
    return whole
