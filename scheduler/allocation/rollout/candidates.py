"""List the divisions of a fleet that a rollout compares. Pure.

Few, and each for a reason: the more there are, the more often the luckiest of them wins. Where the
fleet is (stay), where the program would have it, the two ends (all best, all fastest), and steps
on the way to each. Where applications part the fleet among them no end is one for all, and what one
has too many of another lacks: there any model may hand workers to any other.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import combinations

import numpy as np

from core.errors import AllocationError
from core.levels.level import exact_level
from scheduler.allocation.policies.argus import ac
from scheduler.allocation.policies.clipper import clipper_ht
from scheduler.allocation.problem import Allocation, Instance, Slot
from scheduler.allocation.situation import Situation

STAY = "stay"
SMALL_STEP = 16  #: a step is at least one worker in so many
MANY_MOVES = 3  #: beyond so many there is a step half way as well
MOST_SHIFTS = 24  #: from one model to another, drawn from all
NOBODY: frozenset[str] = frozenset()  #: no model makes it

Counts = Mapping[Slot, int]


def candidates(
    instance: Instance, situation: Situation, program: Allocation
) -> dict[tuple[int, ...], str]:
    """Name the candidates, each as counts by `instance.slots`; staying comes first."""
    needed = _needed(instance)
    stay = _lawful(instance, _given(situation), program, needed)
    ends = {"program": program.counts, "best": _best(instance), "fastest": _fastest(instance)}
    found = {_key(instance, stay): STAY}
    lawful = {name: _lawful(instance, counts, program, needed) for name, counts in ends.items()}
    for name, counts in lawful.items():
        found.setdefault(_key(instance, counts), name)
    for name, counts in lawful.items():
        for moves, total in _steps(instance, stay, counts):
            step = _lawful(instance, _moved(instance, stay, counts, moves), program, needed)
            found.setdefault(_key(instance, step), f"{name} {moves}/{total}")
    if _is_parted(instance):
        for origin, into in _shifts(instance, stay, np.random.default_rng(situation.seed)):
            moves = min(_least_step(instance), stay.get(origin, 0))
            shifted = Counter(stay) + Counter({into: moves}) - Counter({origin: moves})
            key = _key(instance, _lawful(instance, shifted, program, needed))
            found.setdefault(key, f"{moves} {origin[0]}: {origin[1]} to {into[1]}")
    return found


def _key(instance: Instance, counts: Counts) -> tuple[int, ...]:
    return tuple(counts.get(slot, 0) for slot in instance.slots)


def _given(situation: Situation) -> Counts:
    held = ((seat.device_type, seat.given or seat.serves) for seat in situation.seats)
    return Counter((t, model) for t, model in held if model is not None)


def _best(instance: Instance) -> Counts:
    """Have all workers hold the best model that they may, and leave out steps."""
    if _is_shared(instance):
        return _all(instance, {slot: instance.worth[slot[1]] for slot in instance.slots})
    try:
        return ac(instance).counts
    except AllocationError:
        return {}


def _fastest(instance: Instance) -> Counts:
    """Have all workers hold the fastest model that they may."""
    if _is_shared(instance):
        exact = {slot: (exact_level(slot[1]).name, slot[0]) for slot in instance.slots}
        known = {slot: level for slot, level in exact.items() if level in instance.tau}
        return _all(instance, {slot: -instance.tau[level] for slot, level in known.items()})
    try:
        return clipper_ht(instance).counts
    except AllocationError:
        return {}


def _is_shared(instance: Instance) -> bool:
    """Tell whether all that is asked for may be made by any model."""
    models = {model for _, model in instance.slots}
    return all(able >= models for able in _able(instance))


def _is_parted(instance: Instance) -> bool:
    """Tell whether there are two whose jobs no model makes both of."""
    return any(one.isdisjoint(other) for one, other in combinations(_able(instance) - {NOBODY}, 2))


def _able(instance: Instance) -> set[frozenset[str]]:
    """Name the models that may make what is asked for, once for all that the same ones may."""
    asked = (d for d in instance.demands if d.rate > 0 and not d.is_placed)
    return {frozenset(x.model for x in instance.levels_of(demand)) for demand in asked}


def _all(instance: Instance, value: Mapping[Slot, float]) -> Counts:
    chosen: dict[Slot, int] = {}
    for device_type, workers in instance.devices.items():
        if own := [slot for slot in value if slot[0] == device_type]:
            chosen[max(own, key=lambda slot: (value[slot], slot))] = workers
    return chosen


def _lawful(
    instance: Instance, counts: Counts, program: Allocation, needed: Collection[str]
) -> Counts:
    """Give every worker one model it can hold, leave those that settle, hold what must be held."""
    slots = set(instance.slots)
    found = Counter({s: min(n, instance.able.get(s, n)) for s, n in counts.items() if s in slots})
    least = Counter({slot: n for slot, n in instance.settling.items() if slot in slots})
    for slot, n in program.counts.items():
        held = {model for (_, model), count in found.items() if count}
        if n and slot[1] in needed and slot[1] not in held:
            least[slot] = max(least[slot], 1)
    for slot, n in least.items():
        found[slot] = max(found[slot], n)
    for device_type, workers in instance.devices.items():
        own = [slot for slot in instance.slots if slot[0] == device_type]
        if own:
            _fill(found, least, own, workers, instance)
    return found


def _fill(
    found: Counter[Slot], least: Counter[Slot], own: list[Slot], workers: int, instance: Instance
) -> None:
    missing = workers - sum(found[slot] for slot in own)
    own = sorted(own, key=lambda slot: (instance.worth.get(slot[1], 0.0), slot), reverse=True)
    for slot in own:
        if (added := min(missing, instance.most(slot) - found[slot])) > 0:
            found[slot] += added
            missing -= added
    for _ in range(-missing):
        found[max(own, key=lambda slot: (found[slot] - least[slot], slot))] -= 1


def _needed(instance: Instance) -> set[str]:
    """Name the models that alone may serve some prompts, or that jobs have waited for too long.

    Jobs that wait on a queue do not count: they move to another as soon as nobody serves theirs.
    """
    alone = (models for models in _able(instance) if len(models) == 1)
    return {model for models in alone for model in models} | set(instance.stranded)


def _steps(instance: Instance, start: Counts, end: Counts) -> Iterator[tuple[int, int]]:
    """Say after how many of all moves a step is worth a look."""
    total = sum(max(0, end.get(slot, 0) - start.get(slot, 0)) for slot in instance.slots)
    first = _least_step(instance)
    for moves in sorted({first, total // 2} if total > MANY_MOVES else {first}):
        if 0 < moves < total:
            yield moves, total


def _least_step(instance: Instance) -> int:
    return max(1, instance.num_devices // SMALL_STEP)


def _shifts(
    instance: Instance, start: Counts, rng: np.random.Generator
) -> Iterator[tuple[Slot, Slot]]:
    """Draw from which slot to which other workers may go: to where somebody's jobs are in time."""
    origins = [slot for slot, n in sorted(start.items()) if n > instance.settling.get(slot, 0)]
    in_time = _in_time(instance)
    goals = [slot for slot in instance.slots if slot in in_time]
    every = [(o, into) for o in origins for into in goals if o[0] == into[0] and o != into]
    yield from (every[i] for i in rng.permutation(len(every))[:MOST_SHIFTS])


def _in_time(instance: Instance) -> set[Slot]:
    return {
        (device_type, level.model)
        for demand in instance.demands
        if demand.rate > 0
        for level in instance.levels_of(demand)
        for device_type in instance.devices
        if (level.name, device_type) not in demand.too_slow
    }


def _moved(instance: Instance, start: Counts, end: Counts, moves: int) -> Counts:
    """Move so many workers from where too many are to where most are missing."""
    found, left = Counter(start), moves
    while left > 0:
        gap = {slot: end.get(slot, 0) - found[slot] for slot in instance.slots}
        into = max(gap, key=lambda slot: (gap[slot], slot))
        same = [slot for slot in gap if slot[0] == into[0]]
        origin = min(same, key=lambda slot: (gap[slot], slot))
        several = max(1, min(left, gap[into], -gap[origin]) // 2)
        found[into] += several
        found[origin] -= several
        left -= several
    return found
