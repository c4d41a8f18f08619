"""Routes of `/v1/controlnets`: built-in ControlNets and those a tenant uploads."""

from enum import StrEnum
from typing import Annotated

import msgspec
from fastapi import APIRouter, HTTPException, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from api.intake.schemas import MAX_NAME
from api.intake.weights import Spool
from api.routes.jobs import as_json
from api.services.kept import Content, Deletion, KeptFiles, PageCursor, PageSize
from api.services.requests import FILE_TYPE, caller_of, services_of
from api.views.openapi import CONTROLNET, KEPT_NOT_FOUND, WEIGHTS_PROBLEMS
from catalog.controlnet.encoder import Traits
from catalog.controlnet.manifest import Manifest
from catalog.controlnets import count_modes, is_t2i_adapter
from core.cells.ids import new_id
from core.uploads.controlnet import ControlNet, KeptControlNet, manifest_key, weights_key
from core.uploads.upload import UploadKind

KEPT = KeptFiles(kind=UploadKind.CONTROLNET, records=lambda services: services.controlnets.records)

router = APIRouter(tags=["controlnets"])


class Order(StrEnum):
    """In which order a ControlNet reads the colours of its pictures."""

    RGB = "rgb"
    BGR = "bgr"


Model = Annotated[
    str | None,
    Query(max_length=MAX_NAME, description="The model it is for; else all that it steers."),
]
Condition = Annotated[
    str, Query(max_length=200, description="What its pictures show, for a person.")
]
ChannelOrder = Annotated[Order, Query(description="Of the colours that it was trained on.")]
Pooled = Annotated[bool, Query(description="Of SD3: whether it is told the pooled prompt.")]


class ControlNetView(BaseModel):
    """One ControlNet, and the models that it steers."""

    id: str
    object: str = "controlnet"
    models: list[str]
    condition: str
    modes: int = 0  #: kinds of pictures that it tells apart, as `mode` of a control says
    is_adapter: bool = False  #: whether it is a T2I-Adapter: told the picture alone, once
    bytes: int | None = None  #: of what is kept; the service's own have none
    sha256: str | None = None
    created_at: float | None = None


class ControlNetList(BaseModel):
    """The service's own, then one page of what is kept, newest first; pass `cursor` to read on."""

    object: str = "list"
    data: list[ControlNetView]
    max_controls: int
    cursor: str | None


class ControlNetGone(Deletion):
    """What was deleted."""

    object: str = "controlnet"


@router.post(
    "/v1/controlnets",
    status_code=201,
    response_model=ControlNetView,
    responses=WEIGHTS_PROBLEMS,
    openapi_extra=CONTROLNET,
    summary="Keep a ControlNet",
)
async def keep(
    request: Request,
    model: Model = None,
    condition: Condition = "",
    order: ChannelOrder = Order.RGB,
    pooled: Pooled = False,
) -> Response:
    """Check a ControlNet against the models served and keep it until it is deleted."""
    services, tenant = caller_of(request)
    traits = Traits(is_bgr=order is Order.BGR, is_told_pooled=pooled)

    async def describe(spool: Spool) -> tuple[KeptControlNet, list[Content]]:
        models, config = await services.controlnets.take(spool, request.stream(), model, traits)
        controlnet_id = new_id(services.settings.cell)
        controlnet = KeptControlNet(
            id=controlnet_id,
            tenant=tenant,
            key=weights_key(controlnet_id),
            models=models,
            condition=condition,
            modes=count_modes(config),
            is_adapter=is_t2i_adapter(config),
            size_bytes=spool.size_bytes,
            sha256=spool.sha256,
        )
        manifest = Content(
            key=manifest_key(controlnet_id),
            body=msgspec.json.encode(Manifest(config=config, sha256=spool.sha256)),
            content_type="application/json",
        )
        weights = Content(key=controlnet.key, body=spool, content_type=FILE_TYPE)
        return controlnet, [weights, manifest]

    kept = await KEPT.keep(request, describe)
    response = as_json(_kept(kept), 201)
    response.headers["Location"] = f"{services.urls.public_url}/v1/controlnets/{kept.id}"
    return response


@router.get(
    "/v1/controlnets", response_model=ControlNetList, summary="List what images can keep to"
)
async def list_controlnets(
    request: Request,
    limit: PageSize = 20,
    cursor: PageCursor = None,
) -> Response:
    """List the ControlNets that a job may name, and what their conditions show."""
    page = await KEPT.list(request, limit, cursor)
    rules = services_of(request).rules
    own = [] if cursor else [_own(each) for each in rules.controlnets.values()]
    return as_json(
        ControlNetList(
            data=[*own, *(_kept(each) for each in page.uploads)],
            max_controls=rules.max_controls,
            cursor=page.cursor,
        )
    )


@router.get(
    "/v1/controlnets/{controlnet_id}",
    response_model=ControlNetView,
    responses=KEPT_NOT_FOUND,
    summary="Read one ControlNet",
)
async def read(request: Request, controlnet_id: str) -> Response:
    """Read one of the service's own, or what is kept under one id."""
    services, _ = caller_of(request)
    if own := services.rules.controlnets.get(controlnet_id):
        return as_json(_own(own))
    return as_json(_kept(await KEPT.get(request, controlnet_id)))


@router.delete(
    "/v1/controlnets/{controlnet_id}",
    response_model=ControlNetGone,
    responses=KEPT_NOT_FOUND,
    summary="Delete a ControlNet",
)
async def remove(request: Request, controlnet_id: str) -> Response:
    """Delete one: no new job may name it. Jobs that were accepted still find its file.

    Upkeep deletes the file once they have had the time to end.
    """
    services, _ = caller_of(request)
    if controlnet_id in services.rules.controlnets:
        raise HTTPException(409, "the service's own ControlNets are removed by its operator")
    await KEPT.remove(request, controlnet_id)
    return as_json(ControlNetGone(id=controlnet_id))


def _own(controlnet: ControlNet) -> ControlNetView:
    return ControlNetView(
        id=controlnet.name,
        models=list(controlnet.models),
        condition=controlnet.condition,
        modes=controlnet.modes,
        is_adapter=controlnet.is_adapter,
    )


def _kept(controlnet: KeptControlNet) -> ControlNetView:
    return ControlNetView(
        id=controlnet.id,
        models=list(controlnet.models),
        condition=controlnet.condition,
        modes=controlnet.modes,
        is_adapter=controlnet.is_adapter,
        bytes=controlnet.size_bytes,
        sha256=controlnet.sha256,
        created_at=controlnet.created_at,
    )
