"""Send the commands of many tasks in few trips: what is asked during one goes with the next."""

import asyncio
from collections.abc import Sequence

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from core.errors import StoreUnavailable
from storage.redis.connect import Reply, Word, converting_errors

#: Commands of one trip: more would keep the event loop from others.
MAX_IN_TRIP = 16

_Asked = tuple[tuple[Word, ...], asyncio.Future[Reply]]


class Pipelined:
    """Commands that tasks of one event loop ask for. Those asked in one turn share a trip."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._asked: list[_Asked] = []
        self._trips: asyncio.Task[None] | None = None

    async def ask(self, *words: Word) -> Reply:
        """Send one command.

        Raises:
            StoreUnavailable: Redis cannot serve now.
        """
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._asked.append((words, answer))
        if self._trips is None or self._trips.done():
            self._trips = asyncio.create_task(self._send_all(), name="pipelined commands")
        return await answer

    async def _send_all(self) -> None:
        while self._asked:
            trip, self._asked = self._asked[:MAX_IN_TRIP], self._asked[MAX_IN_TRIP:]
            waited_for = [each for each in trip if not each[1].done()]  # others have left
            try:
                replies = await self._send(waited_for)
                for (_, answer), reply in zip(waited_for, replies, strict=True):
                    _give(answer, reply)
            finally:  # whatever has happened, those who wait must hear of it
                for _, answer in waited_for:
                    _give(answer, StoreUnavailable("the commands were not sent"))

    async def _send(self, trip: Sequence[_Asked]) -> Sequence[Reply]:
        """Make one trip; what went wrong is an answer too."""
        pipeline = self._redis.pipeline(transaction=False)
        for words, _ in trip:
            pipeline.execute_command(*words)
        try:
            with converting_errors():
                replies: Sequence[Reply] = await pipeline.execute(raise_on_error=False)
        except StoreUnavailable as error:
            return [error] * len(trip)
        return replies


def _give(answer: asyncio.Future[Reply], reply: Reply) -> None:
    if answer.done():
        return
    if not isinstance(reply, Exception):
        answer.set_result(reply)
        return
    try:
        with converting_errors():
            raise reply
    except (StoreUnavailable, ResponseError) as error:
        answer.set_exception(error)
