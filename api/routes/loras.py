"""Routes of `/v1/loras`: upload, list, read and delete a tenant's LoRAs."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from api.intake.schemas import MAX_NAME
from api.intake.weights import Spool
from api.routes.jobs import as_json
from api.services.kept import Content, Deletion, KeptFiles, PageCursor, PageSize
from api.services.requests import FILE_TYPE, caller_of
from api.views.openapi import KEPT_NOT_FOUND, LORA, WEIGHTS_PROBLEMS
from core.cells.ids import new_id
from core.levels.schedule import SCHEDULE_STEPS
from core.uploads.lora import KeptLora, lora_key
from core.uploads.upload import UploadKind

Model = Annotated[
    str | None,
    Query(max_length=MAX_NAME, description="The model it is for; else all that it fits."),
]
Bound = Annotated[
    int | None,
    Query(
        ge=0,
        le=SCHEDULE_STEPS,
        description=f"Of {SCHEDULE_STEPS} steps, how many may run without it while it is "
        "loaded; else as many as `atelier profile` has found for it, or none.",
    ),
]

KEPT = KeptFiles(kind=UploadKind.LORA, records=lambda services: services.loras.records)

router = APIRouter(tags=["loras"])


class LoraView(BaseModel):
    """A LoRA that is kept."""

    id: str
    object: str = "lora"
    models: list[str]  #: that it fits
    layers: int  #: that it changes
    bound: int | None  #: as its owner said
    bytes: int
    sha256: str
    created_at: float


class LoraPage(BaseModel):
    """One page of what is kept, newest first; pass `cursor` to read on."""

    object: str = "list"
    data: list[LoraView]
    cursor: str | None


class LoraGone(Deletion):
    """What was deleted."""

    object: str = "lora"


@router.post(
    "/v1/loras",
    status_code=201,
    response_model=LoraView,
    responses=WEIGHTS_PROBLEMS,
    openapi_extra=LORA,
    summary="Keep a LoRA",
)
async def keep(request: Request, model: Model = None, bound: Bound = None) -> Response:
    """Check a LoRA against the models served and keep it until it is deleted."""
    services, tenant = caller_of(request)

    async def describe(spool: Spool) -> tuple[KeptLora, list[Content]]:
        models, num_layers = await services.loras.take(spool, request.stream(), model)
        lora_id = new_id(services.settings.cell)
        lora = KeptLora(
            id=lora_id,
            tenant=tenant,
            key=lora_key(tenant, lora_id),
            models=models,
            num_layers=num_layers,
            bound=bound,
            size_bytes=spool.size_bytes,
            sha256=spool.sha256,
        )
        return lora, [Content(key=lora.key, body=spool, content_type=FILE_TYPE)]

    kept = await KEPT.keep(request, describe)
    response = as_json(_view(kept), 201)
    response.headers["Location"] = f"{services.urls.public_url}/v1/loras/{kept.id}"
    return response


@router.get("/v1/loras", response_model=LoraPage, summary="List LoRAs, newest first")
async def list_loras(
    request: Request,
    limit: PageSize = 20,
    cursor: PageCursor = None,
) -> Response:
    """List what the tenant keeps, newest first."""
    page = await KEPT.list(request, limit, cursor)
    return as_json(LoraPage(data=[_view(each) for each in page.uploads], cursor=page.cursor))


@router.get(
    "/v1/loras/{lora_id}",
    response_model=LoraView,
    responses=KEPT_NOT_FOUND,
    summary="Read one LoRA",
)
async def read(request: Request, lora_id: str) -> Response:
    """Read what is kept under one id."""
    return as_json(_view(await KEPT.get(request, lora_id)))


@router.delete(
    "/v1/loras/{lora_id}",
    response_model=LoraGone,
    responses=KEPT_NOT_FOUND,
    summary="Delete a LoRA",
)
async def remove(request: Request, lora_id: str) -> Response:
    """Delete one: no new job may name it. Jobs that were accepted still find its file.

    Upkeep deletes the file once they have had the time to end.
    """
    await KEPT.remove(request, lora_id)
    return as_json(LoraGone(id=lora_id))


def _view(lora: KeptLora) -> LoraView:
    return LoraView(
        id=lora.id,
        models=list(lora.models),
        layers=lora.num_layers,
        bound=lora.bound,
        bytes=lora.size_bytes,
        sha256=lora.sha256,
        created_at=lora.created_at,
    )
