"""List jobs, and delete them with their images: `/v1/jobs`."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.routes.jobs import as_json, sign_all, view_of
from api.services.kept import Deletion, PageCursor, PageSize
from api.services.requests import caller_of
from api.services.services import Services
from api.services.tenants.operators import NamedTenant, note, subject_of
from api.views.openapi import DELETE_PROBLEMS
from api.views.responses import JobPage
from core.errors import Conflict, NotFound, Unavailable
from core.job import JobStatus

#: Times that a job is deleted which is tried again meanwhile.
TRIES = 3

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
    signed = await asyncio.to_thread(lambda: [sign_all(services.urls, job) for job in page.jobs])
    data = [view_of(services.urls, job, own) for job, own in zip(page.jobs, signed, strict=True)]
    return as_json(JobPage(data=data, cursor=page.cursor))


@router.delete(
    "/v1/jobs/{job_id}",
    response_model=Deletion,
    responses=DELETE_PROBLEMS,
    summary="Delete a job and its images",
)
async def remove(request: Request, job_id: str, tenant: NamedTenant = None) -> Response:
    """Delete a job with its images and inputs; one that has not ended is stopped first.

    URLs of its images end to work at once. Its objects go first: what fails between is found again
    by whoever tries again. One that is tried again meanwhile, each time, is answered 409.
    """
    services, tenant, holder = subject_of(request, tenant)
    keys = await _forget(services, job_id, tenant)
    # Its worker may have stored latents meanwhile; from now on it takes back what it stores.
    with suppress(Unavailable):  # then upkeep deletes them by their age
        await asyncio.to_thread(services.objects.delete, keys)
    if tenant != holder.tenant:
        await note(request, holder, "job_deleted", job=job_id, tenant=tenant)
    return as_json(Deletion(id=job_id, object="job"))


async def _forget(services: Services, job_id: str, tenant: str) -> Sequence[str]:
    """Stop a job, delete its objects, then its record; return their keys.

    Raises:
        NotFound: no such job, or another tenant's.
        Conflict: it was tried again meanwhile, each time.
    """
    for _ in range(TRIES):
        await services.jobs.cancel(job_id, tenant)
        keys = await services.jobs.find_objects(job_id, tenant)
        await asyncio.to_thread(services.objects.delete, keys)
        if await services.jobs.forget(job_id) or not await _is_there(services, job_id):
            return keys
    raise Conflict(f"the job {job_id} is tried again while it is deleted: delete it once more")


async def _is_there(services: Services, job_id: str) -> bool:
    with suppress(NotFound):
        await services.jobs.get(job_id)
        return True
    return False
