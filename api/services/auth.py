"""Bearer-token authentication: map API keys to tenants."""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from core.errors import ConfigurationError, Unauthorized

#: Owns everything where no keys are configured.
DEFAULT_TENANT = "default"
#: Tenants are the first part of object keys, so they must be plain path segments.
TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


#: Names by which a service without keys is asked on its own machine.
LOCAL: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class Keyring:
    """The configured keys. They are looked up by digest, so timing tells nothing about a key.

    Without keys a request must name this machine, or the host of `public_url`, as its host: a web
    page whose own name was made to resolve to loopback (DNS rebinding) is turned away.
    """

    def __init__(self, keys: Mapping[str, str], *, public_url: str) -> None:
        for tenant in keys.values():
            if not TENANT.fullmatch(tenant):
                raise ConfigurationError(f"ATELIER_API_KEYS: {tenant!r} cannot name a tenant")
        if "" in keys:
            raise ConfigurationError("ATELIER_API_KEYS: a key is empty")
        self._tenants = {_digest(key): tenant for key, tenant in keys.items()}
        self._hosts = LOCAL | {urlsplit(public_url).hostname}

    def tenant_of(self, request: Request) -> str:
        """Name the tenant that sends `request`.

        Raises:
            Unauthorized: keys are configured and the request carries none of them; or none are
                and the request is addressed to another host.
        """
        if not self._tenants:
            if request.url.hostname not in self._hosts:
                raise Unauthorized(
                    "without keys only requests to this machine's own name are taken"
                )
            return DEFAULT_TENANT
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        tenant = self._tenants.get(_digest(key.strip())) if scheme.lower() == "bearer" else None
        if tenant is None:
            raise Unauthorized("send `Authorization: Bearer <key>` with a key of this service")
        return tenant


def _digest(key: str) -> bytes:
    return sha256(key.encode()).digest()
