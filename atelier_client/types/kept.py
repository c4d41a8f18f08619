"""What a tenant keeps: pictures, weights, applications; pages of it."""

from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One page of a list, or all of it."""

    data: tuple[T, ...]
    cursor: str | None = None  #: where the next page begins; None: this is the last


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """What was deleted."""

    id: str


class Upload(msgspec.Struct, frozen=True, kw_only=True):
    """A picture that is kept. Its URL works until `expires_at`; read it again for a new one."""

    id: str
    object: str = "file"  #: or `template`
    content_type: str = ""
    width: int = 0  #: pixels
    height: int = 0  #: pixels
    bytes: int = 0
    sha256: str = ""
    created_at: float = 0.0  #: epoch s
    url: str = ""
    expires_at: float = 0.0  #: epoch s


class Lora(msgspec.Struct, frozen=True, kw_only=True):
    """A LoRA that is kept."""

    id: str
    object: str = "lora"
    models: tuple[str, ...] = ()  #: that it fits
    layers: int = 0
    bound: int | None = None  #: of 50 steps, those that may run while it is loaded
    bytes: int = 0
    sha256: str = ""
    created_at: float = 0.0  #: epoch s


class Embedding(msgspec.Struct, frozen=True, kw_only=True):
    """A learned embedding that is kept."""

    id: str
    object: str = "embedding"
    models: tuple[str, ...] = ()  #: that it fits
    token: str = ""  #: the word that stands for it in a prompt
    vectors: int = 0
    bytes: int = 0
    sha256: str = ""
    created_at: float = 0.0  #: epoch s


class ControlNet(msgspec.Struct, frozen=True, kw_only=True):
    """A ControlNet, of the service or kept."""

    id: str
    object: str = "controlnet"
    models: tuple[str, ...] = ()  #: that it steers
    condition: str = ""  #: what its pictures show
    modes: int = 0  #: kinds of pictures, of a Union
    is_adapter: bool = False  #: a T2I-Adapter
    bytes: int | None = None  #: of one that is kept
    sha256: str | None = None
    created_at: float | None = None  #: epoch s


class IpAdapter(msgspec.Struct, frozen=True, kw_only=True):
    """An IP-Adapter of the service."""

    id: str
    object: str = "ip_adapter"
    models: tuple[str, ...] = ()


class Application(msgspec.Struct, frozen=True, kw_only=True):
    """What jobs of one kind may get."""

    name: str
    object: str = "application"
    models: tuple[str, ...] = ()
    slo_s: float | None = None  #: None: three times the best model's
    quality_floor: float = 0.0


class ApplicationDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """An application that was deleted."""

    name: str
