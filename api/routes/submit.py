"""Route `POST /v1/jobs`: store and enqueue a job, or refuse it and store nothing."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from secrets import randbits
from uuid import uuid4

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.intake.conditions import controls_of
from api.intake.decode_images import Picture
from api.intake.edits import Inputs, edit_of
from api.intake.loras import fitting
from api.intake.schemas import JobCreate
from api.intake.validate import fill
from api.routes.applications import application_of
from api.routes.jobs import as_json, require_json, show, show_open
from api.routes.metrics import refused
from api.services.bodies import beside, read_json
from api.services.deadlines import check_deadline, max_wait_s_of, slo_of
from api.services.dependencies import Services, services_of
from api.views.openapi import PROBLEMS, SUBMIT, DirectRoute
from api.views.responses import JobView
from core.application import application_key
from core.errors import FieldError, InvalidRequest, NoPlan, RequestRejected, TooManyRequests
from core.image_work import ImageWork
from core.job import Edit, Job, JobRequest, JobStatus, Priority, Quality, Task
from core.latents import LatentKey
from core.placement import Placement, PlacementQuery
from core.recipe import edit_works
from core.uploads.lora import LoraUse
from core.variant import Model
from storage.jobs.jobs import NewJob, Submitted
from tasks.jobs.addresses import fault_of_url
from tasks.messages import QUEUE_PRIORITY, envelope

#: Random seeds stay exact in every client's JSON numbers.
SEED_BITS = 32

router = APIRouter(tags=["jobs"])


async def submit(request: Request) -> Response:
    """Accept one job: it is stored and queued, or refused with nothing stored."""
    services = services_of(request)
    tenant = services.keyring.tenant_of(request)
    key = _idempotency_key(request)
    create = await read_json(request, JobCreate)
    require_json(request)
    asked = await beside(await request.body(), _ask, tenant, key, create)
    try:
        async with services.turns.of(tenant, has_pictures=_has_pictures(create)):
            return await _accept(services, asked, create)
    except TooManyRequests as error:
        refused.labels(error.reason).inc()
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Who asks, and how the request is known when it comes again."""

    tenant: str
    key: str | None  #: for idempotency
    digest: str  #: of what is asked for, where there is a key
    ticket: str  #: for a place in line after a refusal


async def _accept(services: Services, asked: _Asked, create: JobCreate) -> Response:
    tenant, key, digest = asked.tenant, asked.key, asked.digest
    application = await application_of(services, tenant, create.application)
    able = services.rules.candidates(create, application)
    _check_webhook(services, create)
    if key and (earlier := await services.jobs.earlier(tenant, key, digest)):
        return _accepted(services, await show(services, earlier), True)
    loras = await services.adapters.named(tenant, create)
    able = await services.kept_controlnets.fitting(tenant, create, fitting(able, loras))
    inputs = await services.edits.read(tenant, create) if create.task is Task.EDIT else None
    if inputs is not None:
        create, able = _sized(services, create, able, inputs)
    pictures = await services.conditions.read(tenant, create)
    job_id = uuid4().hex
    edit = edit_of(tenant, job_id, inputs, create.strength) if inputs is not None else None
    slo_s = slo_of(services, application, create)
    query = replace(
        _query(tenant, create, able, _works(job_id, create, able, edit, loras), loras, slo_s),
        max_wait_s=max_wait_s_of(services, create, slo_s),
        ticket=asked.ticket,
    )
    placement = await services.placements.place(query)
    filled = fill(
        create,
        _placed(able, placement),
        seed=_seed(edit),
        edit=edit,
        controls=controls_of(tenant, job_id, create),
        loras=loras,
        slo_s=slo_s,
    )
    await check_deadline(services, filled, placement, create.deadline_s)
    new = _new_job(job_id, tenant, filled, placement, create.deadline_s, key, digest)
    submitted = await _submit(services, new, _brought(services, new.request, inputs, pictures))
    if not submitted.is_new:
        earlier = await services.jobs.get(submitted.id, tenant)
        return _accepted(services, await show(services, earlier), True)
    services.note_waiting(placement.queue)
    view = await show_open(services, _queued(new), submitted.position)
    return _accepted(services, view, False)


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


def _has_pictures(create: JobCreate) -> bool:
    return create.task is Task.EDIT or bool(create.controls)


def _ask(body: bytes, tenant: str, key: str | None, create: JobCreate) -> _Asked:
    """Name a request so that it is known when it comes again."""
    digest = sha256(create.model_dump_json().encode()).hexdigest() if key else ""
    named = sha256(tenant.encode() + b"\n" + (body if key is None else key.encode()))
    return _Asked(tenant=tenant, key=key, digest=digest, ticket=named.hexdigest()[:32])


def _seed(edit: Edit | None) -> int:
    """Choose the noise where the client does not."""
    return randbits(SEED_BITS) if edit is None else edit.default_seed


