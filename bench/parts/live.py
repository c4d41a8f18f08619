"""Drive a whole service under load and record its plans meanwhile."""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import msgspec

from cli.stack.running import Running, running
from loadgen.ask import Option, TimedRequest
from loadgen.client.load_client import LoadClient
from loadgen.client.session import open_session
from loadgen.sample import ClientOutcome, RequestSample

WORKERS = 2
SLOTS = 8  #: jobs that a worker holds at a time, by default
PATIENCE_S = 240.0  #: for one job
BUDGET_S = 0.3  #: for retrieval: the encoder and the workers share two cores
LOOK_S = 0.1  #: between two looks at the plan
LOOK_TIMEOUT_S = 10.0  #: of one


@dataclass(frozen=True, slots=True, kw_only=True)
class Switched:
    """The last change of strategy."""

    to: str
    at: float
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSeen:
    """What a bench reads of `/v1/plan`."""

    version: int
    workers: Mapping[str, str]
    levels: Mapping[str, float]
    saturation: float
    strategy: str
    resident: tuple[str, ...] = ()
    slowness: Mapping[str, float] = field(default_factory=dict)
    switched: Switched | None = None

    @property
    def is_resident(self) -> bool:
        """Whether some worker serves each model that it names."""
        return set(self.workers.values()) <= set(self.resident)

    @property
    def skips(self) -> bool:
        """Whether it uses a level with K > 0."""
        return any(not level.endswith("@0") for level in self.levels)


class PlanWatch:
    """Every plan since the start, and when it was first seen."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self.began = time.perf_counter()
        self.seen: list[tuple[float, PlanSeen]] = []

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.began

    @property
    def last(self) -> PlanSeen | None:
        return self.seen[-1][1] if self.seen else None

    def at(self, seconds: float) -> PlanSeen | None:
        """Give the plan that was in force."""
        before = [plan for at, plan in self.seen if at <= seconds]
        return before[-1] if before else None

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            with suppress(httpx.HTTPError, msgspec.MsgspecError):
                answer = await self._http.get("/v1/plan")
                self._note(msgspec.json.decode(answer.raise_for_status().content, type=PlanSeen))
            await asyncio.sleep(LOOK_S)

    def _note(self, plan: PlanSeen) -> None:
        if self.last is None or self.last.version != plan.version:
            self.seen.append((self.now, plan))


@contextmanager
def service(folder: Path, **env: str) -> Iterator[Running]:
    """Run the embedded stack with two workers of one thread each."""
    env = {"ATELIER_RETRIEVAL_BUDGET_S": str(BUDGET_S), **env}
    with running(folder, workers=WORKERS, env=env) as started:
        yield started


async def drive(http: httpx.AsyncClient, asks: Sequence[TimedRequest]) -> list[RequestSample]:
    """Ask at the given moments; every job is followed to its end."""
    async with open_session(str(http.base_url), None) as session:
        return await LoadClient(session, patience_s=PATIENCE_S).drive(asks)


async def base_s(http: httpx.AsyncClient, model: str, count: int) -> float:
    """Measure how long a job of all steps of a model takes that is held, and alone; the median."""
    seconds = []
    for number in range(count):
        (sample,) = await drive(http, [_exact(model, number)])
        seconds.append(_ended(sample).latency_s)
    return sorted(seconds)[len(seconds) // 2]


async def capacity(http: httpx.AsyncClient, model: str) -> float:
    """Measure how many jobs of all steps of one model the service ends, with enough waiting.

    The first round makes the plan give the model to every worker.

    Units: jobs per second
    """
    count = WORKERS * SLOTS
    await drive(http, [_exact(model, number) for number in range(count)])
    samples = await drive(http, [_exact(model, number) for number in range(count)])
    return len(samples) / max(_ended(sample).ended_s for sample in samples)


def _exact(model: str, number: int) -> TimedRequest:
    body: dict[str, Option] = {"model": model, "quality": "exact", "seed": number}
    return TimedRequest(at_s=0.0, prompt=f"a red circle and {number} blue squares", options=body)


def _ended(sample: RequestSample) -> RequestSample:
    if sample.ending is not ClientOutcome.SUCCEEDED:
        raise SystemExit(f"job {sample.job_id} is {sample.ending}: {sample.error}")
    return sample


def connect(started: Running) -> httpx.AsyncClient:
    """Open a client of a service."""
    return httpx.AsyncClient(base_url=started.addresses.api, timeout=LOOK_TIMEOUT_S)
