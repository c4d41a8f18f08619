"""Response models of the client: the fields that commands read, others ignored."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.job import JobStatus, Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageView:
    """One finished image."""

    url: str  #: signed; works until expires_at
    sha256: str  #: hex digest of its bytes
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementView:
    """Where a job was put."""

    model: str = ""
    level: str = ""
    worker: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressView:
    """How far a job has come."""

    step: int = 0
    steps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureView:
    """Why a job did not succeed."""

    type: str = ""
    title: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job."""

    id: str
    status: JobStatus
    prompt: str = ""
    created_at: float = 0.0  #: epoch s
    progress: ProgressView = ProgressView()
    queue_position: int | None = None
    eta_s: float | None = None  #: seconds until it should be done
    placement: PlacementView = PlacementView()
    images: tuple[ImageView, ...] = ()
    error: FailureView | None = None
    timing: Timing = field(default_factory=Timing)
    urls: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """Some jobs, newest first."""

    data: tuple[JobView, ...]
    cursor: str | None = None  #: where the next page starts


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlNetView:
    """What an image can be made to keep to."""

    id: str
    models: tuple[str, ...]
    condition: str = ""  #: what its pictures show
    bytes: int | None = None  #: of one that is kept; the service's own have none
    created_at: float | None = None  #: epoch s, of one that is kept


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlNetList:
    """The service's own ControlNets, then some that are kept, newest first."""

    data: tuple[ControlNetView, ...]
    cursor: str | None = None  #: where the next page starts


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateView:
    """An image that is kept to be edited."""

    id: str
    width: int  #: pixels
    height: int  #: pixels
    created_at: float  #: epoch s
    url: str  #: signed


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplatePage:
    """Some templates, newest first."""

    data: tuple[TemplateView, ...]
    cursor: str | None = None  #: where the next page starts


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraView:
    """A LoRA that is kept."""

    id: str
    models: tuple[str, ...]  #: that it fits
    bound: int | None  #: of 50 steps, those that may run while it is loaded; None: as measured
    bytes: int
    created_at: float  #: epoch s


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraPage:
    """Some LoRAs, newest first."""

    data: tuple[LoraView, ...]
    cursor: str | None = None  #: where the next page starts


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """What was deleted."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationView:
    """What jobs of one kind may get."""

    name: str
    models: tuple[str, ...]
    slo_s: float | None = None  #: None: three times the best model's
    quality_floor: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationPage:
    """The applications of a tenant."""

    data: tuple[ApplicationView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationGone:
    """An application that was deleted."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Widths and heights a model makes, in pixels."""

    default: int
    min: int
    max: int
    multiple: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Denoising steps a model takes."""

    default: int
    max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelView:
    """One model that is served."""

    id: str
    family: str
    levels: tuple[str, ...]
    sizes: Sizes
    steps: Steps
    is_resident: bool  #: on some worker


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPage:
    """What is served."""

    data: tuple[ModelView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """One worker process."""

    name: str  #: `<label>@<host>`
    models: tuple[str, ...]  #: resident


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """The workers that reported lately."""

    workers: tuple[WorkerView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    """The plan in force."""

    workers: Mapping[str, str]  #: worker -> the model it shall hold


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldProblem:
    """What is wrong with one field."""

    field: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """RFC 9457 problem details."""

    title: str = "The service did not say why"
    status: int = 0
    detail: str = ""
    errors: tuple[FieldProblem, ...] | None = None

    def __str__(self) -> str:
        fields = [f"  {error.field}: {error.detail}" for error in self.errors or ()]
        return "\n".join([f"{self.title} ({self.status})", *(fields or [f"  {self.detail}"])])
