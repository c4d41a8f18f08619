"""In-memory fakes of what is kept of tenants: applications, usage, what operators did."""

import builtins
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from core.application import Application, application_key
from storage.fakes.store import MemoryStore
from storage.tenants.applications import Applications, by_key, full, name_taken, no_such_application
from storage.tenants.audit import MAX_ENTRIES, AuditEntry, AuditTrail
from storage.tenants.usage import DayUsage, Kept, TenantUsage, day_usage, days_of, number_of


class MemoryApplications(Applications):
    """Applications in memory."""

    def __init__(self, store: MemoryStore | None = None, *, max_applications: int = 50) -> None:
        self.store = store or MemoryStore()
        self._max_applications = max_applications

    async def add(self, application: Application) -> None:
        with self.store.lock:
            if application.key in self.store.applications:
                raise name_taken(application.name)
            if len(await self.list(application.tenant)) >= self._max_applications:
                raise full(self._max_applications)
            self.store.applications[application.key] = application

    async def get(self, tenant: str, name: str) -> Application:
        found = self.store.applications.get(application_key(tenant, name))
        if found is None:
            raise no_such_application(name)
        return found

    async def list(self, tenant: str) -> builtins.list[Application]:
        return [each for each in await self.all() if each.tenant == tenant]

    async def remove(self, tenant: str, name: str) -> None:
        with self.store.lock:
            del self.store.applications[(await self.get(tenant, name)).key]

    async def all(self) -> builtins.list[Application]:
        return by_key(self.store.applications.values())


class MemoryUsage(TenantUsage):
    """Accounts in memory."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store

    async def read(self, tenant: str, first: date, last: date) -> list[DayUsage]:
        with self.store.lock:
            usage = self.store.accounts[tenant].usage
            found = [(day, usage.get(number_of(day))) for day in days_of(first, last)]
            return [day_usage(day, counts) for day, counts in found if counts]

    async def kept(self, tenant: str) -> Kept:
        with self.store.lock:
            account = self.store.accounts[tenant]
            return Kept(kept_bytes=account.kept_bytes, open_jobs=len(account.open))


class MemoryAudit(AuditTrail):
    """Entries in memory."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self._entries: deque[AuditEntry] = deque(maxlen=MAX_ENTRIES)

    async def add(self, entry: AuditEntry) -> None:
        self._entries.append(replace(entry, at=self.store.now()))

    async def last(self, count: int) -> Sequence[AuditEntry]:
        return list(self._entries)[::-1][:count]
