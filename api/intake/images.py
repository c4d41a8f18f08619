"""Read the images that a request names; store them with its job, or none of them."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

from api.intake.decode_images import Picture, Pictures, Read
from api.intake.sources import Sources
from core.errors import FieldError, ImageRefused, InvalidRequest, Unavailable
from core.log import get_logger
from core.uploads.upload import UploadKind
from storage.objects.store import ObjectStore

#: Requests with pictures of one tenant that are read and stored; others wait for them.
MAX_OF_TENANT: Final = 2

log = get_logger(__name__)

#: An image that a request names: its field, what it says, where that may be kept, how it is read.
Named = tuple[str, str, Sequence[UploadKind], Read]


class ImageIntake:
    """Reads, checks and stores the images that jobs bring.

    Every job has its own copy, of a kept template too: so its owner may delete the template while
    jobs wait, and retention deletes all of a job without asking who else might need it.
    """

    def __init__(self, *, sources: Sources, pictures: Pictures, objects: ObjectStore) -> None:
        self._sources = sources
        self._pictures = pictures
        self._objects = objects

    async def read(self, tenant: str, named: Sequence[Named]) -> tuple[Picture, ...]:
        """Read and check all of them at once; nothing is stored.

        Raises:
            InvalidRequest: some of them; each is named.
            Unavailable: a store cannot serve now.
        """
        found = await asyncio.gather(*(self._picture(tenant, *each) for each in named))
        if wrong := [each for each in found if isinstance(each, FieldError)]:
            raise InvalidRequest(wrong)
        return tuple(each for each in found if isinstance(each, Picture))

    async def store(self, images: Sequence[tuple[str, Picture]]) -> None:
        """Store the images of a job that is about to be submitted, each under its key.

        Raises:
            ObjectsUnavailable: the object store cannot serve now; nothing is left there.
        """
        try:
            await asyncio.to_thread(self._put, images)
        except Unavailable:
            await self.discard(images)
            raise

    async def discard(self, images: Sequence[tuple[str, Picture]]) -> None:
        """Delete the images of a job that was not accepted; what cannot be deleted is logged."""
        keys = [key for key, _ in images]
        try:
            await asyncio.to_thread(self._objects.delete, keys)
        except Unavailable as error:
            tenant, job, *_ = keys[0].split("/")
            log.warning("inputs_left", tenant=tenant, job=job, reason=str(error))

    def _put(self, images: Sequence[tuple[str, Picture]]) -> None:
        for key, picture in images:
            self._objects.put(key, picture.data, picture.content_type)

    async def _picture(
        self, tenant: str, field: str, named: str, kinds: Sequence[UploadKind], how: Read
    ) -> Picture | FieldError:
        try:
            return await self._pictures.read(how, await self._sources.read(named, tenant, kinds))
        except ImageRefused as error:
            return FieldError(field, str(error))


class TenantTurns:
    """Lets each tenant have few requests with pictures in hand: each holds up to 200 MB."""

    def __init__(self) -> None:
        self._free = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(MAX_OF_TENANT))

    def of(self, tenant: str) -> AbstractAsyncContextManager[object]:
        """Wait for a turn of this tenant's."""
        return self._free[tenant]
