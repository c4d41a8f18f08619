"""Read a job, or cancel it: `/v1/jobs/{id}`. URLs are signed at each read and never stored."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from api.services.deadlines import coming_station
from api.services.follow import wait_for_end
from api.services.requests import caller_of
from api.services.services import PublicUrls, Services
from api.views.openapi import NOT_FOUND
from api.views.responses import (
    ControlShown,
    EmbeddingShown,
    FailureView,
    ImageView,
    IpAdapterShown,
    JobView,
    LoraShown,
    PlacementView,
    ProgressView,
    TimingView,
    UrlsView,
)
from core.errors import StoreUnavailable
from core.job import IP_PICTURE, Failure, Job, JobRequest, JobStatus, Timing, picture_name
from core.request.output import OutputFormat
from scheduler.routing.stations import work_of

#: Seconds a long poll lasts at most.
MAX_WAIT_S = 60

#: Fields of a job that are shown otherwise than they are kept.
_OTHERWISE = {"loras", "embeddings", "controls", "ip_adapter"}
#: Fields of a job that are shown as they were asked for.
_OF_REQUEST = tuple(
    f.name for f in fields(JobRequest) if f.name in JobView.model_fields.keys() - _OTHERWISE
)

router = APIRouter(tags=["jobs"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """URLs of what belongs to one job."""

    images: list[ImageView] = field(default_factory=list)  #: that it made
    inputs: Mapping[str, str] = field(default_factory=dict)  #: that it brought, by what they are


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


async def show(services: Services, job: Job) -> JobView:
    """Show a job, with how many are served before it and when it should be done."""
    if job.status.is_terminal:
        return await _shown(services, job)
    return await show_open(services, job, await _position_of(services, job))


async def show_open(services: Services, job: Job, position: int | None) -> JobView:
    """Show a job that has not ended, with so many served before it."""
    return await _shown(services, job, position, _eta_of(services, job, position))


async def _shown(
    services: Services, job: Job, position: int | None = None, eta_s: float | None = None
) -> JobView:
    has_files = job.images or job.request.inputs
    signed = await asyncio.to_thread(sign_all, services.urls, job) if has_files else Signed()
    return view_of(services.urls, job, signed, queue_position=position, eta_s=eta_s)


async def _position_of(services: Services, job: Job) -> int | None:
    """Count who is served first; an accepted job stays accepted if the store goes away now."""
    if job.status is not JobStatus.QUEUED:
        return None
    try:
        return await services.jobs.queue_position(job)
    except StoreUnavailable:
        return None


def _eta_of(services: Services, job: Job, position: int | None) -> float | None:
    """Predict how many seconds are left until a job is done; None: no worker can hold its model."""
    queue = job.placement.queue
    station = services.stations.of(queue, services.follower.plan)
    station = station or coming_station(services, queue)
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


def sign_all(urls: PublicUrls, job: Job) -> Signed:
    """Sign URLs of all that belongs to a job; blocks as `PublicUrls.sign` does."""
    inputs = {name: urls.sign(key)[0] for name, key in job.request.inputs.items()}
    return Signed(images=_images(urls, job), inputs=inputs)


def _images(urls: PublicUrls, job: Job) -> list[ImageView]:
    return [
        ImageView(
            url=url,
            width=image.width,
            height=image.height,
            seed=image.seed,
            sha256=image.sha256,
            content_type=OutputFormat.of_key(image.key).content_type,
            expires_at=expires_at,
        )
        for image in job.images
        for url, expires_at in [urls.sign(image.key)]
    ]


def view_of(
    urls: PublicUrls,
    job: Job,
    signed: Signed,
    *,
    queue_position: int | None = None,
    eta_s: float | None = None,
) -> JobView:
    """Show a job as clients read it."""
    request, own_url, inputs = job.request, urls.of_job(job.id), signed.inputs
    return JobView(
        id=job.id,
        status=job.status,
        **{name: getattr(request, name) for name in _OF_REQUEST},
        loras=[LoraShown(id=each.id, scale=each.scale) for each in request.loras],
        embeddings=[EmbeddingShown(id=each.id, token=each.token) for each in request.embeddings],
        controls=_controls(request, inputs),
        ip_adapter=_ip_adapter(request, inputs),
        template=inputs.get("template"),
        mask=inputs.get("mask"),
        image=inputs.get("image") or inputs.get("picture"),
        strength=request.strength if request.edit or request.init_image else None,
        output_format=request.output.format,
        output_quality=request.output.quality,
        created_at=job.created_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
        deadline_at=job.deadline_at,
        attempts=job.attempts,
        progress=_progress(job),
        queue_position=queue_position,
        eta_s=eta_s,
        placement=_placement(job),
        images=signed.images,
        error=_failure(job.failure),
        timing=_timing(job.timing),
        urls=UrlsView(self=own_url, cancel=f"{own_url}/cancel", events=f"{own_url}/events"),
    )


def _controls(request: JobRequest, inputs: Mapping[str, str]) -> list[ControlShown]:
    return [
        ControlShown(
            id=each.controlnet,
            image=inputs[picture_name(at)],
            scale=each.scale,
            start=each.start,
            end=each.end,
            mode=each.mode,
        )
        for at, each in enumerate(request.controls)
    ]


def _ip_adapter(request: JobRequest, inputs: Mapping[str, str]) -> IpAdapterShown | None:
    if (use := request.ip_adapter) is None:
        return None
    return IpAdapterShown(id=use.id, image=inputs[IP_PICTURE], scale=use.scale)


def _progress(job: Job) -> ProgressView:
    """Say how far a job has come; one that is made is not told by its last beat any more."""
    steps = job.progress.steps or job.request.steps
    is_made = job.status is JobStatus.SUCCEEDED
    return ProgressView(step=steps if is_made else job.progress.step, steps=steps)


def _placement(job: Job) -> PlacementView:
    place = job.placement
    return PlacementView(
        queue=place.queue,
        model=place.model,
        level=place.level,
        skipped_steps=place.skipped_steps,
        affinity=place.affinity,
        placed_by=place.placed_by.value,
        worker=job.worker,
    )


def _failure(failure: Failure | None) -> FailureView | None:
    if failure is None:
        return None
    return FailureView(type=failure.type, title=failure.title, detail=failure.detail)


def _timing(timing: Timing) -> TimingView:
    return TimingView(
        queue_s=timing.queue_s,
        prepare_s=timing.prepare_s,
        denoise_s=timing.denoise_s,
        finish_s=timing.finish_s,
        total_s=timing.total_s,
    )
