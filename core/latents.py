"""Reusable latents: which jobs may resume from those of a finished job. Pure data."""

from dataclasses import dataclass

from core.levels.approximation import SKIPS

#: Where every tenant's latents lie, beside the images.
LATENTS = "latents"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentKey:
    """What must be equal for one job to go on from the latents of another."""

    model: str
    width: int  #: pixels
    height: int  #: pixels
    steps: int  #: of the full schedule
    scheduler: str | None  #: sampler; None is the model's own
    is_guided: bool
    adapters: tuple[str, ...] = ()  #: `<id>@<scale>` of each, sorted


@dataclass(frozen=True, slots=True, kw_only=True)
class Lender:
    """A finished job whose latents at some steps are kept (Argus §2.1, approximate caching)."""

    id: str  #: of the job
    tenant: str
    prompt: str
    terms: LatentKey
    skips: tuple[int, ...]  #: each K of 50 that a job may skip by starting from here
    num_bytes: int  #: of all of them in the store
    made_at: float = 0.0  #: epoch s, by the clock of the worker that made it


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where a placed job starts from instead of noise."""

    key: str  #: of the latents in the object store
    similarity: float  #: cosine of the two prompts' embeddings, in [-1, 1]


def latents_prefix(tenant: str, job_id: str) -> str:
    """Name the folder of one job's latents."""
    return f"{LATENTS}/{tenant}/{job_id}"


def every_latents_key(tenant: str, job_id: str) -> frozenset[str]:
    """Name whatever a job may have left for others to start from."""
    return frozenset(latents_key(tenant, job_id, k) for k in SKIPS)


def latents_key(tenant: str, job_id: str, skipped_steps: int) -> str:
    """Name the object that a job which skips K of 50 steps starts from."""
    return f"{latents_prefix(tenant, job_id)}/{skipped_steps}.safetensors"
