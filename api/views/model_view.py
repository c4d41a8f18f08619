"""What a client reads of models: what each makes, its sizes and limits, what its folder holds."""

from collections.abc import Set
from typing import Final

from pydantic import BaseModel

from catalog.description.folder import Description
from core.job import Task
from core.levels.level import levels_of
from core.model import Model

#: Whose models they are, to OpenAI's clients.
OWNER: Final = "atelier"


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


class WeightsView(BaseModel):
    """What the folder of a model holds."""

    pipeline: str  #: its stock class
    parameters: int  #: of all its parts
    dtypes: list[str]  #: as stored, that of most numbers first
    files: int
    variant: str | None  #: of its files, such as `fp16`
    scheduler: str  #: its own, by class
    distilled: str | None  #: kind of few-step model, such as `turbo` or `lcm`


class ModelView(BaseModel):
    """One model served and what it can make."""

    id: str
    object: str = "model"
    created: int
    owned_by: str = OWNER
    family: str
    tasks: list[Task]
    levels: list[str]
    samplers: list[str]
    sizes: SizesView
    steps: StepsView
    scale: int  #: of an upscaler: pixels a side for each of a picture
    default_guidance: float
    max_prompt_tokens: int
    reads: list[str]  #: fields of a request about words that not every model reads
    size_gib: float  #: in the memory of a device
    #: mean relative quality, in [0, 1]; null: nobody knows, see docs/models.md
    quality: float | None
    weights: WeightsView | None  #: null: it has none
    is_resident: bool  #: on some worker, as last reported
    is_loadable: bool  #: some worker holds it or can load it, as far as the last plan knows
    untried_on: list[str]  #: device types where nobody has timed it: whoever names it gets it


class ModelGone(BaseModel):
    """A model that is served no more."""

    id: str
    object: str = "model"
    deleted: bool = True


class ModelList(BaseModel):
    """Everything served."""

    object: str = "list"
    data: list[ModelView]
    samplers: dict[str, int | None]  #: name -> its own step limit, if it has one
    applications: list[str]
    max_images: int
    max_prompt_chars: int


def model_view(
    model: Model,
    described: Description | None,
    *,
    resident: Set[str],
    planned: Set[str],
    untried_on: list[str],
) -> ModelView:
    """Show one model. `resident`, `planned`: models that workers hold, or would load."""
    return ModelView(
        id=model.name,
        created=0 if described is None else described.written_at,
        family=model.family,
        tasks=_tasks(model),
        levels=[x.name for x in levels_of(model) if not x.approximation.needs_latents],
        samplers=list(model.samplers),
        sizes=SizesView(
            default=model.default_size,
            min=model.min_size,
            max=model.max_size,
            multiple=model.size_multiple,
        ),
        steps=StepsView(default=model.default_steps, max=model.max_steps),
        scale=model.scale,
        default_guidance=model.default_guidance,
        max_prompt_tokens=model.max_prompt_tokens,
        reads=sorted(model.family_facts.words),
        size_gib=model.size_gib,
        quality=model.quality,
        weights=None if described is None else _weights(described),
        is_resident=model.name in resident,
        is_loadable=model.name in resident or model.name in planned,
        untried_on=untried_on,
    )


def _tasks(model: Model) -> list[Task]:
    if model.is_upscaler:
        return [Task.UPSCALE]
    return [Task.GENERATE, *([Task.EDIT] if model.can_edit else [])]


def _weights(described: Description) -> WeightsView:
    return WeightsView(
        pipeline=described.pipeline,
        parameters=described.parameters,
        dtypes=list(described.dtypes),
        files=described.files,
        variant=described.variant,
        scheduler=described.scheduler,
        distilled=described.distilled,
    )
