"""Define the bodies that clients send.

Types and ranges that hold for every model are checked here; what depends on the models served is
checked in `api.intake.rules`. Every text, list and mapping has a bound: a test walks over them.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from core.job import Priority, Quality, Task

#: Seeds are what torch takes as a signed 64-bit number.
MAX_SEED = 2**63 - 1
MAX_GUIDANCE = 30.0
MAX_DEADLINE_S = 7 * 24 * 3600.0
#: Names of things, as texts; what they name decides which are right.
MAX_NAME = 200
#: Characters of any prompt; `max_prompt_chars` is what is read.
MAX_TEXT = 100_000
#: Of an image in a `data:` URL; the limit of the whole body is met earlier.
MAX_SOURCE = 2**26
MAX_LORAS = 8
MAX_CONTROLS = 16
#: Fields that text encoders read.
PROMPTS = ("prompt", "negative_prompt")

#: What the description says of the fields of an edit.
TEMPLATE = (
    "Of task `edit`: the image to edit, as an id of `/v1/templates` or `/v1/files`, a `data:` URL "
    "or an https URL. PNG, JPEG or WebP; turned upright; what is transparent is laid on white. "
    "The images made have its size."
)
MASK = (
    "Of task `edit`: where to edit, as an id of `/v1/files`, a `data:` URL or an https URL. Of the "
    "template's size. White (128 of 255 or more) is made anew, black is kept; no transparency."
)
CONTROLS = (
    "Of task `generate`: ControlNets of `GET /v1/controlnets`, each with the picture that the "
    "image keeps to: an id of `/v1/files` or `/v1/templates`, a `data:` URL or an https URL, "
    "scaled to the size of the image. It acts from `start` to `end`, as shares of the steps; what "
    "several add is summed."
)
STRENGTH = (
    "Of task `edit`: the share of the steps that is run. 1 starts from noise alone; less keeps "
    "more of what the template shows under the mask."
)

Named = Annotated[str, StringConstraints(max_length=MAX_NAME)]
Prompt = Annotated[str, StringConstraints(max_length=MAX_TEXT)]
Source = Annotated[str, StringConstraints(max_length=MAX_SOURCE)]
MetadataKey = Annotated[str, StringConstraints(min_length=1, max_length=64)]
MetadataValue = Annotated[str, StringConstraints(max_length=512)]
Scale = Annotated[float, Field(ge=-10, le=10)]
Share = Annotated[float, Field(ge=0, le=1)]
WebhookEvent = Annotated[
    str, StringConstraints(max_length=16, pattern="^(started|progress|completed)$")
]


class Inbound(BaseModel):
    """A body somebody sends: no unknown fields, no silent conversion, no NaN."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class LoraUse(Inbound):
    """One LoRA and how strongly it acts."""

    id: Named
    scale: Scale = 1.0


class ControlUse(Inbound):
    """One ControlNet, its condition image, and the part of the schedule it acts in."""

    id: Named
    image: Source
    scale: Scale = 1.0
    start: Share = 0.0
    end: Share = 1.0


class WebhookCreate(Inbound):
    """Where to say what became of the job."""

    url: Annotated[str, StringConstraints(min_length=1, max_length=2048)]
    events: Annotated[list[WebhookEvent], Field(min_length=1, max_length=3)] = ["completed"]


class JobCreate(Inbound):
    """What a client asks for. Null or absent means: the service chooses."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"prompt": "a red circle"},
                {
                    "prompt": "a large blue star above a small green square",
                    "model": "shapes-xl",
                    "steps": 30,
                    "guidance": 5.0,
                    "seed": 42,
                    "n": 2,
                    "deadline_s": 60,
                    "webhook": {"url": "https://example.com/hook", "events": ["completed"]},
                    "metadata": {"order": "1234"},
                },
                {
                    "prompt": "a red star",
                    "model": "shapes-xl",
                    "controls": [
                        {"id": "edges", "image": "0b5a3c1e9d7f4a68b2c4d6e8f0a1b3c5", "scale": 0.8}
                    ],
                },
                {
                    "task": "edit",
                    "prompt": "a large blue star",
                    "template": "0b5a3c1e9d7f4a68b2c4d6e8f0a1b3c5",
                    "mask": "https://example.com/mask.png",
                    "strength": 0.8,
                    "n": 2,
                },
            ]
        }
    )

    task: Task = Task.GENERATE
    prompt: Prompt = Field(description="What the image shows.")
    negative_prompt: Prompt | None = Field(None, description="What the image must not show.")
    application: Named | None = Field(
        None, description="A name of `GET /v1/applications`: whose SLO and quality floor apply."
    )
    model: Named | None = Field(None, description="A name of `GET /v1/models`.")
    width: int | None = Field(None, ge=1, description="Pixels; of an edit, the template's.")
    height: int | None = Field(None, ge=1, description="Pixels; of an edit, the template's.")
    steps: int | None = Field(None, ge=1, description="Denoising steps.")
    guidance: float | None = Field(None, ge=0, le=MAX_GUIDANCE)
    scheduler: Named | None = Field(None, description="A sampler of `GET /v1/models`.")
    seed: int | None = Field(None, ge=0, le=MAX_SEED, description="Of the first image.")
    n: int = Field(1, ge=1, description="Images; image i uses seed + i.")
    loras: list[LoraUse] = Field(
        [], max_length=MAX_LORAS, description="Of `GET /v1/loras`, summed."
    )
    controls: list[ControlUse] = Field([], max_length=MAX_CONTROLS, description=CONTROLS)
    template: Source | None = Field(None, description=TEMPLATE)
    mask: Source | None = Field(None, description=MASK)
    strength: float = Field(1.0, gt=0, le=1, description=STRENGTH)
    quality: Quality = Field(Quality.AUTO, description="`exact`: full model, no approximation.")
    deadline_s: float | None = Field(
        None, gt=0, le=MAX_DEADLINE_S, description="Seconds from now; later it is not made."
    )
    priority: Priority = Priority.INTERACTIVE
    webhook: WebhookCreate | None = None
    metadata: dict[MetadataKey, MetadataValue] = Field({}, max_length=16)
