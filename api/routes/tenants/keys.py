"""Routes of `/v1/keys`: operators make, list, rotate and revoke tenants' keys."""

import time
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.responses import Response

from api.intake.schemas import Inbound
from api.routes.jobs import as_json
from api.services.auth import TENANT_PATTERN, KeyHolder
from api.services.requests import read_json, require_json
from api.services.tenants.operators import DEFAULT_OVERLAP_S, MAX_OVERLAP_S, note, operated
from api.views.openapi import KEY, KEY_PROBLEMS, KEYS_PROBLEMS
from storage.tenants import key as tenant_keys
from storage.tenants.key import KeyStatus, Scope, TenantKey

MAX_LIFE_S = 10 * 365 * 86_400.0  #: seconds that a key may last

router = APIRouter(tags=["keys"])


class KeyCreate(Inbound):
    """A key that an operator wants made."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"tenant": "acme", "name": "their website", "expires_in_s": 2592000},
                {"tenant": "ops", "scopes": ["operate"]},
            ]
        }
    )

    tenant: Annotated[str, StringConstraints(max_length=64, pattern=f"^{TENANT_PATTERN}$")] = Field(
        description="Whose requests those are that carry the key: 1 to 64 letters, digits, `_` and "
        "`-`. A tenant is there as soon as it has a key."
    )
    scopes: list[Scope] = Field(
        [Scope.SUBMIT, Scope.READ],
        min_length=1,
        max_length=len(Scope),
        description="What it may do. `submit`: ask for images, keep and delete files; `read`: read "
        "what is the tenant's; `operate`: fleet, plan, models and keys, of all tenants.",
    )
    name: Annotated[str, Field(max_length=100)] = Field(
        "", description="For people: where it is used. At most 100 characters."
    )
    expires_in_s: float | None = Field(
        None,
        gt=0,
        le=MAX_LIFE_S,
        description="Seconds until it works no more, at most ten years; null: it does not expire.",
    )


class KeyView(BaseModel):
    """One key, without the key itself."""

    id: str = Field(description="Names it, in logs too; no secret.")
    object: str = "key"
    tenant: str = Field(description="Whose requests those are that carry it.")
    scopes: list[Scope] = Field(description="What it may do.")
    name: str = Field(description="For people.")
    status: KeyStatus = Field(description="Only an `active` one works.")
    created_at: float = Field(description="Epoch seconds.")
    expires_at: float | None = Field(description="Epoch seconds; null: it does not expire.")
    revoked_at: float | None = Field(description="Epoch seconds; null: nobody has revoked it.")
    replaces: str | None = Field(description="Id of the key in whose place it was made.")


class NewKeyView(KeyView):
    """A key that was made; the only answer that has the key itself."""

    key: str = Field(description="Send it as `Authorization: Bearer <key>`. It is not shown again.")


class KeyList(BaseModel):
    """Keys of the store, newest first; those of the settings are not among them."""

    object: str = "list"
    data: list[KeyView]


@router.post(
    "/v1/keys",
    status_code=201,
    response_model=NewKeyView,
    responses=KEYS_PROBLEMS,
    openapi_extra=KEY,
    summary="Make a key (operators)",
)
async def add_key(request: Request) -> Response:
    """Make a key for a tenant; it works at once, on other api processes within two seconds."""
    services, operator = operated(request)
    require_json(request)
    asked = await read_json(request, KeyCreate)
    key, kept = tenant_keys.draw(
        asked.tenant,
        asked.scopes,
        now=time.time(),
        name=asked.name,
        expires_in_s=asked.expires_in_s,
    )
    await services.keys.add(kept)
    await _note(request, operator, "key_added", kept)
    return _shown_once(key, kept)


@router.get(
    "/v1/keys", response_model=KeyList, responses=KEYS_PROBLEMS, summary="List keys (operators)"
)
async def list_keys(
    request: Request,
    tenant: Annotated[
        str | None, Query(max_length=64, description="Only keys of this tenant.")
    ] = None,
) -> Response:
    """List the keys of all tenants, newest first, those that work no more too."""
    services, _ = operated(request)
    found = [each for each in await services.keys.list() if tenant in (None, each.tenant)]
    return as_json(KeyList(data=[_view(each) for each in found]))


@router.post(
    "/v1/keys/{key_id}/rotate",
    status_code=201,
    response_model=NewKeyView,
    responses=KEY_PROBLEMS,
    summary="Put a new key in the place of one (operators)",
)
async def rotate_key(
    request: Request,
    key_id: str,
    overlap_s: Annotated[
        float,
        Query(ge=0, le=MAX_OVERLAP_S, description="Seconds that the old key works on: 24 h."),
    ] = DEFAULT_OVERLAP_S,
) -> Response:
    """Make a key like another; the old one works on for a while."""
    services, operator = operated(request)
    made: list[str] = []

    def rotated(old: TenantKey) -> list[TenantKey]:
        key, new, ending = tenant_keys.rotate(old, now=time.time(), overlap_s=overlap_s)
        made[:] = [key]
        return [new, ending]

    new = await services.keys.change(key_id, rotated)
    await _note(request, operator, "key_rotated", new)
    return _shown_once(made[0], new)


@router.delete(
    "/v1/keys/{key_id}",
    response_model=KeyView,
    responses=KEY_PROBLEMS,
    summary="Revoke a key (operators)",
)
async def revoke_key(request: Request, key_id: str) -> Response:
    """End a key: at once here, on other api processes within two seconds. It stays listed."""
    services, operator = operated(request)
    ended = await services.keys.change(
        key_id, lambda key: [tenant_keys.revoke(key, now=time.time())]
    )
    await _note(request, operator, "key_revoked", ended)
    return as_json(_view(ended))


async def _note(request: Request, operator: KeyHolder, event: str, key: TenantKey) -> None:
    await note(
        request,
        operator,
        event,
        key=key.id,
        tenant=key.tenant,
        scopes=list(key.scopes),
        expires_at=key.expires_at,
        replaces=key.replaces,
    )


def _facts(key: TenantKey) -> dict[str, object]:
    return {
        "id": key.id,
        "tenant": key.tenant,
        "scopes": key.scopes,
        "name": key.name,
        "status": key.status(time.time()),
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "replaces": key.replaces,
    }


def _view(key: TenantKey) -> KeyView:
    return KeyView.model_validate(_facts(key))


def _shown_once(key: str, kept: TenantKey) -> Response:
    response = as_json(NewKeyView.model_validate({**_facts(kept), "key": key}), 201)
    response.headers["Cache-Control"] = "no-store"
    return response
