"""Take files of weights: spooled to disk and hashed, checked against the models as they arrive."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from io import BytesIO
from mmap import ACCESS_READ, mmap
from tempfile import TemporaryFile
from typing import BinaryIO, Generic, Self, TypeVar

from catalog.safetensors_header import HEAD_BYTES, Header, read_header
from core.cells.ids import is_id
from core.errors import (
    BadWeights,
    FieldError,
    InvalidRequest,
    NotFound,
    ObjectsUnavailable,
    WeightsRefused,
)
from core.model import Model
from core.uploads.upload import UploadKind
from storage.tenants.uploads import K, Uploads

T = TypeVar("T")

#: Bytes that are gathered before they are written.
BLOCK_BYTES = 2**20


class Spool:
    """A body on disk, hashed as it comes; gone when it is closed, or with the process."""

    def __init__(self) -> None:
        """Open a file where the system keeps those (`TMPDIR`)."""
        with _converting_errors():
            self.file: BinaryIO = TemporaryFile()  # noqa: SIM115 - closed by its user
        self.size_bytes = 0
        self._hash = sha256()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    @property
    def sha256(self) -> str:
        """Hex digest of what has come."""
        return self._hash.hexdigest()

    async def take(self, body: AsyncIterator[bytes], until: int | None = None) -> None:
        """Take what comes: all of it, or until there are so many bytes.

        Raises:
            ObjectsUnavailable: there is no room for it.
        """
        block = bytearray()
        async for chunk in body:
            block += chunk
            if len(block) >= BLOCK_BYTES:
                await asyncio.to_thread(self._write, block)
                block = bytearray()
            if until is not None and self.size_bytes + len(block) >= until:
                break
        await asyncio.to_thread(self._write, block)

    def head(self, count: int) -> bytes:
        """Read the first bytes; fewer if no more have come."""
        return os.pread(self.file.fileno(), count, 0)

    def header(self, *, is_whole: bool) -> Header:
        """Read what a safetensors file says that it holds. Raises: WeightsRefused."""
        head = self.head(HEAD_BYTES)
        size = self.size_bytes if is_whole else len(head)
        return read_header(BytesIO(head), size, is_whole=is_whole)

    @contextmanager
    def whole(self) -> Iterator[mmap]:
        """Look at all of it as if it were in memory."""
        with mmap(self.file.fileno(), 0, access=ACCESS_READ) as data:
            yield data

    def _write(self, block: bytearray) -> None:
        with _converting_errors():
            self.file.write(block)
            self.file.flush()
        self._hash.update(block)
        self.size_bytes += len(block)


class WeightsIntake(Generic[K]):
    """Takes files that are for some of the models served, and finds those that jobs name."""

    def __init__(self, records: Uploads[K], models: Mapping[str, Model]) -> None:
        self.records: Uploads[K] = records
        self._models = models
        self._checking = asyncio.Semaphore(1)  # its threads share the interpreter with the loop

    async def _take(
        self,
        spool: Spool,
        body: AsyncIterator[bytes],
        model: str | None,
        check_head: Callable[[Iterable[str]], Mapping[str, object]],
        check: Callable[[Iterable[str]], dict[str, T]],
    ) -> dict[str, T]:
        """Take a file, and what is read of it for each model that it fits, or for this one.

        What its header says is checked before the rest of it is read.

        Raises: InvalidRequest saying why it fits none; ObjectsUnavailable.
        """
        if model is not None and model not in self._models:
            known = ", ".join(self._models) or "(none served)"
            raise InvalidRequest([FieldError("model", f"must be one of {known}")])
        names = [model] if model is not None else list(self._models)
        await spool.take(body, until=HEAD_BYTES)
        async with self._checking:
            names = list(await asyncio.to_thread(check_head, names))
        await spool.take(body)
        async with self._checking:
            return await asyncio.to_thread(check, names)

    async def _find(self, kind: UploadKind, upload_id: str, tenant: str) -> K | None:
        """Find what a job names; None: it is no id, or of nothing that the tenant keeps."""
        if not is_id(upload_id):
            return None
        try:
            return await self.records.get(kind, upload_id, tenant)
        except NotFound:
            return None


def read_for(names: Iterable[str], read: Callable[[str], T]) -> dict[str, T]:
    """Read a file for each of these models; those that it does not fit are left out.

    Raises: InvalidRequest saying why it fits none.
    """
    fits: dict[str, T] = {}
    reasons: dict[str, str] = {}
    for name in names:
        try:
            fits[name] = read(name)
        except (WeightsRefused, BadWeights) as error:
            reasons[name] = str(error)
    if not fits:
        said = "; ".join(f"{reason} ({name})" for name, reason in reasons.items())
        raise InvalidRequest([FieldError("body", said or "no model is served")])
    return fits


@contextmanager
def _converting_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ObjectsUnavailable(f"an upload cannot be put aside here: {error.strerror}") from error
