"""What operators have said of one tenant, beside its keys. Pure."""

from dataclasses import dataclass

from core.tenants.limits import UNLIMITED, TenantLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One tenant; of what is None the settings decide."""

    name: str
    limits: TenantLimits = UNLIMITED  #: its own
    weight: float | None = None  #: served so many times as often as others
