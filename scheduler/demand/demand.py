"""Forecast arrival rates per stream, by what came. Pure: the caller brings the clock."""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from core.boards.demand import ReportedDemand, Stream
from core.boards.plan import Usual

RECENT_S = 20.0  #: e-folding time of the mean that follows a rising demand
KEPT_S = 3600  #: of arrivals by second
BURST_S = 5.0  #: a burst shows in so many seconds
BURST_SIGMAS = 4.0  #: above what a Poisson process would do in them
#: What came since a start is noise, unless it came for so long or was so many jobs.
TELLING_S, TELLING = 10.0, 12
SHORTEST_S = 2.0  #: over which those jobs are averaged


@dataclass(slots=True)
class ArrivalSecond:
    """What arrived in one second, of a stream or of all."""

    at: int
    work: float = 0.0  #: jobs of default size
    jobs: int = 0


class ArrivalHistory:
    """Work by second, of the seconds that are over."""

    def __init__(self, kept_s: int = KEPT_S) -> None:
        """Know of no arrival yet."""
        self._work: deque[float] = deque(maxlen=kept_s - 1)  # without the current one
        self._end = 0  # the second after the last one in `_work`
        self._over: tuple[float, ...] | None = None  # what `until` said last

    def add(self, second: ArrivalSecond) -> None:
        """Take in a second that is over."""
        self._advance(second.at + 1)
        self._work[-1] += second.work
        self._over = None

    def until(self, now: float) -> tuple[float, ...]:
        """List the work of each second up to the current one, without it; oldest first."""
        if not self._work:
            return ()
        self._advance(int(now))
        if self._over is None:
            self._over = tuple(self._work)
        return self._over

    def _advance(self, end: int) -> None:
        if not self._work:
            self._end = end - 1
        missing = min(end - self._end, self._work.maxlen or 0)
        if missing > 0:
            self._work.extend([0.0] * missing)
            self._end, self._over = end, None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalWindow:
    """The arrivals of the last seconds, as they are now, and what is to be expected of them.

    The forecast of an application is the highest of its mean over the window, its mean over the
    last moments, which follows a rise, and what a burst brings. What is missed costs violations,
    what is too much costs a little quality: `bench.demand` has the figures.
    """

    seconds: Mapping[Stream, Collection[ArrivalSecond]]
    now: float
    seen_s: float  #: since the first arrival
    window_s: float

    @property
    def applications(self) -> set[str]:
        return {stream.application for stream in self.seconds}

    def rates(self) -> dict[Stream, float]:
        """Expect each stream's arrivals in the next seconds.

        Units: jobs of default size per second
        """
        means = {
            stream: sum([second.work for second in seconds]) / self._span_s
            for stream, seconds in sorted(self.seconds.items())
        }
        wholes: dict[str, float] = defaultdict(float)
        for stream, mean in means.items():
            wholes[stream.application] += mean
        growth = {name: self.rate(name) / whole for name, whole in wholes.items()}
        return {stream: mean * growth[stream.application] for stream, mean in means.items()}

    def rate(self, application: str, *, jobs: bool = False) -> float:
        """Expect the arrivals of an application: in jobs of default size per second, or in jobs."""
        rates = [self._mean(application, jobs=jobs), self._recent(application, jobs=jobs)]
        if self.is_burst(application, above=self._mean(application, jobs=True)):
            rates.append(self._last(application, jobs=jobs) / BURST_S)
        return max(rates)

    def is_burst(self, application: str, *, above: float) -> bool:
        """Tell whether more jobs came than is likely at a rate."""
        if self.seen_s < self._least_s:
            return False
        expected = BURST_S * above
        limit = expected + BURST_SIGMAS * math.sqrt(max(1.0, expected))
        return self._last(application, jobs=True) > limit

    @property
    def _span_s(self) -> float:
        return min(self.window_s, max(self._least_s, self.seen_s))

    @property
    def _least_s(self) -> float:
        """Seconds over which a mean is taken at least: of few jobs a short one is noise."""
        if self.seen_s >= TELLING_S:
            return TELLING_S
        jobs = sum([second.jobs for seconds in self.seconds.values() for second in seconds])
        return SHORTEST_S if jobs >= TELLING else TELLING_S

    def _mean(self, application: str, *, jobs: bool) -> float:
        some = self._of(application)
        whole = sum([s.jobs for s in some] if jobs else [s.work for s in some])
        return whole / self._span_s

    def _recent(self, application: str, *, jobs: bool) -> float:
        """Weigh each second by how long ago it was."""
        weighed = sum(
            [
                (second.jobs if jobs else second.work)
                * math.exp((second.at + 0.5 - self.now) / RECENT_S)
                for second in self._of(application)
            ]
        )
        return weighed / (RECENT_S * (1 - math.exp(-self._span_s / RECENT_S)))

    def _last(self, application: str, *, jobs: bool) -> float:
        since = self.now - BURST_S
        last = [second for second in self._of(application) if second.at > since]
        return sum([s.jobs for s in last] if jobs else [s.work for s in last])

    def _of(self, application: str) -> Collection[ArrivalSecond]:
        own = [seconds for s, seconds in self.seconds.items() if s.application == application]
        return own[0] if len(own) == 1 else [second for each in own for second in each]


