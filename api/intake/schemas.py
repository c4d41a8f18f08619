"""Define and parse the bodies that clients send.

Types and ranges that hold for every model are checked here; what depends on the models served is
checked in `api.intake.validate`. Every text, list and mapping has a bound: a test walks over them.
"""

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from core.errors import MAX_ERRORS, FieldError, InvalidRequest
from core.job import Priority, Quality, Task
from core.text import shorten

#: Seeds are what torch takes as a signed 64-bit number.
MAX_SEED = 2**63 - 1
MAX_GUIDANCE = 30.0
MAX_DEADLINE_S = 7 * 24 * 3600.0
#: Commas and opening brackets of a body, those in its texts too: pydantic builds a tree of all
#: values, and an error for every wrong one, before any limit of a field counts.
MAX_MARKS = 20_000
_MARKS = b",[{"
#: Wrong fields of a body up to which they are named, the first of them.
MAX_COUNTED = 1000
#: Names of things, as texts; what they name decides which are right.
MAX_NAME = 200
#: Characters of any prompt; `max_prompt_chars` is what is read.
MAX_TEXT = 100_000
#: Of an image in a `data:` URL; the limit of the whole body is met earlier.
MAX_SOURCE = 2**26
MAX_LORAS = 8
MAX_CONTROLS = 16

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


T = TypeVar("T", bound=Inbound)


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


def field_errors(error: ValidationError) -> list[FieldError]:
    """Name each field that pydantic refused; no value that the client sent is repeated."""
    if (count := error.error_count()) > MAX_COUNTED:
        return [
            FieldError("body", f"has {count} wrong fields; of at most {MAX_COUNTED} any is named")
        ]
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return [FieldError(_path(e["loc"]), e["msg"]) for e in found[:MAX_ERRORS]]


def _path(location: tuple[int | str, ...]) -> str:
    return ".".join(shorten(str(part)) for part in location) or "body"


def parse_job(body: bytes) -> JobCreate:
    """Read the body of a submit; raises like `parse`."""
    return parse(JobCreate, body)


def parse(kind: type[T], body: bytes) -> T:
    """Read a body.

    Raises:
        InvalidRequest: it is no JSON object, has too many values, or fields are unknown, missing
            or of a wrong type.
    """
    check_marks(body)
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise InvalidRequest(field_errors(error)) from error


def check_marks(body: bytes) -> None:
    """Refuse a body with more values than any that is right, before a value of it is read.

    Raises:
        InvalidRequest: it has more than `MAX_MARKS` commas and opening brackets.
    """
    if len(body) <= MAX_MARKS:
        return
    marks = len(body) - len(body.translate(None, _MARKS))
    if marks > MAX_MARKS:
        fault = f"has {marks} commas and opening brackets; at most {MAX_MARKS} are read"
        raise InvalidRequest([FieldError("body", fault)])
