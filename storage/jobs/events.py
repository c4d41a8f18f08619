"""Job events: a Redis stream holds those of a job that is followed, pub/sub notifies followers.

A job that nobody follows has no stream: its record says what has happened to it.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from typing import Protocol

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.exceptions import NoScriptError

from core.codec import decode
from core.errors import StoreUnavailable
from core.job import JobEvent, JobStatus
from core.log import get_logger
from core.schema import SCHEMA, Versioned
from storage.archive.archive import NO_ARCHIVE, Archive
from storage.archive.records import Fields
from storage.jobs.bell import Bell
from storage.jobs.previews import NOTHING_SHOWN, ShownPreviews
from storage.jobs.record import history_of, no_such_job
from storage.redis.connect import converting_errors, end
from storage.redis.keys import bell_channel, events_key, job_key
from storage.redis.pipelined import Pipelined
from storage.redis.script import call, load

FOLLOWED_S = 10  #: after so long without a word of its followers no progress of a job is told
RENEW_S = 3.0  #: a follower says so often that it still follows
POLL_S = 1.0  #: a follower looks after so long even if no bell rings, so a lost ring delays only
RETRY_S = 0.25  #: between two tries to listen again
COUNT = 200  #: events read at a time
BASE = "bell"  #: keeps the connection subscribed when nobody follows

_log = get_logger(__name__)


class Events(Protocol):
    """What the api asks of the event streams."""

    def follow(
        self, job_id: str, after: str = "0", *, previews: bool = False
    ) -> AsyncGenerator[JobEvent, None]:
        """Yield the events after `after` as they come; end after `done`, or when told to.

        `previews`: ask for pictures of its images on their way; `progress` has them then.
        """

    async def wait(self, job_id: str, timeout_s: float) -> None:
        """Return when the job has ended, after `timeout_s`, or when told to end."""

    async def announce(
        self, job_id: str, seconds: int = FOLLOWED_S, *, previews: bool = False
    ) -> JobStatus:
        """Say that somebody follows a job, and wants its progress for so long; give its status."""
        ...

    def end(self) -> None:
        """Let all followers go, and those that come: this process stops."""

    async def close(self) -> None:
        """Stop listening; followers go on by polling."""


class EventHub:
    """All followers of one process share one pub/sub connection, opened on first use.

    Their looks share trips as well: a thousand followers look a thousand times a second.
    """

    def __init__(self, redis: Redis, archive: Archive = NO_ARCHIVE) -> None:
        self._redis = redis
        self._archive = archive
        self._looks = Pipelined(redis)
        self._bells: dict[str, set[Bell]] = {}
        self._pubsub: PubSub | None = None
        self._listener: asyncio.Task[None] | None = None
        self._is_over = False

    async def follow(
        self, job_id: str, after: str = "0", *, previews: bool = False
    ) -> AsyncGenerator[JobEvent, None]:
        """Yield the events after `after` as they come; end after `done`, or when told to.

        `previews`: ask for pictures of its images on their way; `progress` has them then.

        Raises:
            NotFound: no such job.
            StoreUnavailable: Redis cannot serve now; follow again after the last id.
        """
        if re.fullmatch(r"\d{1,19}(-\d{1,19})?", after) is None:
            after = "0"
        shown = ShownPreviews(self._redis, job_id) if previews else NOTHING_SHOWN
        loop = asyncio.get_running_loop()
        async with self._bell(job_id) as bell:
            status = await self.announce(job_id, previews=previews)
            renew_at = loop.time() + RENEW_S
            while not self._is_over:
                bell.clear()
                if not status.is_terminal and loop.time() >= renew_at:
                    status = await self.announce(job_id, previews=previews)
                    renew_at = loop.time() + RENEW_S
                events = await self._read(job_id, after)
                if not events and status.is_terminal:
                    events = await self._read_ended(job_id, after)
                events = await shown.show(events)
                for event in events:
                    yield event
                    after = event.id
                    if event.event == "done":
                        return
                if not events and status.is_terminal:
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
            status = await self.announce(job_id, 0)
            while not status.is_terminal:
                left_s = until - loop.time()
                if left_s <= 0 or self._is_over:
                    return
                await bell.rung(min(left_s, POLL_S))
                bell.clear()
                status = await self._status(job_id)

    async def announce(
        self, job_id: str, seconds: int = FOLLOWED_S, *, previews: bool = False
    ) -> JobStatus:
        """Say that somebody follows a job, and wants its progress for so long; give its status.

        Raises:
            NotFound: no such job.
        """
        script, args = load("follow"), (seconds * 1000, seconds * 1000 if previews else 0)
        try:
            status = await self._looks.ask("EVALSHA", script.sha, 0, job_id, *args)
        except NoScriptError:
            status = await call(self._redis, script, job_id, *args)
        return await self._status_of(job_id, status)

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
            with contextlib.suppress(StoreUnavailable), converting_errors():
                await self._pubsub.subscribe(bell_channel(job_id))

    async def _unsubscribe(self, job_id: str) -> None:
        if self._pubsub is not None:
            with contextlib.suppress(StoreUnavailable), converting_errors():
                await self._pubsub.unsubscribe(bell_channel(job_id))

    async def _listen(self) -> None:
        """Keep the one connection open; the answer to a subscription rings the bell too,
        so that what happened before it took hold is seen at once."""
        while True:
            try:
                with converting_errors():
                    await self._hear()
            except StoreUnavailable as error:
                _log.warning("events_interrupted", reason=str(error))
            finally:
                self._pubsub = None
            await asyncio.sleep(RETRY_S)

    async def _hear(self) -> None:
        async with self._redis.pubsub() as pubsub:
            await pubsub.subscribe(BASE)
            self._pubsub = pubsub
            for job_id in list(self._bells):
                await pubsub.subscribe(bell_channel(job_id))
            while True:
                self._ring(await pubsub.get_message(timeout=POLL_S))

    def _ring(self, message: dict[str, object] | None) -> None:
        channel = message["channel"] if message is not None else b""
        if isinstance(channel, bytes):
            _ring(self._bells.get(channel.decode().removeprefix("bell:"), ()))

    async def _status(self, job_id: str) -> JobStatus:
        return await self._status_of(
            job_id, await self._looks.ask("HGET", job_key(job_id), "status")
        )

    async def _status_of(self, job_id: str, status: bytes | None) -> JobStatus:
        """Read what Redis answers; where it has no such job, what the archive says."""
        if status is None:
            status = (await self._archived(job_id))[b"status"]
        return JobStatus(status.decode())

    async def _archived(self, job_id: str) -> Fields:
        found = await self._archive.find([job_id])
        if not found:
            raise no_such_job(job_id)
        return found[0].fields

    async def _read_ended(self, job_id: str, after: str) -> list[JobEvent]:
        """Read from its record what happened to a job that has ended, if it has no stream."""
        if await self._looks.ask("EXISTS", events_key(job_id)):
            return []
        fields = await self._looks.ask("HGETALL", job_key(job_id))
        history = history_of(fields or await self._archived(job_id))
        return [event for event in history if order_of(event.id) > order_of(after)]

    async def _read(self, job_id: str, after: str) -> list[JobEvent]:
        words = (events_key(job_id), f"({after}", "+", "COUNT", COUNT)
        rows = await self._looks.ask("XRANGE", *words)
        return [_event(name, fields) for name, fields in rows]


def order_of(name: str) -> tuple[int, int]:
    """Give the place of an event in its stream."""
    at, _, number = name.partition("-")
    return int(at), int(number or 0)


def _event(name: bytes, fields: dict[bytes, bytes]) -> JobEvent:
    SCHEMA.check(Versioned.EVENT, int(fields.get(b"schema", 1)), f"event {name.decode()}")
    data = decode(fields[b"data"], dict[str, object])
    return JobEvent(id=name.decode(), event=fields[b"event"].decode(), data=data)


def _ring(bells: Iterable[Bell]) -> None:
    for bell in bells:
        bell.ring()
