"""In-memory fakes of the fleet, the plan board and leader election."""

from dataclasses import replace

from core.boards.fleet import FleetChange, Worker
from core.boards.plan import Plan
from storage.boards.fleet import Leads, Plans
from storage.boards.fleet_changes import FleetChanges
from storage.fakes.store import MemoryStore
from storage.redis.keys import PLANNERS


class MemoryFleet:
    """Workers' reports in memory."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store

    def report(self, worker: Worker) -> None:
        """Keep a worker's report, and the time it came."""
        self.store.fleet[worker.name] = replace(worker, beat_at=self.store.now())

    def retire(self, name: str) -> None:
        """Forget a worker that ends."""
        self.store.fleet.pop(name, None)

    async def read(self, stale_s: float) -> list[Worker]:
        """List workers whose last report is at most `stale_s` old, by name."""
        since = self.store.now() - stale_s
        fresh = [w for w in self.store.fleet.values() if w.beat_at >= since]
        return sorted(fresh, key=lambda w: w.name)


class MemoryFleetReader(FleetChanges):
    """What changed in a fleet in memory."""

    def __init__(self, store: MemoryStore, *, stale_s: float) -> None:
        self._fleet = MemoryFleet(store)
        self._stale_s = stale_s
        self._known: dict[str, Worker] = {}

    async def look(self) -> FleetChange:
        workers = await self._fleet.read(self._stale_s)
        told = [each if each.works else replace(each, beat_at=0.0) for each in workers]
        change = FleetChange.between(self._known, told)
        self._known = {worker.name: worker for worker in told}
        return change


class MemoryBoard(Plans):
    """The one plan in force, in memory."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.store = store or MemoryStore()

    async def publish(self, plan: Plan) -> bool:
        with self.store.lock:
            last = self.store.plan
            if plan.fence < self.store.fences[PLANNERS]:
                return False
            if last and (plan.fence, plan.version) <= (last.fence, last.version):
                return False
            self.store.plan = plan
            return True

    async def read(self) -> Plan | None:
        return self.store.plan


class MemoryLeadership(Leads):
    """One leader at a time, in memory."""

    def __init__(self, store: MemoryStore, name: str, owner: str, ttl_s: float) -> None:
        self.store = store
        self._name = name
        self._owner = owner
        self._ttl_s = ttl_s
        self.fence: int | None = None

    async def acquire(self) -> int | None:
        with self.store.lock:
            if self.fence is not None and await self.renew():
                return self.fence
            _, _, until = self.store.leaders.get(self._name, ("", 0, 0.0))
            if until > self.store.now():
                return None
            self.fence = max(self.store.fences[self._name] + 1, int(self.store.now() * 1000))
            self.store.fences[self._name] = self.fence
            self._hold(self.fence)
            return self.fence

    async def renew(self) -> bool:
        with self.store.lock:
            if self.fence is not None and self._leads(self.fence):
                self._hold(self.fence)
            else:
                self.fence = None
            return self.fence is not None

    async def release(self) -> None:
        with self.store.lock:
            fence, self.fence = self.fence, None
            if fence is not None and self._leads(fence):
                del self.store.leaders[self._name]

    def _leads(self, fence: int) -> bool:
        owner, held, until = self.store.leaders.get(self._name, ("", 0, 0.0))
        return (owner, held) == (self._owner, fence) and until > self.store.now()

    def _hold(self, fence: int) -> None:
        until = self.store.now() + self._ttl_s
        self.store.leaders[self._name] = (self._owner, fence, until)
