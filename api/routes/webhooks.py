"""Routes of `/v1/webhooks`: list and replay undeliverable webhooks."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from api.routes.jobs import as_json
from api.services.kept import PageSize
from api.services.requests import caller_of
from api.services.services import Services
from api.views.openapi import WEBHOOK_NOT_FOUND
from core.errors import NotFound
from storage.jobs.outbox import DeadDelivery, Delivery

#: For one page so many times as many are read as are still wanted: those of jobs that were deleted
#: are left out. Then it is returned short, with a cursor.
MAX_READS = 5

#: How a cursor looks: the store's moment and the name of a delivery.
DEAD_CURSOR = r"^[0-9]{1,15}\.\w{1,64}(:\w{1,32}){1,4}$"
DeadCursor = Annotated[str | None, Query(max_length=160, pattern=DEAD_CURSOR)]

router = APIRouter(tags=["webhooks"])


class WebhookView(BaseModel):
    """A webhook that nobody took."""

    id: str  #: its `webhook-id`
    object: str = "webhook"
    job: str
    event: str
    url: str
    attempts: int
    created_at: float  #: when it was given up; a router merges the lists of cells by this name


class WebhookList(BaseModel):
    """One page of what was given up, latest first; pass `cursor` to read on."""

    object: str = "list"
    data: list[WebhookView]
    cursor: str | None


class WebhookReplayed(BaseModel):
    """What is sent again."""

    id: str
    object: str = "webhook"
    replayed: bool = True


@router.get("/v1/webhooks/dead", response_model=WebhookList, summary="List webhooks given up")
async def list_dead(request: Request, limit: PageSize = 20, cursor: DeadCursor = None) -> Response:
    """List the webhooks of the tenant's jobs that no receiver took, the latest of them first.

    They are kept for a week, as long as their job is, and at most 10,000 of them. A page may be
    short and still have a cursor.
    """
    services, tenant = caller_of(request)
    found: list[DeadDelivery] = []
    for _ in range(MAX_READS):
        wanted = limit - len(found)
        page = await services.deliveries.list_dead(tenant, limit=wanted, cursor=cursor)
        found += [each for each in page.dead if await _has_job(services, each.delivery, tenant)]
        cursor = page.cursor
        if cursor is None or len(found) == limit:
            break
    return as_json(WebhookList(data=[_view(each) for each in found], cursor=cursor))


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
    dead = await services.deliveries.get_dead(webhook_id, tenant)
    is_there = dead is not None and await _has_job(services, dead, tenant)
    if not is_there or not await services.deliveries.replay(webhook_id):
        raise NotFound(f"no webhook {webhook_id} was given up")
    return as_json(WebhookReplayed(id=webhook_id), 202)


async def _has_job(services: Services, delivery: Delivery, tenant: str) -> bool:
    """Tell whether its job is kept: with one that is forgotten goes what it had to say."""
    try:
        await services.jobs.get(delivery.job_id, tenant)
    except NotFound:
        return False
    return True


def _view(dead: DeadDelivery) -> WebhookView:
    delivery = dead.delivery
    return WebhookView(
        id=delivery.id,
        job=delivery.job_id,
        event=delivery.event,
        url=delivery.url,
        attempts=delivery.attempt,
        created_at=dead.at,
    )
