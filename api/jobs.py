"""Submit, read, list and cancel jobs: `/v1/jobs`."""

import time
from hashlib import sha256
from secrets import randbits
from typing import Annotated
from uuid import uuid4

from fastapi import APIRouter, HTTPException, Query, Request
from starlette.responses import Response

from api.described import NOT_FOUND, PROBLEMS, SUBMIT, DirectRoute
from api.poll import wait_for_end
from api.schemas import JobCreate, JobPage, JobView, parse_job
from api.services import Services, services_of
from api.validate import DEFAULT_APPLICATION, fill
from core.addresses import fault_of_url
from core.errors import FieldError, InvalidRequest, NoPlan, StoreUnavailable
from core.job import Job, JobRequest, JobStatus, Quality
from core.placement import Placement, PlacementQuery
from core.variant import Model
from scheduler.cost import eta
from storage.jobs import NewJob
from tasks.messages import QUEUE_PRIORITY, envelope

#: Seconds a long poll lasts at most.
MAX_WAIT_S = 60
#: Random seeds stay exact in every client's JSON numbers.
SEED_BITS = 32
#: How a cursor looks: the store's moment and a job.
CURSOR = r"^[0-9]{1,15}\.\w{1,64}$"


router = APIRouter(tags=["jobs"])


async def submit(request: Request) -> Response:
    """Accept one job: it is stored and queued, or refused with nothing stored."""
    services = services_of(request)
    tenant = services.keyring.tenant_of(request)
    key = _idempotency_key(request)
    create = parse_job(await request.body())
    _require_json(request)
    able = services.rules.candidates(create)
    _check_webhook(services, create)
    digest = sha256(create.model_dump_json().encode()).hexdigest() if key else ""
    if key and (earlier := await services.jobs.earlier(tenant, key, digest)):
        return await _accepted(services, earlier, True)
    placement = await services.placements.place(_query(create, able))
    filled = fill(create, _placed(able, placement), seed=randbits(SEED_BITS))
    new = _new_job(tenant, filled, placement, create.deadline_s, key, digest)
    submitted = await services.submitter.submit(new)
    if not submitted.is_new:
        return await _accepted(services, await services.jobs.get(submitted.id, tenant), True)
    return await _accepted(services, _queued(new), False)


router.add_api_route(
    "/v1/jobs",
    submit,
    methods=["POST"],
    status_code=202,
    response_model=JobView,
    responses=PROBLEMS,
    openapi_extra=SUBMIT,
    summary="Ask for images",
    route_class_override=DirectRoute,
)


@router.get("/v1/jobs", response_model=JobPage, summary="List jobs, newest first")
async def list_jobs(
    request: Request,
    status: JobStatus | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    cursor: Annotated[str | None, Query(pattern=CURSOR)] = None,
) -> Response:
    """List the tenant's jobs; how many wait before each is told by reading one."""
    services = services_of(request)
    tenant = services.keyring.tenant_of(request)
    page = await services.jobs.list(tenant, status=status, limit=limit, cursor=cursor)
    data = await services.views.of_all(page.jobs)
    return _json(JobPage(data=data, cursor=page.cursor))


@router.get(
    "/v1/jobs/{job_id}", response_model=JobView, responses=NOT_FOUND, summary="Read one job"
)
async def read(
    request: Request,
    job_id: str,
    wait: Annotated[float, Query(ge=0, le=MAX_WAIT_S, allow_inf_nan=False)] = 0,
) -> Response:
    """Read one job; with `wait`, answer when it has ended or after so many seconds."""
    services = services_of(request)
    tenant = services.keyring.tenant_of(request)
    job = await services.jobs.get(job_id, tenant)
    if wait and not job.status.is_terminal:
        await wait_for_end(services, request, job_id, wait)
        job = await services.jobs.get(job_id, tenant)
    return _json(await show(services, job))


