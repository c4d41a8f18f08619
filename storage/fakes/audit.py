"""In-memory fake of `AuditStream`."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from storage.fakes.state import MemoryStore
from storage.tenants.audit import MAX_ENTRIES, AuditEntry, AuditTrail


class MemoryAudit(AuditTrail):
    """Entries in memory."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self._entries: deque[AuditEntry] = deque(maxlen=MAX_ENTRIES)

    async def add(self, entry: AuditEntry) -> None:
        self._entries.append(replace(entry, at=self.store.now()))

    async def last(self, count: int) -> Sequence[AuditEntry]:
        return list(self._entries)[::-1][:count]
