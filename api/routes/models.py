"""Route `/v1/models`: the models served, their levels, sizes and limits."""

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import Response

from api.services.requests import caller_of
from api.services.services import Services
from core.application import DEFAULT
from core.errors import Unavailable
from core.family import SAMPLERS
from core.job import Task
from core.levels.level import levels_of
from core.model import SAMPLER_MAX_STEPS, Model

router = APIRouter(tags=["service"])


class SizesView(BaseModel):
    """Widths and heights a model makes, in pixels."""

    default: int
    min: int
    max: int
    multiple: int


class StepsView(BaseModel):
    """Denoising steps a model takes."""

    default: int
    max: int


class ModelView(BaseModel):
    """One model served and what it can make."""

    id: str
    object: str = "model"
    family: str
    tasks: list[Task]
    levels: list[str]
    samplers: list[str]
    sizes: SizesView
    steps: StepsView
    default_guidance: float
    max_prompt_tokens: int
    is_resident: bool  #: on some worker, as last reported
    untried_on: list[str]  #: device types where its cost is unknown: it is given no work there


class ModelList(BaseModel):
    """Everything served."""

    object: str = "list"
    data: list[ModelView]
    samplers: dict[str, int | None]  #: name -> its own step limit, if it has one
    applications: list[str]
    max_images: int
    max_prompt_chars: int


@router.get("/v1/models", response_model=ModelList, summary="List the models served")
async def models(request: Request) -> Response:
    """List the models served, their levels, sizes and limits."""
    services, tenant = caller_of(request)
    view = _list(services, await _applications(services, tenant))
    return Response(view.model_dump_json(), media_type="application/json")


async def _applications(services: Services, tenant: str) -> list[str]:
    """Name what a job may name; models are listed even while the store is away."""
    try:
        return [DEFAULT, *(each.name for each in await services.applications.list(tenant))]
    except Unavailable:
        return [DEFAULT]


def _list(services: Services, applications: list[str]) -> ModelList:
    resident = {name for worker in services.fleet for name in worker.models}
    return ModelList(
        data=[
            _view(model, model.name in resident, _untried_on(services, model.name))
            for model in services.models.values()
        ],
        samplers={name: SAMPLER_MAX_STEPS.get(name) for name in SAMPLERS},
        applications=applications,
        max_images=services.rules.max_images,
        max_prompt_chars=services.rules.max_prompt_chars,
    )


def _untried_on(services: Services, model: str) -> list[str]:
    """List the device types whose workers could not find out what a model costs there."""
    return sorted({w.device_type for w in services.fleet if model in w.untried})


def _view(model: Model, is_resident: bool, untried_on: list[str]) -> ModelView:
    return ModelView(
        id=model.name,
        family=model.family,
        tasks=[task for task in Task if task is not Task.EDIT or model.can_edit],
        levels=[x.name for x in levels_of(model) if not x.approximation.needs_latents],
        samplers=list(model.samplers),
        sizes=SizesView(
            default=model.default_size,
            min=model.min_size,
            max=model.max_size,
            multiple=model.size_multiple,
        ),
        steps=StepsView(default=model.default_steps, max=model.max_steps),
        default_guidance=model.default_guidance,
        max_prompt_tokens=model.max_prompt_tokens,
        is_resident=is_resident,
        untried_on=untried_on,
    )