@router.post(
    "/v1/jobs/{job_id}/cancel",
    response_model=JobView,
    responses=NOT_FOUND,
    summary="Stop a job",
)
async def cancel(request: Request, job_id: str) -> Response:
    """Stop a job within one step; one that has ended stays as it is."""
    services = services_of(request)
    tenant = services.keyring.tenant_of(request)
    return _json(await show(services, await services.jobs.cancel(job_id, tenant)))


async def show(services: Services, job: Job) -> JobView:
    """Show a job, with how many are served before it and when it should be done."""
    if job.status.is_terminal:
        return await services.views.of(job)
    position = await _position(services, job) if job.status is JobStatus.QUEUED else None
    return await services.views.of(
        job, queue_position=position, eta_s=_eta_s(services, job, position)
    )


async def _position(services: Services, job: Job) -> int | None:
    """Count who is served first; an accepted job stays accepted if the store goes away now."""
    try:
        return await services.jobs.queue_position(job)
    except StoreUnavailable:
        return None


def _eta_s(services: Services, job: Job, position: int | None) -> float | None:
    model = services.models.get(job.request.model)
    if model is None:
        return None
    done, ahead = job.progress.step, position or 0
    seconds = eta(job.request, model, services.fleet, ahead=ahead, done=done)
    return None if seconds is None else round(seconds, 3)


async def _accepted(services: Services, job: Job, is_replayed: bool) -> Response:
    response = _json(await show(services, job), 202)
    response.headers["Location"] = services.views.url_of(job.id)
    if is_replayed:
        response.headers["Idempotent-Replayed"] = "true"
    return response


def _json(view: JobView | JobPage, status: int = 200) -> Response:
    return Response(
        view.model_dump_json(),
        status,
        headers={"Cache-Control": "no-store"},
        media_type="application/json",
    )


def _idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not (0 < len(key) <= 255 and key.isascii() and key.isprintable()):
        fault = FieldError("Idempotency-Key", "must be 1 to 255 printable ASCII characters")
        raise InvalidRequest([fault])
    return key


def _require_json(request: Request) -> None:
    """Browsers send other types across sites without asking; a page must not submit jobs."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise HTTPException(415, "send the body as application/json")


def _check_webhook(services: Services, create: JobCreate) -> None:
    if create.webhook is None:
        return
    allow_private = services.settings.webhook_allow_private
    if fault := fault_of_url(create.webhook.url, allow_private=allow_private):
        raise InvalidRequest([FieldError("webhook.url", fault)])


def _query(create: JobCreate, able: tuple[Model, ...]) -> PlacementQuery:
    return PlacementQuery(
        prompt=create.prompt,
        models=tuple(model.name for model in able),
        application=create.application or DEFAULT_APPLICATION,
        exact=create.quality is Quality.EXACT,
        steps=create.steps,
        rows=create.n,
    )


def _placed(able: tuple[Model, ...], placement: Placement) -> Model:
    """Find the model of a placement; one that cannot make the request was not asked for."""
    for model in able:
        if model.name == placement.model:
            return model
    raise NoPlan(f"the plan answers with {placement.model}, which cannot make this request")


def _new_job(
    tenant: str,
    filled: JobRequest,
    placement: Placement,
    deadline_s: float | None,
    key: str | None,
    digest: str,
) -> NewJob:
    job_id, priority = uuid4().hex, QUEUE_PRIORITY[filled.priority]
    return NewJob(
        id=job_id,
        tenant=tenant,
        request=filled,
        placement=placement,
        deadline_s=deadline_s,
        message=envelope(job_id, placement.queue, priority),
        priority=priority,
        idempotency_key=key,
        digest=digest,
    )


def _queued(new: NewJob) -> Job:
    """Show a job just stored without reading it back."""
    now = round(time.time(), 3)
    return Job(
        id=new.id,
        tenant=new.tenant,
        request=new.request,
        placement=new.placement,
        status=JobStatus.QUEUED,
        created_at=now,
        deadline_at=None if new.deadline_s is None else round(now + new.deadline_s, 3),
    )
