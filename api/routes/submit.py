"""Route `POST /v1/jobs`: store and enqueue a job, or refuse it and store nothing."""

import time
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from hashlib import sha256

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.intake.controls import add_conditions, add_shown
from api.intake.draft import Draft
from api.intake.edits import add_edit, add_image, add_picture
from api.intake.schemas import JobCreate
from api.routes.jobs import as_json, show, show_open
from api.routes.metrics import refused
from api.services.deadlines import (
    application_of,
    check_deadline,
    max_wait_s_of,
    note_waiting,
    slo_of,
)
from api.services.requests import beside, caller_of, read_json, require_json, services_of
from api.services.services import Services
from api.views.openapi import PROBLEMS, SUBMIT, DirectRoute
from api.views.rate_limit import tell_standing
from api.views.responses import JobView
from core.application import application_key
from core.errors import (
    FieldError,
    InvalidRequest,
    LimitReached,
    NoPlan,
    NotFound,
    RequestRejected,
    StoreUnavailable,
    TooManyRequests,
)
from core.job import Job, JobRequest, JobStatus, Priority, Quality, Task
from core.levels.level import resumes
from core.log import bind
from core.placement import PlacementQuery
from core.recipe import edit_works
from core.telemetry.traces import TRACES
from core.tenants.limits import Standing
from core.traits import Use, latent_key, may
from storage.jobs.submit import NewJob, Submitted
from tasks.jobs.addresses import fault_of_url
from tasks.messages import QUEUE_PRIORITY, envelope

