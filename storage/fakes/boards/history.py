"""In-memory fake of `HistoryBoard`."""

import builtins
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from core.boards.sample import ServiceSample
from storage.boards.history import MAX_SAMPLES, ServiceHistory


class MemoryHistory(ServiceHistory):
    """Samples in memory."""

    def __init__(
        self, *, max_samples: int = MAX_SAMPLES, clock: Callable[[], float] = time.time
    ) -> None:
        self._samples: deque[ServiceSample] = deque(maxlen=max_samples)
        self._clock = clock

    async def add(self, sample: ServiceSample) -> None:
        self._samples.append(replace(sample, at=self._clock()))

    async def list(self) -> builtins.list[ServiceSample]:
        return list(self._samples)

    async def last(self) -> ServiceSample | None:
        return self._samples[-1] if self._samples else None
