"""ControlNets, built in or uploaded, and the models they fit. Pure."""

from dataclasses import dataclass

from core.cells.ids import is_id
from core.uploads.upload import UploadKind

#: Where every tenant's ControlNets lie, beside the images.
CONTROLNETS = "controlnets"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlNet:
    """One ControlNet, as its folder describes it."""

    name: str  #: by which jobs ask for it
    models: tuple[str, ...]  #: that it was made for
    condition: str = ""  #: what the pictures show that images keep to, for a person
    modes: int = 0  #: kinds of pictures that it tells apart: of a Union alone
    is_adapter: bool = False  #: whether it is a T2I-Adapter


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptControlNet:
    """One ControlNet that stays until its owner deletes it."""

    id: str
    kind: UploadKind = UploadKind.CONTROLNET
    tenant: str
    key: str  #: of its weights in the object store; its manifest lies beside them
    models: tuple[str, ...]  #: served when it came, whose encoders it copies
    condition: str = ""  #: what the pictures show that images keep to, for a person
    modes: int = 0  #: kinds of pictures that it tells apart: of a Union alone
    is_adapter: bool = False  #: whether it is a T2I-Adapter
    size_bytes: int
    sha256: str  #: hex digest of its weights
    created_at: float = 0.0  #: epoch s, set by the store


def is_kept(name: str) -> bool:
    """Tell whether a job names what a tenant keeps, and no folder."""
    return is_id(name)


def weights_key(controlnet_id: str) -> str:
    """Name the object that holds the weights of a kept ControlNet."""
    return f"{CONTROLNETS}/{controlnet_id}.safetensors"


def manifest_key(controlnet_id: str) -> str:
    """Name the object that says how its weights are to be read."""
    return f"{CONTROLNETS}/{controlnet_id}.json"
