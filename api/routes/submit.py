"""Route `POST /v1/jobs`: store and enqueue a job, or refuse it and store nothing."""

import time
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.intake.draft import Draft, second_pass_of
from api.intake.schemas import JobCreate
from api.routes.jobs import as_json, show, show_open
from api.routes.metrics import refused
from api.services.deadlines import check_deadline
from api.services.inputs import (
    check_webhook,
    find_application,
    find_inputs,
    submit_with_images,
)
from api.services.placement import note_waiting, query_of
from api.services.requests import Asked, caller_of, read_asked, services_of
from api.services.services import Services
from api.views.openapi import PROBLEMS, SUBMIT, DirectRoute
from api.views.rate_limit import tell_standing
from api.views.responses import JobView
from core.application import DEFAULT, Application
from core.errors import (
    LimitReached,
    NoPlan,
    NotFound,
    StoreUnavailable,
    TooManyRequests,
)
from core.job import Job, JobRequest, JobStatus, Task
from core.log import bind
from core.placement import PlacementQuery
from core.telemetry.traces import TRACES
from scheduler.routing.slo import default_slo_s
from storage.jobs.submit import NewJob, Submitted
from tasks.messages import QUEUE_PRIORITY, envelope

router = APIRouter(tags=["jobs"])

#: Limits that refuse any job of a tenant, however small.
ANY_JOB = frozenset({"jobs_per_s", "open_jobs"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """What a request became: a new job, or the one of an earlier request with its key."""

    job: Job
    view: JobView
    stored: Submitted | None  #: None: it had been before


async def submit(request: Request) -> Response:
    """Accept one job: it is stored and queued, or refused with nothing stored."""
    services, tenant = caller_of(request)
    accepted = await accept(request, await read_asked(request, tenant))
    response = as_json(accepted.view, 202)
    response.headers["Location"] = services.urls.of_job(accepted.job.id)
    if accepted.stored is None:
        response.headers["Idempotent-Replayed"] = "true"
    return response


async def accept(request: Request, asked: Asked) -> Accepted:
    """Store and queue what is asked for, whatever API asked; its answer tells what limits leave.

    Raises:
        RequestRejected: nothing is stored.
        Unavailable: a dependency is away.
    """
    services, caller = services_of(request), request.headers.get("traceparent", "")
    try:
        with TRACES.span("submit", caller, tenant=asked.tenant) as mark:
            async with _turn(services, asked):
                accepted = await _accept(services, asked)
            mark(job=accepted.job.id, model=accepted.job.request.model)
    except TooManyRequests as error:
        _note_refusal(request, services, asked.tenant, error)
        raise
    bind(job=accepted.job.id)
    if accepted.stored is not None and accepted.stored.standing is not None:
        tell_standing(request.scope, accepted.stored.standing)
    return accepted


def _note_refusal(
    request: Request, services: Services, tenant: str, error: TooManyRequests
) -> None:
    """Count a refusal; one for a limit tells what is left, and that more of it is no demand."""
    refused.labels(error.reason).inc()
    if not isinstance(error, LimitReached):
        return
    if error.reason in ANY_JOB:
        services.limited.note(tenant, error.retry_after_s)
    if error.standing is not None:
        tell_standing(request.scope, error.standing)


async def _accept(services: Services, asked: Asked) -> Accepted:
    """Take a job from stage to stage. Any of them may refuse it; what it is told is in order."""
    draft = await _draft(services, asked)
    if asked.key:
        earlier = await services.jobs.earlier(asked.tenant, asked.key, asked.digest)
        if earlier is not None:
            return await _replay(services, earlier)
    if _has_inputs(asked.create):
        draft = await find_inputs(services, draft)
    new = await _place(services, asked, draft.of_known_quality())
    if new.deadline_s is not None:
        await check_deadline(services, new, new.deadline_s)
    if draft.images:
        submitted = await submit_with_images(services, new, draft)
    else:
        submitted = await services.submitter.submit(new)
    return await _answer(services, new, submitted)


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


def _turn(services: Services, asked: Asked) -> AbstractAsyncContextManager[object]:
    """Wait for a turn of the tenant's with pictures; what brings none needs none."""
    create = asked.create
    brought = create.image or create.controls or create.ip_adapter
    has_pictures = create.task is Task.EDIT or brought
    return services.turns.of(asked.tenant) if has_pictures else nullcontext()


async def _draft(services: Services, asked: Asked) -> Draft:
    """Draft a job for its application, if it names one, and by when that promises it."""
    create, application = asked.create, None
    if create.application not in (None, DEFAULT):
        application = await find_application(services, asked.tenant, create.application)
    slo_s = _slo_of(services, application, create)
    draft = services.rules.draft(asked.tenant, create, application, slo_s)
    if create.webhook is not None:
        check_webhook(services, create.webhook)
    return draft


def _slo_of(services: Services, application: Application | None, create: JobCreate) -> float:
    """Say by when a job is promised: its application's SLO, else by what its best model takes.

    Units: seconds from acceptance
    """
    if application is not None and application.slo_s is not None:
        return application.slo_s
    plan, models = services.follower.plan, services.models
    if application is not None:
        models = {name: models[name] for name in models if name in application.models}
    if create.model is not None and create.model in models:
        models = {create.model: models[create.model]}
    if plan is None or not plan.costs or not models:
        return services.settings.slo_s
    second = second_pass_of(create)
    return default_slo_s(models, plan.costs, steps=create.steps, images=create.n, second=second)


def _has_inputs(create: JobCreate) -> bool:
    """Tell whether a job names adapters or brings pictures; most are words alone."""
    if create.task is not Task.GENERATE or create.image is not None:
        return True
    return bool(create.loras or create.embeddings or create.controls or create.ip_adapter)


async def _place(services: Services, asked: Asked, draft: Draft) -> NewJob:
    """Ask where a job goes, and take what the model that gets it makes of it.

    Raises:
        NoPlan: nobody can hold any of the models that can make it.
        TooManyRequests: it would wait too long.
    """
    placement = await services.placements.place(_query(services, asked, draft))
    request = _placed(draft, placement.model)
    priority = QUEUE_PRIORITY[request.priority]
    terms = services.tenants.terms_of(draft.tenant)
    return NewJob(
        id=draft.id,
        tenant=draft.tenant,
        request=request,
        placement=placement,
        deadline_s=asked.create.deadline_s,
        message=envelope(draft.id, placement.queue, priority),
        priority=priority,
        idempotency_key=asked.key,
        digest=asked.digest,
        work=request.work / terms.weight,
        limits=terms.limits,
        retention_s=terms.retention_s,
        brings_bytes=sum(len(picture.data) for _, picture in draft.images),
        leaves_bytes=request.most_bytes(services.models[placement.model].scale),
        trace=TRACES.current,
    )


def _query(services: Services, asked: Asked, draft: Draft) -> PlacementQuery:
    """Say what decides where a job goes; one that a limit is expected to refuse is no demand."""
    query = query_of(draft, asked.ticket, services.settings.max_wait_slos)
    return replace(query, is_counted=False) if draft.tenant in services.limited else query


def _placed(draft: Draft, name: str) -> JobRequest:
    """Find what was placed; a model that cannot make the request was not asked for."""
    for model, request in draft.offers:
        if model.name == name:
            return request
    raise NoPlan(f"the plan answers with {name}, which cannot make this request")


async def _answer(services: Services, new: NewJob, submitted: Submitted) -> Accepted:
    """Show a job just stored without reading it back, or that of the same key which was first.

    Raises:
        StoreUnavailable: that is gone, as where another server leads since: to be asked for again.
    """
    if not submitted.is_new:
        try:
            earlier = await services.jobs.get(submitted.id, new.tenant)
        except NotFound as error:
            raise StoreUnavailable(f"job {submitted.id} is gone, which had this key") from error
        return await _replay(services, earlier)
    services.limited.forget(new.tenant)
    note_waiting(services.depths, new.placement.queue)
    job = _queued(new)
    view = await show_open(services, job, submitted.position)
    return Accepted(job=job, view=view, stored=submitted)


async def _replay(services: Services, earlier: Job) -> Accepted:
    return Accepted(job=earlier, view=await show(services, earlier), stored=None)


def _queued(new: NewJob) -> Job:
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
