"""Routes `/v1/images/generations` and `/v1/images/edits`, as OpenAI's clients call them."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from fastapi import APIRouter, Request
from starlette.datastructures import FormData, UploadFile
from starlette.responses import Response

from api.facades.forms import files_of, read_form, texts_of
from api.facades.openai.inline import InlineImages
from api.facades.openai.schemas import ImageParams, read_texts
from api.facades.openai.stream import stream
from api.facades.openai.translate import data_url, from_texts, to_job
from api.facades.openai.views import EDIT, GENERATION, IMAGES, not_made, url_body
from api.facades.waiting import leave, until_end_or_cancel
from api.intake.decode_images import Read, read_alpha_mask
from api.routes.submit import accept
from api.services.requests import (
    Asked,
    ask,
    caller_of,
    idempotency_key,
    read_json,
    require_json,
)
from api.services.services import Services
from api.views.openapi import DirectRoute
from core.errors import FieldError, ImageRefused, InvalidRequest
from core.job import JobStatus

#: Seconds that an answer is waited for, a little less than OpenAI's client waits.
MAX_WAIT_S: Final = 590.0

router = APIRouter(tags=["openai"])


async def generate(request: Request) -> Response:
    """Make images and answer with them, or with a stream of events. Who leaves, cancels.

    With an `Idempotency-Key` the job goes on: the same request finds it again.
    """
    caller_of(request)  # whose key is wrong has nothing parsed
    params = await read_json(request, ImageParams)
    require_json(request)
    return await _make(request, params, {}, "image_generation")


async def edit(request: Request) -> Response:
    """Make anew what is transparent in the mask, or in the image where there is no mask."""
    services, tenant = caller_of(request)
    async with read_form(request) as form, services.turns.of(tenant):
        params = await asyncio.to_thread(_params, form)
        brought = await _pictures(services, form)
    return await _make(request, params, {"task": "edit", **brought}, "image_edit")


for path, endpoint, described, summary in (
    ("/v1/images/generations", generate, GENERATION, "Make images (OpenAI)"),
    ("/v1/images/edits", edit, EDIT, "Edit an image (OpenAI)"),
):
    router.add_api_route(
        path,
        endpoint,
        methods=["POST"],
        responses=IMAGES,
        openapi_extra=described,
        summary=summary,
        route_class_override=DirectRoute,
    )


def _params(form: FormData) -> ImageParams:
    return read_texts(from_texts(texts_of(form)))


async def _make(
    request: Request, params: ImageParams, brought: Mapping[str, str], event: str
) -> Response:
    services, tenant = caller_of(request)
    key = idempotency_key(request)
    # Pictures in base64 are copied and hashed: too long for the loop that serves all others.
    asked = await asyncio.to_thread(_asked, services, tenant, key, params, brought)
    accepted = await accept(request, asked)
    if params.stream:
        return stream(request, accepted.job, params, event)
    job = await until_end_or_cancel(services, request, accepted.job, MAX_WAIT_S)
    if not job.status.is_terminal:
        leave(request, job)
    if job.status is not JobStatus.SUCCEEDED:
        return not_made(request, job, is_stopping=services.stopping.is_set())
    if params.response_format != "url":
        return InlineImages(request, job)
    body = await asyncio.to_thread(url_body, services, job)
    return Response(body, media_type="application/json")


def _asked(
    services: Services,
    tenant: str,
    key: str | None,
    params: ImageParams,
    brought: Mapping[str, str],
) -> Asked:
    aliases = services.settings.model_aliases
    create = to_job(params, models=services.models, aliases=aliases, **brought)
    body = create.model_dump_json().encode()  # of a form nothing else is left by now
    return ask(body, tenant, key, create)


async def _pictures(services: Services, form: FormData) -> dict[str, str]:
    """Read what a form brings: an image, and a mask or an image with holes.

    Raises:
        InvalidRequest: there is no image, or several; or nothing says where to edit.
    """
    images, masks = files_of(form, "image", "image[]"), files_of(form, "mask")
    image, mask = _only("image", images), _only("mask", masks or images)
    whole = await image.read()
    holes = whole if mask is image else await mask.read()
    field = "mask" if masks else "image"
    painted = await _read(services, field, read_alpha_mask, holes)
    return {"template": data_url(whole), "mask": data_url(painted)}


def _only(field: str, files: Sequence[UploadFile]) -> UploadFile:
    if len(files) != 1:
        fault = f"must be one file; there are {len(files)}"
        raise InvalidRequest([FieldError(field, fault)])
    return files[0]


async def _read(services: Services, field: str, how: Read, data: bytes) -> bytes:
    try:
        return (await services.pictures.read(how, data)).data
    except ImageRefused as error:
        raise InvalidRequest([FieldError(field, str(error))]) from error
