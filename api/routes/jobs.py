"""Read, list, cancel and delete jobs: `/v1/jobs`."""

import asyncio
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from api.services.deadlines import coming_station
from api.services.follow import wait_for_end
from api.services.kept import Deletion, PageCursor, PageSize
from api.services.requests import caller_of
from api.services.services import Services
from api.services.tenants.operators import NamedTenant, note, subject_of
from api.views.openapi import NOT_FOUND
from api.views.responses import JobPage, JobView
from core.errors import StoreUnavailable
from core.job import Job, JobStatus
from scheduler.routing.eta import work_of

#: Seconds a long poll lasts at most.
MAX_WAIT_S = 60

router = APIRouter(tags=["jobs"])


class Shown(StrEnum):
    """Which jobs a list shows: those of one status, or those that may be tried again."""

    QUEUED = JobStatus.QUEUED
    RUNNING = JobStatus.RUNNING
    SUCCEEDED = JobStatus.SUCCEEDED
    FAILED = JobStatus.FAILED
    CANCELED = JobStatus.CANCELED
    EXPIRED = JobStatus.EXPIRED
    BURIED = "buried"  #: failed for want of attempts; `retry` tries them again

    @property
    def status(self) -> JobStatus:
        return JobStatus.FAILED if self is Shown.BURIED else JobStatus(self)


@router.get("/v1/jobs", response_model=JobPage, summary="List jobs, newest first")
async def list_jobs(
    request: Request,
    status: Shown | None = None,
    limit: PageSize = 20,
    cursor: PageCursor = None,
) -> Response:
    """List the tenant's jobs; how many wait before each is told by reading one.

    `buried` are those failed jobs whose worker was lost too often while it made nothing else, or
    whose message no worker could read: `POST /v1/jobs/{id}/retry` tries one again.
    """
    services, tenant = caller_of(request)
    page = await services.jobs.list(
        tenant,
        status=None if status is None else status.status,
        is_buried=status is Shown.BURIED,
        limit=limit,
        cursor=cursor,
    )
    data = await services.views.of_all(page.jobs)
    return as_json(JobPage(data=data, cursor=page.cursor))


@router.get(
    "/v1/jobs/{job_id}", response_model=JobView, responses=NOT_FOUND, summary="Read one job"
)
async def read(
    request: Request,
    job_id: str,
    wait: Annotated[float, Query(ge=0, le=MAX_WAIT_S, allow_inf_nan=False)] = 0,
) -> Response:
    """Read one job; with `wait`, answer when it has ended or after so many seconds."""
    services, tenant = caller_of(request)
    job = await services.jobs.get(job_id, tenant)
    if wait and not job.status.is_terminal:
        await wait_for_end(services, request, job_id, wait)
        job = await services.jobs.get(job_id, tenant)
    return as_json(await show(services, job))


@router.post(
    "/v1/jobs/{job_id}/cancel",
    response_model=JobView,
    responses=NOT_FOUND,
    summary="Stop a job",
)
async def cancel(request: Request, job_id: str) -> Response:
    """Stop a job within one step; one that has ended stays as it is."""
    services, tenant = caller_of(request)
    return as_json(await show(services, await services.jobs.cancel(job_id, tenant)))


@router.delete(
    "/v1/jobs/{job_id}",
    response_model=Deletion,
    responses=NOT_FOUND,
    summary="Delete a job and its images",
)
async def remove(request: Request, job_id: str, tenant: NamedTenant = None) -> Response:
    """Delete a job with its images and inputs; one that has not ended is stopped first.

    URLs of its images end to work at once. Its objects go first: what fails between is found again
    by whoever tries again.
    """
    services, tenant, holder = subject_of(request, tenant)
    await services.jobs.cancel(job_id, tenant)
    keys = await services.jobs.find_objects(job_id, tenant)
    await asyncio.to_thread(services.objects.delete, keys)
    await services.jobs.forget(job_id)
    if tenant != holder.tenant:
        await note(request, holder, "job_deleted", job=job_id, tenant=tenant)
    return as_json(Deletion(id=job_id, object="job"))


async def show(services: Services, job: Job) -> JobView:
    """Show a job, with how many are served before it and when it should be done."""
    if job.status.is_terminal:
        return await services.views.of(job)
    return await show_open(services, job, await position_of(services, job))


async def show_open(services: Services, job: Job, position: int | None) -> JobView:
    """Show a job that has not ended, with so many served before it."""
    return await services.views.of(
        job, queue_position=position, eta_s=eta_of(services, job, position)
    )


async def position_of(services: Services, job: Job) -> int | None:
    """Count who is served first; an accepted job stays accepted if the store goes away now."""
    if job.status is not JobStatus.QUEUED:
        return None
    try:
        return await services.jobs.queue_position(job)
    except StoreUnavailable:
        return None


def eta_of(services: Services, job: Job, position: int | None) -> float | None:
    """Predict how many seconds are left until a job is done; None: no worker can hold its model."""
    queue = job.placement.queue
    station = services.stations.of(queue, services.follower.plan)
    if station is None:
        station = coming_station(services, queue)
    if station is None:
        return None
    work = work_of(job.request, job.placement.approximation, job.progress.step)
    if job.status is JobStatus.RUNNING:
        return round(station.rest_s(work), 3)
    return round(station.eta_s(work, (position or 0) * station.job_images), 3)


def as_json(view: BaseModel, status: int = 200) -> Response:
    """Answer with what only its owner may keep."""
    return Response(
        view.model_dump_json(),
        status,
        headers={"Cache-Control": "no-store"},
        media_type="application/json",
    )
