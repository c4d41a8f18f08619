"""Spool a large request body to a temporary file, hashed as it arrives."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from hashlib import sha256
from mmap import ACCESS_READ, mmap
from tempfile import TemporaryFile
from typing import BinaryIO, Self

from core.errors import ObjectsUnavailable

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


@contextmanager
def _converting_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ObjectsUnavailable(f"an upload cannot be put aside here: {error.strerror}") from error
