"""Store the objects, then the record of an upload: all of it or nothing."""

import asyncio
from dataclasses import dataclass

from api.intake.spool import Spool
from api.services.services import Services
from core.errors import RequestRejected
from storage.objects.store import ObjectStore
from storage.tenants.uploads import K, Uploads


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
        Unavailable: the record may be kept; its objects are there if it is.
    """
    await services.board.ping()  # a store that is away is found before anything is left behind
    for content in contents:
        await asyncio.to_thread(content.put, services.objects)
    try:
        return await records.add(upload)
    except RequestRejected:  # after any other error it may be kept, and needs its objects
        keys = [content.key for content in contents]
        await asyncio.to_thread(services.objects.delete, keys)
        raise
