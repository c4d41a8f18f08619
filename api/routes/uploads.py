"""Routes of `/v1/templates` and `/v1/files`: uploaded images, reusable by id.

An image is the whole body of its upload. Forms are for clients of another API
(`api/facades/replicate`): a page of another site may send one without asking.
"""

import asyncio

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import Response

from api.intake.decode_images import Picture, Read, read_file, read_template
from api.intake.edits import check_template
from api.routes.jobs import as_json
from api.services.kept import Content, PageCursor, PageSize, store
from api.services.record_template import record
from api.services.requests import caller_of, require_image
from api.services.services import Services
from api.views.openapi import KEPT_NOT_FOUND, UPLOAD, UPLOAD_PROBLEMS
from core.cells.ids import new_id
from core.errors import FieldError, ImageRefused, InvalidRequest
from core.uploads.upload import Upload, UploadKind

ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/webp": "webp"}

router = APIRouter(tags=["images"])


class UploadView(BaseModel):
    """An image that is kept. Its URL works until `expires_at`; read it again for a new one."""

    id: str
    object: UploadKind
    content_type: str
    width: int
    height: int
    bytes: int
    sha256: str
    created_at: float
    url: str
    expires_at: float


class UploadPage(BaseModel):
    """One page of what is kept, newest first; pass `cursor` to read on."""

    object: str = "list"
    data: list[UploadView]
    cursor: str | None


class UploadGone(BaseModel):
    """What was deleted."""

    id: str
    object: UploadKind
    deleted: bool = True


class Shelf:
    """Everything about the uploads of one kind: how they are read, and their four routes."""

    def __init__(self, kind: UploadKind, read: Read) -> None:
        self._kind = kind
        self._read_as = read
        self._name = f"{kind}s"  # in paths and in keys

    async def keep(self, request: Request) -> Response:
        """Check an image and keep it until it is deleted."""
        services, tenant = caller_of(request)
        require_image(request)
        data = await request.body()
        async with services.turns.of(tenant):
            kept = await self.store(services, tenant, data)
        if self._kind is UploadKind.TEMPLATE:
            await record(services, kept)
        response = as_json(await asyncio.to_thread(_view, services, kept), 201)
        response.headers["Location"] = f"{services.urls.public_url}/v1/{self._name}/{kept.id}"
        return response

    async def list(
        self,
        request: Request,
        limit: PageSize = 20,
        cursor: PageCursor = None,
    ) -> Response:
        """List what the tenant keeps, newest first."""
        services, tenant = caller_of(request)
        page = await services.uploads.list(self._kind, tenant, limit=limit, cursor=cursor)
        data = await asyncio.to_thread(lambda: [_view(services, each) for each in page.uploads])
        return as_json(UploadPage(data=data, cursor=page.cursor))

    async def read(self, request: Request, upload_id: str) -> Response:
        """Read what is kept under one id."""
        services, tenant = caller_of(request)
        upload = await services.uploads.get(self._kind, upload_id, tenant)
        return as_json(await asyncio.to_thread(_view, services, upload))

    async def remove(self, request: Request, upload_id: str) -> Response:
        """Delete one; jobs that were accepted have their own copy.

        Its bytes go first: what fails between is found again by whoever tries again.
        """
        services, tenant = caller_of(request)
        upload = await services.uploads.get(self._kind, upload_id, tenant)
        await asyncio.to_thread(services.objects.delete, [upload.key])
        await services.uploads.remove(self._kind, upload_id, tenant)
        return as_json(UploadGone(id=upload.id, object=self._kind))

    def add_routes(self) -> None:
        """Put the four routes on the router."""
        path, one = f"/v1/{self._name}", f"/v1/{self._name}/{{upload_id}}"
        router.add_api_route(
            path,
            self.keep,
            methods=["POST"],
            status_code=201,
            response_model=UploadView,
            responses=UPLOAD_PROBLEMS,
            openapi_extra=UPLOAD,
            summary=f"Keep a {self._kind}",
        )
        router.add_api_route(
            path, self.list, response_model=UploadPage, summary=f"List {self._name}, newest first"
        )
        router.add_api_route(
            one,
            self.read,
            response_model=UploadView,
            responses=KEPT_NOT_FOUND,
            summary=f"Read one {self._kind}",
        )
        router.add_api_route(
            one,
            self.remove,
            methods=["DELETE"],
            response_model=UploadGone,
            responses=KEPT_NOT_FOUND,
            summary=f"Delete a {self._kind}",
        )

    async def store(self, services: Services, tenant: str, data: bytes) -> Upload:
        """Check an image and keep it.

        Raises:
            InvalidRequest: it is none that we take.
            RequestRejected: its tenant keeps as many as it may.
            Unavailable: a store cannot serve now.
        """
        picture = await self._read(services, data)
        upload = self._upload(new_id(services.settings.cell), tenant, picture)
        image = Content(key=upload.key, body=picture.data, content_type=picture.content_type)
        return await store(services, services.uploads, upload, image)

    async def _read(self, services: Services, data: bytes) -> Picture:
        try:
            picture = await services.pictures.read(self._read_as, data)
        except ImageRefused as error:
            raise InvalidRequest([FieldError("body", str(error))]) from error
        if self._kind is UploadKind.TEMPLATE:
            check_template(services.models.values(), picture.width, picture.height)
        return picture

    def _upload(self, upload_id: str, tenant: str, picture: Picture) -> Upload:
        return Upload(
            id=upload_id,
            kind=self._kind,
            tenant=tenant,
            key=f"{tenant}/{self._name}/{upload_id}.{ENDINGS[picture.content_type]}",
            content_type=picture.content_type,
            width=picture.width,
            height=picture.height,
            size_bytes=len(picture.data),
            sha256=picture.sha256,
        )


def _view(services: Services, upload: Upload) -> UploadView:
    url, expires_at = services.urls.sign(upload.key)
    return UploadView(
        id=upload.id,
        object=upload.kind,
        content_type=upload.content_type,
        width=upload.width,
        height=upload.height,
        bytes=upload.size_bytes,
        sha256=upload.sha256,
        created_at=upload.created_at,
        url=url,
        expires_at=expires_at,
    )


TEMPLATES, FILES = Shelf(UploadKind.TEMPLATE, read_template), Shelf(UploadKind.FILE, read_file)
for shelf in (TEMPLATES, FILES):
    shelf.add_routes()
