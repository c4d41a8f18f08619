"""Batch single items into calls in one thread; a batching policy picks the size."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from scheduler.service.batching import BatchPolicy

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Item(Generic[T, R]):
    value: T
    due: float  #: on the batcher's clock, s
    answer: "asyncio.Future[R | None]"


class Batcher(Generic[T, R]):
    """Runs a function of many items for callers that have few. Belongs to one event loop."""

    def __init__(
        self,
        run: Callable[[Sequence[T]], Sequence[R]],
        policy: BatchPolicy,
        *,
        slo_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Batch calls of `run`, which gives an answer to each item; nobody waits over `slo_s`."""
        self._run = run
        self._policy = policy
        self._slo_s = slo_s
        self._clock = clock
        self._waiting: deque[_Item[T, R]] = deque()
        self._has_more = asyncio.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="batches")
        self._turns: asyncio.Task[None] | None = None

    async def __call__(self, values: Sequence[T]) -> list[R | None]:
        """Answer each item, in order; None: not in time.

        Raises: whatever `run` raises, to everybody in its batch.
        """
        if not values:
            return []
        loop, due = asyncio.get_running_loop(), self._clock() + self._slo_s
        items: list[_Item[T, R]] = [
            _Item(value=value, due=due, answer=loop.create_future()) for value in values
        ]
        self._waiting.extend(items)
        self._has_more.set()
        if self._turns is None or self._turns.done():
            self._turns = asyncio.create_task(self._take_turns())
        answers = [item.answer for item in items]
        done, late = await asyncio.wait(answers, timeout=self._slo_s)
        for answer in late:
            answer.cancel()  # nobody makes it any more
        for error in [answer.exception() for answer in done]:
            if error is not None:
                raise error
        return [None if answer in late else answer.result() for answer in answers]

    def close(self) -> None:
        """Let the batch in flight end alone."""
        if self._turns is not None:
            self._turns.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _take_turns(self) -> None:
        """Do what the policy says until nothing waits."""
        while self._waiting:
            now = self._clock()
            move = self._policy.decide([item.due for item in self._waiting], now)
            for _ in range(move.drop):
                _answer(self._waiting.popleft(), None)
            batch = [self._waiting.popleft() for _ in range(move.take)]
            batch = [item for item in batch if not item.answer.done()]
            if batch:
                await self._make(batch)
            elif self._waiting and not move.take:
                await self._wait(move.until - now)

    async def _wait(self, seconds: float) -> None:
        self._has_more.clear()
        try:
            async with asyncio.timeout(None if math.isinf(seconds) else seconds):
                await self._has_more.wait()
        except TimeoutError:
            return

    async def _make(self, batch: Sequence[_Item[T, R]]) -> None:
        began = self._clock()
        loop, values = asyncio.get_running_loop(), [item.value for item in batch]
        try:
            answers = await loop.run_in_executor(self._thread, self._run, values)
        except Exception as error:  # somebody waits for each of these futures
            for item in batch:
                if not item.answer.done():
                    item.answer.set_exception(error)
            return
        self._policy.observe(len(batch), self._clock() - began)
        for item, answer in zip(batch, answers, strict=True):
            _answer(item, answer)


def _answer(item: _Item[T, R], answer: R | None) -> None:
    if not item.answer.done():
        item.answer.set_result(answer)
