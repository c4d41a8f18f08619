"""Allocate without prompt classes: merge them, solve, spread the result. Pure.

It sees one demand where classes differ in nothing else, at the quality they have on average; of
what it gives to that demand, every class gets its share. That is random routing (Argus §5.1).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.allocation.allocate import allocate
from scheduler.allocation.problem import Allocation, Demand, Instance, Slot
from scheduler.allocation.program import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Blind:
    """An instance whose classes were merged."""

    seen: Instance  #: as the policy sees it
    shares: tuple[Mapping[int, float], ...]  #: by seen demand: demand -> its share; sum to one

    def spread(self, allocation: Allocation) -> Allocation:
        """Give each class its share of what the policy gave to all of them."""
        unserved = {
            i: share * allocation.unserved[row]
            for row, shares in enumerate(self.shares)
            for i, share in shares.items()
        }
        return replace(
            allocation,
            flows=tuple(
                replace(flow, demand=i, rate=share * flow.rate)
                for flow in allocation.flows
                for i, share in self.shares[flow.demand].items()
                if share > 0
            ),
            unserved=tuple(unserved[i] for i in sorted(unserved)),
            is_joint=False,
        )


def merged(instance: Instance) -> Blind:
    """Merge demands that differ in their class alone."""
    members: dict[Demand, list[int]] = {}
    for i, demand in enumerate(instance.demands):
        members.setdefault(replace(demand, affinity="", rate=0.0), []).append(i)
    demands, shares, quality = [], [], {}
    for row, (kind, found) in enumerate(members.items()):
        rate = sum(instance.demands[i].rate for i in found)
        shares.append(_shares(instance, found))
        demands.append(replace(kind, affinity=f"all of {row}", rate=rate))
        for level in instance.levels:
            quality[f"all of {row}", level.name] = sum(
                share * instance.quality[instance.demands[i].affinity, level.name]
                for i, share in shares[row].items()
            )
    seen = replace(instance, demands=tuple(demands), quality=quality)
    return Blind(seen=seen, shares=tuple(shares))


def allocate_blindly(instance: Instance) -> Allocation:
    """Solve the joint program without classes: Argus Eq. 1, Proteus Eq. 1-7.

    Raises: AllocationError if there is no allocation.
    """
    blind = merged(instance)
    return blind.spread(allocate(blind.seen))


def serve_blindly(instance: Instance, counts: Mapping[Slot, int]) -> Allocation:
    """Share the prompts, without classes, among workers whose models are given.

    Raises: AllocationError if these are not all the workers there are.
    """
    blind = merged(instance)
    within = {slot: (counts.get(slot, 0), counts.get(slot, 0)) for slot in instance.slots}
    found = Program(blind.seen, within=within).solve(limit_s=instance.limit_s)
    return blind.spread(replace(found, objective=None, bound=None))


def _shares(instance: Instance, members: Sequence[int]) -> dict[int, float]:
    whole = sum(instance.demands[i].rate for i in members)
    if whole <= 0:
        return {i: 1 / len(members) for i in members}
    return {i: instance.demands[i].rate / whole for i in members}
