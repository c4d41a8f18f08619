"""Routes of what is a tenant's secret: what signs its webhooks, and the URLs of its images."""

import time
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from api.routes.jobs import as_json
from api.services.tenants.operators import (
    DEFAULT_OVERLAP_S,
    MAX_OVERLAP_S,
    NamedTenant,
    note,
    subject_of,
)
from api.services.tenants.webhook_secrets import master_of, secret_of, with_own_secret
from api.views.openapi import REVOKE_PROBLEMS, SECRET_PROBLEMS
from core.errors import Conflict
from storage.objects.directory import DirectoryStore
from storage.tenants import webhook_secret
from storage.tenants.tenant import Tenant

router = APIRouter(tags=["webhooks"])


class SecretView(BaseModel):
    """What signs a tenant's webhooks."""

    object: str = "webhook_secret"
    tenant: str
    secret: str = Field(description="`whsec_` and base64: by it receivers verify.")
    is_own: bool = Field(
        description="False: it is the service's, which asks nobody for a key, until it is rotated."
    )
    created_at: float = Field(description="Epoch seconds; 0 of the service's.")
    others_end_at: list[float] = Field(
        description="When those that it took the place of stop to sign beside it. Epoch seconds."
    )


class UrlsRevoked(BaseModel):
    """URLs that work no more."""

    object: str = "urls"
    tenant: str
    revoked: bool = Field(description="True: those signed before work no more.")


@router.get(
    "/v1/webhooks/secret",
    response_model=SecretView,
    responses=SECRET_PROBLEMS,
    summary="Read what signs the webhooks of a tenant",
)
async def read_secret(request: Request, tenant: NamedTenant = None) -> Response:
    """Read the secret, drawn at the first time; without keys that of the service is told."""
    services, name, _ = subject_of(request, tenant)
    found = await with_own_secret(request, name)
    return as_json(_view(name, found, secret_of(services, found)))


@router.post(
    "/v1/webhooks/secret/rotate",
    status_code=201,
    response_model=SecretView,
    responses=SECRET_PROBLEMS,
    summary="Put a new secret in the place of the one that signs webhooks",
)
async def rotate_secret(
    request: Request,
    overlap_s: Annotated[
        float,
        Query(ge=0, le=MAX_OVERLAP_S, description="Seconds that both sign: 24 h."),
    ] = DEFAULT_OVERLAP_S,
    tenant: NamedTenant = None,
) -> Response:
    """Sign by a new secret, for a while by the old one as well."""
    services, name, holder = subject_of(request, tenant)
    master_of(services)  # refused before anything is changed
    changed = await services.tenants.change(
        name,
        lambda old: replace(old, salts=webhook_secret.rotate(old.salts, time.time(), overlap_s)),
    )
    await note(request, holder, "webhook_secret_rotated", tenant=name, overlap_s=overlap_s)
    return as_json(_view(name, changed, secret_of(services, changed)), 201)


@router.post(
    "/v1/urls/revoke",
    response_model=UrlsRevoked,
    responses=REVOKE_PROBLEMS,
    summary="Take back every signed URL of a tenant",
)
async def revoke_urls(request: Request, tenant: NamedTenant = None) -> Response:
    """Take back the URLs that were signed so far, on other api processes within two seconds.

    Whoever reads a job again gets new ones.
    """
    services, name, holder = subject_of(request, tenant)
    if not isinstance(services.objects, DirectoryStore):
        raise Conflict("images are served by S3, whose URLs nobody can take back: delete the jobs")
    await services.tenants.change(name, lambda old: replace(old, url_epoch=old.url_epoch + 1))
    await note(request, holder, "urls_revoked", tenant=name)
    return as_json(UrlsRevoked(tenant=name, revoked=True))


def _view(name: str, tenant: Tenant, secret: str) -> SecretView:
    newest, *others = webhook_secret.signing(tenant.salts, time.time())
    return SecretView(
        tenant=name,
        secret=secret,
        is_own=newest.salt != webhook_secret.OF_SETTINGS,
        created_at=newest.made_at,
        others_end_at=[each.ends_at for each in others if each.ends_at is not None],
    )
