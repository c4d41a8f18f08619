"""Fakes of what the scheduler talks to, and short ways to spell its facts."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from core.application import Application
from core.boards.cost import Cost
from core.boards.fleet import FleetChange, QueueDepth, Worker
from core.boards.plan import Plan
from core.errors import StoreUnavailable
from core.latents import LatentKey, Lender
from core.levels.approximation import SKIPS
from core.model import Model
from core.placement import PlacementQuery, queue_of
from scheduler.placement.backlog import Backlog
from scheduler.placement.placer import NO_PLAN
from scheduler.profile.profile import Profile
from scheduler.routing.stations import Station, Stations
from storage.vectors.index import Vector


def a_model(name: str, *, quality: float = 1.0, step_s: float = 0.05, load_s: float = 1.0) -> Model:
    return Model(name=name, family="noop", quality=quality, step_s=step_s, load_s=load_s)


def a_profile(*models: Model) -> Profile:
    return Profile(models={model.name: model for model in models})


def a_worker(
    name: str, *models: str, device_type: str = "cpu", memory_gib: float = 4.0, running: int = 0
) -> Worker:
    return Worker(
        name=name,
        device_type=device_type,
        models=models,
        queues=(),
        memory_gib=memory_gib,
        running=running,
    )


def report_to(
    backlog: Backlog, fleet: Sequence[Worker], depths: Sequence[QueueDepth] = (), now: float = 0.0
) -> None:
    """Tell a backlog of workers and of what waits, as `scheduler/service/reports` does."""
    backlog.hear(FleetChange(workers=fleet), now)
    backlog.measure(depths, now)


def station_of(
    model: Model,
    fleet: Sequence[Worker],
    costs: Mapping[str, Mapping[str, Cost]],
    levels: Mapping[str, float] | None = None,
) -> Station | None:
    """Find who serves a model of a fleet that was heard of at once."""
    stations = Stations({model.name: model})
    stations.hear(FleetChange(workers=fleet))
    return stations.of(queue_of(model.name), replace(NO_PLAN, costs=costs, levels=levels or {}))


class FakeFleet:
    def __init__(self, *workers: Worker) -> None:
        self.reports: Sequence[Worker] = workers
        self.waiting: Sequence[QueueDepth] = ()
        self.is_down = False

    async def workers(self) -> Sequence[Worker]:
        if self.is_down:
            raise StoreUnavailable("down")
        return self.reports

    async def depths(self) -> Sequence[QueueDepth]:
        return self.waiting


class FakeRegistry:
    def __init__(self) -> None:
        self.registered: list[Application] = []

    async def all(self) -> Sequence[Application]:
        return tuple(self.registered)


class FakeBoard:
    def __init__(self, plan: Plan | None = None) -> None:
        self.plan = plan
        self.published = 0

    async def publish(self, plan: Plan) -> bool:
        if self.plan is not None and plan.fence < self.plan.fence:
            return False
        self.plan = plan
        self.published += 1
        return True

    async def read(self) -> Plan | None:
        return self.plan


class Lease:
    """What leaders share: one of them holds it."""

    def __init__(self) -> None:
        self.fence = 0
        self.holder: FakeLeader | None = None


class FakeLeader:
    def __init__(self, lease: Lease | None = None) -> None:
        self._lease = lease or Lease()
        self.renewals = 0

    async def acquire(self) -> int | None:
        if self._lease.holder is None:
            self._lease.holder = self
            self._lease.fence += 1
        return self._lease.fence if self._lease.holder is self else None

    async def renew(self) -> bool:
        self.renewals += 1
        return self._lease.holder is self

    async def release(self) -> None:
        self._lease.holder = None


class FakeEmbedder:
    """Embeds a prompt as its words, one dimension each: cosine is the share of common words."""

    name, size = "words", 16

    def __init__(self) -> None:
        self._words: dict[str, int] = {}
        self.pause_s = 0.0
        self.slow_from: int | None = None  #: the call from which on each takes seconds
        self.is_broken = False
        self.num_asked = 0
        self.may_answer = threading.Event()
        self.may_answer.set()

    def embed(self, prompts: Sequence[str]) -> list[Vector]:
        self.num_asked += 1
        self.may_answer.wait(60.0)
        is_slow = self.slow_from is not None and self.num_asked >= self.slow_from
        time.sleep(3.0 if is_slow else self.pause_s)
        if self.is_broken:
            raise RuntimeError("no weights")
        return [self._embed(prompt) for prompt in prompts]

    def _embed(self, prompt: str) -> Vector:
        vector = np.zeros(self.size, np.float32)
        for word in prompt.split():
            vector[self._words.setdefault(word, len(self._words) % self.size)] = 1.0
        return vector / np.linalg.norm(vector)


class FakeLenders:
    """Announcements that wait."""

    def __init__(self, *lenders: Lender) -> None:
        self.waiting = list(lenders)
        self.deleted: list[str] = []

    async def take_deleted(self, count: int) -> list[str]:
        taken, self.deleted = self.deleted[:count], self.deleted[count:]
        return taken

    async def take(self, count: int) -> list[Lender]:
        taken, self.waiting = self.waiting[:count], self.waiting[count:]
        return taken


def some_terms(model: str = "base") -> LatentKey:
    return LatentKey(model=model, width=64, height=64, steps=30, scheduler=None, is_guided=True)


def a_lender(
    name: str,
    prompt: str = "a red circle",
    *,
    tenant: str = "shop",
    terms: LatentKey | None = None,
    skips: tuple[int, ...] = SKIPS,
    num_bytes: int = 1000,
    made_at: float = 0.0,
) -> Lender:
    return Lender(
        id=name,
        tenant=tenant,
        prompt=prompt,
        terms=terms or some_terms(),
        skips=skips,
        num_bytes=num_bytes,
        made_at=made_at,
    )


def a_query(
    prompt: str = "a red circle", *models: str, exact: bool = False, tenant: str | None = "shop"
) -> PlacementQuery:
    names = models or ("base",)
    terms = tuple(some_terms(model) for model in names)
    return PlacementQuery(prompt=prompt, models=names, exact=exact, tenant=tenant, terms=terms)
