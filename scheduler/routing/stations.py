"""Predict finish times of jobs from worker reports. Pure arithmetic: no clock, no I/O.

The workers that hold a model are one station: a job waits until a slot is free, then shares every
step with those that run beside it. Whoever leaves is taken to be replaced, so a job meets as many
as it found. Where fewer share a step than there are slots, the others wait as if for a slot. A step
takes what was measured of so many images, times how much slower than that the
workers' last steps were.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, make_dataclass, replace
from functools import cache
from typing import Generic, NamedTuple, TypeVar, cast

from core.boards.cost import Cost
from core.boards.fleet import FleetChange, Worker
from core.boards.plan import Plan, Usual
from core.job import JobRequest
from core.levels.approximation import EXACT, Approximation
from core.levels.level import Level
from core.model import Model
from core.placement import model_of, owner_of, queue_of, shared_queue_of
from scheduler.routing.holders import ONE, Holders, Holding, Kind, server_of
from scheduler.routing.model_ready import Foresight

#: A deadline leaves room for so much more of what others cost a job than is expected.
CAUTION = 0.25
#: A promise leaves so much where who comes later may make it late (docs/adr/0010).
TIGHT_CAUTION = 0.6

T = TypeVar("T")


class Work(NamedTuple):
    """What is left of one job."""

    steps: float  #: of each image
    images: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Station:
    """The workers that hold one model; `station_of_kinds` puts it together."""

    workers: int  #: at least one
    slots: int  #: of all of them
    steps_s: tuple[float, ...]  #: seconds of a step that one, two ... images of a worker share
    fixed_s: float  #: of an image, before its first and after its last step
    mean_steps: float  #: of the images that come here
    present: float  #: images that the workers have claimed
    is_known: bool  #: no time here is a guess
    ready_s: float = 0.0  #: until its workers hold the model
    job_images: float = 1.0  #: of a job that waits
    #: images that leave per second while every slot is taken
    full_throughput: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "full_throughput", self.throughput(self.slots))

    def eta_s(self, work: Work, ahead: float = 0.0) -> float:
        """Seconds until a job is done that has so many images on its queue before it."""
        return self.ready_s + self._eta_s(work, self.present + ahead)

    def with_jobs(self, usual: Usual) -> "Station":
        """Expect such jobs."""
        return replace(self, mean_steps=max(1.0, usual.steps), job_images=usual.images)

    def rest_s(self, work: Work) -> float:
        """Seconds until a job is done that runs already, and is among the images present."""
        return self._run_s(work, self.present - work.images)

    def can_meet(self, work: Work, ahead: float, deadline_s: float) -> bool:
        """Tell whether such a job is done in time, even if others cost it more than expected."""
        return self.eta_s(work, ahead) <= self._promised_by(work, deadline_s)

    def late_s(self, work: Work, ahead: float, deadline_s: float) -> float:
        """Seconds by which it would be expected too late; if negative, to spare."""
        return self.eta_s(work, ahead) - self._expected_by(work, deadline_s)

    def retry_s(self, work: Work, ahead: float, deadline_s: float) -> float | None:
        """Seconds after which such a job could meet its deadline if nobody else came.

        None: even idle workers would take longer.
        """
        if self.can_meet(work, ahead, deadline_s):
            return 0.0
        now = self.present + ahead
        then = self._most_before(work, self._promised_by(work, deadline_s))
        return None if then is None else self.ready_s + self._drain_s(now, then)

    def most_before(self, work: Work, within_s: float) -> float:
        """Count the images that may be here before a job, for it to be done within so long.

        Where that is less than its own steps take, a free slot is what it may have.
        """
        most = self._most_before(work, within_s)
        return max(self.slots - work.images, most or 0.0)

    def throughput(self, images: float) -> float:
        """Images that leave per second while so many are here."""
        shared = self._shared(images)
        cycle_s = self.mean_steps * self._step_s(shared) + shared * self.fixed_s
        return self.workers * shared / cycle_s

    def _promised_by(self, work: Work, deadline_s: float) -> float:
        """Leave more room where a job would be late once others fill all slots beside it."""
        by_s = self._expected_by(work, deadline_s)
        if self.ready_s + self._run_s(work, self.slots) <= by_s:
            return by_s
        own_s = self.ready_s + self._alone_s(work)
        return min(by_s, _leaving_room(own_s, deadline_s, TIGHT_CAUTION))

    def _expected_by(self, work: Work, deadline_s: float) -> float:
        """Leave room for what others may cost a job beyond what is expected."""
        return _leaving_room(self._alone_s(work), deadline_s, CAUTION)

    def _alone_s(self, work: Work) -> float:
        return work.steps * self._step_s(work.images) + self.fixed_s

    def _step_s(self, shared: float) -> float:
        steps_s, before = self.steps_s, int(shared) - 1
        last = len(steps_s) - 1
        if before >= last:  # beyond, it takes what the last one takes
            return steps_s[last]
        return steps_s[before] + (shared - 1 - before) * (steps_s[before + 1] - steps_s[before])

    def _shared(self, images: float) -> float:
        """Images that share each step of a worker while so many are here."""
        return max(1.0, min(images, self.slots) / self.workers)

    def _eta_s(self, work: Work, before: float) -> float:
        too_many = before + work.images - self.slots
        waits_s = too_many / self.full_throughput if too_many > 0 else 0.0
        return waits_s + self._run_s(work, before)

    def _run_s(self, work: Work, before: float) -> float:
        """Steps, with those beside it; and all that begins or ends meanwhile is waited for."""
        steps, images = work
        slots, workers = self.slots, self.workers
        shared = max(1.0, min(before + images, slots) / workers, min(images, slots / workers))
        others = (shared - 1) * min(1.0, steps / self.mean_steps)
        return steps * self._step_s(shared) + (1 + others) * self.fixed_s

    def _most_before(self, work: Work, deadline_s: float) -> float | None:
        """Find how many images may be here before a job that is to meet its deadline."""
        full = self.slots - work.images
        spare_s = deadline_s - self._eta_s(work, full)
        if spare_s >= 0:
            most = full + spare_s * self.full_throughput
            return most if most >= 0 else None
        for each in reversed(range(self.slots // self.workers + 1)):
            if self._eta_s(work, each * self.workers) <= deadline_s:
                return float(each * self.workers)
        return None

    def _drain_s(self, now: float, then: float) -> float:
        """Seconds until so few images are left, if nobody comes."""
        seconds = max(0.0, now - max(then, self.slots)) / self.full_throughput
        left = min(now, self.slots)
        while left > then:
            gone = min(left - then, self.workers)
            left -= gone
            seconds += gone / self.throughput(left)
        return seconds


def _leaving_room(own_s: float, deadline_s: float, caution: float) -> float:
    """Seconds in which a job is to be expected, for what is not its own to cost more than that."""
    return (deadline_s + caution * own_s) / (1 + caution)


class Mould(Generic[T]):
    """Gives copies of a value of a frozen data class with other values of some fields.

    At an eighth of the price: such a class sets each field by a call of its own, and workers
    report each second. A twin of it that is not frozen is filled, and then goes by its name.
    """

    def __init__(self, like: T, *changing: str) -> None:
        """Take what stays from a value of a data class with slots, which checks nothing itself."""
        self._type: type[T] = type(like)
        self._twin, names = _twin(self._type, changing)  # type: ignore[arg-type]  # a class is hashable
        self._kept = tuple(getattr(like, name) for name in names)

    def cast(self, *values: object) -> T:
        """Give a copy with these values of the fields that change, in their order."""
        made = self._twin(*self._kept, *values)
        made.__class__ = self._type
        return cast(T, made)


@cache
def _twin(frozen: type, changing: tuple[str, ...]) -> tuple[type, tuple[str, ...]]:
    """Make a class of the same slots, which takes what changes last; and name what comes first."""
    slots: tuple[str, ...] = frozen.__slots__  # type: ignore[attr-defined]
    names = tuple(name for name in slots if name not in changing)
    return make_dataclass(frozen.__name__, (*names, *changing), slots=True), names


class _Known(NamedTuple):
    """A station as it is with whatever is present, and of whom."""

    holding: Holding
    version: int  #: of that
    station: Mould[Station]


class Stations:
    """The stations of a fleet and a plan, each put together once until a worker of it changes."""

    def __init__(self, models: Mapping[str, Model]) -> None:
        """Know of no worker yet."""
        self._models = models
        self._holders = Holders(models)
        self._plan: Plan | None = None
        self._found: dict[str, Station | None] = {}  #: by variant queue
        self._known: dict[str, _Known] = {}  #: likewise, under that plan

    @property
    def workers(self) -> Mapping[str, Worker]:
        return self._holders.workers

    def hear(self, change: FleetChange) -> None:
        """Take in what changed."""
        for model in self._holders.hear(change):
            self._found.pop(queue_of(model), None)

    def of(self, queue: str, plan: Plan | None) -> Station | None:
        """Find who serves a queue; None: its model is unknown, or no worker holds it."""
        if plan is not self._plan:
            self._follow(plan)
        if queue in self._found:
            return self._found[queue]
        if (owner := owner_of(queue)) is not None:
            return self._of_worker(shared_queue_of(queue), owner)
        found = self._found[queue] = self._of_holders(queue)
        return found

    def coming(self, queue: str, foresight: Foresight) -> Station | None:
        """Foresee who will serve a queue that nobody serves; None: nobody can hold its model."""
        model = self._models.get(model_of(shared_queue_of(queue)))
        ready = foresight.ready(model.name) if model is not None else None
        if model is None or ready is None:
            return None
        worker = replace(ready.worker, models=(model.name,), running=0, waiting=0, step_s=0.0)
        plan = foresight.plan
        station = station_of_worker(model, worker, plan.costs, plan.levels)
        return replace(_as_usual(station, model, plan), ready_s=ready.in_s)

    def _follow(self, plan: Plan | None) -> None:
        """Expect what another plan says; all is added up again only where it has other costs."""
        self._plan, self._found, self._known = plan, {}, {}
        costs = plan.costs if plan is not None else {}
        if costs != self._holders.costs:
            self._holders.expect(costs)

    def _of_holders(self, queue: str) -> Station | None:
        """Find all workers that hold the model of a queue."""
        model = self._models.get(model_of(queue))
        holding = self._holders.of.get(model.name) if model is not None else None
        if model is None or holding is None or not holding.kinds:
            return None
        known = self._known.get(queue)
        if known is None or known.holding is not holding or known.version != holding.version:
            mould = Mould(self._station_of(model, holding), "present")
            known = self._known[queue] = _Known(holding, holding.version, mould)
        return known.station.cast(holding.present)

    def _station_of(self, model: Model, holding: Holding) -> Station:
        kinds, present = holding.kinds.values(), holding.present
        steps = mean_steps(model, self._levels)
        station = station_of_kinds(kinds, present=present, mean_steps=steps)
        return _as_usual(station, model, self._plan)

    def _of_worker(self, queue: str, owner: str) -> Station | None:
        """Find the one worker that serves a queue of its own, if it holds the model of it."""
        model, worker = self._models.get(model_of(queue)), self.workers.get(owner)
        if model is None or worker is None or model.name not in worker.models:
            return None
        station = station_of_worker(model, worker, self._holders.costs, self._levels)
        return _as_usual(station, model, self._plan)

    @property
    def _levels(self) -> Mapping[str, float]:
        return self._plan.levels if self._plan is not None else {}


def _as_usual(station: Station, model: Model, plan: Plan | None) -> Station:
    """Expect of jobs what the plan says of the last ones."""
    usual = plan.usual.get(model.name) if plan is not None else None
    return station if usual is None else station.with_jobs(usual)


def station_of_worker(
    model: Model,
    worker: Worker,
    costs: Mapping[str, Mapping[str, Cost]],
    levels: Mapping[str, float],
) -> Station:
    """Make the station of one worker that holds a model.

    Args:
        costs: device type -> model -> cost; a model that is missing is guessed.
        levels: level -> jobs/s of the plan, which say how many steps others take.
    """
    server = server_of(model, worker, costs)
    kind = Kind(server.cost)
    kind.add(server)
    present, steps = worker.running + worker.waiting, mean_steps(model, levels)
    return station_of_kinds([kind], present=present, mean_steps=steps)


def station_of_kinds(kinds: Collection[Kind], *, present: float, mean_steps: float) -> Station:
    """Average workers by their slots, at least one of each kind: an image may come to any."""
    slots = sum(kind.slots for kind in kinds)
    weights = [(kind.weight / ONE / slots, kind.cost) for kind in kinds]
    return Station(
        workers=sum(kind.workers for kind in kinds),
        slots=slots,
        steps_s=tuple(
            sum(weight * cost.step_s(images) for weight, cost in weights)
            for images in range(1, max(kind.most_slots for kind in kinds) + 1)
        ),
        fixed_s=sum(weight * cost.fixed_s for weight, cost in weights),
        mean_steps=mean_steps,
        present=present,
        is_known=all(kind.guessed == 0 for kind in kinds),
    )


def work_of(request: JobRequest, approximation: Approximation = EXACT, done: int = 0) -> Work:
    """Count the steps that a job has before it.

    `done`: steps over, as its progress says, whose end is all that is run; a head start is among
    them once it runs.
    """
    whole, over = (int(round(steps * request.share, 6)) for steps in (request.steps, done))
    left = approximation.steps_left(whole, over)
    return Work(steps=left, images=request.n)


def mean_steps(model: Model, levels: Mapping[str, float]) -> float:
    """Average the steps left at the levels of a model, as the plan uses them."""
    own = {Level.read(name): rate for name, rate in levels.items()}
    rates = {level: rate for level, rate in own.items() if level.model == model.name}
    whole = sum(rates.values())
    left = sum(rate * level.approximation.share_of_steps for level, rate in rates.items())
    return model.default_steps * (left / whole if whole > 0 else 1.0)
