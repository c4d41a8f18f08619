"""Open-loop load client: requests are sent at fixed times, whatever the service answers.

Each request is a task of its own: it submits, then long-polls until its job ends.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import httpx
import msgspec

from core.job import JobStatus, Timing
from loadgen.ask import TimedRequest
from loadgen.sample import ClientOutcome, RequestSample

#: Seconds of one long poll.
POLL_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPlacement:
    """Where the service put a job."""

    model: str = ""
    level: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedJob:
    """What a load test reads of a job; other fields are ignored."""

    id: str
    status: JobStatus
    placement: ObservedPlacement = ObservedPlacement()
    timing: Timing | None = None
    error: Mapping[str, object] | None = None


@dataclass(slots=True)
class Tally:
    """How far a run has come, for a progress bar."""

    sent: int = 0
    in_flight: int = 0
    endings: dict[ClientOutcome, int] = field(default_factory=dict)

    def end(self, ending: ClientOutcome) -> None:
        """Count a job that has ended."""
        self.in_flight -= 1
        self.endings[ending] = self.endings.get(ending, 0) + 1


class LoadClient:
    """Sends asks at their moments and follows every job to its end."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        *,
        patience_s: float,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._http = http
        self._patience_s = patience_s
        self._clock = clock
        self._start = clock()
        self.tally = Tally()

    async def drive(self, asks: Sequence[TimedRequest]) -> list[RequestSample]:
        """Send every ask when it is due; return one sample each when all have ended."""
        self._start = self._clock()
        async with asyncio.TaskGroup() as group:
            tasks = []
            for ask in asks:
                await asyncio.sleep(max(0.0, ask.at_s - self._now()))
                tasks.append(group.create_task(self._tallied(ask)))
        return [task.result() for task in tasks]

    def _now(self) -> float:
        return self._clock() - self._start

    async def _tallied(self, ask: TimedRequest) -> RequestSample:
        self.tally.sent += 1
        self.tally.in_flight += 1
        sample = await self._one(ask)
        self.tally.end(sample.ending)
        return sample

    async def _one(self, ask: TimedRequest) -> RequestSample:
        sent_s = self._now()
        sample = RequestSample(
            due_s=ask.at_s, sent_s=sent_s, ended_s=sent_s, ending=ClientOutcome.BROKEN
        )
        try:
            answer = await self._http.post("/v1/jobs", json=ask.body)
            sample = replace(sample, ended_s=self._now())
            if not answer.is_success:
                return _refused(sample, answer)
            job = msgspec.json.decode(answer.content, type=ObservedJob)
            sample = replace(sample, accepted_s=self._now(), job_id=job.id)
            return await self._follow(sample, job)
        except (httpx.HTTPError, msgspec.DecodeError) as error:
            return replace(sample, ended_s=self._now(), error=type(error).__name__)

    async def _follow(self, sample: RequestSample, job: ObservedJob) -> RequestSample:
        give_up_s = self._now() + self._patience_s
        while not job.status.is_terminal:
            left_s = give_up_s - self._now()
            if left_s <= 0:
                return replace(sample, ended_s=self._now(), ending=ClientOutcome.TIMED_OUT)
            job = await self._poll(job, min(POLL_S, left_s))
        return _ended(replace(sample, ended_s=self._now()), job)

    async def _poll(self, job: ObservedJob, wait_s: float) -> ObservedJob:
        answer = await self._http.get(f"/v1/jobs/{job.id}", params={"wait": round(wait_s, 2)})
        answer.raise_for_status()
        return msgspec.json.decode(answer.content, type=ObservedJob)


def _refused(sample: RequestSample, answer: httpx.Response) -> RequestSample:
    return replace(sample, ending=ClientOutcome.REFUSED, error=f"HTTP {answer.status_code}")


def _ended(sample: RequestSample, job: ObservedJob) -> RequestSample:
    cause = str(job.error.get("type", "unknown")) if job.error else None
    return replace(
        sample,
        ending=ClientOutcome(job.status.value),
        model=job.placement.model,
        level=job.placement.level,
        timing=job.timing,
        error=cause,
    )


def open_http(url: str, key: str | None) -> httpx.AsyncClient:
    """Open a client without a limit on connections: every job in flight holds one."""
    return httpx.AsyncClient(
        base_url=url,
        headers={"Authorization": f"Bearer {key}"} if key else {},
        timeout=httpx.Timeout(10.0, read=POLL_S + 40.0, pool=None),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
    )