router = APIRouter(tags=["jobs"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was parsed: who asks for what, and how the request is known when it comes again."""

    tenant: str
    create: JobCreate
    key: str | None  #: for idempotency
    digest: str  #: of what is asked for, where there is a key
    ticket: str  #: for a place in line after a refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """What a request became: a new job, or the one of an earlier request with its key."""

    job: Job
    view: JobView
    is_new: bool = True
    standing: Standing | None = None  #: of a tenant with limits


async def submit(request: Request) -> Response:
    """Accept one job: it is stored and queued, or refused with nothing stored."""
    services, tenant = caller_of(request)
    accepted = await accept(request, await _parse(request, tenant))
    response = as_json(accepted.view, 202)
    response.headers["Location"] = services.views.url_of(accepted.job.id)
    if not accepted.is_new:
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
        refused.labels(error.reason).inc()
        if isinstance(error, LimitReached) and error.standing is not None:
            tell_standing(request.scope, error.standing)
        raise
    bind(job=accepted.job.id)
    if accepted.standing is not None:
        tell_standing(request.scope, accepted.standing)
    return accepted


async def _accept(services: Services, asked: Asked) -> Accepted:
    """Take a job from stage to stage. Any of them may refuse it; what it is told is in order."""
    application = await application_of(services, asked.tenant, asked.create.application)
    slo_s = slo_of(services, application, asked.create)
    draft = services.rules.draft(asked.tenant, asked.create, application, slo_s)
    _check_webhook(services, asked.create)
    if earlier := await _earlier(services, asked):
        return await _replay(services, earlier)
    draft = await _resolve(services, draft)
    new = await _place(services, asked, draft)
    await check_deadline(services, new)
    submitted = await _store(services, new, draft)
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


async def _parse(request: Request, tenant: str) -> Asked:
    """Read what is asked for."""
    key = idempotency_key(request)
    create = await read_json(request, JobCreate)
    require_json(request)
    return await beside(await request.body(), ask, tenant, key, create)


def idempotency_key(request: Request) -> str | None:
    """Read by which name a client will know its request if it sends it again.

    Raises:
        InvalidRequest: it cannot be one.
    """
    key = request.headers.get("idempotency-key")
    if key is not None and not (0 < len(key) <= 255 and key.isascii() and key.isprintable()):
        fault = FieldError("Idempotency-Key", "must be 1 to 255 printable ASCII characters")
        raise InvalidRequest([fault])
    return key


def ask(body: bytes, tenant: str, key: str | None, create: JobCreate) -> Asked:
    """Name a request so that it is known when it comes again."""
    digest = sha256(create.model_dump_json().encode()).hexdigest() if key else ""
    named = sha256(tenant.encode() + b"\n" + (body if key is None else key.encode()))
    ticket = named.hexdigest()[:32]
    return Asked(tenant=tenant, create=create, key=key, digest=digest, ticket=ticket)


def _turn(services: Services, asked: Asked) -> AbstractAsyncContextManager[object]:
    """Wait for a turn of the tenant's with pictures; what brings none needs none."""
    create = asked.create
    brought = create.image or create.controls or create.ip_adapter
    has_pictures = create.task is Task.EDIT or brought
    return services.turns.of(asked.tenant) if has_pictures else nullcontext()


def _check_webhook(services: Services, create: JobCreate) -> None:
    if create.webhook is None:
        return
    allow_private = services.settings.webhook_allow_private
    if fault := fault_of_url(create.webhook.url, allow_private=allow_private):
        raise InvalidRequest([FieldError("webhook.url", fault)])


async def _earlier(services: Services, asked: Asked) -> Job | None:
    """Find the job of an earlier request with the same key; raises Conflict for another one."""
    if not asked.key:
        return None
    return await services.jobs.earlier(asked.tenant, asked.key, asked.digest)


async def _resolve(services: Services, draft: Draft) -> Draft:
    """Find the adapters and read the images that a job names; most name none."""
    create = draft.create
    if create.loras:
        draft = await services.loras.add(draft)
    if create.embeddings:
        draft = services.rules.check_words(await services.embeddings.add(draft))
    if create.controls:
        draft = await services.controlnets.add(draft)
    if create.task is Task.EDIT:
        draft = await add_edit(services.images, draft)
    if create.task is Task.UPSCALE:
        draft = await add_picture(services.images, draft)
    elif create.image is not None:
        draft = await add_image(services.images, draft)
    if create.controls:
        draft = await add_conditions(services.images, draft, services.rules.controlnets)
    if create.ip_adapter is not None:
        draft = await add_shown(services.images, draft, services.rules.ip_adapters)
    return draft.of_known_quality()


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


def _placed(draft: Draft, name: str) -> JobRequest:
    """Find what was placed; a model that cannot make the request was not asked for."""
    for model, request in draft.offers:
        if model.name == name:
            return request
    raise NoPlan(f"the plan answers with {name}, which cannot make this request")


def _query(services: Services, asked: Asked, draft: Draft) -> PlacementQuery:
    create, request = asked.create, draft.request
    lending = draft.offers if may(Use.BORROW, request) else ()
    edited = draft.offers if request.edit is not None else ()
    return PlacementQuery(
        prompt=create.prompt,
        models=tuple(model.name for model, _ in draft.offers),
        application=application_key(asked.tenant, create.application),
        exact=create.quality is Quality.EXACT,
        steps=None if "steps" in request.filled else request.steps,
        share=request.share,
        rows=create.n,
        tenant=asked.tenant,
        terms=tuple(latent_key(made) for model, made in lending if resumes(model)),
        works=tuple(w for model, made in edited for w in edit_works(draft.id, made, model)),
        slo_s=request.slo_s,
        max_wait_s=max_wait_s_of(services, request, create.deadline_s),
        is_batch=create.priority is Priority.BATCH,
        ticket=asked.ticket,
    )


async def _store(services: Services, new: NewJob, draft: Draft) -> Submitted:
    """Store and queue a job, its images before it: whoever claims it finds them."""
    if not draft.images:
        return await services.submitter.submit(new)
    await services.board.ping()  # a store that is away is found before anything is left behind
    await services.images.store(draft.images)
    try:
        submitted = await services.submitter.submit(new)
    except RequestRejected:  # after any other error the job may be stored, and needs them
        await services.images.discard(draft.images)
        raise
    if not submitted.is_new:
        await services.images.discard(draft.images)
    return submitted


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
    note_waiting(services, new.placement.queue)
    job = _queued(new)
    view = await show_open(services, job, submitted.position)
    return Accepted(job=job, view=view, standing=submitted.standing)


async def _replay(services: Services, earlier: Job) -> Accepted:
    return Accepted(job=earlier, view=await show(services, earlier), is_new=False)


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
