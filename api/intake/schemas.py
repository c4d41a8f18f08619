"""Define the bodies that clients send.

Types and ranges that hold for every model are checked here; what depends on the models served is
checked in `api.intake.draft`. Every text, list and mapping has a bound: a test walks over them.
"""

from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
)

from core.family import Spacing
from core.job import Priority, Quality, Task
from core.request.output import OutputFormat
from core.request.prompt_syntax import PromptSyntax

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
#: Pixels that SDXL is told of, and layers that may be skipped, of any model.
MAX_TOLD = 2**14
MAX_SKIPPED = 64
MAX_LORAS = 8
MAX_EMBEDDINGS = 8
MAX_CONTROLS = 16
#: Fields that text encoders read.
PROMPTS = (
    *("prompt", "prompt_2", "prompt_3"),
    *("negative_prompt", "negative_prompt_2", "negative_prompt_3"),
)

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
    "ControlNets of `GET /v1/controlnets`, each with the picture that the image keeps to, an edit "
    "under its mask: an id of `/v1/files` or `/v1/templates`, a `data:` URL or an https URL, "
    "scaled to the size of the image. It acts from `start` to `end`, as shares of the steps that "
    "are run; what several add is summed."
)
IMAGE = (
    "Of task `generate`: a picture to start from; of task `upscale`: the one to enlarge, as its "
    "model's `scale` says. As an id of `/v1/files` or `/v1/templates`, a "
    "`data:` URL or an https URL. What an image starts from is scaled to its size, which is that "
    "of the picture where width or height are left out; what is transparent is laid on white."
)
PROMPT = "What the image shows. Needed by tasks `generate` and `edit`; an upscale has none."
IP_ADAPTER = (
    "Of SD and SDXL: an IP-Adapter of the service (`GET /v1/ip-adapters`) and the picture that the "
    "image attends to beside its prompt: an id of `/v1/files` or `/v1/templates`, a `data:` URL or "
    "an https URL, of any size; its centre square is seen. In edits too."
)
IP_SCALE = "Of what the picture adds to each attention: 0 nothing, 1 as it was trained."
MODE = (
    "Of a Union ControlNet: what the picture shows, a number below its `modes`. Several pictures "
    "of one are fused, and act at all steps."
)
STRENGTH = (
    "Of task `edit`, or with `image`: the share of the steps that is run; less keeps more of the "
    "picture. An edit runs all where it is left out, starting from noise alone under the mask; "
    "what starts from `image` runs 0.8."
)

SPACING = (
    "How noise levels are spaced, with a `scheduler` of euler, heun, dpm++2m, dpm++sde or unipc; "
    "with euler of SD 3 and Flux. As diffusers' `use_karras_sigmas`, `use_exponential_sigmas` and "
    "`use_beta_sigmas`."
)
SIGMAS = (
    "Noise levels of their own, falling, with `scheduler` euler: of SD and SDXL one a step and the "
    "last one where they end, 0 as a rule; of SD 3 and Flux one a step, above 0 and at most 1, "
    "which the model shifts. As diffusers' `sigmas`; `steps` may be left out."
)
ETA = "Share of the noise that is drawn anew at each step, with a `scheduler` of ddim or tcd."
RESCALE = (
    "Share of the contrast that guidance adds which is taken back, against overexposure; of SD and "
    "SDXL. 0.7 is usual for models that predict velocities."
)
SECOND_PASS = (
    "Of task `generate`: what was made is scaled up by Lanczos and made again from there, at the "
    "larger size, with the same prompt and seed; other front ends call it hires fix. `width` and "
    "`height` are those of the first pass. Twice the size takes four times as long a step."
)
OUTPUT_QUALITY = (
    "Of webp, jpeg and avif: from 1, the smallest file, to 100; 90 if left out. Of png: none, it "
    "keeps every pixel."
)
SECOND = (
    "For the second text encoder, of models with several; without it that reads `{}`. Flux reads "
    "`prompt` by CLIP and `prompt_2` by T5."
)
THIRD = "For the third text encoder (T5 of SD 3); without it that reads `{}`."
PROMPT_SYNTAX = (
    "How all prompts are read. `plain`: letter for letter. `weighted` (Stable Diffusion 1, 2 and "
    "XL): `(word)` weighs 1.1 times as much, `[word]` 1 / 1.1 times, `(word:1.3)` 1.3 times; "
    "`\\\\(` is the character; prompts may have several chunks of tokens, and `BREAK` begins one."
)
EMBEDDINGS = (
    "Of `GET /v1/embeddings` (textual inversion): words that the prompts say, each read as the "
    "vectors kept for it."
)
CLIP_SKIP = (
    "Last layers of the CLIP text encoders that the prompt is read without, as `clip_skip` of "
    "diffusers: 1 is what other front ends call 2. The negative prompt is read in full."
)
ORIGINAL_SIZE = (
    "Of SDXL: [height, width] in pixels that the model is told its picture had before it was "
    "scaled; the image's own if left out."
)
CROP = "Of SDXL: [top, left] in pixels that the model is told were cut off; [0, 0] if left out."
TARGET_SIZE = (
    "Of SDXL: [height, width] in pixels that the model is told to make; the image's own if left "
    "out."
)
BESIDE = "As `{}`, told beside the negative prompt; {}."

