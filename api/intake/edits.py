"""Read and check the template and mask of an edit; store both with the job, or neither."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from api.intake.decode_images import Picture, Pictures, Read, read_mask, read_template
from api.intake.schemas import JobCreate
from api.intake.sources import Sources
from core.errors import FieldError, ImageRefused, InvalidRequest, Unavailable
from core.job import Edit
from core.log import get_logger
from core.uploads.upload import UploadKind
from storage.objects.store import ObjectStore

log = get_logger(__name__)

OF_TEMPLATE, OF_MASK = (UploadKind.TEMPLATE, UploadKind.FILE), (UploadKind.FILE,)


@dataclass(frozen=True, slots=True, kw_only=True)
class EditImages:
    """The images of one edit: checked, of one size, and not stored yet."""

    template: Picture
    mask: Picture


class Edits:
    """Reads, checks and stores what edits work on.

    Every job has its own copy, of a kept template too: so its owner may delete the template while
    jobs wait, and retention deletes all of a job without asking who else might need it.
    """

    def __init__(self, *, sources: Sources, pictures: Pictures, objects: ObjectStore) -> None:
        self._sources = sources
        self._pictures = pictures
        self._objects = objects

    async def read(self, tenant: str, create: JobCreate) -> EditImages:
        """Read and check both images at once; nothing is stored.

        Raises:
            InvalidRequest: one of them, or both; each is named.
            Unavailable: a store cannot serve now.
        """
        template, mask = await asyncio.gather(
            self._picture("template", create.template or "", tenant, OF_TEMPLATE, read_template),
            self._picture("mask", create.mask or "", tenant, OF_MASK, read_mask),
        )
        if isinstance(template, FieldError) or isinstance(mask, FieldError):
            raise InvalidRequest(
                [each for each in (template, mask) if isinstance(each, FieldError)]
            )
        if (template.width, template.height) != (mask.width, mask.height):
            sizes = f"is {_size(mask)} pixels, the template {_size(template)}"
            raise InvalidRequest([FieldError("mask", f"{sizes}: they must be of one size")])
        return EditImages(template=template, mask=mask)

    async def store(self, edit: Edit, inputs: EditImages) -> None:
        """Store the images of a job that is about to be submitted.

        Raises:
            ObjectsUnavailable: the object store cannot serve now; nothing is left there.
        """
        try:
            await asyncio.to_thread(self._put, edit, inputs)
        except Unavailable:
            await self.discard(edit)
            raise

    async def discard(self, edit: Edit) -> None:
        """Delete the images of a job that was not accepted; what cannot be deleted is logged."""
        try:
            await asyncio.to_thread(self._objects.delete, [edit.template, edit.mask])
        except Unavailable as error:
            log.warning("inputs_left", job_id=edit.mask.split("/")[1], reason=str(error))

    def _put(self, edit: Edit, inputs: EditImages) -> None:
        for key, picture in ((edit.template, inputs.template), (edit.mask, inputs.mask)):
            self._objects.put(key, picture.data, picture.content_type)

    async def _picture(
        self, field: str, named: str, tenant: str, kinds: Sequence[UploadKind], how: Read
    ) -> Picture | FieldError:
        try:
            return await self._pictures.read(how, await self._sources.read(named, tenant, kinds))
        except ImageRefused as error:
            return FieldError(field, str(error))


def edit_of(tenant: str, job_id: str, inputs: EditImages, strength: float) -> Edit:
    """Name where the images of a job will be."""
    folder = f"{tenant}/{job_id}/inputs"
    return Edit(
        template=f"{folder}/template.png",
        template_sha256=inputs.template.sha256,
        mask=f"{folder}/mask.png",
        strength=strength,
        masked=inputs.mask.masked,
    )


def _size(picture: Picture) -> str:
    return f"{picture.width} x {picture.height}"
