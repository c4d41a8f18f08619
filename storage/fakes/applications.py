"""In-memory fake of `ApplicationStore`."""

import builtins

from core.application import Application, application_key
from storage.fakes.state import MemoryStore
from storage.tenants.applications import Applications, by_key, full, name_taken, no_such_application


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
