"""What one more job is worth to a fleet, by how many it has: the curve that a cell publishes. Pure.

The mix of jobs stays as it is and workers keep their models; how many come is varied. Each point
shares the prompts anew, so the curve says what the levels do: more jobs, lower ones.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from core.cells.capacity import Segment
from core.errors import AllocationError
from scheduler.allocation.problem import Demand, Instance, Slot
from scheduler.allocation.transition import serve

#: Parts of what a fleet can serve at most, at which its quality is looked at.
PARTS: Final = (0.25, 0.5, 0.75, 1.0)
#: Jobs a second for each worker that no fleet serves.
FLOOD: Final = 1e4


def curve(
    instance: Instance, counts: Mapping[Slot, int], usual: tuple[Demand, ...]
) -> tuple[Segment, ...]:
    """Find what jobs are worth; `usual` says of which kinds they are while nobody asks.

    Units: jobs/s; quality in [0, 1]
    """
    asked = tuple(each for each in instance.demands if each.rate > 0 and not each.is_placed)
    mix = asked or usual
    whole = sum(each.rate for each in mix)
    held = {slot: count for slot, count in counts.items() if count}
    if whole <= 0 or not held:
        return ()
    try:
        most, _ = _served(instance, held, mix, FLOOD * instance.num_devices / whole)
        points = [_served(instance, held, mix, part * most / whole) for part in PARTS]
    except AllocationError:
        return ()
    return _falling(points)


def _served(
    instance: Instance, counts: Mapping[Slot, int], mix: tuple[Demand, ...], times: float
) -> tuple[float, float]:
    """Tell how many of so many jobs are served, and their quality a second."""
    demands = tuple(replace(each, rate=each.rate * times) for each in mix)
    found = serve(replace(instance, demands=demands), counts)
    quality = sum(
        flow.rate * instance.quality[demands[flow.demand].affinity, flow.level]
        for flow in found.flows
    )
    return sum(flow.rate for flow in found.flows), quality


def _falling(points: list[tuple[float, float]]) -> tuple[Segment, ...]:
    """Join points to segments, none of which is worth more than the one before it."""
    segments: list[Segment] = []
    rate, quality, worth = 0.0, 0.0, 1.0
    for at, gained in points:
        if at - rate > 1e-9:
            worth = max(0.0, min(worth, (gained - quality) / (at - rate)))
            segments.append(Segment(rate=at - rate, worth=worth))
            rate, quality = at, gained
    return tuple(segments)
