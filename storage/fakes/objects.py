"""In-memory fake of the object stores."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from core.errors import ObjectMissing
from storage.objects.store import ObjectStore, Stored


class MemoryObjects(ObjectStore):
    """Objects in a dict; their URLs lead nowhere."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.objects: dict[str, bytes] = {}
        self._put_at: dict[str, float] = {}
        self._clock = clock

    def put(self, key: str, data: bytes, content_type: str) -> None:
        self.objects[key] = bytes(data)
        self._put_at[key] = self._clock()

    def put_file(self, key: str, file: BinaryIO, size_bytes: int, content_type: str) -> None:
        file.seek(0)
        self.put(key, file.read(size_bytes), content_type)

    def get(self, key: str) -> bytes:
        if key not in self.objects:
            raise ObjectMissing(key)
        return self.objects[key]

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.objects.pop(key, None)

    def list(self, folder: str) -> Iterator[Stored]:
        for key, data in list(self.objects.items()):
            if key.startswith(f"{folder}/"):
                at = self._put_at.get(key, 0.0)
                yield Stored(key=key, num_bytes=len(data), modified_at=at)

    def url(self, key: str, ttl_s: int, epoch: int = 0) -> tuple[str, float]:
        expires_at = float(int(self._clock()) + ttl_s)
        return f"memory://{key}?expires={expires_at:.0f}", expires_at
