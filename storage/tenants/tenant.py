"""What is said of one tenant, beside its keys, and the table that has it."""

from dataclasses import dataclass

from redis.asyncio import Redis

from core.tenants.limits import UNLIMITED, TenantLimits
from storage.redis.keys import TENANTS
from storage.tenants.table import TableStore
from storage.tenants.webhook_secret import WebhookSalt


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One tenant; of what is None the settings decide."""

    name: str
    limits: TenantLimits = UNLIMITED  #: its own
    weight: float | None = None  #: served so many times as often as others
    retention_s: float | None = None  #: for which its jobs are kept after their end
    url_epoch: int = 0  #: URLs that were signed before it work no more
    salts: tuple[WebhookSalt, ...] = ()  #: of what signs its webhooks


def tenant_table(redis: Redis) -> TableStore[Tenant]:
    """Open the table of tenants."""
    return TableStore(redis, TENANTS, Tenant, lambda tenant: tenant.name)
