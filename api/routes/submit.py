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
from api.intake.edits import EditImages, edit_of
from api.intake.loras import fitting
from api.intake.schemas import JobCreate
from api.intake.validate import fill
from api.routes.jobs import as_json, require_json, show, show_open
from api.routes.metrics import refused
from api.services.bodies import beside, read_json
from api.services.deadlines import application_of, check_deadline, max_wait_s_of, slo_of
from api.services.dependencies import Services, services_of
from api.views.openapi import PROBLEMS, SUBMIT, DirectRoute
from api.views.responses import JobView
from core.application import application_key
from core.errors import FieldError, InvalidRequest, NoPlan, RequestRejected, TooManyRequests
from core.job import Edit, Job, JobRequest, JobStatus, Priority, Quality, Task
from core.placement import Placement, PlacementQuery
from core.recipe import edit_works
from core.traits import Use, latent_key, may
from core.variant import Model
from storage.jobs.jobs import NewJob, Submitted
from tasks.jobs.addresses import fault_of_url
from tasks.messages import QUEUE_PRIORITY, envelope

#: A request as one model would make it, and that model.
Offer = tuple[JobRequest, Model]

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
    fill_in = partial(
        fill,
        create,
        seed=_seed(edit),
        edit=edit,
        controls=controls_of(tenant, job_id, create),
        loras=loras,
        slo_s=slo_s,
    )
    offers = tuple((fill_in(model), model) for model in able)
    query = replace(
        _query(tenant, job_id, create, offers),
        slo_s=slo_s,
        max_wait_s=max_wait_s_of(services, create, slo_s),
        ticket=asked.ticket,
    )
    placement = await services.placements.place(query)
    filled = _placed(offers, placement)
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
    services: Services, create: JobCreate, able: tuple[Model, ...], inputs: EditImages
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
    services: Services, filled: JobRequest, inputs: EditImages | None, pictures: Sequence[Picture]
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


def _query(tenant: str, job_id: str, create: JobCreate, offers: Sequence[Offer]) -> PlacementQuery:
    return PlacementQuery(
        prompt=create.prompt,
        models=tuple(model.name for _, model in offers),
        application=application_key(tenant, create.application),
        exact=create.quality is Quality.EXACT,
        steps=create.steps,
        rows=create.n,
        tenant=tenant,
        terms=tuple(
            latent_key(request)
            for request, model in offers
            if model.resumed_levels and may(Use.BORROW, request)
        ),
        works=tuple(w for each in offers if each[0].edit for w in edit_works(job_id, *each)),
        is_batch=create.priority is Priority.BATCH,
    )


def _placed(offers: Sequence[Offer], placement: Placement) -> JobRequest:
    """Find what was placed; a model that cannot make the request was not asked for."""
    for request, model in offers:
        if model.name == placement.model:
            return request
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
