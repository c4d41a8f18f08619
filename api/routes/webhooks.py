"""Routes of `/v1/webhooks`: list and replay undeliverable webhooks."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from api.routes.jobs import as_json
from api.services.requests import caller_of
from api.services.services import Services
from api.views.openapi import WEBHOOK_NOT_FOUND
from core.errors import NotFound
from storage.jobs.outbox import Delivery

PAGE = 100  #: read at a time: those of other tenants lie between

router = APIRouter(tags=["webhooks"])


class WebhookView(BaseModel):
    """A webhook that nobody took."""

    id: str  #: its `webhook-id`
    object: str = "webhook"
    job: str
    event: str
    url: str
    attempts: int


class WebhookList(BaseModel):
    """What was given up, latest first."""

    object: str = "list"
    data: list[WebhookView]


class WebhookReplayed(BaseModel):
    """What is sent again."""

    id: str
    object: str = "webhook"
    replayed: bool = True


@router.get("/v1/webhooks/dead", response_model=WebhookList, summary="List webhooks given up")
async def list_dead(request: Request, limit: Annotated[int, Query(ge=1, le=100)] = 20) -> Response:
    """List the webhooks of the tenant's jobs that no receiver took, the latest of them first."""
    services, tenant = caller_of(request)
    found: list[Delivery] = []
    first = 0
    while len(found) < limit and (page := await services.deliveries.list_dead(PAGE, first)):
        found += await _owned(services, page, tenant)
        first += PAGE
    return as_json(WebhookList(data=[_view(each) for each in found[:limit]]))


@router.post(
    "/v1/webhooks/{webhook_id}/replay",
    status_code=202,
    response_model=WebhookReplayed,
    responses=WEBHOOK_NOT_FOUND,
    summary="Send a webhook again",
)
async def replay(request: Request, webhook_id: str) -> Response:
    """Send a webhook that was given up again, under its id, as often as a new one."""
    services, tenant = caller_of(request)
    dead = await services.deliveries.get_dead(webhook_id)
    is_owned = dead is not None and await _owned(services, [dead], tenant)
    if not is_owned or not await services.deliveries.replay(webhook_id):
        raise NotFound(f"no webhook {webhook_id} was given up")
    return as_json(WebhookReplayed(id=webhook_id), 202)


async def _owned(services: Services, deliveries: Sequence[Delivery], tenant: str) -> list[Delivery]:
    """Keep those of a tenant's jobs; with a job that is forgotten goes what it had to say."""
    found = []
    for delivery in deliveries:
        try:
            await services.jobs.get(delivery.job_id, tenant)
        except NotFound:
            continue
        found.append(delivery)
    return found


def _view(delivery: Delivery) -> WebhookView:
    return WebhookView(
        id=delivery.id,
        job=delivery.job_id,
        event=delivery.event,
        url=delivery.url,
        attempts=delivery.attempt,
    )
