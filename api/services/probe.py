"""Share one look at a dependency among all who want to know, and its answer for a moment."""

import asyncio
import math
import time
from collections.abc import Callable, Coroutine
from typing import Generic, TypeVar

T = TypeVar("T")

HOLD_S = 2.0  #: an answer serves for so long


class SharedProbe(Generic[T]):
    """Asks at most once at a time, and at most once in `HOLD_S`, however many want to know."""

    def __init__(self, ask: Callable[[], Coroutine[None, None, T]]) -> None:
        self._ask = ask
        self._task: asyncio.Task[T] | None = None
        self._answered_at = -math.inf  #: monotonic s

    async def answer(self) -> T:
        """Return the answer, or raise what asking raised. Who gives up does not end the asking."""
        task = self._task
        if task is None or (task.done() and time.monotonic() - self._answered_at > HOLD_S):
            task = self._task = asyncio.create_task(self._ask())
            task.add_done_callback(self._note)
        return await asyncio.shield(task)

    def _note(self, task: asyncio.Task[T]) -> None:
        self._answered_at = time.monotonic()
        if not task.cancelled():
            task.exception()  # perhaps nobody is left to hear of it
