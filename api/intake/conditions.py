"""Read, check and store the ControlNet condition images of a job."""

import asyncio
from collections.abc import Sequence

from api.intake.decode_images import Picture, Pictures, read_template
from api.intake.schemas import JobCreate
from api.intake.sources import Sources
from core.errors import FieldError, ImageRefused, InvalidRequest, Unavailable
from core.job import Control
from core.log import get_logger
from core.uploads.upload import UploadKind
from storage.objects.store import ObjectStore

log = get_logger(__name__)

KINDS = (UploadKind.FILE, UploadKind.TEMPLATE)


class ConditionIntake:
    """Reads, checks and stores the conditions of jobs. Every job has its own copies."""

    def __init__(self, *, sources: Sources, pictures: Pictures, objects: ObjectStore) -> None:
        self._sources = sources
        self._pictures = pictures
        self._objects = objects

    async def read(self, tenant: str, create: JobCreate) -> tuple[Picture, ...]:
        """Read and check all pictures at once; nothing is stored.

        Raises:
            InvalidRequest: some of them; each is named.
            Unavailable: a store cannot serve now.
        """
        named = [(f"controls.{at}.image", each.image) for at, each in enumerate(create.controls)]
        found = await asyncio.gather(*(self._picture(*each, tenant) for each in named))
        if faults := [each for each in found if isinstance(each, FieldError)]:
            raise InvalidRequest(faults)
        return tuple(each for each in found if isinstance(each, Picture))

    async def store(self, controls: Sequence[Control], pictures: Sequence[Picture]) -> None:
        """Store the pictures of a job that is about to be submitted.

        Raises:
            ObjectsUnavailable: the object store cannot serve now; nothing is left there.
        """
        try:
            await asyncio.to_thread(self._put, controls, pictures)
        except Unavailable:
            await self.discard(controls)
            raise

    async def discard(self, controls: Sequence[Control]) -> None:
        """Delete the pictures of a job that was not accepted; what cannot be is logged."""
        try:
            await asyncio.to_thread(self._objects.delete, [each.image for each in controls])
        except Unavailable as error:
            log.warning("inputs_left", job_id=controls[0].image.split("/")[1], reason=str(error))

    def _put(self, controls: Sequence[Control], pictures: Sequence[Picture]) -> None:
        for control, picture in zip(controls, pictures, strict=True):
            self._objects.put(control.image, picture.data, picture.content_type)

    async def _picture(self, field: str, named: str, tenant: str) -> Picture | FieldError:
        try:
            data = await self._sources.read(named, tenant, KINDS)
            return await self._pictures.read(read_template, data)
        except ImageRefused as error:
            return FieldError(field, str(error))


def controls_of(tenant: str, job_id: str, create: JobCreate) -> tuple[Control, ...]:
    """Name where the pictures of a job will be."""
    return tuple(
        Control(
            controlnet=each.id,
            image=f"{tenant}/{job_id}/inputs/condition-{at}.png",
            scale=each.scale,
            start=each.start,
            end=each.end,
        )
        for at, each in enumerate(create.controls)
    )
