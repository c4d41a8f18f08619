"""The twin of `UploadStore`."""

import builtins
from dataclasses import replace

from core.upload import Upload, UploadKind
from storage.index import read_cursor, write_cursor
from storage.memory.state import MemoryStore
from storage.uploads import UploadPage, full, no_such_upload


class MemoryUploads:
    """Records of uploads in memory."""

    def __init__(self, store: MemoryStore | None = None, *, max_uploads: int = 10_000) -> None:
        self.store = store or MemoryStore()
        self._max_uploads = max_uploads

    async def add(self, upload: Upload) -> Upload:
        with self.store.lock:
            if upload.id not in self.store.uploads:
                if len(self._of(upload.kind, upload.tenant)) >= self._max_uploads:
                    raise full(upload.kind, self._max_uploads)
                self.store.uploads[upload.id] = replace(upload, created_at=self.store.now())
            return self.store.uploads[upload.id]

    async def get(self, kind: UploadKind, upload_id: str, tenant: str) -> Upload:
        upload = self.store.uploads.get(upload_id)
        if upload is None or (upload.kind, upload.tenant) != (kind, tenant):
            raise no_such_upload(kind, upload_id)
        return upload

    async def list(
        self, kind: UploadKind, tenant: str, *, limit: int = 20, cursor: str | None = None
    ) -> UploadPage:
        found = sorted(self._of(kind, tenant), key=_place, reverse=True)
        place = read_cursor(cursor)
        if place is not None:
            found = [upload for upload in found if _place(upload) < place]
        page, rest = tuple(found[:limit]), found[limit:]
        return UploadPage(uploads=page, cursor=write_cursor(*_place(page[-1])) if rest else None)

    async def remove(self, kind: UploadKind, upload_id: str, tenant: str) -> None:
        with self.store.lock:
            await self.get(kind, upload_id, tenant)
            del self.store.uploads[upload_id]

    def _of(self, kind: UploadKind, tenant: str) -> builtins.list[Upload]:
        kept = self.store.uploads.values()
        return [upload for upload in kept if (upload.kind, upload.tenant) == (kind, tenant)]


def _place(upload: Upload) -> tuple[int, str]:
    return round(upload.created_at * 1e3), upload.id
