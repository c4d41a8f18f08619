"""Twins of what the scheduler talks to, and short ways to spell its facts."""

from collections.abc import Sequence

from core.errors import StoreUnavailable
from core.fleet import QueueDepth, Worker
from core.plan import Plan
from core.variant import Model
from scheduler.profile import Profile


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


class TwinFleet:
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


class TwinBoard:
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
        self.holder: TwinLeader | None = None


class TwinLeader:
    def __init__(self, lease: Lease | None = None) -> None:
        self._lease = lease or Lease()

    async def acquire(self) -> int | None:
        if self._lease.holder is None:
            self._lease.holder = self
            self._lease.fence += 1
        return self._lease.fence if self._lease.holder is self else None

    async def renew(self) -> bool:
        return self._lease.holder is self

    async def release(self) -> None:
        self._lease.holder = None
