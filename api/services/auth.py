"""Bearer-token authentication: whose a request is, and what its key may do."""

import re
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from api.services.scopes import scope_of
from api.services.tenants.stored_keys import StoredKeys
from api.services.wrong_keys import WrongKeys
from core.errors import ConfigurationError, MissingScope, Unauthorized
from core.settings import Settings
from storage.tenants.key import KeyStatus, Scope, TenantKey, digest_of

#: Owns everything where no keys are configured.
DEFAULT_TENANT = "default"
#: Owns what operators ask for with a key that is no tenant's.
OPERATORS = "operators"
#: Tenants are the first part of object keys, so they must be plain path segments.
TENANT_PATTERN: Final = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
TENANT = re.compile(TENANT_PATTERN)

#: Names by which a service without keys is asked on its own machine.
LOCAL: Final = frozenset({"127.0.0.1", "localhost", "::1"})

ALL_SCOPES: Final = frozenset(Scope)
#: What tenants' keys of the settings may do.
TENANT_SCOPES: Final = frozenset({Scope.SUBMIT, Scope.READ})

#: What helps who has no key of the service.
SEND_A_KEY: Final = "send `Authorization: Bearer <key>` with a key of this service"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyHolder:
    """Who sends a request."""

    tenant: str  #: whose it is
    scopes: Collection[Scope]  #: what the key may do
    key_id: str  #: names the key in logs; no secret


#: Whoever is on this machine, where no keys are configured.
ANYBODY: Final = KeyHolder(tenant=DEFAULT_TENANT, scopes=ALL_SCOPES, key_id="none")


class Keyring:
    """The keys of the settings and of the store, looked up by digest.

    Keys are asked for where the settings name any.
    """

    def __init__(
        self,
        keys: Mapping[str, str],
        *,
        public_url: str,
        operators: Collection[str] = (),
        stored: StoredKeys | None = None,
    ) -> None:
        for tenant in keys.values():
            if not TENANT.fullmatch(tenant):
                raise ConfigurationError(f"ATELIER_API_KEYS: {tenant!r} cannot name a tenant")
        if "" in keys:
            raise ConfigurationError("ATELIER_API_KEYS: a key is empty")
        if "" in operators:
            raise ConfigurationError("ATELIER_OPERATOR_KEYS: a key is empty")
        self._set = _holders(keys, operators)
        self._stored = stored
        self._wrong = WrongKeys()
        self.hosts = LOCAL | {urlsplit(public_url).hostname}  #: as which this service is asked

    @property
    def is_open(self) -> bool:
        """Whether no key is asked for."""
        return not self._set

    @property
    def tenants(self) -> set[str]:
        """Name every tenant that has a key."""
        stored = self._stored.tenants if self._stored else set()
        return stored | {each.tenant for each in self._set.values()}

    def holder_of(self, request: Request) -> KeyHolder:
        """Tell who sends `request`, with a key that may do what its route does.

        Raises:
            Unauthorized: the request carries no key that works.
            MissingScope: its key may not do this.
            TooManyRequests: too many wrong keys came from where it comes from.
            StoreUnavailable: the stored keys were never read, so nobody knows the key.
        """
        key = key_of(request)
        if not key:
            raise Unauthorized(SEND_A_KEY)
        holder = self._find(address_of(request), digest_of(key))
        needed = scope_of(request)
        if needed not in holder.scopes:
            raise MissingScope(_lacks(holder, needed))
        return holder

    def _find(self, address: str, digest: str) -> KeyHolder:
        self._wrong.check(address, digest)
        holder = self._set.get(digest)
        if holder is None:
            stored = self._stored.find(digest) if self._stored else None
            if stored is None:
                self._wrong.note_wrong(address)
                raise Unauthorized(f"nobody has this key: {SEND_A_KEY}")
            holder = _working(stored)
        self._wrong.note_right(address, digest)
        return holder


def keyring_of(settings: Settings, stored: StoredKeys | None = None) -> Keyring:
    """Take the keys that the settings name. Raises: ConfigurationError for one that cannot be."""
    return Keyring(
        settings.api_keys,
        public_url=settings.public_url,
        operators=settings.operator_keys,
        stored=stored,
    )


def key_of(request: Request) -> str:
    """Read the key that a request carries; empty if it carries none."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def address_of(request: Request) -> str:
    """Tell where a request comes from, as far as this process sees."""
    return request.client.host if request.client else ""


def _holders(keys: Mapping[str, str], operators: Collection[str]) -> dict[str, KeyHolder]:
    """Say whose each key of the settings is, by digest."""
    found = {}
    for key in (*keys, *operators):
        digest = digest_of(key)
        found[digest] = KeyHolder(
            tenant=keys.get(key, OPERATORS),
            scopes=ALL_SCOPES if key in operators else TENANT_SCOPES,
            key_id=f"settings-{digest[:8]}",
        )
    return found


def _working(key: TenantKey) -> KeyHolder:
    if (status := key.status(time.time())) is not KeyStatus.ACTIVE:
        raise Unauthorized(f"the key {key.id} is {status}: ask an operator for another")
    return KeyHolder(tenant=key.tenant, scopes=key.scopes, key_id=key.id)


def _lacks(holder: KeyHolder, needed: Scope) -> str:
    has = ", ".join(f"`{each}`" for each in sorted(holder.scopes))
    where = ": keys of ATELIER_OPERATOR_KEYS have it" if needed is Scope.OPERATE else ""
    return (
        f"this needs a key with the scope `{needed}`, and yours has {has or 'none'}; an operator "
        f"makes one with `atelier keys add {holder.tenant} --scope {needed}`{where}"
    )