Named = Annotated[str, StringConstraints(max_length=MAX_NAME)]
Prompt = Annotated[str, StringConstraints(max_length=MAX_TEXT)]
Source = Annotated[str, StringConstraints(max_length=MAX_SOURCE)]
MetadataKey = Annotated[str, StringConstraints(min_length=1, max_length=64)]
MetadataValue = Annotated[str, StringConstraints(max_length=512)]
Scale = Annotated[float, Field(ge=-10, le=10)]
Share = Annotated[float, Field(ge=0, le=1)]
Pixels = Annotated[int, Field(ge=0, le=MAX_TOLD)]
Side = Annotated[int, Field(ge=1, le=MAX_TOLD)]
#: Noise levels: those of a schedule, the highest that any has, as many as models were trained on.
MAX_SIGMAS, MAX_SIGMA = 1001, 1e6
Sigmas = Annotated[
    list[Annotated[float, Field(ge=0, le=MAX_SIGMA)]], Field(min_length=2, max_length=MAX_SIGMAS)
]
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


class EmbeddingUse(Inbound):
    """One learned embedding."""

    id: Named


class ControlUse(Inbound):
    """One ControlNet, its condition image, and the part of the schedule it acts in."""

    id: Named
    image: Source
    scale: Scale = 1.0
    start: Share = 0.0
    end: Share = 1.0
    mode: int | None = Field(None, ge=0, le=63, description=MODE)


class IpAdapterUse(Inbound):
    """One IP-Adapter, the picture that it shows, and how strongly."""

    id: Named = Field(description="A name of `GET /v1/ip-adapters`.")
    image: Source = Field(description="What the image attends to, as `image` is given.")
    scale: Share = Field(1.0, description=IP_SCALE)


class SecondPassCreate(Inbound):
    """How a finished image is scaled up and made again from there."""

    scale: float = Field(gt=1, le=4, description="Of each side, rounded down to 8 pixels.")
    strength: float = Field(0.5, gt=0, le=1, description="Share of the steps that is run again.")
    steps: int | None = Field(None, ge=1, description="As many as at first, if left out.")


