"""Keep what tenants upload: the objects, then the record; list, read and delete it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Generic

from fastapi import Query, Request
from pydantic import BaseModel

from api.intake.weights import Spool
from api.services.requests import caller_of, require_file
from api.services.services import Services
from core.errors import RequestRejected, StoreRefused
from core.uploads.upload import UploadKind
from storage.objects.store import ObjectStore
from storage.tenants.uploads import K, UploadListing, Uploads

#: How a cursor looks: the store's moment and an id.
CURSOR = r"^[0-9]{1,15}\.\w{1,64}$"

#: How many of a list are shown at a time, and from where on.
PageSize = Annotated[int, Query(ge=1, le=100)]
PageCursor = Annotated[str | None, Query(max_length=80, pattern=CURSOR)]


class Deletion(BaseModel):
    """What was deleted."""

    id: str
    object: str
    deleted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """One object of an upload."""

    key: str
    body: bytes | Spool  #: a spool is open until the object is stored
    content_type: str

    def put(self, objects: ObjectStore) -> None:
        """Store it.

        Raises:
            ObjectsUnavailable: the store cannot serve now.
        """
        if isinstance(self.body, bytes):
            objects.put(self.key, self.body, self.content_type)
        else:
            size_bytes = self.body.size_bytes
            objects.put_file(self.key, self.body.file, size_bytes, self.content_type)


async def store(services: Services, records: Uploads[K], upload: K, *contents: Content) -> K:
    """Store what an upload consists of, then its record, which comes back as it is kept.

    Raises:
        RequestRejected: its tenant keeps as many as it may; nothing is left of it.
        StoreRefused: the store takes no record now; nothing is left of it.
        Unavailable: the record may be kept; its objects are there if it is.
    """
    await services.board.ping()  # a store that is away is found before anything is left behind
    for content in contents:
        await asyncio.to_thread(content.put, services.objects)
    try:
        return await records.add(upload, services.tenants.terms_of(upload.tenant).limits)
    except (RequestRejected, StoreRefused):  # after others it may be kept, and needs its objects
        keys = [content.key for content in contents]
        await asyncio.to_thread(services.objects.delete, keys)
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFiles(Generic[K]):
    """Files of weights of one kind: what their four routes have in common."""

    kind: UploadKind
    records: Callable[[Services], Uploads[K]]

    async def keep(
        self, request: Request, describe: Callable[[Spool], Awaitable[tuple[K, list[Content]]]]
    ) -> K:
        """Spool a file to disk and store what is read of it; nothing is kept of one refused."""
        services, _ = caller_of(request)
        require_file(request)
        with Spool() as spool:
            upload, contents = await describe(spool)
            return await store(services, self.records(services), upload, *contents)

    async def list(self, request: Request, limit: int, cursor: str | None) -> UploadListing[K]:
        """Read one page of what the tenant keeps, newest first."""
        services, tenant = caller_of(request)
        records = self.records(services)
        return await records.list(self.kind, tenant, limit=limit, cursor=cursor)

    async def get(self, request: Request, upload_id: str) -> K:
        """Read what is kept under one id; raises NotFound."""
        services, tenant = caller_of(request)
        return await self.records(services).get(self.kind, upload_id, tenant)

    async def remove(self, request: Request, upload_id: str) -> None:
        """Delete one: no new job may name it. Jobs that were accepted still find its file.

        Upkeep deletes the file once they have had the time to end.
        """
        services, tenant = caller_of(request)
        await self.records(services).remove(self.kind, upload_id, tenant)
