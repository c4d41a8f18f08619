"""What a job may be asked for: the fields of `POST /v1/jobs`, typed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol, Required, TypedDict


class Kept(Protocol):
    """Something kept by the service under an id."""

    @property
    def id(self) -> str: ...


#: A picture: a file, its bytes, an id or a URL, or what is kept as a file or a template.
Picture = Path | bytes | str | Kept


class LoraUse(TypedDict, total=False):
    """One LoRA and how strongly it acts."""

    id: Required[str]
    scale: float


class EmbeddingUse(TypedDict):
    """One learned embedding, whose word the prompt says."""

    id: str


class ControlUse(TypedDict, total=False):
    """One ControlNet, the picture that the image keeps to, and the part of the steps it acts in."""

    id: Required[str]
    image: Required[Picture]
    scale: float
    start: float
    end: float
    mode: int


class IpAdapterUse(TypedDict, total=False):
    """One IP-Adapter, the picture that it shows, and how strongly."""

    id: Required[str]
    image: Required[Picture]
    scale: float


class SecondPass(TypedDict, total=False):
    """How a finished image is scaled up and made again."""

    scale: Required[float]
    strength: float
    steps: int


class Webhook(TypedDict, total=False):
    """Where to say what becomes of a job."""

    url: Required[str]
    events: Sequence[Literal["started", "progress", "completed"]]
    format: Literal["job", "prediction"]


class JobFields(TypedDict, total=False):
    """Fields of a job beside its prompt. None or left out: the service chooses.

    `/docs` of a service says of each what it means, and its limits.
    """

    negative_prompt: str | None
    prompt_2: str | None
    prompt_3: str | None
    negative_prompt_2: str | None
    negative_prompt_3: str | None
    prompt_syntax: Literal["plain", "weighted"] | None
    clip_skip: int | None
    original_size: tuple[int, int] | None
    crop: tuple[int, int] | None
    target_size: tuple[int, int] | None
    negative_original_size: tuple[int, int] | None
    negative_crop: tuple[int, int] | None
    negative_target_size: tuple[int, int] | None
    application: str | None
    model: str | None
    width: int | None
    height: int | None
    steps: int | None
    guidance: float | None
    scheduler: str | None
    sigma_spacing: Literal["karras", "exponential", "beta"] | None
    sigmas: Sequence[float] | None
    eta: float | None
    guidance_rescale: float | None
    seed: int | None
    n: int | None
    embeddings: Sequence[EmbeddingUse] | None
    loras: Sequence[LoraUse] | None
    controls: Sequence[ControlUse] | None
    ip_adapter: IpAdapterUse | None
    second_pass: SecondPass | None
    strength: float | None
    output_format: Literal["png", "webp", "jpeg", "avif"] | None
    output_quality: int | None
    quality: Literal["auto", "exact"] | None
    deadline_s: float | None
    priority: Literal["interactive", "batch"] | None
    webhook: Webhook | None
    metadata: Mapping[str, str] | None
