"""Routes of `/v1/tenants`: operators set limits of tenants, and how often they are served."""

from dataclasses import fields, replace
from typing import Annotated, Final

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from api.intake.schemas import Inbound
from api.routes.jobs import as_json
from api.services.auth import TENANT_PATTERN
from api.services.requests import read_json, require_json
from api.services.services import Services
from api.services.tenants.operators import note, operated
from api.views.openapi import KEYS_PROBLEMS, TENANT
from core.errors import FieldError, InvalidRequest
from core.tenants.limits import Count, Rate, TenantLimits
from storage.tenants.tenant import Tenant

router = APIRouter(tags=["tenants"])

Weight = Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)]
Name = Annotated[str, Path(max_length=64, pattern=f"^{TENANT_PATTERN}$")]

#: Names of limits, as they are said and shown.
LIMITS: Final = tuple(each.name for each in fields(TenantLimits))


class TenantChange(Inbound):
    """What an operator wants changed; what is left out stays, null takes the default back."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"jobs_per_s": 5, "burst": 20, "open_jobs": 100, "images_a_day": 2000},
                {"weight": 2, "kept_bytes": 10737418240},
            ]
        }
    )

    weight: Weight | None = Field(None, description="Served so many times as often as others.")
    jobs_per_s: Rate | None = Field(None, description="Jobs accepted a second, in the long run.")
    burst: Count | None = Field(None, description="Jobs accepted at once; else those of a second.")
    open_jobs: Count | None = Field(None, description="Jobs that have not ended, at most.")
    images_a_day: Count | None = Field(
        None, description="Images asked for on one day of UTC; those that are not made count not."
    )
    retention_s: Annotated[float, Field(ge=60)] | None = Field(
        None,
        description="Seconds for which its jobs and images are kept after their end, at least 60, "
        "at most as long as those of all.",
    )
    kept_bytes: Count | None = Field(
        None,
        description="Bytes of images, of what jobs bring and of uploads; open jobs count with what "
        "they may leave at most.",
    )


class LimitsView(BaseModel):
    """TenantLimits in force; null: not limited."""

    jobs_per_s: float | None
    burst: int | None
    open_jobs: int | None
    images_a_day: int | None
    kept_bytes: int | None


class TenantView(BaseModel):
    """One tenant, as operators see it."""

    name: str
    object: str = "tenant"
    weight: float = Field(description="It is served so many times as often as others.")
    retention_s: float = Field(
        description="Seconds for which its jobs and images are kept after their end."
    )
    limits: LimitsView = Field(description="What it may ask for and keep.")
    own: list[str] = Field(description="What of this is said of it alone; the rest are defaults.")


class TenantList(BaseModel):
    """Tenants that have keys, or of which something is said, by name."""

    object: str = "list"
    data: list[TenantView]


@router.get(
    "/v1/tenants",
    response_model=TenantList,
    responses=KEYS_PROBLEMS,
    summary="List tenants (operators)",
)
async def list_tenants(request: Request) -> Response:
    """List the tenants that have keys, or of which something is said."""
    services, _ = operated(request)
    names = sorted({each.name for each in await services.tenants.read()} | services.keyring.tenants)
    return as_json(TenantList(data=[_view(services, services.tenants.get(n)) for n in names]))


@router.get(
    "/v1/tenants/{tenant}",
    response_model=TenantView,
    responses=KEYS_PROBLEMS,
    summary="Read one tenant (operators)",
)
async def read_tenant(request: Request, tenant: Name) -> Response:
    """Tell what is in force for a tenant; one that nobody has heard of has the defaults."""
    services, _ = operated(request)
    return as_json(_view(services, services.tenants.get(tenant)))


@router.patch(
    "/v1/tenants/{tenant}",
    response_model=TenantView,
    responses=KEYS_PROBLEMS,
    openapi_extra=TENANT,
    summary="Change a tenant's limits or weight (operators)",
)
async def change_tenant(request: Request, tenant: Name) -> Response:
    """Change what is said; it holds at once, on other api processes within two seconds."""
    services, operator = operated(request)
    require_json(request)
    asked = await read_json(request, TenantChange)
    said = asked.model_dump(exclude_unset=True)
    most_s = services.settings.retention_s
    if (asked.retention_s or 0.0) > most_s:
        raise InvalidRequest([FieldError("retention_s", f"must be at most {most_s:g}")])
    changed = await services.tenants.change(tenant, lambda old: _changed(old, asked))
    await note(request, operator, "tenant_changed", tenant=tenant, changes=said)
    return as_json(_view(services, changed))


def _changed(old: Tenant, asked: TenantChange) -> Tenant:
    said = {name: getattr(asked, name) for name in asked.model_fields_set}
    limits = {name: said.pop(name) for name in LIMITS if name in said}
    return replace(old, limits=replace(old.limits, **limits), **said)


def _view(services: Services, tenant: Tenant) -> TenantView:
    terms = services.tenants.terms(tenant)
    limited = [name for name in LIMITS if getattr(tenant.limits, name) is not None]
    told = [name for name in ("weight", "retention_s") if getattr(tenant, name) is not None]
    return TenantView(
        name=tenant.name,
        weight=terms.weight,
        retention_s=terms.retention_s,
        limits=LimitsView(**{name: getattr(terms.limits, name) for name in LIMITS}),
        own=[*told, *limited],
    )
