"""What operators have said of tenants, over what the settings say of all."""

from collections.abc import Callable, Sequence

from api.services.tenants.followed import FollowedTable
from core.settings import Settings
from core.tenants.limits import TenantLimits
from storage.objects.store import ObjectStore
from storage.tenants.table import VersionedTable
from storage.tenants.tenant import Tenant


class StoredTenants(FollowedTable[Tenant]):
    """The tenants of the store, as last read; of others the settings say everything."""

    def __init__(self, store: VersionedTable[Tenant], settings: Settings) -> None:
        super().__init__(store, name="tenants", by=lambda tenant: tenant.name)
        self._settings = settings

    def get(self, name: str) -> Tenant:
        """Tell what is said of a tenant itself."""
        return self.rows.get(name) or Tenant(name=name)

    def limits_of(self, name: str) -> TenantLimits:
        """Tell what a tenant may ask for and keep."""
        return self.get(name).limits.over(self._settings.tenant_limits)

    def weight_of(self, name: str) -> float:
        """Tell how many times as often as others a tenant is served."""
        return self.get(name).weight or self._settings.tenant_weights.get(name, 1.0)

    def retention_of(self, name: str) -> float:
        """Tell how long a tenant's jobs are kept after their end (s)."""
        most_s = self._settings.retention_s
        return min(self.get(name).retention_s or most_s, most_s)

    def url_epoch_of(self, key: str) -> int:
        """Tell since when URLs of an object work, by its key."""
        return self.get(key.partition("/")[0]).url_epoch

    def sign(self, objects: ObjectStore, key: str) -> tuple[str, float]:
        """Sign the URL of an object of some tenant."""
        return objects.url(key, self._settings.url_ttl_s, self.url_epoch_of(key))

    async def change(self, name: str, do: Callable[[Tenant], Tenant]) -> Tenant:
        """Write what `do` makes of a tenant, as it is now; return it.

        Raises:
            Conflict: others change tenants all the time.
        """

        def changed(rows: Sequence[Tenant]) -> list[Tenant]:
            found = next((each for each in rows if each.name == name), Tenant(name=name))
            return [do(found)]

        return (await self.write(changed))[0]
