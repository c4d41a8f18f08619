"""What signs a tenant's webhooks, as the tenant is told it."""

import time
from dataclasses import replace

from starlette.requests import Request

from api.services.requests import sender_of, services_of
from api.services.services import Services
from api.services.tenants.operators import note
from core.errors import NotFound
from storage.tenants.tenant import Tenant
from storage.tenants.webhook_secret import derive, first, signing


async def with_own_secret(request: Request, name: str) -> Tenant:
    """Return a tenant that has a secret of its own: one is drawn where it had none.

    A service without keys has one tenant, and pages of other sites may have this read there: so
    it draws none, and there alone is the secret of the settings told. Where there are keys that
    signs for tenants still to come, and for those of other cells.

    Raises:
        NotFound: this process does not know the secret of the settings.
        Conflict: others change tenants all the time.
    """
    services, holder = services_of(request), sender_of(request)
    tenant = services.tenants.get(name)
    if tenant.salts or services.keyring.is_open:
        return tenant
    master_of(services)  # without it nobody could be told what is drawn
    drawn = first(time.time())
    tenant = await services.tenants.change(
        name, lambda old: old if old.salts else replace(old, salts=drawn)
    )
    if tenant.salts == drawn:  # else another process drew first
        await note(request, holder, "webhook_secret_drawn", tenant=name)
    return tenant


def secret_of(services: Services, tenant: Tenant) -> str:
    """Tell the newest secret that signs a tenant's webhooks; raises as `master_of` does."""
    newest, *_ = signing(tenant.salts, time.time())
    return derive(master_of(services), tenant.name, newest)


def master_of(services: Services) -> str:
    """Return the secret of the settings, from which those of tenants follow.

    Raises:
        NotFound: this process does not know it.
    """
    master = services.settings.webhook_secret.get_secret_value()
    if not master:
        raise NotFound("this api is not told ATELIER_WEBHOOK_SECRET: ask whoever runs the service")
    return master
