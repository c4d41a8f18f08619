"""What is in force for tenants: what operators have said of each, else what the settings say."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from api.services.tenants.followed import FollowedTable
from core.errors import StoreUnavailable
from core.settings import Settings
from core.tenants.limits import TenantLimits
from storage.tenants.table import VersionedTable
from storage.tenants.tenant import Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantTerms:
    """What is in force for a tenant."""

    limits: TenantLimits  #: what it may ask for and keep
    weight: float  #: served so many times as often as others
    retention_s: float  #: for which its jobs are kept after their end
    url_epoch: int  #: URLs that were signed before it work no more


class StoredTenants(FollowedTable[Tenant]):
    """The tenants of the store, as last read, and what that makes of the settings."""

    def __init__(self, store: VersionedTable[Tenant], settings: Settings) -> None:
        super().__init__(store, name="tenants", by=lambda tenant: tenant.name)
        self._settings = settings
        self._of_others = self.terms(Tenant(name=""))
        self._terms, self._of_owner = self._in_force({}), _unread

    def get(self, name: str) -> Tenant:
        """Tell what is said of a tenant itself."""
        return self.rows.get(name) or Tenant(name=name)

    def terms_of(self, name: str) -> TenantTerms:
        """Tell what is in force for a tenant, of whom operators may have said nothing."""
        return self._terms.get(name, self._of_others)

    def terms_of_key(self, key: str) -> TenantTerms:
        """Tell likewise by the key of an object of its own.

        Raises:
            StoreUnavailable: the table was never read, and which URLs were revoked stands there.
        """
        return self._of_owner(key.partition("/")[0])

    def terms(self, tenant: Tenant) -> TenantTerms:
        """Take the settings where nothing is said of a tenant."""
        settings = self._settings
        most_s = settings.retention_s
        return TenantTerms(
            limits=tenant.limits.over(settings.tenant_limits),
            weight=tenant.weight or settings.tenant_weights.get(tenant.name, 1.0),
            retention_s=min(tenant.retention_s or most_s, most_s),
            url_epoch=tenant.url_epoch,
        )

    async def refresh(self) -> None:
        """Read the rows again if they have changed.

        Raises:
            StoreUnavailable: those read before stay.
        """
        before = self.rows
        await super().refresh()
        if self.rows is not before:
            self._terms, self._of_owner = self._in_force(self.rows), self.terms_of

    async def change(self, name: str, do: Callable[[Tenant], Tenant]) -> Tenant:
        """Write what `do` makes of a tenant, as it is now; return it.

        Raises:
            Conflict: others change tenants all the time.
        """

        def changed(rows: Sequence[Tenant]) -> list[Tenant]:
            found = next((each for each in rows if each.name == name), Tenant(name=name))
            return [do(found)]

        return (await self.write(changed))[0]

    def _in_force(self, rows: Mapping[str, Tenant]) -> dict[str, TenantTerms]:
        """Work out once what is in force for everybody of whom something is said."""
        named = {name: Tenant(name=name) for name in self._settings.tenant_weights}
        return {name: self.terms(tenant) for name, tenant in (named | {**rows}).items()}


def _unread(name: str) -> TenantTerms:
    raise StoreUnavailable("it has not said yet which URLs are revoked: ask again")
