"""Pydantic response models: jobs, and RFC 9457 problem details."""

from pydantic import BaseModel

from core.family import Spacing
from core.job import JobStatus, Pair, Priority, Quality, Task
from core.request.output import OutputFormat
from core.request.prompt_syntax import PromptSyntax
from core.request.second_pass import SecondPass


class ProgressView(BaseModel):
    """How far a job has come."""

    step: int
    steps: int


class PlacementView(BaseModel):
    """Where a job was put and at which level."""

    queue: str
    model: str
    level: str
    skipped_steps: int
    affinity: str
    placed_by: str
    worker: str | None


class ImageView(BaseModel):
    """One finished image. Its URL works until `expires_at`; read the job again for a new one."""

    url: str
    width: int
    height: int
    seed: int
    sha256: str
    content_type: str
    expires_at: float


class FailureView(BaseModel):
    """Why a job did not succeed."""

    type: str
    title: str
    detail: str


class TimingView(BaseModel):
    """Where a finished job's seconds went."""

    queue_s: float
    prepare_s: float
    denoise_s: float
    finish_s: float
    total_s: float


class UrlsView(BaseModel):
    """Where to go from here."""

    self: str
    cancel: str
    events: str


class LoraShown(BaseModel):
    """A LoRA that a job was asked for with."""

    id: str
    scale: float


class EmbeddingShown(BaseModel):
    """A learned embedding that a job was asked for with."""

    id: str
    token: str


class ControlShown(BaseModel):
    """A ControlNet that a job was asked for with, and the picture that it kept to."""

    id: str
    image: str
    scale: float
    start: float
    end: float
    mode: int | None


class IpAdapterShown(BaseModel):
    """An IP-Adapter that a job was asked for with, and the picture that it showed."""

    id: str
    image: str
    scale: float


class JobView(BaseModel):
    """A job as a client reads it."""

    id: str
    object: str = "job"
    status: JobStatus
    task: Task
    prompt: str
    negative_prompt: str | None
    prompt_2: str | None
    prompt_3: str | None
    negative_prompt_2: str | None
    negative_prompt_3: str | None
    prompt_syntax: PromptSyntax
    clip_skip: int | None
    original_size: Pair | None
    crop: Pair | None
    target_size: Pair | None
    negative_original_size: Pair | None
    negative_crop: Pair | None
    negative_target_size: Pair | None
    application: str | None
    model: str
    width: int
    height: int
    steps: int
    guidance: float
    scheduler: str | None
    sigma_spacing: Spacing | None
    sigmas: tuple[float, ...]  #: that were listed
    eta: float
    guidance_rescale: float
    seed: int
    n: int
    loras: list[LoraShown]
    embeddings: list[EmbeddingShown]
    controls: list[ControlShown]
    ip_adapter: IpAdapterShown | None
    template: str | None
    mask: str | None
    image: str | None
    strength: float | None  #: of what starts from a picture
    second_pass: SecondPass | None  #: over the images of `width` and `height`
    output_format: OutputFormat
    output_quality: int | None  #: of a lossy format
    quality: Quality
    priority: Priority
    created_at: float
    started_at: float | None
    finished_at: float | None
    deadline_at: float | None
    slo_s: float | None  #: promised, from acceptance
    attempts: int
    progress: ProgressView
    queue_position: int | None
    eta_s: float | None
    placement: PlacementView
    images: list[ImageView]
    error: FailureView | None
    timing: TimingView
    urls: UrlsView
    metadata: dict[str, str]


class JobPage(BaseModel):
    """One page of jobs, newest first; pass `cursor` to read on."""

    object: str = "list"
    data: list[JobView]
    cursor: str | None


class FieldProblem(BaseModel):
    """What is wrong with one field."""

    field: str
    detail: str


class Problem(BaseModel):
    """RFC 9457 problem details."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    request_id: str
    errors: list[FieldProblem] | None = None
    dependency: str | None = None
    missing: list[str] | None = None