def forget(streams: dict[Stream, deque[ArrivalSecond]], until: float, now: float) -> None:
    """Take out the seconds up to a moment, and streams of which there are no others.

    And those that are yet to come, where the clock was turned back.
    """
    for stream in list(streams):
        seconds = streams[stream]
        while seconds and seconds[0].at <= int(until):
            seconds.popleft()
        while seconds and seconds[-1].at > now:
            seconds.pop()
        if not seconds:
            del streams[stream]


def shares(counts: Mapping[str, int]) -> dict[str, float]:
    """Share one among classes by how many prompts were of each; empty if none was."""
    total = sum(counts.values())
    return {name: count / total for name, count in sorted(counts.items()) if count}


def joined(asked: Sequence[ReportedDemand]) -> ReportedDemand:
    """Add up what several schedulers were asked for; the first is who leads."""
    if len(asked) == 1:
        (only,) = asked
        end = only.history_end if only.history else 0
        return replace(only, rates=tuple(sorted(only.rates)), history_end=end)
    rates: dict[Stream, float] = defaultdict(float)
    classes: dict[str, Counter[str]] = {}
    for each in asked:
        for stream, rate in each.rates:
            rates[stream] += rate
        for application, counts in each.classes.items():
            classes.setdefault(application, Counter()).update(counts)
    end, history = added([(each.history_end, each.history) for each in asked])
    return ReportedDemand(
        rates=tuple(sorted(rates.items())),
        classes=classes,
        wanted={m: max(x.wanted.get(m, 0.0) for x in asked) for x in asked for m in x.wanted},
        is_burst=any(each.is_burst for each in asked),
        history=history,
        history_end=end,
        jobs={
            name: tuple(job for other in asked for job in other.jobs.get(name, ()))
            for each in asked
            for name in each.jobs
        },
        usual=_usual(asked),
    )


def _usual(asked: Sequence[ReportedDemand]) -> dict[str, tuple[float, Usual]]:
    """Average what jobs of each model are like, by how many each scheduler sent there of late."""
    said: dict[str, list[tuple[float, Usual]]] = defaultdict(list)
    for each in asked:
        for model, known in each.usual.items():
            said[model].append(known)
    return {model: _mean(known) for model, known in said.items()}


def _mean(known: Sequence[tuple[float, Usual]]) -> tuple[float, Usual]:
    """Average by weight; where nothing weighs anything the first counts."""
    whole = sum(weight for weight, _ in known)
    if whole <= 0:
        return known[0]
    steps = sum(weight * usual.steps for weight, usual in known) / whole
    images = sum(weight * usual.images for weight, usual in known) / whole
    return whole, Usual(steps=steps, images=images)


def added(histories: Sequence[tuple[int, Sequence[float]]]) -> tuple[int, tuple[float, ...]]:
    """Add up what several schedulers saw, second by second.

    Args:
        histories: the second after the last one, and the work of each, oldest first.
    Returns: the same of the sum.
    """
    known = [(end, work) for end, work in histories if work]
    if not known:
        return 0, ()
    end = max(end for end, _ in known)
    start = max(end - KEPT_S, min(each - len(work) for each, work in known))
    total = [0.0] * (end - start)
    for each, work in known:
        first = each - len(work) - start
        for i, amount in enumerate(work):
            if first + i >= 0:
                total[first + i] += amount
    return end, tuple(total)
