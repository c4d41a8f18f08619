"""Routes `/v1/predictions`: a job, as Replicate's clients know it."""

import asyncio
import re
import time
from dataclasses import replace
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from api.facades.replicate.schemas import PredictionCreate
from api.facades.replicate.stream import stream
from api.facades.replicate.translate import model_of, to_job
from api.facades.waiting import until_end
from api.routes.submit import accept
from api.services.kept import PageCursor
from api.services.requests import (
    Asked,
    ask,
    beside,
    caller_of,
    idempotency_key,
    read_json,
    require_json,
)
from api.services.services import Services
from api.views.openapi import NOT_FOUND, PREDICTION, PROBLEMS, event_stream
from core.errors import FieldError, InvalidRequest
from core.job import Job, JobStatus
from tasks.jobs.prediction import prediction

#: Seconds that an answer waits for images at most, as Replicate's does.
MAX_WAIT_S: Final = 60
#: Of them, for signing and the way back: their client gives up half a second after the whole wait.
ANSWER_S: Final = 0.5
PAGE: Final = 100

router = APIRouter(tags=["replicate"])


@router.post(
    "/v1/predictions",
    status_code=201,
    responses=PROBLEMS,
    openapi_extra=PREDICTION,
    summary="Ask for images",
)
async def create(request: Request) -> Response:
    """Accept a job; with `Prefer: wait` answer when it has ended, or within so many seconds."""
    return await _create(request, None)


@router.post(
    "/v1/models/{owner}/{name}/predictions",
    status_code=201,
    responses=PROBLEMS | NOT_FOUND,
    openapi_extra=PREDICTION,
    summary="Ask a model for images",
)
async def create_by_model(request: Request, owner: str, name: str) -> Response:
    """Accept a job of one model."""
    return await _create(request, f"{owner}/{name}")


async def _create(request: Request, reference: str | None) -> Response:
    """Accept a job of the model that the path names, else of the body's."""
    arrived_at = time.monotonic()
    services, tenant = caller_of(request)
    body = await read_json(request, PredictionCreate)
    require_json(request)
    reference = reference or body.version
    if reference is None:
        raise InvalidRequest([FieldError("version", "must name a model: atelier/<model>")])
    wait_s = _preferred_wait_s(request)
    model, key = model_of(reference, services.models), idempotency_key(request)
    sent = await request.body()
    asked = await beside(sent, _asked, body, model, services.urls.public_url, tenant, key)
    job = (await accept(request, asked)).job
    if wait_s:
        left_s = arrived_at + wait_s - ANSWER_S - time.monotonic()
        job = await until_end(services, request, job, left_s)
        if job.status is JobStatus.RUNNING:  # any other word than `starting` ends their wait
            job = replace(job, status=JobStatus.QUEUED)
    return JSONResponse(await _shown(services, job), 201)


def _asked(
    sent: bytes, body: PredictionCreate, model: str, public_url: str, tenant: str, key: str | None
) -> Asked:
    return ask(sent, tenant, key, to_job(body, model, public_url))


@router.get("/v1/predictions", summary="List predictions, newest first")
async def list_all(request: Request, cursor: PageCursor = None) -> Response:
    """List the tenant's jobs as predictions."""
    services, tenant = caller_of(request)
    page = await services.jobs.list(tenant, limit=PAGE, cursor=cursor)
    urls = services.urls
    url = f"{urls.public_url}/v1/predictions"
    return JSONResponse(
        {
            "previous": None,
            "next": f"{url}?cursor={page.cursor}" if page.cursor else None,
            "results": await asyncio.to_thread(
                lambda: [prediction(job, urls.sign, urls.public_url) for job in page.jobs]
            ),
        }
    )


@router.get("/v1/predictions/{job_id}", responses=NOT_FOUND, summary="Read one prediction")
async def read(request: Request, job_id: str) -> Response:
    """Read one job as a prediction."""
    services, tenant = caller_of(request)
    return JSONResponse(await _shown(services, await services.jobs.get(job_id, tenant)))


@router.post("/v1/predictions/{job_id}/cancel", responses=NOT_FOUND, summary="Stop a prediction")
async def cancel(request: Request, job_id: str) -> Response:
    """Stop a job within one step; one that has ended stays as it is."""
    services, tenant = caller_of(request)
    return JSONResponse(await _shown(services, await services.jobs.cancel(job_id, tenant)))


@router.get(
    "/v1/predictions/{job_id}/stream",
    response_class=Response,
    responses=NOT_FOUND
    | event_stream("What is made, as it is made.", *("logs", "output", "error", "done")),
    summary="Follow a prediction",
)
async def follow(request: Request, job_id: str) -> Response:
    """Stream `logs` as it goes on, an `output` for each image, and `done` or `error`."""
    services, tenant = caller_of(request)
    return stream(request, await services.jobs.get(job_id, tenant))


async def _shown(services: Services, job: Job) -> dict[str, object]:
    urls = services.urls
    return await asyncio.to_thread(prediction, job, urls.sign, urls.public_url)


def _preferred_wait_s(request: Request) -> float:
    """Read `Prefer: wait` or `Prefer: wait=SECONDS`; 0: the answer comes at once."""
    found = re.search(r"\bwait(?:=(\d{1,6}))?", request.headers.get("prefer", ""))
    if found is None:
        return 0.0
    return min(float(found[1] or MAX_WAIT_S), MAX_WAIT_S)
