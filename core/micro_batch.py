"""Share calls between callers: what is asked for while one call runs goes into the next."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, eq=False)
class BatchItem(Generic[T, R]):
    """An item whose call has not returned."""

    item: T
    answer: "asyncio.Future[R]"  #: done early if whoever asked went away

    def settle(self, answer: R | Exception) -> None:
        """Answer whoever still waits; an answer that is an error is raised there."""
        if isinstance(answer, Exception):
            self.fail(answer)
        elif not self.answer.done():
            self.answer.set_result(answer)

    def fail(self, error: BaseException) -> None:
        """Raise `error` to whoever still waits."""
        if not self.answer.done():
            self.answer.set_exception(error)


#: Answers many items, in order; an error is the answer of one.
Call = Callable[[Sequence[T]], Awaitable[Sequence[R | Exception]]]
#: Takes the items of the next call from the front of a queue that is not empty, at least one; what
#: it gives up instead, it settles.
Take = Callable[[deque[BatchItem[T, R]]], Sequence[BatchItem[T, R]]]


def at_most(size: int) -> Take[T, R]:
    """Take what waits, up to a size."""
    return lambda waiting: [waiting.popleft() for _ in range(min(len(waiting), size))]


class MicroBatcher(Generic[T, R]):
    """One call at a time, each of many items. Belongs to one event loop."""

    def __init__(self, call: Call[T, R], take: Take[T, R]) -> None:
        self._call = call
        self._take = take
        self._waiting: deque[BatchItem[T, R]] = deque()
        self._is_busy = False

    def ask(self, item: T) -> "asyncio.Future[R]":
        """Put an item into the next call; whatever that raises is raised to everybody in it.

        An answer that is an error is raised to whoever asked for it. A call that is cancelled, as
        at the end of its event loop, cancels all that wait.
        """
        loop = asyncio.get_running_loop()
        waiting: BatchItem[T, R] = BatchItem(item, loop.create_future())
        self._waiting.append(waiting)
        if not self._is_busy:
            self._is_busy = True
            loop.call_soon(self._begin)  # what else is asked for in this moment comes along
        return waiting.answer

    def _begin(self) -> None:
        self._is_busy = False
        batch: Sequence[BatchItem[T, R]] = ()
        while self._waiting and not batch:
            batch = self._take(self._waiting)
        if batch:
            self._is_busy = True
            call = asyncio.create_task(self._answers([each.item for each in batch]))
            call.add_done_callback(partial(self._end, batch))

    async def _answers(self, items: Sequence[T]) -> Sequence[R | Exception]:
        answers = await self._call(items)
        if len(answers) != len(items):
            raise RuntimeError(f"a call of {len(items)} items gave {len(answers)} answers")
        return answers

    def _end(
        self, batch: Sequence[BatchItem[T, R]], call: "asyncio.Task[Sequence[R | Exception]]"
    ) -> None:
        if call.cancelled():
            self._cancel(batch)
            return
        error = call.exception()
        if error is not None:
            for each in batch:
                each.fail(error)
        else:
            for each, answer in zip(batch, call.result(), strict=True):
                each.settle(answer)
        self._begin()

    def _cancel(self, batch: Sequence[BatchItem[T, R]]) -> None:
        for each in (*batch, *self._waiting):
            each.answer.cancel()
        self._waiting.clear()
        self._is_busy = False
