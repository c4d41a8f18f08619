"""A job as it is read, and the events that follow one; what is not sent has a default."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

Pair = tuple[int, int]


class JobStatus(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"  #: accepted, not begun
    RUNNING = "running"  #: a worker makes it
    SUCCEEDED = "succeeded"  #: its images can be fetched
    FAILED = "failed"  #: gave up; `error` says why
    CANCELED = "canceled"  #: somebody stopped it
    EXPIRED = "expired"  #: its deadline passed before it was made

    @property
    def is_terminal(self) -> bool:
        """Whether it stays so."""
        return self not in (JobStatus.QUEUED, JobStatus.RUNNING)


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """One finished image. Its URL works until `expires_at`; read the job again for a new one."""

    url: str
    width: int = 0  #: pixels
    height: int = 0  #: pixels
    seed: int = 0  #: that makes this image alone
    sha256: str = ""  #: hex digest of its bytes
    content_type: str = ""
    expires_at: float = 0.0  #: epoch s


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a job has come."""

    step: int = 0
    steps: int = 0


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Where a job was put, and at which level."""

    queue: str = ""
    model: str = ""
    level: str = ""  #: the model, `@`, and what was left out
    skipped_steps: int = 0
    affinity: str = ""  #: class of its prompt
    placed_by: str = ""  #: `scheduler`, or `plan`
    worker: str | None = None


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no image."""

    type: str = ""
    title: str = ""
    detail: str = ""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Where the seconds of a job went, once it has ended."""

    queue_s: float = 0.0
    prepare_s: float = 0.0
    denoise_s: float = 0.0
    finish_s: float = 0.0
    total_s: float = 0.0


class JobUrls(msgspec.Struct, frozen=True, kw_only=True):
    """Where to go from a job."""

    self: str = ""
    cancel: str = ""
    events: str = ""


class LoraShown(msgspec.Struct, frozen=True, kw_only=True):
    """A LoRA that a job was asked for with."""

    id: str
    scale: float = 1.0


class EmbeddingShown(msgspec.Struct, frozen=True, kw_only=True):
    """A learned embedding that a job was asked for with."""

    id: str
    token: str = ""  #: its word in the prompts


class ControlShown(msgspec.Struct, frozen=True, kw_only=True):
    """A ControlNet that a job was asked for with."""

    id: str
    image: str = ""  #: signed URL of the picture that it kept to
    scale: float = 1.0
    start: float = 0.0
    end: float = 1.0
    mode: int | None = None


class IpAdapterShown(msgspec.Struct, frozen=True, kw_only=True):
    """An IP-Adapter that a job was asked for with."""

    id: str
    image: str = ""  #: signed URL of the picture that it showed
    scale: float = 1.0


class MadeAgain(msgspec.Struct, frozen=True, kw_only=True):
    """The second, larger pass of a job."""

    scale: float
    strength: float = 0.5
    steps: int | None = None


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One job: what was asked for, with every default filled in, and what became of it."""

    id: str
    status: JobStatus
    object: str = "job"
    task: str = "generate"
    prompt: str = ""
    negative_prompt: str | None = None
    prompt_2: str | None = None
    prompt_3: str | None = None
    negative_prompt_2: str | None = None
    negative_prompt_3: str | None = None
    prompt_syntax: str = "plain"
    clip_skip: int | None = None
    original_size: Pair | None = None
    crop: Pair | None = None
    target_size: Pair | None = None
    negative_original_size: Pair | None = None
    negative_crop: Pair | None = None
    negative_target_size: Pair | None = None
    application: str | None = None
    model: str = ""
    width: int = 0  #: pixels
    height: int = 0  #: pixels
    steps: int = 0
    guidance: float = 0.0
    scheduler: str | None = None
    sigma_spacing: str | None = None
    sigmas: tuple[float, ...] = ()
    eta: float = 0.0
    guidance_rescale: float = 0.0
    seed: int = 0  #: of the first image; image i uses seed + i
    n: int = 1  #: images
    strength: float | None = None
    second_pass: MadeAgain | None = None
    loras: tuple[LoraShown, ...] = ()
    embeddings: tuple[EmbeddingShown, ...] = ()
    controls: tuple[ControlShown, ...] = ()
    ip_adapter: IpAdapterShown | None = None
    template: str | None = None  #: signed URL
    mask: str | None = None  #: signed URL
    image: str | None = None  #: signed URL
    output_format: str = "png"
    output_quality: int | None = None
    quality: str = "auto"
    priority: str = "interactive"
    created_at: float = 0.0  #: epoch s
    started_at: float | None = None  #: epoch s
    finished_at: float | None = None  #: epoch s
    deadline_at: float | None = None  #: epoch s; None: it may come at any time
    slo_s: float | None = None  #: promised, from acceptance
    attempts: int = 0
    progress: Progress = Progress()
    queue_position: int | None = None  #: jobs served before it
    eta_s: float | None = None  #: expected seconds until it is done
    placement: Placement = Placement()
    images: tuple[Image, ...] = ()
    error: Failure | None = None
    timing: Timing = Timing()
    urls: JobUrls = JobUrls()
    metadata: Mapping[str, str] = {}


class StatusEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A job stands elsewhere than before."""

    status: JobStatus


class ProgressEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A job has taken steps."""

    step: int
    steps: int
    preview: bytes | None = None  #: JPEG of the first image on its way, if asked for
    previews: Mapping[str, bytes] = {}  #: of several images, by index


class DoneEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A job has ended."""

    job: Job


Event = StatusEvent | ProgressEvent | DoneEvent


class WebhookMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What a webhook tells of a job."""

    type: str  #: `job.started`, `job.progress` or `job.completed`
    timestamp: str  #: when it was written, ISO 8601
    data: Job  #: id, status, images, error, timing and metadata; the rest has defaults
