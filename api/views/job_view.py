"""Convert jobs to API responses; URLs are signed at each read and never stored."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields

from api.views.responses import (
    ControlShown,
    FailureView,
    ImageView,
    JobView,
    LoraShown,
    PlacementView,
    ProgressView,
    TimingView,
    UrlsView,
)
from core.job import Failure, Job, JobRequest, Progress, Timing, picture_name
from core.request.output import OutputFormat

#: Fields of a job that are shown otherwise than they are kept.
_OTHERWISE = {"loras", "controls"}
#: Fields of a job that are shown as they were asked for.
_OF_REQUEST = tuple(
    f.name for f in fields(JobRequest) if f.name in JobView.model_fields.keys() - _OTHERWISE
)

#: Signs one object's URL: key -> URL and the epoch second it stops working.
Sign = Callable[[str], tuple[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """URLs of what belongs to one job."""

    images: list[ImageView] = field(default_factory=list)  #: that it made
    inputs: Mapping[str, str] = field(default_factory=dict)  #: that it brought, by what they are


@dataclass(frozen=True, slots=True, kw_only=True)
class Views:
    """Turns jobs into what goes over HTTP."""

    public_url: str  #: what clients call this service, no slash at the end
    sign: Sign  #: blocks for as long as the object store's client does

    async def of(
        self, job: Job, *, queue_position: int | None = None, eta_s: float | None = None
    ) -> JobView:
        """Show one job."""
        has_files = job.images or job.request.inputs
        signed = await asyncio.to_thread(self._sign, job) if has_files else Signed()
        return self._view(job, signed, queue_position, eta_s)

    async def of_all(self, jobs: Sequence[Job]) -> list[JobView]:
        """Show many jobs; how many wait before each is left out."""
        signed = await asyncio.to_thread(lambda: [self._sign(job) for job in jobs])
        return [self._view(job, own, None, None) for job, own in zip(jobs, signed, strict=True)]

    def url_of(self, job_id: str) -> str:
        """Give the URL under which clients read a job."""
        return f"{self.public_url}/v1/jobs/{job_id}"

    def _sign(self, job: Job) -> Signed:
        inputs = {name: self.sign(key)[0] for name, key in job.request.inputs.items()}
        return Signed(images=self._images(job), inputs=inputs)

    def _images(self, job: Job) -> list[ImageView]:
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
            for url, expires_at in [self.sign(image.key)]
        ]

    def _view(
        self,
        job: Job,
        signed: Signed,
        queue_position: int | None,
        eta_s: float | None,
    ) -> JobView:
        request, own_url, inputs = job.request, self.url_of(job.id), signed.inputs
        return JobView(
            id=job.id,
            status=job.status,
            **{name: getattr(request, name) for name in _OF_REQUEST},
            loras=[LoraShown(id=each.id, scale=each.scale) for each in request.loras],
            controls=_controls(request, inputs),
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
            progress=_progress(job.progress, request.steps),
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


def _progress(progress: Progress, steps: int) -> ProgressView:
    return ProgressView(step=progress.step, steps=progress.steps or steps)


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
