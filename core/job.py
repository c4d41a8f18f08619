"""Job, request, edit and status types. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from core.family import Spacing
from core.model import Model
from core.placement import Placement
from core.request.init_image import InitImage
from core.request.output import LOSSLESS, Output
from core.request.prompt_syntax import PromptSyntax
from core.request.second_pass import SecondPass
from core.request.upscale import Upscale
from core.uploads.embedding import AppliedEmbedding
from core.uploads.ip_adapter import AppliedIpAdapter
from core.uploads.lora import AppliedLora

#: Pixels from top to bottom, then from left to right: in stock's order.
Pair = tuple[int, int]

#: What a client may leave open, for the model to fill in.
OPEN = ("model", "steps", "guidance", "width", "height")


LEAST_WORK = 1e-6  #: megapixel steps: who asks for nothing at all waits for a turn as well


class JobStatus(StrEnum):
    """Where a job stands. It leaves `running` for `queued` only when its worker is lost."""

    QUEUED = "queued"  #: accepted and placed on a queue, not claimed by a worker
    RUNNING = "running"  #: claimed: a worker holds its lease
    SUCCEEDED = "succeeded"  #: every image is stored under the winner's key
    FAILED = "failed"  #: gave up; `error` says why
    CANCELED = "canceled"  #: stopped because somebody asked
    EXPIRED = "expired"  #: its deadline passed before it was made

    @property
    def is_terminal(self) -> bool:
        return self not in (JobStatus.QUEUED, JobStatus.RUNNING)


class Task(StrEnum):
    """What kind of image is asked for."""

    GENERATE = "generate"  #: text to image
    EDIT = "edit"  #: a masked edit of a template
    UPSCALE = "upscale"  #: a picture enlarged


class Quality(StrEnum):
    """How much the service may approximate."""

    AUTO = "auto"  #: the plan chooses the level
    EXACT = "exact"  #: full model, no approximation, no cache


class Priority(StrEnum):
    """Who is served first on one queue."""

    INTERACTIVE = "interactive"  #: a person waits
    BATCH = "batch"  #: nobody waits


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTarget:
    """Where to say what became of a job."""

    url: str  #: https, public unless private targets are allowed by settings
    events: tuple[str, ...] = ("completed",)  #: of `started`, `progress`, `completed`
    format: str = "job"  #: or `prediction`, as Replicate's receivers read it


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Which part of which image an edit makes anew. The images are checked, and in the store."""

    template: str  #: key of the image: PNG, RGB, of the size of the job
    template_sha256: str  #: hex digest of its bytes: what names it in caches
    mask: str  #: key of the mask: PNG, one channel, of the same size; 255 is made anew, 0 kept
    strength: float = 1.0  #: share of the schedule that is run; 1 starts from noise alone
    masked: float = 1.0  #: share of the image that the mask covers

    @property
    def only_records(self) -> bool:
        """Whether it has no mask, and leaves behind what edits of its template take from it."""
        return not self.mask

    @property
    def default_seed(self) -> int:
        """The noise where a client does not choose: edits of one template share it."""
        return int(self.template_sha256[:8], 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """One ControlNet that steers a job, and the part of the schedule that it acts in."""

    controlnet: str  #: its id
    image: str  #: key of the condition: the picture that it keeps to
    scale: float = 1.0  #: of what it adds to the base model
    start: float = 0.0  #: share of the schedule after which it acts
    end: float = 1.0  #: share of the schedule until which it acts
    mode: int | None = None  #: what the picture shows, to one that tells kinds apart
    is_adapter: bool = False  #: whether it is a T2I-Adapter, which the picture alone is told


#: Which picture of a job its IP-Adapter shows.
IP_PICTURE: Final = "picture of the IP-Adapter"


def picture_name(at: int) -> str:
    """Say which picture of a job that of its ControlNet at an index is."""
    return f"picture {at} it keeps to"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """What a client asks for, with every default filled in. Has no id: it becomes a `Job`."""

    task: Task = Task.GENERATE
    prompt: str
    model: str  #: the model that makes it, chosen by the client or by the placement
    width: int  #: pixels
    height: int  #: pixels
    steps: int  #: denoising steps of the schedule
    guidance: float  #: classifier-free guidance scale; 1 or less switches it off
    seed: int  #: of the first image; image i uses seed + i
    negative_prompt: str | None = None  #: None means zero embeddings where the model says so
    prompt_2: str | None = None  #: for the second text encoder; None: as the first
    prompt_3: str | None = None  #: for the third, likewise
    negative_prompt_2: str | None = None  #: likewise
    negative_prompt_3: str | None = None  #: likewise
    prompt_syntax: PromptSyntax = PromptSyntax.PLAIN  #: of all of them
    clip_skip: int | None = None  #: last layers of CLIP that the prompt is read without
    original_size: Pair | None = None  #: height, width (px), as SDXL is told; None: the image's
    crop: Pair | None = None  #: top, left (px), as SDXL is told; None: 0, 0
    target_size: Pair | None = None  #: height, width (px), as SDXL is told; None: the image's
    negative_original_size: Pair | None = None  #: the same beside the negative prompt
    negative_crop: Pair | None = None  #: likewise
    negative_target_size: Pair | None = None  #: likewise; None: what the prompt is told
    embeddings: tuple[AppliedEmbedding, ...] = ()  #: learned words that its prompts say
    n: int = 1  #: images
    edit: Edit | None = None  #: of task `edit` alone
    init_image: InitImage | None = None  #: of task `generate` alone: what it starts from
    second_pass: SecondPass | None = None  #: of task `generate` alone: larger, from what was made
    upscale: Upscale | None = None  #: of task `upscale` alone: what is enlarged, of this size
    controls: tuple[Control, ...] = ()  #: what they add is summed up
    ip_adapter: AppliedIpAdapter | None = None  #: what shows it a picture beside its prompt
    loras: tuple[AppliedLora, ...] = ()  #: that change the model
    scheduler: str | None = None  #: a name of `core.family.SAMPLERS`, or the model's own
    sigma_spacing: Spacing | None = None  #: None: as the sampler spaces noise levels by itself
    sigmas: tuple[float, ...] = ()  #: noise levels in place of those, as stock pipelines take them
    eta: float = 0.0  #: share of the noise that is drawn anew at each step
    guidance_rescale: float = 0.0  #: share of the contrast that guidance adds which is taken back
    output: Output = LOSSLESS  #: what its images are written as
    application: str | None = None  #: whose SLO and quality floor apply
    slo_s: float | None = None  #: seconds from acceptance; later than that it is a violation
    quality: Quality = Quality.AUTO
    priority: Priority = Priority.INTERACTIVE
    webhook: WebhookTarget | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)  #: echoed back, never read
    filled: tuple[str, ...] = ()  #: of `OPEN`, what the client left open

    def on(self, model: Model) -> "JobRequest":
        """Ask another model for it: what the client left open is as that model does it."""
        own = model.defaults(self.scheduler)
        filled = {name: value for name, value in own.items() if name in self.filled}
        return replace(self, model=model.name, **filled)  # type: ignore[arg-type]

    @property
    def adapters(self) -> tuple[tuple[str, float], ...]:
        """Name the LoRAs that make a difference, by strength, in an order of their own."""
        return tuple(sorted((use.id, use.scale) for use in self.loras if use.scale))

    @property
    def strength(self) -> float:
        """Share of the schedule that is run: all of it, unless it starts from a picture."""
        begun = self.edit or self.init_image
        return begun.strength if begun is not None else 1.0

    @property
    def share(self) -> float:
        """Time that it takes, in whole schedules of its own steps and size."""
        second = self.second_pass
        return self.strength + (second.share(self.steps) if second is not None else 0.0)

    @property
    def following(self) -> "JobRequest | None":
        """Ask for the second pass alone, over the image that the first one makes."""
        second = self.second_pass
        if second is None:
            return None
        return replace(
            self,
            width=second.side(self.width),
            height=second.side(self.height),
            steps=self.steps if second.steps is None else second.steps,
            init_image=InitImage(image="", strength=second.strength),
            second_pass=None,
        )

    @property
    def inputs(self) -> dict[str, str]:
        """Name the pictures that it brings along, by what they are, each with its key."""
        edit, init = self.edit, self.init_image
        keys = {"template": edit.template, "mask": edit.mask} if edit is not None else {}
        keys |= {"image": init.image} if init is not None else {}
        keys |= {"picture": self.upscale.image} if self.upscale is not None else {}
        keys |= {picture_name(at): control.image for at, control in enumerate(self.controls)}
        keys |= {IP_PICTURE: self.ip_adapter.image} if self.ip_adapter else {}
        return {name: key for name, key in keys.items() if key}

    @property
    def work(self) -> float:
        """Measure what is asked for, in megapixel steps."""
        pixels = self.n * self.width * self.height
        return max(pixels * self.steps * self.share / 1e6, LEAST_WORK)

    def most_bytes(self, scale: int = 1) -> int:
        """Bound the bytes of its images: as PNGs of noise. `scale` is that of an upscaler."""
        last = self.following or self
        width, height = last.width * scale, last.height * scale
        return self.n * (3 * width * height * 101 // 100 + height + 2000)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed of each image; they wrap around at 64 bits."""
        return tuple((self.seed + index) % 2**64 for index in range(self.n))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredImage:
    """One image of a finished job, as the object store holds it."""

    key: str  #: `<tenant>/<job>/<fence>/<index>.<ending of its format>`
    width: int  #: pixels
    height: int  #: pixels
    seed: int  #: the seed that makes this image alone
    sha256: str  #: hex digest of the stored bytes
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a job did not succeed, as a client reads it."""

    type: str  #: a short name, such as `out_of_memory`
    title: str  #: one line for a person
    detail: str = ""  #: what happened to this job and what to do


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Where a finished job's seconds went."""

    queue_s: float = 0.0  #: accepted to claimed
    prepare_s: float = 0.0  #: claimed to admitted by the engine
    denoise_s: float = 0.0  #: admitted to its last step
    finish_s: float = 0.0  #: last step to stored
    total_s: float = 0.0  #: accepted to stored

    def measured(
        self, waits_since: float, started_at: float | None, finished_at: float | None
    ) -> "Timing":
        """Fill in the seconds that only the store's clock knows, given its moments (epoch s)."""
        queue_s = started_at - waits_since if started_at is not None else 0.0
        total_s = finished_at - waits_since if finished_at is not None else 0.0
        return replace(self, queue_s=round(queue_s, 3), total_s=round(total_s, 3))


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a job has come."""

    step: int = 0  #: denoising steps done
    steps: int = 0  #: denoising steps in all
    device_s: float = field(default=0.0, compare=False)  #: its share of the time of its steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One accepted request and where it stands: the record in the job store, read back."""

    id: str
    tenant: str
    request: JobRequest
    placement: Placement
    status: JobStatus
    created_at: float  #: epoch s, the store's clock
    started_at: float | None = None  #: epoch s, last claim
    finished_at: float | None = None  #: epoch s
    deadline_at: float | None = None  #: epoch s; later than that it is expired, not made
    attempts: int = 0  #: claims that count against it: not those whose loss it may be innocent of
    is_buried: bool = False  #: failed for want of attempts: it may be tried again
    is_suspect: bool = False  #: a worker was lost while it made this job: it is made alone now
    retried_at: float | None = None  #: epoch s, when it was last dug up after it was buried
    fence: int = 0  #: grows with every claim; only its holder may finish the job
    worker: str | None = None  #: who claimed it last
    progress: Progress = Progress()
    images: tuple[StoredImage, ...] = ()
    failure: Failure | None = None
    timing: Timing = Timing()
    trace: str = ""  #: the span that it was accepted in; empty: nobody traces it

    @property
    def waits_since(self) -> float:
        """When its waiting began: it was accepted, or buried and tried again. Epoch s."""
        return self.created_at if self.retried_at is None else self.retried_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to make one job, held by one worker until its lease runs out."""

    job: Job
    fence: int  #: the fencing token of this claim
    lease_until: float  #: epoch s, the store's clock
    earlier: tuple[int, ...] = ()  #: fences of the claims before it


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """One line of a job's event stream."""

    id: str  #: grows within one job; resume after it
    event: str  #: `status`, `progress` or `done`
    data: Mapping[str, object]  #: JSON values
