"""Store of tenants' uploads: records in Redis, bytes in the object store."""

import builtins
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from redis.asyncio import Redis

from core.codec import decode, encode
from core.errors import LimitReached, NotFound, TooManyRequests
from core.tenants.limits import UNLIMITED, TenantLimits
from core.uploads.controlnet import KeptControlNet
from core.uploads.embedding import KeptEmbedding
from core.uploads.lora import KeptLora
from core.uploads.upload import Upload, UploadKind
from storage.redis.connect import ask, converting_errors
from storage.redis.index import ids_after, write_cursor
from storage.redis.keys import upload_key, uploads_key
from storage.redis.script import NO_LIMIT, call, load

#: What is kept: images, LoRAs, ControlNets, or learned embeddings.
K = TypeVar("K", Upload, KeptLora, KeptControlNet, KeptEmbedding)

#: Seconds until a tenant that keeps as many as it may should ask again.
FULL_RETRY_S = 60.0
FIELDS = ("tenant", "kind", "document", "created_at")

PER_TRIP = 1000  #: ids that are asked for at once


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadListing(Generic[K]):
    """Some uploads of one kind and tenant, newest first."""

    uploads: tuple[K, ...]
    cursor: str | None  #: pass it to get what follows; None: nothing follows


class Uploads(Protocol[K]):
    """What the api and upkeep ask of a store of uploads."""

    async def add(self, upload: K, limits: TenantLimits = UNLIMITED) -> K:
        """Keep the record of an upload whose object is stored; adding it again changes nothing."""

    async def get(self, kind: UploadKind, upload_id: str, tenant: str) -> K:
        """Read one upload; a tenant sees its own only."""

    async def list(
        self, kind: UploadKind, tenant: str, *, limit: int = 20, cursor: str | None = None
    ) -> UploadListing[K]:
        """Read a tenant's uploads of one kind, newest first."""

    async def known(self, ids: Sequence[str]) -> set[str]:
        """Tell which of some uploads are kept, whoever keeps them."""

    async def remove(self, kind: UploadKind, upload_id: str, tenant: str) -> None:
        """Forget an upload whose object is deleted."""


class UploadStore(Generic[K]):
    """Records in Redis. Every change is one script; `storage.redis.keys` says what it touches."""

    def __init__(self, redis: Redis, of: type[K], *, max_uploads: int) -> None:
        """Keep records of this type, so many of each kind a tenant."""
        self._redis = redis
        self._of: type[K] = of
        self._max_uploads = max_uploads

    async def add(self, upload: K, limits: TenantLimits = UNLIMITED) -> K:
        """Keep the record of an upload whose object is stored; adding it again changes nothing.

        Raises:
            TooManyRequests: its tenant keeps as many of its kind, or as many bytes, as it may.
            StoreRefused: it has not been kept.
            StoreUnavailable: it may or may not have been kept.
        """
        most_bytes = limits.kept_bytes or NO_LIMIT
        args = (upload.id, upload.tenant, upload.kind, encode(upload), self._max_uploads)
        sizes = (upload.size_bytes, most_bytes)
        at_ms = int(await call(self._redis, load("keep"), *args, *sizes))
        if at_ms < 0:
            raise too_many_bytes(most_bytes)
        if not at_ms:
            raise full(upload.kind, self._max_uploads)
        return replace(upload, created_at=at_ms / 1e3)

    async def get(self, kind: UploadKind, upload_id: str, tenant: str) -> K:
        """Read one upload; a tenant sees its own only.

        Raises:
            NotFound: no such upload, or another tenant's.
        """
        row = await ask(self._redis, "HMGET", upload_key(upload_id), *FIELDS)
        if row[0] != tenant.encode() or row[1] != kind.encode():
            raise no_such_upload(kind, upload_id)
        return self._read(row)

    async def list(
        self, kind: UploadKind, tenant: str, *, limit: int = 20, cursor: str | None = None
    ) -> UploadListing[K]:
        """Read a tenant's uploads of one kind, newest first."""
        found = await ids_after(self._redis, uploads_key(kind, tenant), cursor, limit + 1)
        page = found[:limit]
        rows = await self._rows([name for name, _ in page])
        more = len(found) > limit
        return UploadListing(
            uploads=tuple(self._read(row) for row in rows if row[0] is not None),
            cursor=write_cursor(page[-1][1], page[-1][0]) if more else None,
        )

    async def remove(self, kind: UploadKind, upload_id: str, tenant: str) -> None:
        """Forget an upload whose object is deleted.

        Raises:
            NotFound: no such upload, or another tenant's.
        """
        if not await call(self._redis, load("drop"), upload_id, tenant, kind):
            raise no_such_upload(kind, upload_id)

    async def known(self, ids: Sequence[str]) -> set[str]:
        """Tell which of some uploads are kept, whoever keeps them."""
        found: set[str] = set()
        for start in range(0, len(ids), PER_TRIP):
            some = ids[start : start + PER_TRIP]
            async with self._redis.pipeline(transaction=False) as pipe:
                for upload_id in some:
                    pipe.execute_command("EXISTS", upload_key(upload_id))
                with converting_errors():
                    answers = await pipe.execute()
            found |= {name for name, is_kept in zip(some, answers, strict=True) if is_kept}
        return found

    async def _rows(self, ids: Sequence[str]) -> builtins.list[Sequence[bytes]]:
        async with self._redis.pipeline(transaction=False) as pipe:
            for upload_id in ids:
                pipe.execute_command("HMGET", upload_key(upload_id), *FIELDS)
            with converting_errors():
                return list(await pipe.execute())

    def _read(self, row: Sequence[bytes]) -> K:
        return replace(decode(row[2], self._of), created_at=int(row[3]) / 1e3)


def no_such_upload(kind: UploadKind, upload_id: str) -> NotFound:
    """Refuse an upload id that nobody has, or another tenant."""
    return NotFound(f"there is no {kind} {upload_id!r}")


def full(kind: UploadKind, max_uploads: int) -> TooManyRequests:
    """Refuse one upload more than a tenant may keep."""
    detail = f"{max_uploads} {kind}s are kept, as many as may be: delete some first"
    return TooManyRequests(detail, FULL_RETRY_S)


def too_many_bytes(most_bytes: int) -> LimitReached:
    """Refuse an upload beyond the bytes that a tenant may keep."""
    detail = f"{most_bytes} bytes may be kept by this tenant: delete jobs or uploads first"
    return LimitReached(detail, FULL_RETRY_S, "kept_bytes")
