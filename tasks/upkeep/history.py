"""Sample the whole service twice a minute, for operators to see the last hour."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from core.boards.fleet import QueueDepth, Worker
from core.boards.plan import Plan
from core.boards.sample import ServiceSample
from core.boards.score import Score
from storage.boards.history import EVERY_S, ServiceHistory
from storage.boards.scores import Scores

LOOK = 1000  #: jobs whose latency is read for one sample: of more, the latest; and scores at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSources:
    """Where the parts of a sample are read; each raises StoreUnavailable."""

    now: Callable[[], Awaitable[float]]  #: epoch s, by the clock that stamps samples
    stats: Callable[[], Awaitable[Mapping[str, int]]]
    fleet: Callable[[], Awaitable[Sequence[Worker]]]
    depths: Callable[[], Awaitable[Sequence[QueueDepth]]]
    plan: Callable[[], Awaitable[Plan | None]]
    latencies: Callable[[float, int], Awaitable[Sequence[float]]]  #: since when, at most so many


class HistoryRecorder:
    """Adds a sample to the history when the last one is old enough, whoever took that."""

    def __init__(self, history: ServiceHistory, scores: Scores, sources: SampleSources) -> None:
        self._history = history
        self._scores = scores
        self._sources = sources
        self._cursor: str | None = None  #: of the last score that was looked at

    async def run(self) -> None:
        """Take a sample if it is time."""
        last, now = await self._history.last(), await self._sources.now()
        since = last.at if last is not None else now - EVERY_S
        if last is not None and now - since < EVERY_S:
            return
        found = sample(
            await self._sources.fleet(), await self._sources.depths(), await self._sources.plan()
        )
        counters = await self._sources.stats()
        latencies = await self._sources.latencies(since, LOOK)
        scores = await self._new_scores()
        await self._history.add(
            replace(
                found,
                counters=counters,
                p50_s=percentile(latencies, 0.5),
                p95_s=percentile(latencies, 0.95),
                quality=sum(each.quality for each in scores) / len(scores) if scores else None,
                scored=len(scores),
            )
        )

    async def _new_scores(self) -> list[Score]:
        """Read the scores that came since the last sample that was taken here."""
        if self._cursor is None:
            self._cursor = await self._scores.last()
            return []
        found: list[Score] = []
        while True:
            page = await self._scores.after(self._cursor, LOOK)
            self._cursor = page.cursor
            found += page.scores
            if len(page.scores) < LOOK:
                return found


def sample(
    workers: Sequence[Worker], depths: Sequence[QueueDepth], plan: Plan | None
) -> ServiceSample:
    """Describe the service at this moment."""
    return ServiceSample(
        devices=Counter(worker.device_type for worker in workers),
        busy=sum(worker.running > 0 for worker in workers),
        running=sum(worker.running for worker in workers),
        slots=sum(worker.max_slots for worker in workers),
        waiting=sum(depth.waiting for depth in depths),
        oldest_s=max((depth.oldest_s for depth in depths), default=0.0),
        forecast=sum(plan.demand.values()) if plan is not None else None,
        saturation=plan.saturation if plan is not None else None,
    )


def percentile(values: Sequence[float], share: float) -> float | None:
    """Find the least value that a share of all does not exceed; None: there is none."""
    ranked = sorted(values)
    return round(ranked[ceil(share * len(ranked)) - 1], 3) if ranked else None
