"""In-memory fake of `UploadStore`."""

import builtins
from collections.abc import Sequence
from dataclasses import replace

from core.tenants.limits import UNLIMITED, TenantLimits
from core.uploads.upload import UploadKind
from storage.fakes.account import has_no_room
from storage.fakes.store import MemoryStore
from storage.redis.index import read_cursor, write_cursor
from storage.tenants.uploads import K, UploadListing, Uploads, full, no_such_upload, too_many_bytes


class MemoryUploads(Uploads[K]):
    """Records of uploads in memory."""

    def __init__(
        self, of: type[K], store: MemoryStore | None = None, *, max_uploads: int = 10_000
    ) -> None:
        self.store = store or MemoryStore()
        self._type: type[K] = of
        self._max_uploads = max_uploads

    async def add(self, upload: K, limits: TenantLimits = UNLIMITED) -> K:
        account = self.store.accounts[upload.tenant]
        with self.store.lock:
            if upload.id not in self.store.uploads:
                if len(self._of(upload.kind, upload.tenant)) >= self._max_uploads:
                    raise full(upload.kind, self._max_uploads)
                if has_no_room(account, limits, upload.size_bytes):
                    raise too_many_bytes(limits.kept_bytes or 0)
                account.kept_bytes += upload.size_bytes
                self.store.uploads[upload.id] = replace(upload, created_at=self.store.now())
            return await self.get(upload.kind, upload.id, upload.tenant)

    async def get(self, kind: UploadKind, upload_id: str, tenant: str) -> K:
        found = [upload for upload in self._of(kind, tenant) if upload.id == upload_id]
        if not found:
            raise no_such_upload(kind, upload_id)
        return found[0]

    async def known(self, ids: Sequence[str]) -> set[str]:
        return self.store.uploads.keys() & set(ids)

    async def list(
        self, kind: UploadKind, tenant: str, *, limit: int = 20, cursor: str | None = None
    ) -> UploadListing[K]:
        found = sorted(self._of(kind, tenant), key=_place, reverse=True)
        place = read_cursor(cursor)
        if place is not None:
            found = [upload for upload in found if _place(upload) < place]
        page, rest = tuple(found[:limit]), found[limit:]
        return UploadListing(uploads=page, cursor=write_cursor(*_place(page[-1])) if rest else None)

    async def remove(self, kind: UploadKind, upload_id: str, tenant: str) -> None:
        with self.store.lock:
            upload = await self.get(kind, upload_id, tenant)
            self.store.accounts[tenant].kept_bytes -= upload.size_bytes
            del self.store.uploads[upload_id]

    def _of(self, kind: UploadKind, tenant: str) -> builtins.list[K]:
        kept = (each for each in self.store.uploads.values() if isinstance(each, self._type))
        return [upload for upload in kept if (upload.kind, upload.tenant) == (kind, tenant)]


def _place(upload: K) -> tuple[int, str]:
    return round(upload.created_at * 1e3), upload.id
