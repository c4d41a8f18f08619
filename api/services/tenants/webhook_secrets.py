"""What signs a tenant's webhooks, as the tenant is told it."""

import time

from api.services.auth import OPERATORS
from api.services.services import Services
from core.errors import NotFound
from storage.tenants.tenant import Tenant
from storage.tenants.webhook_secret import OF_SETTINGS, derive, signing


def secret_of(
    services: Services, name: str, tenant: Tenant | None = None, *, is_new: bool = False
) -> str:
    """Tell the secret that signs a tenant's webhooks.

    Raises:
        NotFound: this process does not know that of the settings; or it signs other tenants'
            webhooks as well, and none is about to be made (`is_new`).
    """
    master = services.settings.webhook_secret.get_secret_value()
    if not master:
        raise NotFound("this api is not told ATELIER_WEBHOOK_SECRET: ask whoever runs the service")
    newest, *_ = signing((tenant or services.tenants.get(name)).salts, time.time())
    is_shared = len(services.keyring.tenants - {OPERATORS}) > 1
    if newest.salt == OF_SETTINGS and is_shared and not is_new:
        raise NotFound(
            "other tenants' webhooks are signed by the same secret, so it is not told: get one of "
            "your own by `POST /v1/webhooks/secret/rotate`"
        )
    return derive(master, name, newest)
