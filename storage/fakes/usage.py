"""In-memory fake of `UsageStore`."""

from datetime import date

from storage.fakes.state import MemoryStore
from storage.tenants.usage import DayUsage, Kept, TenantUsage, day_usage, days_of, number_of


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
