"""Job events: a Redis stream holds them, pub/sub notifies followers."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterable
from typing import Protocol

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.exceptions import RedisError

from core.codec import decode
from core.job import JobEvent, JobStatus
from core.log import get_logger
from core.schema import SCHEMA, Versioned
from storage.jobs.bell import Bell
from storage.jobs.previews import NO_WATCH, PreviewWatch
from storage.jobs.record import no_such_job
from storage.redis.connect import end
from storage.redis.keys import bell_channel, events_key, job_key
from storage.redis.pipelined import Pipelined

POLL_S = 1.0  #: a follower looks after so long even if no bell rings, so a lost ring delays only
RETRY_S = 0.25  #: between two tries to listen again
COUNT = 200  #: events read at a time
BASE = "bell"  #: keeps the connection subscribed when nobody follows

_log = get_logger(__name__)


class Events(Protocol):
    """What the api asks of the event streams."""

    def follow(
        self, job_id: str, after: str = "0", *, previews: bool = False
    ) -> AsyncIterator[JobEvent]:
        """Yield the events after `after` as they come; end after `done`, or when told to.

        `previews`: ask for pictures of its images on their way; `progress` has them then.
        """

    async def wait(self, job_id: str, timeout_s: float) -> None:
        """Return when the job has ended, after `timeout_s`, or when told to end."""

    def end(self) -> None:
        """Let all followers go, and those that come: this process stops."""

    async def close(self) -> None:
        """Stop listening; followers go on by polling."""


class EventHub:
    """All followers of one process share one pub/sub connection, opened on first use.

    Their looks share trips as well: a thousand followers look a thousand times a second.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._looks = Pipelined(redis)
        self._bells: dict[str, set[Bell]] = {}
        self._pubsub: PubSub | None = None
        self._listener: asyncio.Task[None] | None = None
        self._is_over = False

    async def follow(
        self, job_id: str, after: str = "0", *, previews: bool = False
    ) -> AsyncIterator[JobEvent]:
        """Yield the events after `after` as they come; end after `done`, or when told to.

        `previews`: ask for pictures of its images on their way; `progress` has them then.

        Raises:
            NotFound: no such job.
            StoreUnavailable: Redis cannot serve now; follow again after the last id.
        """
        if re.fullmatch(r"\d{1,19}(-\d{1,19})?", after) is None:
            after = "0"
        watch = PreviewWatch(self._redis, job_id) if previews else NO_WATCH
        async with self._bell(job_id) as bell:
            status = await self._status(job_id)
            while not self._is_over:
                bell.clear()
                if not status.is_terminal:
                    await watch.renew()
                events = await watch.show(await self._read(job_id, after))
                for event in events:
                    yield event
                    after = event.id
                    if event.event == "done":
                        return
                if not events and status.is_terminal:
                    if not await self._looks.ask("EXISTS", events_key(job_id)):
                        yield JobEvent(id=after, event="done", data={"status": status.value})
                    return
                if len(events) < COUNT and not await bell.rung(POLL_S):
                    status = await self._status(job_id)

    async def wait(self, job_id: str, timeout_s: float) -> None:
        """Return when the job has ended, after `timeout_s`, or when told to end.

        Raises:
            NotFound: no such job.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        async with self._bell(job_id) as bell:
            while not (await self._status(job_id)).is_terminal:
                left_s = until - loop.time()
                if left_s <= 0 or self._is_over:
                    return
                await bell.rung(min(left_s, POLL_S))
                bell.clear()

    def end(self) -> None:
        """Let all followers go, and those that come: this process stops."""
        self._is_over = True
        for bells in self._bells.values():
            _ring(bells)

    async def close(self) -> None:
        """Stop listening; followers go on by polling."""
        task, self._listener = self._listener, None
        if task is not None:
            await end([task])

    @contextlib.asynccontextmanager
    async def _bell(self, job_id: str) -> AsyncIterator[Bell]:
        """Hang up a bell that rings at every event of one job."""
        bell = Bell()
        bells = self._bells.setdefault(job_id, set())
        bells.add(bell)
        try:
            if len(bells) == 1:
                await self._subscribe(job_id)
            yield bell
        finally:
            bells.discard(bell)
            if not bells and self._bells.get(job_id) is bells:
                del self._bells[job_id]
                await self._unsubscribe(job_id)

    async def _subscribe(self, job_id: str) -> None:
        if self._listener is None or self._listener.done():
            self._listener = asyncio.create_task(self._listen(), name="event hub")
        elif self._pubsub is not None:
            with contextlib.suppress(RedisError, OSError):
                await self._pubsub.subscribe(bell_channel(job_id))

    async def _unsubscribe(self, job_id: str) -> None:
        if self._pubsub is not None:
            with contextlib.suppress(RedisError, OSError):
                await self._pubsub.unsubscribe(bell_channel(job_id))

    async def _listen(self) -> None:
        """Keep the one connection open; the answer to a subscription rings the bell too,
        so that what happened before it took hold is seen at once."""
        while True:
            try:
                async with self._redis.pubsub() as pubsub:
                    await pubsub.subscribe(BASE)
                    self._pubsub = pubsub
                    for job_id in list(self._bells):
                        await pubsub.subscribe(bell_channel(job_id))
                    while True:
                        self._ring(await pubsub.get_message(timeout=POLL_S))
            except (RedisError, OSError) as error:
                _log.warning("events_interrupted", reason=str(error))
            finally:
                self._pubsub = None
            await asyncio.sleep(RETRY_S)

    def _ring(self, message: dict[str, object] | None) -> None:
        channel = message["channel"] if message is not None else b""
        if isinstance(channel, bytes):
            _ring(self._bells.get(channel.decode().removeprefix("bell:"), ()))

    async def _status(self, job_id: str) -> JobStatus:
        status = await self._looks.ask("HGET", job_key(job_id), "status")
        if status is None:
            raise no_such_job(job_id)
        return JobStatus(status.decode())

    async def _read(self, job_id: str, after: str) -> list[JobEvent]:
        words = (events_key(job_id), f"({after}", "+", "COUNT", COUNT)
        rows = await self._looks.ask("XRANGE", *words)
        return [_event(name, fields) for name, fields in rows]


def _event(name: bytes, fields: dict[bytes, bytes]) -> JobEvent:
    SCHEMA.check(Versioned.EVENT, int(fields.get(b"schema", 1)), f"event {name.decode()}")
    data = decode(fields[b"data"], dict[str, object])
    return JobEvent(id=name.decode(), event=fields[b"event"].decode(), data=data)


def _ring(bells: Iterable[Bell]) -> None:
    for bell in bells:
        bell.ring()
