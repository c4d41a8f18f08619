"""Tenants: limits, weight, keys, and what they have used."""

from collections.abc import Mapping
from typing import TypedDict

import msgspec


class TenantLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a tenant may ask for and keep; None: not limited."""

    jobs_per_s: float | None = None
    burst: int | None = None
    open_jobs: int | None = None
    images_a_day: int | None = None
    kept_bytes: int | None = None


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """One tenant."""

    name: str
    object: str = "tenant"
    weight: float = 1.0  #: it is served so many times as often as others
    retention_s: float = 0.0  #: for which its jobs are kept after their end
    limits: TenantLimits = TenantLimits()
    own: tuple[str, ...] = ()  #: what of this is said of it alone


class TenantChange(TypedDict, total=False):
    """What is changed of a tenant: None takes the default back."""

    weight: float | None
    retention_s: float | None
    jobs_per_s: float | None
    burst: int | None
    open_jobs: int | None
    images_a_day: int | None
    kept_bytes: int | None


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """One API key; `key` itself is told once, when it is made."""

    id: str
    tenant: str
    object: str = "key"
    scopes: tuple[str, ...] = ()
    name: str = ""
    status: str = "active"
    created_at: float = 0.0  #: epoch s
    expires_at: float | None = None  #: epoch s
    revoked_at: float | None = None  #: epoch s
    replaces: str | None = None  #: id of the key in whose place it was made
    key: str = ""


class TenantSecret(msgspec.Struct, frozen=True, kw_only=True):
    """What signs a tenant's webhooks."""

    tenant: str
    secret: str
    is_own: bool = False  #: False: it is the service's, until it is rotated
    created_at: float = 0.0  #: epoch s
    others_end_at: tuple[float, ...] = ()  #: epoch s, when those before it stop to sign beside it


class RevokedUrls(msgspec.Struct, frozen=True, kw_only=True):
    """URLs that work no more."""

    tenant: str
    revoked: bool = True


class NotedAct(msgspec.Struct, frozen=True, kw_only=True):
    """Something that an operator or a tenant did."""

    at: float  #: epoch s
    event: str
    by: str  #: id of the key that asked for it
    by_tenant: str = ""
    address: str = ""
    request_id: str = ""
    facts: Mapping[str, object] = {}


class Ends(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs by how they ended."""

    succeeded: int = 0
    failed: int = 0
    canceled: int = 0
    expired: int = 0


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """What was used in some time, `start` being its first day where it is a row."""

    start: str = ""  #: ISO 8601, of UTC
    images: int = 0
    jobs: Ends = Ends()
    device_seconds: Mapping[str, float] = {}  #: by type of device
    gpu_seconds: float = 0.0
    cost: float | None = None  #: None: a price is not known


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What one tenant has used and keeps."""

    tenant: str
    start: str = ""  #: first day, ISO 8601, of UTC
    end: str = ""  #: last day
    kept_bytes: int = 0
    open_jobs: int = 0
    total: Used = Used()
    data: tuple[Used, ...] = ()
