"""In-memory fake of `DemandBoard`."""

import builtins

from core.boards.demand import ReportedDemand
from storage.boards.demand import Peers
from storage.fakes.store import MemoryStore


class MemoryDemand(Peers):
    """What every scheduler was asked for, in memory."""

    def __init__(self, store: MemoryStore, owner: str, *, stale_s: float) -> None:
        self.store = store
        self._owner = owner
        self._stale_s = stale_s

    async def tell(self, asked: ReportedDemand) -> None:
        self.store.demand[self._owner] = (self.store.now(), asked)

    async def others(self) -> builtins.list[ReportedDemand]:
        since = self.store.now() - self._stale_s
        told = sorted(self.store.demand.items(), key=lambda item: item[0])
        return [asked for owner, (at, asked) in told if owner != self._owner and at >= since]
