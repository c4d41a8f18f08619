"""What a service is made of: models, workers, plan, webhooks that nobody took."""

from collections.abc import Mapping
from typing import Any

import msgspec


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """Widths and heights a model makes, in pixels."""

    default: int
    min: int
    max: int
    multiple: int


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """Denoising steps a model takes."""

    default: int
    max: int


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """What the folder of a model holds."""

    pipeline: str = ""  #: its stock class
    parameters: int = 0
    dtypes: tuple[str, ...] = ()  #: as stored, that of most numbers first
    files: int = 0
    variant: str | None = None
    scheduler: str = ""
    distilled: str | None = None  #: kind of few-step model


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """One model that is served."""

    id: str
    family: str
    sizes: Sizes
    steps: Steps
    object: str = "model"
    created: int = 0  #: epoch s, when its folder was described; 0: nobody knows
    owned_by: str = ""  #: for OpenAI's clients
    tasks: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    samplers: tuple[str, ...] = ()
    scale: int = 1  #: of an upscaler
    default_guidance: float = 0.0
    max_prompt_tokens: int = 0
    reads: tuple[str, ...] = ()  #: fields of prompts beside `prompt`
    size_gib: float = 0.0
    quality: float | None = None  #: None: nobody knows
    weights: Weights | None = None
    is_resident: bool = False  #: on some worker
    is_loadable: bool = True  #: by some worker
    untried_on: tuple[str, ...] = ()  #: types of device


class Models(msgspec.Struct, frozen=True, kw_only=True):
    """All models, and what holds for every request."""

    data: tuple[Model, ...]
    samplers: Mapping[str, int | None] = {}  #: with their own limits of steps
    applications: tuple[str, ...] = ()
    max_images: int = 0
    max_prompt_chars: int = 0
    cursor: None = None


class Loading(msgspec.Struct, frozen=True, kw_only=True):
    """A model that a worker gets ready."""

    model: str
    stage: str  #: `room`, `reading` or `timing`
    seconds: float = 0.0  #: since it began
    fraction: float | None = None  #: of the time that it usually takes
    serves: bool = True  #: it was asked for; else it is tried while there is nothing to do


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """One worker process."""

    name: str  #: `<label>@<host>`
    models: tuple[str, ...] = ()  #: resident
    queues: tuple[str, ...] = ()
    device_type: str = ""
    memory_gib: float = 0.0
    running: int = 0
    waiting: int = 0
    max_slots: int = 0
    step_s: float = 0.0
    untried: tuple[str, ...] = ()  #: models that nobody has timed there
    loading: Loading | None = None
    failures: Mapping[str, str] = {}  #: model -> why it is not served
    load_s: Mapping[str, float] = {}
    needs_gib: Mapping[str, float] = {}
    slowness: float = 0.0
    beat_at: float = 0.0  #: epoch s


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """What waits on one queue."""

    queue: str
    waiting: int = 0
    oldest_s: float = 0.0


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """The workers that reported lately, and the queues."""

    workers: tuple[Worker, ...]
    queues: tuple[Queue, ...] = ()


class PlanRow(msgspec.Struct, frozen=True, kw_only=True):
    """How prompts of one class of one application are shared among levels."""

    application: str
    affinity: str
    models: tuple[str, ...] = ()
    is_full: bool = False
    shares: Mapping[str, float] = {}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan in force."""

    version: int
    made_at: float  #: epoch s
    policy: str
    workers: Mapping[str, str] = {}  #: worker -> the model it holds or shall hold
    demand: Mapping[str, float] = {}  #: application -> jobs/s
    affinity: Mapping[str, float] = {}  #: class of prompts -> share
    levels: Mapping[str, float] = {}  #: level -> jobs/s
    pasm: tuple[PlanRow, ...] = ()
    saturation: float = 0.0
    costs: Mapping[str, Mapping[str, Any]] = {}
    resident: tuple[str, ...] = ()
    slowness: Mapping[str, float] = {}
    strategy: str = ""
    switched: Mapping[str, Any] | None = None


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """About half a minute: what was counted in it, and how things stood at its end."""

    ended_at: float  #: epoch s
    seconds: float
    accepted: int = 0
    succeeded: int = 0
    failed: int = 0
    canceled: int = 0
    late: int = 0
    redelivered: int = 0
    buried: int = 0
    images: Mapping[str, int] = {}
    p50_s: float | None = None
    p95_s: float | None = None
    quality: float | None = None
    scored: int = 0
    queued: int = 0
    oldest_s: float = 0.0
    busy: int = 0
    running: int = 0
    slots: int = 0
    devices: Mapping[str, int] = {}
    cost: float | None = None
    forecast: float | None = None
    saturation: float | None = None


class History(msgspec.Struct, frozen=True, kw_only=True):
    """The last hour, the oldest period first."""

    data: tuple[Period, ...]


class DeadWebhook(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook that no receiver took."""

    id: str  #: its `webhook-id`
    job: str
    event: str
    object: str = "webhook"
    url: str = ""
    attempts: int = 0
    created_at: float = 0.0  #: when it was given up (epoch s)


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook that is sent again."""

    id: str
    replayed: bool = True


class WebhookSecret(msgspec.Struct, frozen=True, kw_only=True):
    """What webhooks are signed by."""

    key: str
