"""Resolve the image a request names: a `data:` URL, a remote URL or an uploaded file."""

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable, Sequence

from core.cells.ids import is_id
from core.errors import ImageRefused, NotFound, ObjectMissing
from core.uploads.upload import Upload, UploadKind
from storage.objects.store import ObjectStore
from storage.tenants.uploads import Uploads

DATA, WEB = "data:", ("https://", "http://")

#: Takes a tenant and a URL, reads what that holds, or raises ImageRefused.
Fetch = Callable[[str, str], Awaitable[bytes]]


class Sources:
    """Reads an image wherever its client says that it is. What is refused is never repeated."""

    def __init__(self, *, uploads: Uploads[Upload], objects: ObjectStore, fetch: Fetch) -> None:
        self._uploads = uploads
        self._objects = objects
        self._fetch = fetch

    async def read(self, named: str, tenant: str, kinds: Sequence[UploadKind]) -> bytes:
        """Read an image: a `data:` URL, an https URL, or the id of an upload of one of `kinds`.

        Raises:
            ImageRefused: there is none; an upload of another tenant is as if it were not there.
            Unavailable: a store cannot serve now.
        """
        scheme = named[:8].lower()
        if scheme.startswith(DATA):
            return await asyncio.to_thread(read_data_url, named)
        if scheme.startswith(WEB):
            return await self._fetch(tenant, named)
        either = " or ".join(kinds)
        if not is_id(named):
            raise ImageRefused(f"must be the id of a {either}, a data: URL or an https:// URL")
        for kind in kinds:
            if (data := await self._kept(kind, named, tenant)) is not None:
                return data
        raise ImageRefused(f"is the id of no {either} that is kept here")

    async def _kept(self, kind: UploadKind, upload_id: str, tenant: str) -> bytes | None:
        try:
            upload = await self._uploads.get(kind, upload_id, tenant)
            return await asyncio.to_thread(self._objects.get, upload.key)
        except (NotFound, ObjectMissing):  # never there, or deleted at this moment
            return None


def read_data_url(url: str) -> bytes:
    """Read `data:<type>;base64,<bytes>`. The type is not believed: the bytes say what they are.

    Raises:
        ImageRefused: it is of another form, or its base64 is wrong.
    """
    head, comma, body = url.partition(",")
    if not comma or not head.lower().endswith(";base64"):
        raise ImageRefused("must be written data:<type>;base64,<bytes>")
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError) as error:  # ValueError: not even ASCII
        raise ImageRefused("is no valid base64 after its comma") from error