def _sized(
    services: Services, create: JobCreate, able: tuple[Model, ...], inputs: Inputs
) -> tuple[JobCreate, tuple[Model, ...]]:
    """Give an edit the size of its template, and keep the models that can make it."""
    width, height = inputs.template.width, inputs.template.height
    fitting = services.rules.of_template(create, able, width, height)
    return create.model_copy(update={"width": width, "height": height}), fitting


@dataclass(frozen=True, slots=True)
class Brought:
    """The images that come with a job."""

    store: Callable[[], Awaitable[None]]
    discard: Callable[[], Awaitable[None]]


def _brought(
    services: Services, filled: JobRequest, inputs: Inputs | None, pictures: Sequence[Picture]
) -> Brought | None:
    """Say how the images of a job are stored, and taken back; None if it has none."""
    edits, conditions = services.edits, services.conditions
    if filled.edit is not None and inputs is not None:
        return Brought(
            partial(edits.store, filled.edit, inputs), partial(edits.discard, filled.edit)
        )
    if filled.controls:
        return Brought(
            partial(conditions.store, filled.controls, pictures),
            partial(conditions.discard, filled.controls),
        )
    return None


async def _submit(services: Services, new: NewJob, brought: Brought | None) -> Submitted:
    """Store and queue a job, its images before it: whoever claims it finds them."""
    if brought is None:
        return await services.submitter.submit(new)
    await services.board.ping()  # a store that is away is found before anything is left behind
    await brought.store()
    try:
        submitted = await services.submitter.submit(new)
    except RequestRejected:  # after any other error the job may be stored, and needs them
        await brought.discard()
        raise
    if not submitted.is_new:
        await brought.discard()
    return submitted


def _accepted(services: Services, view: JobView, is_replayed: bool) -> Response:
    response = as_json(view, 202)
    response.headers["Location"] = services.views.url_of(view.id)
    if is_replayed:
        response.headers["Idempotent-Replayed"] = "true"
    return response


def _idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not (0 < len(key) <= 255 and key.isascii() and key.isprintable()):
        fault = FieldError("Idempotency-Key", "must be 1 to 255 printable ASCII characters")
        raise InvalidRequest([fault])
    return key


def _check_webhook(services: Services, create: JobCreate) -> None:
    if create.webhook is None:
        return
    allow_private = services.settings.webhook_allow_private
    if fault := fault_of_url(create.webhook.url, allow_private=allow_private):
        raise InvalidRequest([FieldError("webhook.url", fault)])


def _works(
    job_id: str,
    create: JobCreate,
    able: tuple[Model, ...],
    edit: Edit | None,
    loras: tuple[LoraUse, ...],
) -> tuple[ImageWork, ...]:
    """Say what an edit asks of whoever makes it, with each model."""
    if edit is None:
        return ()
    seed = _seed(edit)
    asked = [(fill(create, m, seed=seed, edit=edit, loras=loras), m) for m in able]
    return tuple(work for each in asked for work in edit_works(job_id, *each))


def _query(
    tenant: str,
    create: JobCreate,
    able: tuple[Model, ...],
    works: tuple[ImageWork, ...],
    loras: tuple[LoraUse, ...],
    slo_s: float,
) -> PlacementQuery:
    lenders = able if may_start_elsewhere(create) else ()
    return PlacementQuery(
        prompt=create.prompt,
        models=tuple(model.name for model in able),
        application=application_key(tenant, create.application),
        exact=create.quality is Quality.EXACT,
        steps=create.steps,
        rows=create.n,
        tenant=tenant,
        terms=tuple(_terms(create, model, loras) for model in lenders if model.resumed_levels),
        works=works,
        slo_s=slo_s,
        is_batch=create.priority is Priority.BATCH,
    )


def may_start_elsewhere(create: JobCreate) -> bool:
    """Tell whether a job may go on from the latents of another prompt.

    Several images of one prompt would start alike and end alike; what a negative prompt keeps
    out may be in the latents already, and no others were steered as a ControlNet steers.
    """
    is_free = create.task is Task.GENERATE and create.quality is not Quality.EXACT
    return is_free and create.n == 1 and not create.negative_prompt and not create.controls


def _terms(create: JobCreate, model: Model, loras: tuple[LoraUse, ...]) -> LatentKey:
    return fill(create, model, seed=0, loras=loras).terms


def _placed(able: tuple[Model, ...], placement: Placement) -> Model:
    """Find the model of a placement; one that cannot make the request was not asked for."""
    for model in able:
        if model.name == placement.model:
            return model
    raise NoPlan(f"the plan answers with {placement.model}, which cannot make this request")


def _new_job(
    job_id: str,
    tenant: str,
    filled: JobRequest,
    placement: Placement,
    deadline_s: float | None,
    key: str | None,
    digest: str,
) -> NewJob:
    priority = QUEUE_PRIORITY[filled.priority]
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
