"""Upload records: reference images and edit templates that a tenant stores. Pure."""

from dataclasses import dataclass
from enum import StrEnum


class UploadKind(StrEnum):
    """What an upload is good for."""

    FILE = "file"  #: any image, kept as it was sent: a mask, or a template to be
    TEMPLATE = "template"  #: an image that is edited again and again, kept as edits read it
    LORA = "lora"  #: a change of a model's weights, kept as it was sent
    EMBEDDING = "embedding"  #: what a word of a prompt means, kept as it was sent
    CONTROLNET = "controlnet"  #: weights that steer a model, kept as they were sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """One image that stays until its owner deletes it."""

    id: str
    kind: UploadKind
    tenant: str
    key: str  #: `<tenant>/templates/<id>.png` or `<tenant>/files/<id>.<ending>`
    content_type: str
    width: int  #: pixels, upright
    height: int  #: pixels, upright
    size_bytes: int
    sha256: str  #: hex digest of the stored bytes
    created_at: float = 0.0  #: epoch s, set by the store
