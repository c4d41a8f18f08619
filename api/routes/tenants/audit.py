"""Route `GET /v1/audit`: who did what last, from where."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from api.routes.jobs import as_json
from api.services.requests import caller_of
from api.views.openapi import OPERATED

router = APIRouter(tags=["tenants"])


class AuditView(BaseModel):
    """Something that was done."""

    at: float
    event: str = Field(description="What was done, such as `key_added` or `tenant_changed`.")
    by: str = Field(description="Id of the key that asked for it.")
    by_tenant: str = Field(description="Whose key that is.")
    address: str = Field(description="Where it was asked from.")
    request_id: str
    facts: dict[str, Any] = Field(description="What it was done to, and how.")


class AuditList(BaseModel):
    """What was done last, newest first."""

    object: str = "list"
    data: list[AuditView]


@router.get(
    "/v1/audit",
    response_model=AuditList,
    responses=OPERATED,
    summary="Tell who did what last (operators)",
)
async def read_audit(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1000, description="As many at most, to 1000.")] = 100,
) -> Response:
    """Tell who changed keys, tenants and models, or deleted others' jobs; the log has all of it."""
    services, _ = caller_of(request)
    entries = await services.audit.last(limit)
    fields = AuditView.model_fields
    data = [AuditView(**{name: getattr(each, name) for name in fields}) for each in entries]
    return as_json(AuditList(data=data))
