"""Find what a job names beside its words, read what it brings, and store that before it."""

from api.intake.controls import add_conditions, add_shown
from api.intake.draft import Draft
from api.intake.edits import add_edit, add_image, add_picture
from api.intake.schemas import WebhookCreate
from api.services.services import Services
from core.application import Application
from core.errors import FieldError, InvalidRequest, NotFound, RequestRejected, StoreRefused
from core.job import Task
from storage.jobs.submit import NewJob, Submitted
from tasks.jobs.addresses import fault_of_url


async def find_application(services: Services, tenant: str, name: str) -> Application:
    """Find the application that a job names.

    Raises:
        InvalidRequest: the tenant has none of this name.
    """
    try:
        return await services.applications.get(tenant, name)
    except NotFound as error:
        raise InvalidRequest([FieldError("application", str(error))]) from error


def check_webhook(services: Services, webhook: WebhookCreate) -> None:
    """Refuse a webhook to where nothing may be sent."""
    allow_private = services.settings.webhook_allow_private
    if fault := fault_of_url(webhook.url, allow_private=allow_private):
        raise InvalidRequest([FieldError("webhook.url", fault)])


async def find_inputs(services: Services, draft: Draft) -> Draft:
    """Find the adapters and read the images that a job names.

    Raises:
        InvalidRequest: some cannot be found or read, or fit no model; each is named.
        Unavailable: a store cannot serve now.
    """
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
    return draft


async def submit_with_images(services: Services, new: NewJob, draft: Draft) -> Submitted:
    """Store and queue a job, its images before it: whoever claims it finds them.

    What comes of neither its record nor a refusal is deleted by upkeep, as the note says. A store
    that is away is found before anything is left behind.

    Raises:
        RequestRejected, StoreRefused: it is not stored; nothing is left of it.
        Unavailable: it may be stored; its images are there if it is.
    """
    await services.jobs.expect(new.id, [key for key, _ in draft.images])
    await services.images.store(draft.images)
    try:
        submitted = await services.submitter.submit(new)
    except (RequestRejected, StoreRefused):  # after others the job may be stored, and needs them
        await services.images.discard(draft.images)
        raise
    if not submitted.is_new:
        await services.images.discard(draft.images)
    return submitted
