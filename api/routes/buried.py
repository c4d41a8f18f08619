"""Try jobs again that ended for want of attempts: `POST /v1/jobs/{id}/retry`."""

import asyncio

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.routes.jobs import as_json, show
from api.services.requests import caller_of
from api.services.services import Services
from api.views.openapi import RETRY_PROBLEMS
from api.views.responses import JobView
from core.errors import Gone, NotFound, ObjectMissing
from core.job import Job
from core.traits import Use, may
from core.uploads.controlnet import is_kept
from core.uploads.upload import UploadKind
from storage.objects.store import ObjectStore
from tasks.messages import QUEUE_PRIORITY, envelope

router = APIRouter(tags=["jobs"])


@router.post(
    "/v1/jobs/{job_id}/retry",
    status_code=202,
    response_model=JobView,
    responses=RETRY_PROBLEMS,
    summary="Try a buried job again",
)
async def retry(request: Request, job_id: str) -> Response:
    """Queue a job of `GET /v1/jobs?status=buried` again, with all its attempts, to be made alone.

    Asking again changes nothing. What it needs must still be kept here, its deadline not be over.
    """
    services, tenant = caller_of(request)
    job = await services.jobs.get(job_id, tenant)
    if job.is_buried:
        await _check(services, job)
    message = envelope(job.id, job.placement.queue, QUEUE_PRIORITY[job.request.priority])
    return as_json(await show(services, await services.jobs.retry(job_id, tenant, message)), 202)


async def _check(services: Services, job: Job) -> None:
    """Make sure that a job would find what it needs.

    Raises:
        Gone: it would not; names what is missing.
        Unavailable: a store cannot serve now.
    """
    asked = job.request
    if asked.model not in services.models and not may(Use.MOVE, asked):
        raise Gone(f"the model {asked.model} of job {job.id} is not served any more")
    use = asked.ip_adapter
    if use is not None and use.id not in services.rules.ip_adapters:
        raise Gone(f"the IP-Adapter {use.id} of job {job.id} is not served any more")
    await asyncio.to_thread(_check_images, services.objects, job)
    try:
        for lora in asked.loras:
            await services.loras.records.get(UploadKind.LORA, lora.id, job.tenant)
        for each in asked.embeddings:
            await services.embeddings.records.get(UploadKind.EMBEDDING, each.id, job.tenant)
        for control in asked.controls:
            if is_kept(control.controlnet):
                records = services.controlnets.records
                await records.get(UploadKind.CONTROLNET, control.controlnet, job.tenant)
    except NotFound as error:
        raise Gone(f"job {job.id} cannot be made any more: {error}") from error


def _check_images(objects: ObjectStore, job: Job) -> None:
    for name, key in job.request.inputs.items():
        try:
            objects.get(key)
        except ObjectMissing as error:
            raise Gone(f"the {name} of job {job.id} is not kept any more: send it anew") from error
