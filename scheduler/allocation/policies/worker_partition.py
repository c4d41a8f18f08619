"""Partition workers among applications that do not share them. Pure.

The part of Sommelier and INFaaS that Proteus' authors had to add, as neither paper places
models on a cluster (Proteus §6.1.1): each worker is given to one application, by highest averages
of the work that is asked for, before anybody thinks of models.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from core.levels.level import Level
from scheduler.allocation.policies.class_blind import merged, serve_blindly
from scheduler.allocation.policies.level_choice import fastest, narrowed, plain, seconds
from scheduler.allocation.problem import Allocation, Demand, Instance, Slot

Fill = Callable[["Share"], Mapping[Slot, int]]  #: says which models the workers of a share hold


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The workers of one application, and what they are for."""

    instance: Instance  #: without classes
    demand: Demand
    workers: Mapping[str, int]  #: by device type

    def options(self, device_type: str) -> list[Level]:
        """List the levels that a worker of this type can serve, exact ones, sorted.

        Those in time, if there are any.
        """
        able = [
            level
            for level in self.instance.levels_of(self.demand)
            if (device_type, level.model) in self.instance.load
        ]
        slow = self.demand.too_slow
        return [level for level in able if (level.name, device_type) not in slow] or able

    def rate(self, level: Level, device_type: str) -> float:
        """Jobs a second that one worker ends."""
        return self.instance.rho / self.instance.tau[level.name, device_type]

    def accuracy(self, level: Level) -> float:
        """Mean quality over all classes, in [0, 1]."""
        return self.instance.quality[self.demand.affinity, level.name]


def serve_divided(instance: Instance, fill: Fill) -> Allocation:
    """Divide the workers among applications, and let each fill its own.

    Raises: AllocationError if there is no allocation.
    """
    narrow = narrowed(instance, plain)
    seen = merged(narrow).seen
    counts: Counter[Slot] = Counter()
    for demand, workers in zip(seen.demands, divided(seen), strict=True):
        counts.update(fill(Share(instance=seen, demand=demand, workers=workers)))
    return serve_blindly(narrow, _completed(narrow, counts))


def divided(instance: Instance) -> list[dict[str, int]]:
    """Give each worker to one demand, in proportion to its work at its fastest model.

    Nobody is left without a worker before others have two; models that jobs have waited for too
    long go first.
    """
    shares: list[dict[str, int]] = [{} for _ in instance.demands]
    work = [_work(instance, demand) for demand in instance.demands]
    is_stranded = [bool(instance.stranded & set(d.models[:1])) for d in instance.demands]

    def need(row: int) -> tuple[bool, bool, float]:
        seats = sum(shares[row].values())
        return seats == 0 and is_stranded[row], seats == 0, work[row] / (1 + seats)

    for device_type, count in sorted(instance.devices.items()):
        able = [i for i, d in enumerate(instance.demands) if _fits(instance, d, device_type)]
        for _ in range(count if able else 0):
            row = max(able, key=need)
            shares[row][device_type] = shares[row].get(device_type, 0) + 1
    return shares


def _work(instance: Instance, demand: Demand) -> float:
    models = {model for _, model in instance.slots}
    levels: Sequence[Level] = [x for x in instance.levels_of(demand) if x.model in models]
    if not levels:
        return 0.0
    (level,) = fastest(instance, demand, levels)
    return demand.rate * seconds(instance, level)


def _fits(instance: Instance, demand: Demand, device_type: str) -> bool:
    levels = instance.levels_of(demand)
    return demand.rate > 0 and any((device_type, x.model) in instance.load for x in levels)


def _completed(instance: Instance, counts: Mapping[Slot, int]) -> dict[Slot, int]:
    """Leave workers that are loading alone, and let idle ones hold the best model."""
    whole: dict[Slot, int] = {}
    for device_type in sorted({t for t, _ in instance.slots}):
        slots = [slot for slot in instance.slots if slot[0] == device_type]
        for slot in slots:
            whole[slot] = max(counts.get(slot, 0), instance.settling.get(slot, 0))
        left = instance.devices[device_type] - sum(whole[slot] for slot in slots)
        best = max(slots, key=lambda slot: (instance.worth[slot[1]], slot))
        whole[best] += max(0, left)
        for _ in range(-left):
            spare = max(slots, key=lambda slot: whole[slot] - instance.settling.get(slot, 0))
            whole[spare] -= 1
    return whole
