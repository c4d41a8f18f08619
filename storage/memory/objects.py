"""The twin of the object stores."""

import time
from collections.abc import Callable, Iterable

from core.errors import ObjectMissing


class MemoryObjects:
    """Objects in a dict; their URLs lead nowhere."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.objects: dict[str, bytes] = {}
        self._clock = clock

    def put(self, key: str, data: bytes, content_type: str) -> None:
        self.objects[key] = bytes(data)

    def get(self, key: str) -> bytes:
        if key not in self.objects:
            raise ObjectMissing(key)
        return self.objects[key]

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.objects.pop(key, None)

    def url(self, key: str, ttl_s: int) -> tuple[str, float]:
        expires_at = float(int(self._clock()) + ttl_s)
        return f"memory://{key}?expires={expires_at:.0f}", expires_at
