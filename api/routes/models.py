"""Routes of `/v1/models`: what is served, its sizes and limits; operators add and remove."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import ConfigDict, Field
from starlette.responses import Response

from api.intake.schemas import Inbound
from api.routes.jobs import as_json
from api.services.requests import caller_of, read_json, require_json, sender_of
from api.services.served_models import NewModel, ServedModels
from api.services.services import Services
from api.services.tenants.operators import note
from api.views.model_view import ModelGone, ModelList, ModelView, model_view
from api.views.openapi import MODEL, MODEL_NOT_FOUND, MODEL_PROBLEMS
from catalog.description.folder import Description
from core.application import DEFAULT
from core.errors import ConfigurationError, FieldError, InvalidRequest, NotFound, Unavailable
from core.family import SAMPLERS
from core.model import SAMPLER_MAX_STEPS, Model

#: Characters of the path of a model.
MAX_PATH = 4096

router = APIRouter(tags=["service"])


class ModelCreate(Inbound):
    """What an operator wants served."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"path": "/models/my-sdxl", "name": "my-sdxl"}]}
    )

    path: Annotated[str, Field(min_length=1, max_length=MAX_PATH)] = Field(
        description="A folder of diffusers' layout on the disk of the service, which is linked to "
        "and must stay where it is; or a .safetensors checkpoint of SD 1.x/2.x, SDXL, SD 3 or "
        "Flux, which is converted into such a folder: the answer comes after minutes then."
    )
    name: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        None, description="What requests name as their `model`; null: as its folder is called."
    )
    base: Annotated[str, Field(min_length=1, max_length=MAX_PATH)] | None = Field(
        None,
        description="Of a checkpoint of SD 3 or Flux, or one that is not whole: a stock folder of "
        "its family, for configurations, tokenizers and the parts that it does not have.",
    )
    dry_run: bool = Field(False, description="Only say what it would be served as.")


@router.get("/v1/models", response_model=ModelList, summary="List the models served")
async def models(request: Request) -> Response:
    """List the models served, their levels, sizes and limits."""
    services, tenant = caller_of(request)
    view = _list(services, await _applications(services, tenant))
    return Response(view.model_dump_json(), media_type="application/json")


@router.get(
    "/v1/models/{name}",
    response_model=ModelView,
    responses=MODEL_NOT_FOUND,
    summary="Read what one model makes",
)
async def model(request: Request, name: str) -> Response:
    """Read what one model makes, what its folder holds, and whether a worker can load it."""
    services, _ = caller_of(request)
    if name not in services.models:
        raise NotFound(_why_not(services, name))
    return as_json(_views(services, [services.models[name]])[0])


@router.post(
    "/v1/models",
    status_code=201,
    response_model=ModelView,
    responses=MODEL_PROBLEMS,
    openapi_extra=MODEL,
    summary="Have a model served (operators)",
)
async def add_model(request: Request) -> Response:
    """Have a folder of the service's own disk served, and say what it is served as."""
    services, _ = caller_of(request)
    require_json(request)
    asked = await read_json(request, ModelCreate)
    new = NewModel(
        path=_path("path", asked.path),
        name=asked.name,
        base=_path("base", asked.base) if asked.base else None,
        is_dry=asked.dry_run,
    )
    found = await _served(services).add(new)
    if not asked.dry_run:
        holder = sender_of(request)
        await note(request, holder, "model_added", model=found.model.name, path=asked.path)
    view = _views(services, [found.model], {found.model.name: found.description})[0]
    return as_json(view, status=200 if asked.dry_run else 201)


@router.delete(
    "/v1/models/{name}",
    response_model=ModelGone,
    responses=MODEL_NOT_FOUND,
    summary="Serve a model no more (operators)",
)
async def remove_model(request: Request, name: str) -> Response:
    """Serve a model no more. Jobs that wait for it move to another, or fail where they named it."""
    services, _ = caller_of(request)
    await _served(services).remove(name)
    await note(request, sender_of(request), "model_removed", model=name)
    return as_json(ModelGone(id=name))


def _path(field: str, written: str) -> Path:
    """Read a path that a system can have; whether anything is there is found out later.

    Raises:
        InvalidRequest: no system could, or its home is nobody's.
    """
    try:
        path = Path(written).expanduser()
        os.stat(path)
    except FileNotFoundError:
        return path
    except (OSError, RuntimeError, ValueError) as error:  # too long, no such user, a NUL
        fault = f"is no path that can be read here: {getattr(error, 'strerror', None) or error}"
        raise InvalidRequest([FieldError(field, fault)]) from error
    return path


def _served(services: Services) -> ServedModels:
    if services.served is None:
        raise ConfigurationError("this service does not follow its models")
    return services.served


async def _applications(services: Services, tenant: str) -> list[str]:
    """Name what a job may name; models are listed even while the store is away."""
    try:
        return [DEFAULT, *(each.name for each in await services.applications.list(tenant))]
    except Unavailable:
        return [DEFAULT]


def _why_not(services: Services, name: str) -> str:
    reason = services.served.catalogue.refused.get(name) if services.served else None
    return f"{name} is not served: {reason}" if reason else f"there is no model {name}"


def _list(services: Services, applications: list[str]) -> ModelList:
    return ModelList(
        data=_views(services, services.models.values()),
        samplers={name: SAMPLER_MAX_STEPS.get(name) for name in SAMPLERS},
        applications=applications,
        max_images=services.rules.max_images,
        max_prompt_chars=services.rules.max_prompt_chars,
    )


def _views(
    services: Services,
    models: Iterable[Model],
    described: Mapping[str, Description | None] | None = None,
) -> list[ModelView]:
    """Show models as they stand now. `described`: of their folders; the catalogue's if None."""
    if described is None:
        described = services.served.catalogue.descriptions if services.served else {}
    plan = services.follower.plan
    resident = {name for worker in services.fleet for name in worker.models}
    planned = {name for row in plan.loads.values() for name in row} if plan else set()
    return [
        model_view(
            model,
            described.get(model.name),
            resident=resident,
            planned=planned,
            untried_on=_untried_on(services, model.name),
        )
        for model in models
    ]


def _untried_on(services: Services, model: str) -> list[str]:
    """List the device types whose workers have not found out yet what a model costs there."""
    return sorted({w.device_type for w in services.fleet if model in w.untried})