class WebhookCreate(Inbound):
    """Where to say what became of the job."""

    url: Annotated[str, StringConstraints(min_length=1, max_length=2048)]
    events: Annotated[list[WebhookEvent], Field(min_length=1, max_length=3)] = ["completed"]
    format: Literal["job", "prediction"] = Field(
        "job", description="What is sent: a job, or a prediction as Replicate's receivers read it."
    )


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
    prompt: Prompt = Field("", description=PROMPT)
    negative_prompt: Prompt | None = Field(None, description="What the image must not show.")
    prompt_2: Prompt | None = Field(None, description=SECOND.format("prompt"))
    prompt_3: Prompt | None = Field(None, description=THIRD.format("prompt"))
    negative_prompt_2: Prompt | None = Field(None, description=SECOND.format("negative_prompt"))
    negative_prompt_3: Prompt | None = Field(None, description=THIRD.format("negative_prompt"))
    prompt_syntax: PromptSyntax = Field(PromptSyntax.PLAIN, description=PROMPT_SYNTAX)
    clip_skip: int | None = Field(None, ge=0, le=MAX_SKIPPED, description=CLIP_SKIP)
    original_size: tuple[Side, Side] | None = Field(None, description=ORIGINAL_SIZE)
    crop: tuple[Pixels, Pixels] | None = Field(None, description=CROP)
    target_size: tuple[Side, Side] | None = Field(None, description=TARGET_SIZE)
    negative_original_size: tuple[Side, Side] | None = Field(
        None, description=BESIDE.format("original_size", "needs `negative_target_size`")
    )
    negative_crop: tuple[Pixels, Pixels] | None = Field(
        None, description=BESIDE.format("crop", "[0, 0] beside negative sizes, if left out")
    )
    negative_target_size: tuple[Side, Side] | None = Field(
        None, description=BESIDE.format("target_size", "needs `negative_original_size`")
    )
    application: Named | None = Field(
        None, description="A name of `GET /v1/applications`: whose SLO and quality floor apply."
    )
    model: Named | None = Field(None, description="A name of `GET /v1/models`.")
    width: int | None = Field(None, ge=1, description="Pixels; of an edit, the template's.")
    height: int | None = Field(None, ge=1, description="Pixels; of an edit, the template's.")
    steps: int | None = Field(None, ge=1, description="Denoising steps.")
    guidance: float | None = Field(None, ge=0, le=MAX_GUIDANCE)
    scheduler: Named | None = Field(None, description="A sampler of `GET /v1/models`.")
    sigma_spacing: Spacing | None = Field(None, description=SPACING)
    sigmas: Sigmas | None = Field(None, description=SIGMAS)
    eta: Share = Field(0.0, description=ETA)
    guidance_rescale: Share = Field(0.0, description=RESCALE)
    seed: int | None = Field(None, ge=0, le=MAX_SEED, description="Of the first image.")
    n: int = Field(1, ge=1, description="Images; image i uses seed + i.")
    embeddings: list[EmbeddingUse] = Field([], max_length=MAX_EMBEDDINGS, description=EMBEDDINGS)
    loras: list[LoraUse] = Field(
        [], max_length=MAX_LORAS, description="Of `GET /v1/loras`, summed."
    )
    controls: list[ControlUse] = Field([], max_length=MAX_CONTROLS, description=CONTROLS)
    ip_adapter: IpAdapterUse | None = Field(None, description=IP_ADAPTER)
    template: Source | None = Field(None, description=TEMPLATE)
    mask: Source | None = Field(None, description=MASK)
    image: Source | None = Field(None, description=IMAGE)
    second_pass: SecondPassCreate | None = Field(None, description=SECOND_PASS)
    strength: float | None = Field(None, gt=0, le=1, description=STRENGTH)
    output_format: OutputFormat = Field(
        OutputFormat.PNG, description="What the images are written as."
    )
    output_quality: int | None = Field(None, ge=1, le=100, description=OUTPUT_QUALITY)
    quality: Quality = Field(Quality.AUTO, description="`exact`: full model, no approximation.")
    deadline_s: float | None = Field(
        None, gt=0, le=MAX_DEADLINE_S, description="Seconds from now; later it is not made."
    )
    priority: Priority = Priority.INTERACTIVE
    webhook: WebhookCreate | None = None
    metadata: dict[MetadataKey, MetadataValue] = Field({}, max_length=16)

    @field_validator("strength")
    @classmethod
    def _unsaid(cls, strength: float | None, info: ValidationInfo) -> float | None:
        """Take 1 of an image from noise as left out: all of its steps are run anyway."""
        is_from_noise = info.data.get("task") is Task.GENERATE and info.data.get("image") is None
        return None if strength == 1.0 and is_from_noise else strength
