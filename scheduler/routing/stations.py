"""Keep the stations of a fleet and a plan, by what changes of them. Pure.

What a report costs does not depend on how many workers there are, nor does what a placement asks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from core.boards.cost import Cost
from core.boards.fleet import FleetChange, Worker
from core.boards.plan import Plan
from core.model import Model
from core.placement import model_of, owner_of, queue_of, shared_queue_of
from scheduler.routing.eta import (
    Kind,
    Station,
    StationWorker,
    mean_steps,
    put_together,
    server_of,
    station_of,
)
from scheduler.routing.model_ready import Foresight


class _Counted(NamedTuple):
    """What is added up of one worker."""

    device_type: str
    servers: tuple[tuple[str, StationWorker], ...]  #: by model
    present: int  #: images that it has claimed


NOBODY = _Counted(device_type="", servers=(), present=0)


@dataclass(slots=True)
class _Holders:
    """Who holds one model, by device type."""

    kinds: dict[str, Kind] = field(default_factory=dict)
    present: int = 0  #: images that they have claimed

    def add(self, device_type: str, server: StationWorker, present: int, times: int) -> None:
        """Count a worker; with `times` -1 no longer."""
        kind = self.kinds.setdefault(device_type, Kind(server.cost))
        kind.add(server, times)
        self.present += times * present
        if not kind.workers:
            del self.kinds[device_type]


class Stations:
    """The stations of a fleet and a plan, each put together once until a worker of it changes."""

    def __init__(self, models: Mapping[str, Model]) -> None:
        """Know of no worker yet."""
        self._models = models
        self.workers: dict[str, Worker] = {}  #: by name
        self._plan: Plan | None = None
        self._holders: dict[str, _Holders] = {}  #: by model
        self._found: dict[str, Station | None] = {}  #: by variant queue
        self._counted: dict[str, _Counted] = {}  #: what was added up of each worker

    def see(self, fleet: Iterable[Worker]) -> None:
        """Take in the reports of all workers."""
        self.hear(FleetChange.between(self.workers, fleet))

    def hear(self, change: FleetChange) -> None:
        """Take in what changed."""
        for name in change.gone:
            if self.workers.pop(name, None) is not None:
                self._recount(name, NOBODY)
        for worker in change.workers:
            self.workers[worker.name] = worker
            self._recount(worker.name, self._counts(worker))

    def of(self, queue: str, plan: Plan | None) -> Station | None:
        """Find who serves a queue; None: its model is unknown, or no worker holds it."""
        if plan is not self._plan:
            self._follow(plan)
        if queue in self._found:
            return self._found[queue]
        if (owner := owner_of(queue)) is not None:
            return self._own(shared_queue_of(queue), owner)
        found = self._found[queue] = self._put_together(queue)
        return found

    def coming(self, queue: str, foresight: Foresight) -> Station | None:
        """Foresee who will serve a queue that nobody serves; None: nobody can hold its model."""
        model = self._models.get(model_of(shared_queue_of(queue)))
        ready = foresight.ready(model.name) if model is not None else None
        if model is None or ready is None:
            return None
        worker = replace(ready.worker, models=(model.name,), running=0, waiting=0, step_s=0.0)
        plan = foresight.plan
        station = _as_usual(station_of(model, [worker], plan.costs, plan.levels), model, plan)
        return station and replace(station, ready_s=ready.in_s)

    def _follow(self, plan: Plan | None) -> None:
        """Expect what another plan says; all is added up again only where it has other costs."""
        before, self._plan, self._found = self._costs, plan, {}
        if self._costs != before:
            self._holders, self._counted = {}, {}
            for worker in self.workers.values():
                self._recount(worker.name, self._counts(worker))

    @property
    def _costs(self) -> Mapping[str, Mapping[str, Cost]]:
        return self._plan.costs if self._plan is not None else {}

    def _counts(self, worker: Worker) -> _Counted:
        served = [self._models[name] for name in worker.models if name in self._models]
        return _Counted(
            device_type=worker.device_type,
            servers=tuple((m.name, server_of(m, worker, self._costs)) for m in served),
            present=worker.running + worker.waiting,
        )

    def _recount(self, name: str, now: _Counted) -> None:
        before = self._counted.pop(name, NOBODY)
        if now is not NOBODY:
            self._counted[name] = now
        if now == before:
            return
        if now.servers == before.servers and now.device_type == before.device_type:
            for model, _ in now.servers:  # it does what it did, with more images or fewer
                self._found.pop(queue_of(model), None)
                self._holders[model].present += now.present - before.present
            return
        for counted, times in ((now, 1), (before, -1)):
            for model, server in counted.servers:
                self._found.pop(queue_of(model), None)
                holders = self._holders.setdefault(model, _Holders())
                holders.add(counted.device_type, server, counted.present, times)

    def _put_together(self, queue: str) -> Station | None:
        model = self._models.get(model_of(queue))
        holders = self._holders.get(model.name) if model is not None else None
        if model is None or holders is None or not holders.kinds:
            return None
        station = put_together(
            holders.kinds.values(),
            present=holders.present,
            mean_steps=mean_steps(model, self._plan.levels if self._plan is not None else {}),
        )
        return _as_usual(station, model, self._plan)

    def _own(self, queue: str, owner: str) -> Station | None:
        model, worker = self._models.get(model_of(queue)), self.workers.get(owner)
        if model is None or worker is None:
            return None
        levels = self._plan.levels if self._plan is not None else {}
        return _as_usual(station_of(model, [worker], self._costs, levels), model, self._plan)


def _as_usual(station: Station | None, model: Model, plan: Plan | None) -> Station | None:
    """Expect of jobs what the plan says of the last ones."""
    usual = plan.usual.get(model.name) if plan is not None else None
    return station if station is None or usual is None else station.with_jobs(usual)
