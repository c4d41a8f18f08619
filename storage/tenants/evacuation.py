"""Copy what tenants keep to the cell that takes it over, under the ids that it has here.

Objects go before their record, and an id is noted once its record is there: so whoever is killed on
the way begins again where it stopped, and what was deleted here since it was copied is deleted
there as well. What the heir deletes itself is noted here, and not copied again. Beside the notes
stands whose they are: they tell nothing of what another heir has.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from redis.asyncio import Redis

from core.codec import decode
from core.errors import ObjectMissing
from core.uploads.controlnet import manifest_key
from core.uploads.upload import UploadKind
from storage.objects.store import ObjectStore
from storage.redis.connect import ask
from storage.redis.index import ids_after, write_cursor
from storage.redis.keys import EVACUATED, EVACUATED_HEIR, upload_key, uploads_key
from storage.redis.script import NO_LIMIT, call, load
from storage.tenants.uploads import FIELDS

PAGE = 100  #: ids that are asked for at once


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptThings:
    """Where a cell has what its tenants keep."""

    cell: str  #: its name
    redis: Redis  #: records
    objects: ObjectStore  #: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReport:
    """What one look at all that is kept has brought about."""

    copied: int  #: that the heir did not have
    removed: int  #: from the heir: deleted here since they were copied
    unreadable: tuple[str, ...]  #: ids whose object is missing: deleted just now, or lost
    is_begun: bool  #: the heir was given something, now or before


@dataclass(frozen=True, slots=True)
class _Document:
    """What every record of an upload says of its object."""

    key: str
    content_type: str = "application/octet-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """One upload as its cell has it, whatever its kind."""

    id: str
    tenant: str
    kind: UploadKind
    document: bytes
    created_at: int  #: epoch ms
    num_bytes: int

    @property
    def objects(self) -> Sequence[tuple[str, str]]:
        """Its objects, each with the type of its content."""
        document = decode(self.document, _Document)
        found = [(document.key, document.content_type)]
        if self.kind is UploadKind.CONTROLNET:
            found.append((manifest_key(self.id), "application/json"))
        return found


async def copy_kept(source: KeptThings, heir: KeptThings) -> CopyReport:
    """Copy what the heir has not yet, and delete there what was deleted here since.

    Raises:
        Unavailable: a store cannot serve now; what was copied is noted.
    """
    await _drop_notes_of_another(source.redis, heir.cell)
    copied, unreadable = 0, []
    async for record in _not_copied(source.redis):
        try:
            await _copy(record, source, heir)
            copied += 1
        except ObjectMissing:
            unreadable.append(record.id)
    is_begun = bool(await ask(source.redis, "EXISTS", EVACUATED))
    removed = await _remove_what_was_deleted(source.redis, heir)
    return CopyReport(
        copied=copied, removed=removed, unreadable=tuple(unreadable), is_begun=is_begun
    )


async def _drop_notes_of_another(redis: Redis, heir: str) -> None:
    if await ask(redis, "GET", EVACUATED_HEIR) != heir.encode():
        await ask(redis, "DEL", EVACUATED)
        await ask(redis, "SET", EVACUATED_HEIR, heir)


async def _copy(record: _Record, source: KeptThings, heir: KeptThings) -> None:
    for key, content_type in record.objects:
        data = await asyncio.to_thread(source.objects.get, key)
        await asyncio.to_thread(heir.objects.put, key, data, content_type)
    words = record.id, record.tenant, record.kind, record.document
    limits = NO_LIMIT, record.num_bytes, NO_LIMIT
    await call(heir.redis, load("keep"), *words, *limits, record.created_at)
    await ask(source.redis, "SADD", EVACUATED, record.id)


async def _not_copied(redis: Redis) -> AsyncIterator[_Record]:
    async for kind, tenant in _indexes(redis):
        cursor = None
        while ids := await ids_after(redis, uploads_key(kind, tenant), cursor, PAGE):
            names = [name for name, _ in ids]
            noted = await ask(redis, "SMISMEMBER", EVACUATED, *names)
            for name, is_noted in zip(names, noted, strict=True):
                record = None if is_noted else await _read(redis, name)
                if record is not None:
                    yield record
            cursor = write_cursor(ids[-1][1], ids[-1][0])


async def _indexes(redis: Redis) -> AsyncIterator[tuple[str, str]]:
    """Find every kind and tenant of which anything is kept."""
    cursor = b"0"
    while True:
        cursor, keys = await ask(redis, "SCAN", cursor, "MATCH", "uploads:*", "COUNT", 1000)
        for key in keys:
            _, kind, tenant = key.decode().split(":", 2)
            yield kind, tenant
        if int(cursor) == 0:
            return


async def _remove_what_was_deleted(redis: Redis, heir: KeptThings) -> int:
    removed, cursor = 0, b"0"
    while True:
        cursor, noted = await ask(redis, "SSCAN", EVACUATED, cursor, "COUNT", PAGE)
        for name in (each.decode() for each in noted):
            if not await ask(redis, "EXISTS", upload_key(name)):
                removed += await _remove(name, heir)
                await ask(redis, "SREM", EVACUATED, name)
        if int(cursor) == 0:
            return removed


async def _remove(upload_id: str, heir: KeptThings) -> int:
    record = await _read(heir.redis, upload_id)
    if record is None:
        return 0
    keys = [key for key, _ in record.objects]
    await asyncio.to_thread(heir.objects.delete, keys)
    return int(await call(heir.redis, load("drop"), upload_id, record.tenant, record.kind))


async def _read(redis: Redis, upload_id: str) -> _Record | None:
    row = await ask(redis, "HMGET", upload_key(upload_id), *FIELDS, "bytes")
    if row[0] is None:
        return None
    tenant, kind, document, created_at, num_bytes = row
    return _Record(
        id=upload_id,
        tenant=tenant.decode(),
        kind=UploadKind(kind.decode()),
        document=document,
        created_at=int(created_at),
        num_bytes=int(num_bytes or 0),
    )
