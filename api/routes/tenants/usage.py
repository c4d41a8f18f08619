"""Route `GET /v1/usage`: what a tenant has used, by day or month, and what it keeps."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, BeforeValidator, Field
from starlette.responses import Response

from api.routes.jobs import as_json
from api.services.tenants.operators import NamedTenant, subject_of
from api.views.openapi import OPERATED
from core.errors import FieldError, InvalidRequest
from core.job import JobStatus
from storage.tenants.usage import KEPT_DAYS, DayUsage, cost_of, day_of

router = APIRouter(tags=["tenants"])


def _iso(said: object) -> object:
    """Read a day as `2026-01-31`: a bare number would be seconds of 1970."""
    return date.fromisoformat(said) if isinstance(said, str) else said


Day = Annotated[date, BeforeValidator(_iso)]


class Span(StrEnum):
    """What one row is of."""

    DAY = "day"  #: of UTC
    MONTH = "month"  #: of UTC


class EndsView(BaseModel):
    """Jobs by how they ended; each is counted once, when it ends."""

    succeeded: int = Field(description="With all their images.")
    failed: int = Field(description="`error` of the job says why.")
    canceled: int = Field(description="Somebody asked for it.")
    expired: int = Field(description="Their deadline passed.")


class UsedView(BaseModel):
    """What was used in some time."""

    images: int = Field(description="Images of jobs that succeeded.")
    jobs: EndsView = Field(description="Jobs that ended, by how.")
    device_seconds: dict[str, float] = Field(
        description="Seconds of devices, by their type: a job's share of the steps it took with "
        "others. Attempts whose worker was lost do not count."
    )
    gpu_seconds: float = Field(description="The sum of these.")
    cost: float | None = Field(
        description="Of these, by the operator's prices; null: a price is not known."
    )


class UsageRow(UsedView):
    """What was used on a day or in a month."""

    start: date = Field(description="Its first day, of UTC.")


class UsageView(BaseModel):
    """What one tenant has used and keeps."""

    object: str = "usage"
    tenant: str
    start: date = Field(description="The first day counted.")
    end: date = Field(description="The last day counted.")
    kept_bytes: int = Field(description="Bytes kept now: images, what jobs brought, uploads.")
    open_jobs: int = Field(description="Jobs that have not ended now.")
    total: UsedView = Field(description="All of it.")
    data: list[UsageRow] = Field(description="Days or months on which something was used.")


@router.get(
    "/v1/usage",
    response_model=UsageView,
    responses=OPERATED,
    summary="Tell what a tenant has used",
)
async def usage(
    request: Request,
    start: Annotated[
        Day | None, Query(description="First day, of UTC; else the first of this month.")
    ] = None,
    end: Annotated[Day | None, Query(description="Last day; else today.")] = None,
    by: Annotated[Span, Query(description="What a row is of.")] = Span.DAY,
    tenant: NamedTenant = None,
) -> Response:
    """Tell what was used, by day or month, of at most 400 days."""
    services, name, _ = subject_of(request, tenant)
    today = day_of(time.time())
    last = end or today
    first = start or min(last, today).replace(day=1)
    if not 0 <= (last - first).days < KEPT_DAYS:
        fault = f"must be from `start` on, and of at most {KEPT_DAYS} days"
        raise InvalidRequest([FieldError("end", fault)])
    days = await services.usage.read(name, first, last)
    kept = await services.usage.kept(name)
    prices = services.settings.device_prices
    view = UsageView(
        tenant=name,
        start=first,
        end=last,
        kept_bytes=kept.kept_bytes,
        open_jobs=kept.open_jobs,
        total=_sum(days, prices),
        data=[
            UsageRow(start=begin, **dict(_sum(own, prices)))
            for begin, own in _rows(days, by).items()
        ],
    )
    return as_json(view)


def _rows(days: Sequence[DayUsage], by: Span) -> Mapping[date, list[DayUsage]]:
    found: dict[date, list[DayUsage]] = {}
    for each in days:
        begin = each.day if by is Span.DAY else each.day.replace(day=1)
        found.setdefault(begin, []).append(each)
    return found


def _sum(days: Sequence[DayUsage], prices: Mapping[str, float]) -> UsedView:
    jobs, seconds = Counter[JobStatus](), dict[str, float]()
    for each in days:
        jobs.update(each.jobs)
        for kind, spent in each.device_s.items():
            seconds[kind] = seconds.get(kind, 0.0) + spent
    cost = cost_of(seconds, prices)
    return UsedView(
        images=sum(each.images for each in days),
        jobs=EndsView(**{s.value: jobs[s] for s in JobStatus if s.is_terminal}),
        device_seconds={kind: round(spent, 3) for kind, spent in seconds.items()},
        gpu_seconds=round(sum(seconds.values()), 3),
        cost=None if cost is None else round(cost, 6),
    )
