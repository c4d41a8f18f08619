"""LoRA records as stored, and their use in a job. Pure."""

from dataclasses import dataclass

from core.uploads.upload import UploadKind

#: Where every tenant's LoRAs lie, beside the images.
LORAS = "loras"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLora:
    """One LoRA that stays until its owner deletes it."""

    id: str
    kind: UploadKind = UploadKind.LORA
    tenant: str
    key: str  #: of its file in the object store
    models: tuple[str, ...]  #: served when it came, whose layers it fits
    num_layers: int  #: that it changes
    #: K of 50: so much of a schedule may run without it while it is loaded; None: as measured
    bound: int | None
    size_bytes: int
    sha256: str  #: hex digest of its file
    created_at: float = 0.0  #: epoch s, set by the store

    def used(self, scale: float) -> "AppliedLora":
        """Say what a job and its worker need to know of it."""
        return AppliedLora(
            id=self.id,
            key=self.key,
            models=self.models,
            bound=self.bound,
            size_bytes=self.size_bytes,
            sha256=self.sha256,
            scale=scale,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedLora:
    """One LoRA in a job, and how strongly it acts."""

    id: str
    key: str  #: of its file in the object store
    models: tuple[str, ...]  #: that it fits
    bound: int | None = None  #: K of 50, as its owner said
    size_bytes: int
    sha256: str
    scale: float = 1.0


def lora_key(tenant: str, lora_id: str) -> str:
    """Name the object that holds a LoRA's file."""
    return f"{LORAS}/{tenant}/{lora_id}.safetensors"
