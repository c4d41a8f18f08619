"""Add up who holds each model, by what changes. Pure.

What a report costs does not depend on how many workers there are.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from core.boards.cost import Cost
from core.boards.fleet import FleetChange, Worker
from core.model import Model

#: A worker's steps may be so much faster or slower than measured before we doubt the report.
SLOWNESS = (0.25, 10.0)
ONE = 2**32  #: parts of one, in which slowness is added up


class StationWorker(NamedTuple):
    """One worker of a station."""

    cost: Cost
    slots: int
    slowness: float = 1.0  #: of its steps, against `cost`
    is_known: bool = True  #: measured here or by its own last steps


class Kind:
    """Workers that cost the same, added up so that one can come or go without the others.

    Sums are of whole numbers: they are the same in whatever order workers came and went.
    """

    def __init__(self, cost: Cost) -> None:
        self.cost = cost
        self.workers = self.slots = self.guessed = 0
        self.weight = 0  #: slots times slowness, in parts of `ONE`
        self._sizes: Counter[int] = Counter()  #: slots of a worker -> workers

    @property
    def most_slots(self) -> int:
        return max(self._sizes)

    def add(self, server: StationWorker, times: int = 1) -> None:
        """Count so many such workers more; with `times` -1 one less."""
        self.workers += times
        self.slots += times * server.slots
        self.weight += times * round(server.slots * server.slowness * ONE)
        self.guessed += times * (not server.is_known)
        sizes, slots = self._sizes, server.slots
        sizes[slots] += times
        if not sizes[slots]:
            del sizes[slots]


class _Counted(NamedTuple):
    """What is added up of one worker."""

    device_type: str
    servers: tuple[tuple[str, StationWorker], ...]  #: by model
    present: int  #: images that it has claimed


NOBODY = _Counted(device_type="", servers=(), present=0)


@dataclass(slots=True)
class Holding:
    """Who holds one model, by device type."""

    kinds: dict[str, Kind] = field(default_factory=dict)
    present: int = 0  #: images that they have claimed
    version: int = 0  #: of the kinds

    def add(self, device_type: str, server: StationWorker, present: int, times: int) -> None:
        """Count a worker; with `times` -1 no longer."""
        self.version += 1
        kind = self.kinds.setdefault(device_type, Kind(server.cost))
        kind.add(server, times)
        self.present += times * present
        if not kind.workers:
            del self.kinds[device_type]


class Holders:
    """The workers of a fleet, added up by the models they hold."""

    def __init__(self, models: Mapping[str, Model]) -> None:
        """Know of no worker yet."""
        self._models = models
        self.workers: dict[str, Worker] = {}  #: by name
        self.of: dict[str, Holding] = {}  #: by model
        self.costs: Mapping[str, Mapping[str, Cost]] = {}  #: device type -> model -> cost
        self._counted: dict[str, _Counted] = {}  #: what was added up of each worker

    def hear(self, change: FleetChange) -> list[str]:
        """Take in what changed; name the models of whose holders something did."""
        models: list[str] = []
        for name in change.gone:
            if self.workers.pop(name, None) is not None:
                models += self._recount(name, NOBODY)
        for worker in change.workers:
            before = self.workers.get(worker.name)
            self.workers[worker.name] = worker
            if before is not None and _does_alike(before, worker):
                models += self._recount_images(worker)
            else:
                models += self._recount(worker.name, self._counts(worker))
        return models

    def expect(self, costs: Mapping[str, Mapping[str, Cost]]) -> None:
        """Add all up again by other costs."""
        self.costs, self.of, self._counted = costs, {}, {}
        for worker in self.workers.values():
            self._recount(worker.name, self._counts(worker))

    def _counts(self, worker: Worker) -> _Counted:
        served = [self._models[name] for name in worker.models if name in self._models]
        return _Counted(
            device_type=worker.device_type,
            servers=tuple((m.name, server_of(m, worker, self.costs)) for m in served),
            present=worker.running + worker.waiting,
        )

    def _recount_images(self, worker: Worker) -> list[str]:
        """Count a worker that does what it did, with more images or fewer."""
        before, present = self._counted[worker.name], worker.running + worker.waiting
        if present == before.present:
            return []
        self._counted[worker.name] = _Counted(before.device_type, before.servers, present)
        return self._add_images(before.servers, present - before.present)

    def _add_images(self, servers: Sequence[tuple[str, StationWorker]], more: int) -> list[str]:
        for model, _ in servers:
            self.of[model].present += more
        return [model for model, _ in servers]

    def _recount(self, name: str, now: _Counted) -> list[str]:
        before = self._counted.pop(name, NOBODY)
        if now is not NOBODY:
            self._counted[name] = now
        if now == before:
            return []
        if now.servers == before.servers and now.device_type == before.device_type:
            return self._add_images(now.servers, now.present - before.present)
        for counted, times in ((now, 1), (before, -1)):
            for model, server in counted.servers:
                holding = self.of.setdefault(model, Holding())
                holding.add(counted.device_type, server, counted.present, times)
        return [model for model, _ in (*now.servers, *before.servers)]


def _does_alike(before: Worker, now: Worker) -> bool:
    """Tell whether a worker does for its models what it did: it says itself how fast."""
    return (
        now.slowness == before.slowness != 0
        and now.models == before.models
        and now.device_type == before.device_type
        and now.max_slots == before.max_slots
        and now.most_sharing == before.most_sharing
        and (now.step_s > 0) == (before.step_s > 0)
    )


def guess(model: Model) -> Cost:
    """Take a model's own word for what it costs."""
    return Cost(steps=((1, model.step_s),))


def server_of(
    model: Model, worker: Worker, costs: Mapping[str, Mapping[str, Cost]]
) -> StationWorker:
    """Say what a worker does for a model that it holds."""
    cost = costs.get(worker.device_type, {}).get(model.name) or guess(model)
    least, most = SLOWNESS
    seen = worker.slowness
    if not seen:
        seen = worker.step_s / cost.step_s(worker.step_images) if worker.step_s > 0 else 1.0
    return StationWorker(
        cost=cost,
        slots=min(worker.max_slots, worker.most_sharing or worker.max_slots),
        slowness=min(most, max(least, seen)),
        is_known=cost.is_measured or worker.step_s > 0,
    )
