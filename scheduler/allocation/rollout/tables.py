"""Turn an instance into the arrays of a rollout, smaller where the fleet is large. Pure.

A fleet of thousands is rolled out as one of a few dozen, each worker standing for as many: rates,
counts and what waits are scaled with it.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from core.application import promised_as
from core.levels.level import exact_level
from scheduler.allocation.problem import Demand, Instance, Slot
from scheduler.allocation.rollout.compiled import Floats, Ints
from scheduler.allocation.rollout.inputs import Levels, RolledFleet
from scheduler.allocation.rollout.kernel import NEVER
from scheduler.allocation.rollout.rows import Uses
from scheduler.allocation.situation import Seat, Situation

MOST_WORKERS = 48  #: of a rollout
MOST_SLOTS = 384  #: of all of them
MOST_JOBS = 3000  #: that arrive in one future
MOST_CLASSES = 16  #: those most asked for; the others are taken to be like them
CAUTION = 0.25  #: of `scheduler/routing/stations`: a promise leaves room for what others may cost
BANNED = -1e3  #: quality of a level that is not allowed
PROMISE = 3.0  #: times the best model alone, where nobody said what was promised


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tables:
    """What is the same for every candidate and every future."""

    instance: Instance
    situation: Situation
    types: tuple[str, ...]
    models: tuple[str, ...]
    scale: int  #: workers that one stands for
    seats: tuple[Seat, ...]  #: workers of the rollout
    demands: tuple[Demand, ...]  #: classes, those most asked for
    levels: Levels
    uses: Uses
    shares: Floats  #: [C], of all that arrives
    #: [C] of [jobs, 3], its last jobs: images, seconds in which one of these is promised, and
    #: those in which it is in time
    asked: tuple[Floats, ...]
    images: float  #: of a job, on average
    promised_s: float  #: within which jobs are in time, on average

    def slot(self, slot: Slot) -> int:
        """Number a device type and a model."""
        return self.types.index(slot[0]) * len(self.models) + self.models.index(slot[1])

    def counts(self, counts: Mapping[Slot, int]) -> Ints:
        """Put counts into an array by `slot`."""
        found = np.zeros(len(self.types) * len(self.models), np.int64)
        for slot, count in counts.items():
            found[self.slot(slot)] = count
        return found

    def fleet(self) -> RolledFleet:
        """Say what the workers of the rollout do now."""
        sharing = max(seat.sharing for seat in self.seats)
        free = np.full((len(self.seats), sharing), NEVER)
        for worker, seat in enumerate(self.seats):
            free[worker, : seat.sharing] = 0.0
            if seat.serves is not None and seat.running:
                busy = min(seat.running, seat.sharing)
                each = self._usual_s(seat, busy)
                behind = (seat.running - 1 - np.arange(busy)) // busy  # that have not begun
                free[worker, :busy] = each * ((np.arange(busy) + 0.5) / busy + behind)
        return RolledFleet(
            kind=np.array([self.types.index(s.device_type) for s in self.seats], np.int64),
            model=np.array([self._model(s.serves) for s in self.seats], np.int64),
            free_s=free,
            claims_s=np.array([self._claims_s(seat) for seat in self.seats]),
        )

    def usual_level(self, model: str) -> int:
        """Guess at which level jobs wait for a model: the one that takes as long as they do."""
        waiting, steps = self.situation.waiting.get(model), self.situation.steps.get(model)
        share = waiting.steps / steps if waiting and waiting.steps and steps else 1.0
        own = [i for i, x in enumerate(self.instance.levels) if x.model == model]
        levels = self.instance.levels
        return min(own, key=lambda i: abs(levels[i].approximation.share_of_steps - share))

    def _claims_s(self, seat: Seat) -> float:
        """Say how long before its beginning a job is claimed where workers hold several."""
        before = max(0.0, seat.slots * self.images / seat.sharing - 1.0) if seat.slots > 1 else 0.0
        return before * self._usual_s(seat, seat.sharing) if before and seat.serves else 0.0

    def _usual_s(self, seat: Seat, busy: int) -> float:
        level, kind = self.usual_level(seat.serves or ""), self.types.index(seat.device_type)
        return float(self.levels.seconds[level, kind, busy - 1])

    def _model(self, name: str | None) -> int:
        return self.models.index(name) if name in self.models else -1


def tables(instance: Instance, situation: Situation, horizon_s: float) -> Tables | None:
    """Build the arrays; None if there is nothing to roll out."""
    models = tuple(sorted({level.model for level in instance.levels}))
    seats = tuple(s for s in situation.seats if any(t == s.device_type for t, _ in instance.load))
    demands = _most_asked(instance)
    if not (models and seats and demands):
        return None
    rate = sum(demand.rate for demand in demands)
    scale = _scale(seats, rate * horizon_s)
    types = tuple(sorted({seat.device_type for seat in seats}))
    whole = sum(demand.rate for demand in demands)
    seconds = _seconds(instance, situation, types, max(seat.sharing for seat in seats))
    asked = _asked_of(instance, situation, demands, seats)
    shares = np.array([demand.rate / whole for demand in demands])
    return Tables(
        instance=instance,
        situation=situation,
        types=types,
        models=models,
        scale=scale,
        seats=_sampled(seats, scale),
        demands=demands,
        levels=Levels(
            model=np.array([models.index(x.model) for x in instance.levels], np.int64),
            seconds=seconds,
            quality=np.array([_worth(instance, demand) for demand in demands]),
            caution=CAUTION,
        ),
        uses=_uses(instance, types, models),
        shares=shares,
        asked=asked,
        images=_averaged(shares, asked, 0),
        promised_s=_averaged(shares, asked, 2),
    )


def _most_asked(instance: Instance) -> tuple[Demand, ...]:
    asked = [demand for demand in instance.demands if demand.rate > 0 and not demand.is_placed]
    return tuple(sorted(asked, key=lambda each: -each.rate)[:MOST_CLASSES])


def _scale(seats: Sequence[Seat], jobs: float) -> int:
    slots = sum(seat.sharing for seat in seats)
    return math.ceil(max(1.0, len(seats) / MOST_WORKERS, slots / MOST_SLOTS, jobs / MOST_JOBS))


def _sampled(seats: Sequence[Seat], scale: int) -> tuple[Seat, ...]:
    """Take every so many-th of the workers, alike ones side by side; at least one of each type."""
    chosen: list[Seat] = []
    for device_type in sorted({seat.device_type for seat in seats}):
        own = [seat for seat in seats if seat.device_type == device_type]
        own.sort(key=lambda s: (s.given or "", s.serves or "", s.ready_s, s.running))
        chosen += own[min(scale // 2, len(own) - 1) :: scale]
    return tuple(chosen)


def _worth(instance: Instance, demand: Demand) -> list[float]:
    allowed = set(instance.levels_of(demand))
    return [
        instance.quality[demand.affinity, level.name] if level in allowed else BANNED
        for level in instance.levels
    ]


def _averaged(shares: Floats, asked: Sequence[Floats], column: int) -> float:
    return float(shares @ [known[:, column].mean() for known in asked])


def _asked_of(
    instance: Instance, situation: Situation, demands: Sequence[Demand], seats: Sequence[Seat]
) -> tuple[Floats, ...]:
    """List what jobs of each class may be like: those that are promised alike share a list."""
    keys = [promised_as(demand.application, demand.models) for demand in demands]
    known = {
        key: _asked(instance, situation, demand, seats)
        for key, demand in zip(keys, demands, strict=True)
    }
    return tuple(known[key] for key in keys)


def _asked(
    instance: Instance, situation: Situation, demand: Demand, seats: Sequence[Seat]
) -> Floats:
    """List what jobs of a demand may be like, an image each of those that come together."""
    best = max(demand.models, key=lambda model: (instance.worth.get(model, 0.0), model))
    own = [s for (level, _), s in instance.tau.items() if level == exact_level(best).name]
    image_s = min(own, default=1.0)
    alike = situation.jobs.get(promised_as(demand.application, demand.models))
    # A scheduler of the version before tells them all by their application.
    known = alike or situation.jobs.get(demand.application) or ((1, PROMISE * image_s),)
    images, promised_s = np.array(known, float).T
    first_s = np.maximum(0.0, promised_s - (images - 1) * image_s)
    if max(seat.slots for seat in seats) == 1:  # whoever comes first is served first
        return np.stack([images, first_s, first_s], axis=1)
    return np.stack([images, first_s, image_s + (first_s - image_s) / _before(images)], axis=1)


def _before(images: Floats) -> Floats:
    """Say which part of all images is of jobs that a job does not pass: of those no larger."""
    no_larger = images[np.newaxis] <= images[:, np.newaxis]
    return np.asarray(no_larger @ images / max(1.0, images.sum()))


def _seconds(
    instance: Instance, situation: Situation, types: Sequence[str], sharing: int
) -> Floats:
    """Spread what an image takes alone by how its steps take longer when others share them."""
    found = np.empty((len(instance.levels), len(types), sharing))
    for i, level in enumerate(instance.levels):
        steps = situation.steps.get(level.model, 1) * level.approximation.share_of_steps
        for k, device_type in enumerate(types):
            alone = instance.tau.get((level.name, device_type), NEVER)
            cost = situation.costs.get((device_type, level.model))
            for shared in range(1, sharing + 1):
                slower = float(shared)
                if cost is not None and cost.image_s(steps) > 0:
                    slower = (steps * cost.step_s(shared) + shared * cost.fixed_s) / cost.image_s(
                        steps
                    )
                found[i, k, shared - 1] = alone * slower
    return found


def _uses(instance: Instance, types: Sequence[str], models: Sequence[str]) -> Uses:
    places = [
        (i, k * len(models) + models.index(level.model), instance.tau[level.name, t])
        for i, level in enumerate(instance.levels)
        for k, t in enumerate(types)
        if (t, level.model) in instance.load
    ]
    return Uses(
        level=np.array([level for level, _, _ in places], np.int64),
        slot=np.array([slot for _, slot, _ in places], np.int64),
        seconds=np.array([seconds for _, _, seconds in places], float),
    )


def scaled(counts: Mapping[Slot, int], seats: Sequence[Seat]) -> dict[Slot, int]:
    """Scale counts down to the workers of a rollout, each device type by itself."""
    found: dict[Slot, int] = {}
    for device_type, workers in Counter(seat.device_type for seat in seats).items():
        own = {slot: n for slot, n in sorted(counts.items()) if slot[0] == device_type and n}
        whole = sum(own.values())
        parts = {slot: n * workers / whole for slot, n in own.items()}
        found |= {slot: int(part) for slot, part in parts.items()}
        left = workers - sum(found[slot] for slot in own)
        for slot in sorted(own, key=lambda each: (found[each] - parts[each], each))[:left]:
            found[slot] += 1
    return found
