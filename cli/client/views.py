"""Response models of the client: the fields that commands read, others ignored."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from core.job import JobStatus, Timing
from core.tenants.limits import TenantLimits

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[T]):
    """All of a kind, or one page of them."""

    data: tuple[T, ...]
    cursor: str | None = None  #: where the next page starts


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageAnswer:
    """One finished image."""

    url: str  #: signed; works until expires_at
    sha256: str  #: hex digest of its bytes
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementAnswer:
    """Where a job was put."""

    model: str = ""
    level: str = ""
    worker: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressAnswer:
    """How far a job has come."""

    step: int = 0
    steps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureAnswer:
    """Why a job did not succeed."""

    type: str = ""
    title: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyAnswer:
    """One API key."""

    id: str
    tenant: str
    scopes: tuple[str, ...]
    status: str
    created_at: float  #: epoch s
    name: str = ""
    expires_at: float | None = None  #: epoch s
    key: str = ""  #: the key itself, of one just made


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantAnswer:
    """One tenant, as operators see it."""

    name: str
    weight: float
    limits: TenantLimits  #: in force


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Jobs by how they ended."""

    succeeded: int = 0
    failed: int = 0
    canceled: int = 0
    expired: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What was used in some time."""

    images: int
    jobs: Ends
    gpu_seconds: float
    cost: float | None = None  #: None: a price is not known
    start: str = ""  #: first day, of a row


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageAnswer:
    """What one tenant has used and keeps."""

    tenant: str
    kept_bytes: int
    open_jobs: int
    total: Used
    data: tuple[Used, ...]  #: by day or month


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAnswer:
    """One job."""

    id: str
    status: JobStatus
    prompt: str = ""
    created_at: float = 0.0  #: epoch s
    progress: ProgressAnswer = ProgressAnswer()
    queue_position: int | None = None
    eta_s: float | None = None  #: seconds until it should be done
    placement: PlacementAnswer = PlacementAnswer()
    images: tuple[ImageAnswer, ...] = ()
    error: FailureAnswer | None = None
    timing: Timing = field(default_factory=Timing)
    urls: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlNetAnswer:
    """What an image can be made to keep to."""

    id: str
    models: tuple[str, ...]
    condition: str = ""  #: what its pictures show
    bytes: int | None = None  #: of one that is kept; the service's own have none
    created_at: float | None = None  #: epoch s, of one that is kept


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateAnswer:
    """An image that is kept to be edited."""

    id: str
    width: int  #: pixels
    height: int  #: pixels
    created_at: float  #: epoch s
    url: str  #: signed


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraAnswer:
    """A LoRA that is kept."""

    id: str
    models: tuple[str, ...]  #: that it fits
    bound: int | None  #: of 50 steps, those that may run while it is loaded; None: as measured
    bytes: int
    created_at: float  #: epoch s


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingAnswer:
    """A learned embedding that is kept."""

    id: str
    models: tuple[str, ...]  #: that it fits
    token: str  #: the word that stands for it in a prompt
    vectors: int  #: tokens that the word is read as
    created_at: float  #: epoch s


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """What was deleted."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationAnswer:
    """What jobs of one kind may get."""

    name: str
    models: tuple[str, ...]
    slo_s: float | None = None  #: None: three times the best model's
    quality_floor: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedApplication:
    """An application that was deleted."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesAnswer:
    """Widths and heights a model makes, in pixels."""

    default: int
    min: int
    max: int
    multiple: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsAnswer:
    """Denoising steps a model takes."""

    default: int
    max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsAnswer:
    """What the folder of a model holds."""

    pipeline: str  #: its stock class
    parameters: int
    dtypes: tuple[str, ...]  #: as stored, that of most numbers first
    files: int
    variant: str | None  #: of its files
    scheduler: str
    distilled: str | None  #: kind of few-step model


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """One model that is served."""

    id: str
    family: str
    levels: tuple[str, ...]
    sizes: SizesAnswer
    steps: StepsAnswer
    is_resident: bool  #: on some worker
    is_loadable: bool = True  #: by some worker, as far as the last plan knows
    default_guidance: float = 0.0
    max_prompt_tokens: int = 0
    size_gib: float = 0.0  #: in the memory of a device
    quality: float | None = None  #: None: nobody knows
    weights: WeightsAnswer | None = None  #: None: it has none


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadingAnswer:
    """A model that a worker gets ready."""

    model: str
    stage: str  #: `room`, `reading` or `timing`
    seconds: float = 0.0  #: since it began
    fraction: float | None = None  #: of the time that it usually takes
    serves: bool = True  #: it was asked for; else it is tried while there is nothing to do


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerAnswer:
    """One worker process."""

    name: str  #: `<label>@<host>`
    models: tuple[str, ...]  #: resident
    device_type: str = ""
    memory_gib: float = 0.0
    running: int = 0
    waiting: int = 0
    loading: LoadingAnswer | None = None
    failures: Mapping[str, str] = field(default_factory=dict)  #: model -> why it is not served
    untried: tuple[str, ...] = ()  #: models that nobody has timed there


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetAnswer:
    """The workers that reported lately."""

    workers: tuple[WorkerAnswer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldProblemAnswer:
    """What is wrong with one field."""

    field: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemAnswer:
    """RFC 9457 problem details."""

    title: str = "The service did not say why"
    status: int = 0
    detail: str = ""
    errors: tuple[FieldProblemAnswer, ...] | None = None

    def __str__(self) -> str:
        fields = [f"  {error.field}: {error.detail}" for error in self.errors or ()]
        return "\n".join([f"{self.title} ({self.status})", *(fields or [f"  {self.detail}"])])
