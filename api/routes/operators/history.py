"""Route of `/v1/history`: the last hour of the service, twice a minute."""

from collections.abc import Mapping

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from api.routes.jobs import as_json
from api.services.requests import caller_of
from api.views.openapi import OPERATED
from core.boards.sample import Period, periods
from core.job import JobStatus
from storage.redis.stats import REDELIVERIES
from storage.tenants.usage import cost_of

router = APIRouter(tags=["service"])


class PeriodView(BaseModel):
    """About half a minute: what was counted in it, and how things stood at its end."""

    ended_at: float = Field(description="When it ended. Epoch seconds.")
    seconds: float = Field(description="How long it was.")
    accepted: int = Field(description="Jobs that were accepted in it.")
    succeeded: int = Field(description="Jobs that succeeded in it.")
    failed: int = Field(description="Jobs that failed in it, or expired.")
    canceled: int = Field(description="Jobs that were canceled in it.")
    late: int = Field(description="Jobs that ended in it later than promised, or without images.")
    redelivered: int = Field(description="Times that a job was queued once more in it.")
    buried: int = Field(description="Jobs that were given up in it after too many attempts.")
    images: dict[str, int] = Field(description="Level -> jobs that succeeded at it.")
    p50_s: float | None = Field(
        description="Seconds from acceptance to the images, which half of the jobs that succeeded "
        "in it did not exceed; null: none did."
    )
    p95_s: float | None = Field(description="Likewise, of 95 in a hundred jobs.")
    quality: float | None = Field(
        description="Mean quality, 0 to 1, of the images of it that were scored; null: none was."
    )
    scored: int = Field(description="Images that were scored.")
    queued: int = Field(description="Jobs that waited on all queues.")
    oldest_s: float
    busy: int = Field(description="Workers with an image in their batch.")
    running: int = Field(description="Images in all batches.")
    slots: int = Field(description="Images that all batches take at most.")
    devices: dict[str, int] = Field(description="Device type -> workers.")
    cost: float | None = Field(
        description="Of these workers, busy or not, by the operator's prices; null: a price is not "
        "known."
    )
    forecast: float | None = Field(
        description="Jobs a second that the plan was made for; null: there was no plan."
    )
    saturation: float | None


class HistoryView(BaseModel):
    """The last hour."""

    object: str = "history"
    data: list[PeriodView] = Field(description="Periods, the oldest first, without gaps.")


@router.get(
    "/v1/history",
    response_model=HistoryView,
    responses=OPERATED,
    summary="Show the last hour (operators)",
)
async def history(request: Request) -> Response:
    """Show what came, what was made, how long it took and what waited, twice a minute."""
    services, _ = caller_of(request)
    samples = await services.board.history()
    prices = services.settings.device_prices
    return as_json(HistoryView(data=[_view(each, prices) for each in periods(samples)]))


def _view(period: Period, prices: Mapping[str, float]) -> PeriodView:
    sample = period.sample
    device_s = {name: workers * period.seconds for name, workers in sample.devices.items()}
    return PeriodView(
        ended_at=sample.at,
        seconds=period.seconds,
        accepted=period.sum("submitted"),
        succeeded=period.ended(JobStatus.SUCCEEDED),
        failed=period.ended(JobStatus.FAILED) + period.ended(JobStatus.EXPIRED),
        canceled=period.ended(JobStatus.CANCELED),
        late=period.sum("slo_violations"),
        redelivered=period.sum(*REDELIVERIES),
        buried=period.sum("jobs_dead"),
        images=period.under("level"),
        p50_s=sample.p50_s,
        p95_s=sample.p95_s,
        quality=sample.quality,
        scored=sample.scored,
        queued=sample.waiting,
        oldest_s=sample.oldest_s,
        busy=sample.busy,
        running=sample.running,
        slots=sample.slots,
        devices=dict(sample.devices),
        cost=cost_of(device_s, prices),
        forecast=sample.forecast,
        saturation=sample.saturation,
    )
