"""Open-loop load client: requests are sent at fixed times, whatever the service answers.

Each request is a task of its own: it submits, then follows its job until that ends.
"""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace

import aiohttp
import msgspec

from loadgen.ask import TimedRequest
from loadgen.client.follow import EventStream, Follower, LongPoll, Poll
from loadgen.client.observed import ObservedJob, ended, read_job
from loadgen.client.receiver import receiving
from loadgen.client.session import ERRORS, name_of
from loadgen.sample import ClientOutcome, RequestSample
from loadgen.target import Follow

JSON = {"Content-Type": "application/json"}


@dataclass(slots=True)
class Tally:
    """How far a run has come."""

    sent: int = 0
    in_flight: int = 0
    endings: dict[ClientOutcome, int] = field(default_factory=dict)
    ended: list[RequestSample] = field(default_factory=list)  #: in the order of their end

    def start(self) -> None:
        """Count a request that is sent."""
        self.sent += 1
        self.in_flight += 1

    def end(self, sample: RequestSample) -> None:
        """Count a request that has ended."""
        self.in_flight -= 1
        self.endings[sample.ending] = self.endings.get(sample.ending, 0) + 1
        self.ended.append(sample)


class LoadClient:
    """Sends requests at their moments and follows every job to its end."""

    def __init__(
        self,
        http: aiohttp.ClientSession,
        *,
        patience_s: float,
        follower: Follower | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._http = http
        self._patience_s = patience_s
        self._follower = follower or LongPoll(http)
        self._clock = clock
        self._start = clock()
        self._is_stopped = False
        self._open: dict[str, float] = {}  #: jobs that have not ended -> when they were due
        self._withdrawn: set[str] = set()
        self.tally = Tally()

    async def drive(
        self, asks: Iterable[TimedRequest], *, stop: asyncio.Event | None = None
    ) -> list[RequestSample]:
        """Send every request when it is due; return a sample of each when all have ended.

        Args:
            stop: once it is set nothing more is sent, and what is on its way is canceled.
        """
        with _no_collection():
            return await self._drive(asks, stop)

    async def _drive(
        self, asks: Iterable[TimedRequest], stop: asyncio.Event | None
    ) -> list[RequestSample]:
        self._start = self._clock()
        stopping = asyncio.create_task(self._stop(stop)) if stop else None
        tasks: list[asyncio.Task[RequestSample]] = []
        try:
            for ask in asks:
                await asyncio.sleep(max(0.0, ask.at_s - self.now))
                if self._is_stopped:
                    break
                tasks.append(asyncio.create_task(self._tallied(ask)))
            return [await task for task in tasks]
        finally:
            for task in (*tasks, *([stopping] if stopping else [])):
                task.cancel()

    @property
    def now(self) -> float:
        """Seconds since the start of the run."""
        return self._clock() - self._start

    def overdue(self, slo_s: float, since_s: float = 0.0) -> int:
        """Count jobs on their way that were due long ago, but not before a moment."""
        before_s = self.now - slo_s
        return sum(since_s <= due_s < before_s for due_s in self._open.values())

    async def _stop(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._is_stopped = True
        await asyncio.gather(*(self._cancel(job_id) for job_id in tuple(self._open)))

    async def _tallied(self, ask: TimedRequest) -> RequestSample:
        self.tally.start()
        sample = await self._one(ask)
        self.tally.end(sample)
        return sample

    async def _one(self, ask: TimedRequest) -> RequestSample:
        sent_s = self.now
        sample = RequestSample(
            due_s=ask.at_s, sent_s=sent_s, ended_s=sent_s, ending=ClientOutcome.BROKEN
        )
        try:
            body = msgspec.json.encode({**ask.body, **self._follower.body})
            async with self._http.post("/v1/jobs", data=body, headers=JSON) as answer:
                content = await answer.read()
            sample = replace(sample, ended_s=self.now)
            if not answer.ok:
                return _refused(sample, answer.status)
            job = read_job(content)
            sample = replace(sample, accepted_s=self.now, job_id=job.id)
            return await self._follow(sample, job, ask)
        except (*ERRORS, msgspec.DecodeError) as error:
            return replace(sample, ended_s=self.now, error=name_of(error))

    async def _follow(
        self, sample: RequestSample, job: ObservedJob, ask: TimedRequest
    ) -> RequestSample:
        self._open[job.id] = ask.at_s
        canceling = asyncio.create_task(self._withdraw(job.id, ask))
        patience = asyncio.timeout(self._patience_s)
        try:
            async with patience:
                job = await self._follower.follow(job, self._patience_s)
        except TimeoutError:
            if not patience.expired():
                raise
            return replace(sample, ended_s=self.now, ending=ClientOutcome.TIMED_OUT)
        finally:
            self._open.pop(job.id, None)
            canceling.cancel()
        sample = replace(sample, ended_s=self.now, is_withdrawn=job.id in self._withdrawn)
        return ended(sample, job)

    async def _withdraw(self, job_id: str, ask: TimedRequest) -> None:
        """Cancel a job when its client loses interest, or at once if the run is over."""
        if ask.cancel_s is not None:
            await asyncio.sleep(max(0.0, ask.at_s + ask.cancel_s - self.now))
            await self._cancel(job_id)
        elif self._is_stopped:
            await self._cancel(job_id)

    async def _cancel(self, job_id: str) -> None:
        self._withdrawn.add(job_id)
        with suppress(*ERRORS):
            async with self._http.post(f"/v1/jobs/{job_id}/cancel"):
                pass


@contextmanager
def _no_collection() -> Iterator[None]:
    """Leave cycles alone for a while: with thousands in flight a collection takes .1 s.

    There is next to nothing to collect: 400 objects of 7,500 requests.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _refused(sample: RequestSample, status: int) -> RequestSample:
    return replace(sample, ending=ClientOutcome.REFUSED, error=f"HTTP {status}")


@asynccontextmanager
async def following(how: Follow, http: aiohttp.ClientSession) -> AsyncIterator[Follower]:
    """Open a way to follow jobs; a webhook receiver is closed at the end."""
    if how is Follow.WEBHOOK:
        async with receiving() as receiver:
            yield receiver
    elif how is Follow.EVENTS:
        yield EventStream(http)
    else:
        yield Poll(http) if how is Follow.POLL else LongPoll(http)
