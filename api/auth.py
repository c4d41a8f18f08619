"""Whose request is it: Bearer keys to tenants."""

import re
from collections.abc import Mapping
from hashlib import sha256

from starlette.requests import Request

from core.errors import ConfigurationError, Unauthorized

#: Owns everything where no keys are configured.
DEFAULT_TENANT = "default"
#: Tenants are the first part of object keys, so they must be plain path segments.
TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class Keyring:
    """The configured keys. They are looked up by digest, so timing tells nothing about a key."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        for tenant in keys.values():
            if not TENANT.fullmatch(tenant):
                raise ConfigurationError(f"ATELIER_API_KEYS: {tenant!r} cannot name a tenant")
        if "" in keys:
            raise ConfigurationError("ATELIER_API_KEYS: a key is empty")
        self._tenants = {_digest(key): tenant for key, tenant in keys.items()}

    def tenant_of(self, request: Request) -> str:
        """Name the tenant that sends `request`.

        Raises:
            Unauthorized: keys are configured and the request carries none of them.
        """
        if not self._tenants:
            return DEFAULT_TENANT
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        tenant = self._tenants.get(_digest(key.strip())) if scheme.lower() == "bearer" else None
        if tenant is None:
            raise Unauthorized("send `Authorization: Bearer <key>` with a key of this service")
        return tenant


def _digest(key: str) -> bytes:
    return sha256(key.encode()).digest()
