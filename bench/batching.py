"""Benchmark batching policies: share of late items, even and bursty arrivals.

One server in virtual time: one that takes what MiniLM is measured to take for batches of prompts on
one core, and one on which sixteen items take twice as long as one, as on a device that a single
item leaves idle. The same load comes evenly, as a Poisson process, and in bursts: gaps of a gamma
distribution of shape 0.05 (Proteus, section 6.4). An item is late if it is answered after its time,
or given up. Waiting pays where batches do: on a core they hardly do, and whoever waits is later.

    python -m bench.batching --quick
"""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import accumulate
from random import Random

import typer

from bench.parts.batch_policies import Batching, make_policy, until
from bench.parts.report import Figure, Instant, at_most, finish, machine, median, plain
from bench.retrieve import captions
from classifier.encoder.installed import open_encoder
from core.settings import Settings
from scheduler.service.batching import BatchLatency, BatchPolicy
from zoo.prompts import Split

SIZES = (1, 2, 4, 8, 16)
MOST = 16
#: Of the largest rate that batches allow of which two follow each other within an item's time.
LOAD = 0.7
#: An item's time, in those of one alone.
PATIENCE = 2.5
#: Real batches differ from the line by so much (standard deviation of the logarithm).
NOISE = 0.05

#: Draws a gap of mean 1.
Gap = Callable[[Random], float]
BURSTS = "bursts"
ARRIVALS: dict[str, Gap] = {
    "even": lambda rng: 1.0,
    "poisson": lambda rng: rng.expovariate(1.0),
    BURSTS: lambda rng: rng.gammavariate(0.05, 20.0),
}

CORE, DEVICE = "MiniLM on a core", "an idle device"
#: Most that one may be late for each item that another is.
Bars = Mapping[tuple[Batching, Batching], float]
ON_CORE: Bars = {(Batching.NEXUS, other): 0.95 for other in (Batching.AIMD, Batching.STATIC)}
ON_DEVICE: Bars = {
    (Batching.PROTEUS, other): 0.6 for other in (Batching.NEXUS, Batching.AIMD, Batching.STATIC)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What became of the items of a run."""

    late: float  #: share of them, given up ones among them
    wait_s: float  #: until answered, mean of those answered
    size: float  #: of batches, mean


class Server:
    """Runs one batch at a time, in virtual time."""

    def __init__(self, policy: BatchPolicy, line: BatchLatency, slo_s: float) -> None:
        self._policy = policy
        self._line = line
        self._slo_s = slo_s
        self._rng = Random(1)

    def serve(self, arrivals: Sequence[float]) -> Served:
        """Serve items that come at these times."""
        now, coming, waits, sizes = 0.0, deque(arrivals), list[float](), list[int]()
        waiting: deque[float] = deque()  #: when each came
        while coming or waiting:
            if not waiting:
                now = max(now, coming[0])
            while coming and coming[0] <= now:
                waiting.append(coming.popleft())
            move = self._policy.decide([at + self._slo_s for at in waiting], now)
            for _ in range(move.drop):
                waiting.popleft()
            if move.take:
                seconds = self._seconds(move.take)
                now += seconds
                waits += [now - waiting.popleft() for _ in range(move.take)]
                sizes.append(move.take)
                self._policy.observe(move.take, seconds)
            elif waiting:
                now = min(until(move), coming[0] if coming else math.inf)
        late = len(arrivals) - sum(wait <= self._slo_s for wait in waits)
        mean = sum(waits) / len(waits) if waits else math.inf
        return Served(late=late / len(arrivals), wait_s=mean, size=sum(sizes) / len(sizes))

    def _seconds(self, size: int) -> float:
        return self._line.seconds(size) * math.exp(self._rng.gauss(0.0, NOISE))


def measured_line(rounds: int) -> BatchLatency:
    """Time MiniLM on prompts of all difficulties."""
    encoder = open_encoder(Settings())
    prompts = iter(captions(Split.TRAIN, rounds * sum(SIZES)))
    times: dict[int, list[float]] = {size: [] for size in SIZES}
    for _ in range(rounds):
        for size in SIZES:
            batch = [next(prompts) for _ in range(size)]
            began = Instant.now()
            encoder.embed(batch)
            times[size].append((Instant.now() - began).cpu_s)
    one_s, many_s = median(times[1]), median(times[SIZES[-1]])
    item_s = (many_s - one_s) / (SIZES[-1] - 1)
    return BatchLatency(one_s - item_s, item_s)


def compare(name: str, line: BatchLatency, count: int) -> dict[str, Figure]:
    """Serve the same arrivals by every policy."""
    slo_s = PATIENCE * line.seconds(1)
    full = max(1, line.largest(slo_s / 2, MOST))
    rate = LOAD * full / line.seconds(full)
    figures = {
        f"{name}: one item": plain(line.seconds(1) * 1e3, "ms"),
        f"{name}: {MOST} items": plain(line.seconds(MOST) * 1e3, "ms"),
        f"{name}: rate": plain(rate, "items/s"),
    }
    for pattern, gap in ARRIVALS.items():
        rng = Random(pattern)
        arrivals = list(accumulate(gap(rng) / rate for _ in range(count)))
        for batching in Batching:
            policy = make_policy(batching, deepcopy(line), slo_s=slo_s, most=MOST)
            served = Server(policy, line, slo_s).serve(arrivals)
            figures[f"{name}, {pattern}, {batching}: late"] = plain(served.late, "share")
            figures[f"{name}, {pattern}, {batching}: wait"] = plain(served.wait_s * 1e3, "ms")
    return figures


def promised(figures: Mapping[str, Figure], name: str, bars: Bars) -> dict[str, Figure]:
    """Compare how many items are late under bursts."""
    late = {each: figures[f"{name}, {BURSTS}, {each}: late"].value for each in Batching}
    return {
        f"{name}, {BURSTS}: late, {ours} / {other}": at_most(late[ours] / late[other], bar, "ratio")
        for (ours, other), bar in bars.items()
    }


def main(
    quick: bool = typer.Option(False, help="Fewer items."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
) -> None:
    """Measure batching policies. Example: `python -m bench.batching --quick`."""
    count = 10_000 if quick else 50_000
    figures = compare(CORE, measured_line(3 if quick else 15), count)
    figures |= compare(DEVICE, BatchLatency(14 / 15 * 0.01, 1 / 15 * 0.01), count)
    figures |= promised(figures, CORE, ON_CORE) | promised(figures, DEVICE, ON_DEVICE)
    raise SystemExit(finish("batching", figures, where=machine("1 thread"), is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
