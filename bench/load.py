"""Benchmark the load generator: when it sends, and whether it finds a capacity.

Sending: 500 requests a second to a service that only waits, in a process of its own, each followed
by a long poll for four seconds, so that 2,000 are in flight. The client has one core and one
process; send error is from the moment a request was due to the moment it was sent, and, with what
the waiting service itself takes, to the moment that one read it.

Capacity: `--find-capacity` before and after a slow search, of nine trials twelve times as long at
rates about what was found. Once of the waiting service, and once of the embedded stack. That one
serves a model whose steps take their time and compute nothing (family `paced`): what models of the
zoo can do on a host like this one changes by a tenth in minutes, and no two searches agree on it.

    python -m bench.load --quick
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import aiohttp
import numpy as np
import typer
import uvloop

from bench.parts.front import is_alive
from bench.parts.paced_service import SLOTS, make
from bench.parts.report import (
    Figure,
    Instant,
    at_least,
    at_most,
    finish,
    machine,
    median,
    percentile,
    plain,
)
from cli.stack.ports import free_port
from cli.stack.running import running
from loadgen.arrivals.gaps import poisson
from loadgen.ask import PROMPTS, TimedRequest
from loadgen.capacity.search import CapacitySearch, Trial
from loadgen.capacity.trial import LiveTrials, exactly, find
from loadgen.client.follow import LongPoll
from loadgen.client.load_client import LoadClient
from loadgen.client.session import open_session
from loadgen.mixes.mix import RequestMix, draw
from loadgen.run import raise_open_files
from loadgen.sample import ClientOutcome, RequestSample
from tests.servers import Server

RATE, IN_FLIGHT = 500.0, 2000
SEND_ERROR_MS = 20.0  #: p99
CLOSE = 0.05  #: capacity found, to that of the slow search
MAX_LATE = 0.05
SLOW, NEAR, TRIALS = 12, 1.1, 9  #: of slow trials: times as long, how far off at most, how many
MODEL = "brief"
SLO, WORKERS = 3.0, 3  #: times a lone job; of the embedded stack
COUNTED = 200  #: requests of a trial, about: fewer say nothing of 5 %


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """What sending showed."""

    errors_s: Sequence[float]  #: due to sent
    read_s: Sequence[float]  #: due to read by the service
    in_flight: int  #: at the fullest moment
    lost: int  #: requests that did not end well
    cpu_share: float  #: of one core, of the client


@contextmanager
def waiting_service(folder: Path, servers: int, takes_s: float) -> Iterator[Server]:
    """Run a service that only waits, in a process of its own."""
    port = free_port()
    command = [sys.executable, "-m", "bench.parts.load_stub", "--port", str(port)]
    command += ["--servers", str(servers), "--takes", str(takes_s)]
    server = Server(
        command=command,
        port=port,
        url=f"http://127.0.0.1:{port}",
        log=folder / "waiting-service.log",
        is_ready=is_alive,
    ).start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def one_core(beside: int) -> Iterator[None]:
    """Keep this process on the last core that it may use, and another process off it."""
    allowed = os.sched_getaffinity(0)
    core = {max(allowed)}
    os.sched_setaffinity(beside, allowed - core or core)
    os.sched_setaffinity(0, core)
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


async def send(url: str, duration_s: float) -> Sending:
    """Send at the rate of the claim; see when each left, and when it came."""
    asks = list(draw(poisson(RATE, duration_s, seed=1), PROMPTS, seed=1).requests())
    raise_open_files()
    async with open_session(url, None) as http:
        client = LoadClient(http, patience_s=60.0)
        began, before = time.monotonic(), Instant.now()
        samples = await client.drive(asks)
        spent = Instant.now() - before
        async with http.get("/received") as answer:
            received = dict(await answer.json())
    return Sending(
        errors_s=[sample.sent_s - sample.due_s for sample in samples],
        read_s=[received[i] - began - ask.at_s for i, ask in enumerate(asks) if i in received],
        in_flight=_in_flight(samples),
        lost=sum(sample.ending is not ClientOutcome.SUCCEEDED for sample in samples),
        cpu_share=spent.cpu_s / spent.wall_s,
    )


def _in_flight(samples: Sequence[RequestSample]) -> int:
    """Count jobs that were sent and had not ended, at the fullest moment."""
    sent = np.sort([sample.sent_s for sample in samples])
    ended = np.sort([sample.ended_s for sample in samples])
    return int(max(np.arange(1, len(sent) + 1) - np.searchsorted(ended, sent)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """Which service is searched, and for how long each trial counts."""

    name: str
    slo_s: float
    warm_up_s: float
    counted_s: float
    start: float  #: requests/s of the first trial
    mix: RequestMix


@dataclass(slots=True)
class Search:
    """Trials of one service."""

    http: aiohttp.ClientSession
    course: Course
    seed: int = 0

    async def quick(self) -> CapacitySearch:
        """Search as `--find-capacity` does."""
        search = CapacitySearch(self.course.start, max_late=MAX_LATE)
        return await find(search, self._trials(seed=1000), _tell)

    async def slow(self, about: float) -> float:
        """Sum up long trials at rates about one; requests/s."""
        search, trials = CapacitySearch(about, max_late=MAX_LATE), self._trials(seed=2000)
        for rate in np.geomspace(about / NEAR, about * NEAR, TRIALS):
            search.note(await trials.measure(float(rate), SLOW))
            _tell(search.trials[-1])
        if not search.is_bounded:  # what was found is further off than that
            await find(search, trials, _tell)
        return search.estimate().per_s

    def _trials(self, seed: int) -> LiveTrials:
        course = self.course

        def asks(rate: float, number: int, length: int) -> list[TimedRequest]:
            own, length_s = seed + number, course.warm_up_s + course.counted_s * length
            arrivals = exactly(poisson(rate, length_s, seed=own), rate, length_s)
            return list(draw(arrivals, PROMPTS, course.mix, seed=own).requests(seed=own << 20))

        return LiveTrials(
            self.http,
            LongPoll(self.http),
            asks,
            slo_s=course.slo_s,
            max_late=MAX_LATE,
            warm_up_s=course.warm_up_s,
        )


def _tell(trial: Trial) -> None:
    print(f"  {trial.rate:.4g}/s: {trial.share:.1%} late", file=sys.stderr)  # noqa: T201


async def search(url: str, course: Course) -> dict[str, Figure]:
    """Find the capacity of a service in both ways, the quick one before and after the slow."""
    async with open_session(url, None) as http:
        both = Search(http, course)
        first = await both.quick()
        slow = await both.slow(first.estimate().per_s)
        again = await both.quick()
    apart = [abs(each.estimate().per_s / slow - 1) for each in (first, again)]
    return {
        f"{course.name}, slow search": plain(slow, "requests/s"),
        f"{course.name}, found": plain(first.estimate().per_s, "requests/s"),
        f"{course.name}, trials": plain(len(first.trials), ""),
        f"{course.name}, found / slow search, off by": at_most(max(apart), CLOSE, "of it"),
    }


async def _alone_s(url: str, mix: RequestMix) -> float:
    """Measure how long a lone job takes; the median of five, after one that loads the model."""
    async with open_session(url, None) as http:
        asks = list(draw(np.zeros(6), PROMPTS, mix, seed=3).requests())
        took = [
            (await LoadClient(http, patience_s=240.0).drive([ask]))[0].latency_s for ask in asks
        ]
    return median(took[1:])


def sending(folder: Path, duration_s: float) -> dict[str, Figure]:
    """Measure the send error on one core."""
    with waiting_service(folder, 4 * IN_FLIGHT, IN_FLIGHT / RATE) as server:
        assert server.process
        with one_core(beside=server.process.pid):
            found = uvloop.run(send(server.url, duration_s))
    return {
        "send error, p50": plain(1000 * percentile(found.errors_s, 0.5), "ms"),
        "send error, p99": at_most(1000 * percentile(found.errors_s, 0.99), SEND_ERROR_MS, "ms"),
        "send error, most": plain(1000 * max(found.errors_s), "ms"),
        "until the service has read it, p99": plain(1000 * percentile(found.read_s, 0.99), "ms"),
        "in flight, most": at_least(found.in_flight, IN_FLIGHT, ""),
        "requests that did not end well": at_most(found.lost, 0, ""),
        "CPU of the client": plain(found.cpu_share, "of one core"),
    }


def main(
    quick: Annotated[bool, typer.Option(help="No embedded stack; shorter.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The last line only.")] = False,
) -> None:
    """Measure the load generator. Example: `python -m bench.load --quick`."""
    with tempfile.TemporaryDirectory(prefix="atelier-load-") as name:
        folder = Path(name)
        figures = sending(folder, 15.0 if quick else 40.0)
        with waiting_service(folder, 8, 0.1) as server:
            course = Course(
                name="waiting service",
                slo_s=0.4,
                warm_up_s=4.0,
                counted_s=8.0,
                start=20.0,
                mix=RequestMix(),
            )
            figures |= uvloop.run(search(server.url, course))
        if not quick:
            figures |= _embedded(folder)
    raise SystemExit(finish("load", figures, where=machine("1 core"), is_json=as_json))


def _embedded(folder: Path) -> dict[str, Figure]:
    mix = RequestMix(model=MODEL)
    make(folder / "models", [MODEL])
    env = {"ATELIER_MODELS_DIR": str(folder / "models"), "ATELIER_MAX_SLOTS": str(SLOTS)}
    with running(folder / "stack", workers=WORKERS, env=env) as started:
        url = started.addresses.api
        alone_s = uvloop.run(_alone_s(url, mix))
        slo_s = SLO * alone_s
        course = Course(
            name="embedded stack",
            slo_s=slo_s,
            warm_up_s=max(5.0, 10 * slo_s),
            counted_s=max(15.0, 20 * slo_s, COUNTED * alone_s / WORKERS),
            start=2.0,
            mix=mix,
        )
        return uvloop.run(search(url, course))


if __name__ == "__main__":
    typer.run(main)
