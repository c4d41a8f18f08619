"""Run a load against a service: upload what it brings, send it, follow it, judge it."""

import asyncio
import resource
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from statistics import median

import aiohttp
from rich.progress import Progress

from core.errors import ConfigurationError, Unavailable
from loadgen.ask import TimedRequest
from loadgen.capacity.search import CapacitySearch, Trial
from loadgen.capacity.trial import LiveTrials, exactly, find
from loadgen.client.dress import dress
from loadgen.client.follow import Follower
from loadgen.client.inventory import stock
from loadgen.client.load_client import LoadClient, following
from loadgen.client.session import open_session
from loadgen.promise import judged
from loadgen.prompts import PromptSet
from loadgen.sample import ClientOutcome, RequestSample
from loadgen.spec import LoadSpec
from loadgen.target import CapacityTerms, Target

#: A promise is so many times what a lone job takes (Argus §5.1), the median of so many.
SLO, ALONE = 3.0, 3


@asynccontextmanager
async def _connected(target: Target) -> AsyncIterator[tuple[aiohttp.ClientSession, Follower]]:
    raise_open_files()
    async with (
        open_session(target.url, target.key) as http,
        following(target.follow, http) as follower,
    ):
        yield http, follower


def raise_open_files() -> None:
    """Allow as many connections as the system lets this user have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def run_load(
    spec: LoadSpec, prompts: PromptSet, target: Target, progress: Progress
) -> list[RequestSample]:
    """Send every request and follow it, showing how far the run has come.

    Raises:
        ConfigurationError: the trace cannot be read, or the service lacks what requests bring.
    """
    workload = spec.workload(prompts)
    async with _connected(target) as (http, follower):
        inventory = await stock(http, workload, seed=spec.seed)
        requests = workload.requests(seed=spec.seed)
        asks = list(dress(requests, inventory, seed=spec.seed))
        client = LoadClient(http, patience_s=target.patience_s, follower=follower)
        shown = asyncio.create_task(_show(client, len(asks), progress))
        try:
            samples = await client.drive(asks)
        finally:
            shown.cancel()
    return judged(samples, asks, prompts)


async def _show(client: LoadClient, asked: int, progress: Progress) -> None:
    bar = progress.add_task("asking", total=asked)
    while True:
        tally = client.tally
        good = tally.endings.get(ClientOutcome.SUCCEEDED, 0)
        ended = sum(tally.endings.values())
        text = f"{tally.sent} sent · {tally.in_flight} in flight · {good} images · "
        progress.update(bar, completed=ended, description=f"{text}{ended - good} other")
        await asyncio.sleep(0.2)


async def find_capacity(
    spec: LoadSpec,
    prompts: PromptSet,
    target: Target,
    promise: CapacityTerms,
    tell: Callable[[Trial], None],
) -> tuple[CapacitySearch, float]:
    """Search the highest rate at which the promise is kept; give the search and the SLO.

    Raises:
        Unavailable: a lone job does not succeed.
        ConfigurationError: the service lacks what requests bring, or trials are too short.
    """
    sample = spec.drawn(prompts, 50.0, 400.0, spec.seed)  # all that trials may bring
    async with _connected(target) as (http, follower):
        inventory = await stock(http, sample, seed=spec.seed)

        def asks(rate: float, number: int, length: int = 1) -> Sequence[TimedRequest]:
            seed, length_s = spec.seed + number, promise.warm_up_s + length * spec.duration_s
            drawn = spec.drawn(prompts, rate, length_s, seed)
            drawn = replace(drawn, at_s=exactly(drawn.at_s, rate, length_s))
            return list(dress(drawn.requests(seed=seed * 1_000_003 % 2**62), inventory, seed=seed))

        slo_s = promise.slo_s or SLO * await _alone(http, follower, target, asks(1.0, 10**6))
        search = CapacitySearch(spec.rate, max_late=promise.max_late)
        trials = LiveTrials(
            http,
            follower,
            asks,
            slo_s=slo_s,
            max_late=promise.max_late,
            warm_up_s=promise.warm_up_s,
        )
        return await find(search, trials, tell), slo_s


async def _alone(
    http: aiohttp.ClientSession, follower: Follower, target: Target, asks: Sequence[TimedRequest]
) -> float:
    """Measure how long a lone job takes."""
    if not asks:
        raise ConfigurationError("duration: too short for a lone job: take more, or say --slo")
    took: list[float] = []
    for ask in asks[:ALONE]:
        client = LoadClient(http, patience_s=target.patience_s, follower=follower)
        (sample,) = await client.drive([replace(ask, at_s=0.0, cancel_s=None)])
        if sample.ending is not ClientOutcome.SUCCEEDED:
            raise Unavailable(f"{target.url}: a lone job is {sample.ending}: {sample.error}")
        took.append(sample.latency_s)
    return median(took)
