"""Tenants, their limits and keys, for operators; what signs for a tenant."""

from collections.abc import Sequence
from typing import Unpack

from atelier_client.exchange.endpoints import Resource, RunnerT, endpoint
from atelier_client.exchange.flows import ask
from atelier_client.exchange.steps import Call, Flow
from atelier_client.resources.kept import given
from atelier_client.resources.operated import one_of, read_of
from atelier_client.types.kept import Page
from atelier_client.types.tenant import Key, RevokedUrls, Tenant, TenantChange, TenantSecret


class Tenants(Resource[RunnerT]):
    """Limits and weights of tenants: `/v1/tenants`."""

    @endpoint
    def list(self) -> Flow[Page[Tenant]]:
        """Read which tenants have keys, or limits of their own."""
        return ask(read_of("/v1/tenants"), Page[Tenant])

    @endpoint
    def get(self, name: str) -> Flow[Tenant]:
        """Read what is in force for one tenant."""
        return ask(read_of(one_of("/v1/tenants", name)), Tenant)

    @endpoint
    def change(self, name: str, **changes: Unpack[TenantChange]) -> Flow[Tenant]:
        """Change what is named of a tenant; None takes the default back."""
        path = one_of("/v1/tenants", name)
        return ask(Call(method="PATCH", path=path, json=changes, may_repeat=True), Tenant)


class Secrets(Resource[RunnerT]):
    """What signs a tenant's webhooks and URLs: `/v1/webhooks/secret`, `/v1/urls`."""

    @endpoint
    def get(self, *, tenant: str | None = None) -> Flow[TenantSecret]:
        """Read what signs the tenant's webhooks; operators name others."""
        params = given(tenant=tenant)
        call = Call(method="GET", path="/v1/webhooks/secret", params=params, may_repeat=True)
        return ask(call, TenantSecret)

    @endpoint
    def rotate(
        self, *, overlap_s: float = 86_400.0, tenant: str | None = None
    ) -> Flow[TenantSecret]:
        """Sign webhooks by a new secret; for a while by the old one as well."""
        params = given(overlap_s=overlap_s, tenant=tenant)
        return ask(
            Call(method="POST", path="/v1/webhooks/secret/rotate", params=params), TenantSecret
        )

    @endpoint
    def revoke_urls(self, *, tenant: str | None = None) -> Flow[RevokedUrls]:
        """Take back every URL of images that was signed so far."""
        call = Call(method="POST", path="/v1/urls/revoke", params=given(tenant=tenant))
        return ask(call, RevokedUrls)


class Keys(Resource[RunnerT]):
    """API keys of tenants (operators): `/v1/keys`."""

    @endpoint
    def add(
        self,
        tenant: str,
        *,
        name: str = "",
        scopes: Sequence[str] | None = None,
        expires_in_s: float | None = None,
    ) -> Flow[Key]:
        """Make a key; only this answer has the key itself."""
        body: dict[str, object] = {"tenant": tenant, "name": name}
        body |= {"scopes": list(scopes)} if scopes else {}
        body |= given(expires_in_s=expires_in_s)
        return ask(Call(method="POST", path="/v1/keys", json=body), Key)

    @endpoint
    def list(self, *, tenant: str | None = None) -> Flow[Page[Key]]:
        """Read the keys made, newest first, of one tenant or all."""
        call = Call(method="GET", path="/v1/keys", params=given(tenant=tenant), may_repeat=True)
        return ask(call, Page[Key])

    @endpoint
    def rotate(self, key_id: str, *, overlap_s: float = 86_400.0) -> Flow[Key]:
        """Make a key in the place of one, which works on for a while."""
        path = f"{one_of('/v1/keys', key_id)}/rotate"
        return ask(Call(method="POST", path=path, params={"overlap_s": overlap_s}), Key)

    @endpoint
    def revoke(self, key_id: str) -> Flow[Key]:
        """End a key."""
        return ask(Call(method="DELETE", path=one_of("/v1/keys", key_id)), Key)
