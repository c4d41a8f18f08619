"""Estimate and forecast arrival rates per stream. Pure: the caller brings the clock."""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from core.boards.demand import AskedJob, ReportedDemand, Stream

RECENT_S = 20.0  #: e-folding time of the mean that follows a rising demand
KEPT_S = 3600  #: of arrivals by second
DIGITS = 3  #: of the work of a second: histories travel between schedulers
KEPT_JOBS = 100  #: of an application, to tell how large jobs are and what they are promised
BURST_S = 5.0  #: a burst shows in so many seconds
BURST_SIGMAS = 4.0  #: above what a Poisson process would do in them


@dataclass(slots=True)
class _Second:
    """What arrived in one second of one stream."""

    at: int
    work: float = 0.0  #: jobs of default size
    jobs: int = 0


class ArrivalHistory:
    """Work by second, of the seconds that are over."""

    def __init__(self, kept_s: int = KEPT_S) -> None:
        """Know of no arrival yet."""
        self._work: deque[float] = deque(maxlen=kept_s)
        self._second = 0  # the last one in `_work`
        self._over: tuple[float, ...] | None = None  # what `until` says in this second

    def observe(self, work: float, now: float) -> None:
        """Count work that arrives now."""
        second = int(now)
        if second != self._second or not self._work:
            self._advance(second)
        self._work[-1] = round(self._work[-1] + work, DIGITS)

    def until(self, now: float) -> tuple[float, ...]:
        """List the work of each second up to the current one, without it; oldest first."""
        if not self._work:
            return ()
        self._advance(int(now))
        if self._over is None:
            self._over = tuple(self._work)[:-1]
        return self._over

    def _advance(self, second: int) -> None:
        if not self._work:
            self._work.append(0.0)
            self._second = second
        missing = min(second - self._second, self._work.maxlen or 0)
        if missing > 0:
            self._work.extend([0.0] * missing)
            self._second, self._over = second, None


class ArrivalWindow:
    """Arrivals of the last `window_s` seconds, and the classes of the last `lookback` prompts.

    Work is counted in jobs of one image and default steps, so that a job of eight images
    counts as eight. Source: Argus §4.2 (affinity histogram over the last 1,000 prompts).

    The forecast of an application is the highest of its mean over the window, its mean over the
    last moments, which follows a rise, and what a burst brings. What is missed costs violations,
    what is too much costs a little quality: `bench.demand` has the figures.
    """

    def __init__(
        self, *, window_s: float = 60.0, min_span_s: float = 10.0, lookback: int = 1000
    ) -> None:
        self.window_s = window_s
        self.min_span_s = min_span_s  #: the first arrival after a start is no burst
        self._lookback = lookback
        self._started_at: float | None = None
        self._seconds: dict[Stream, deque[_Second]] = {}
        self._classes: dict[str, deque[str]] = defaultdict(deque)
        self._counts: dict[str, Counter[str]] = defaultdict(Counter)
        self._planned: dict[str, float] = {}  # application -> jobs/s the plan was made for
        self.arrived: dict[str, float] = defaultdict(float)  #: application -> work since the start
        self.history = ArrivalHistory()
        self._jobs: dict[str, deque[AskedJob]] = defaultdict(lambda: deque(maxlen=KEPT_JOBS))

    def observe(self, stream: Stream, affinity: str, work: float, now: float) -> None:
        """Count one arrival."""
        if self._started_at is None:
            self._started_at = now
        seconds = self._seconds.get(stream)
        if seconds is None:
            seconds = self._seconds[stream] = deque()
        if not seconds or seconds[-1].at != int(now):
            seconds.append(_Second(int(now)))
        last = seconds[-1]
        last.work += work
        last.jobs += 1
        self.arrived[stream.application] += work
        self.history.observe(work, now)
        self._remember(stream.application, affinity)

    def promise(self, application: str, job: AskedJob) -> None:
        """Note how large a job of an application is, and what it was promised."""
        self._jobs[application].append(job)

    @property
    def jobs(self) -> dict[str, tuple[AskedJob, ...]]:
        """List the last jobs of each application."""
        return {name: tuple(jobs) for name, jobs in self._jobs.items()}

    def rates(self, now: float) -> dict[Stream, float]:
        """Expect each stream's arrivals in the next seconds.

        Units: jobs of default size per second
        """
        means = self._means(now)
        wholes: dict[str, float] = defaultdict(float)
        for stream, mean in means.items():
            wholes[stream.application] += mean
        growth = {name: self._forecast(name, now) / whole for name, whole in wholes.items()}
        return {stream: mean * growth[stream.application] for stream, mean in means.items()}

    def note_plan(self, now: float) -> None:
        """Remember what a plan is made for: more than that is a burst."""
        self._forget(now)
        self._planned = {name: self._forecast(name, now, jobs=True) for name in self._applications}

    def is_burst(self, now: float) -> bool:
        """Tell whether more arrives for some application than the plan was made for."""
        self._forget(now)
        planned = {name: self._planned.get(name, 0.0) for name in self._applications}
        return any(self._is_burst(name, now, above=rate) for name, rate in planned.items())

    def classes(self, application: str) -> Counter[str]:
        """Count the classes of the application's last prompts."""
        return Counter({k: n for k, n in self._counts.get(application, Counter()).items() if n})

    @property
    def _applications(self) -> set[str]:
        return {stream.application for stream in self._seconds}

    def _means(self, now: float) -> dict[Stream, float]:
        self._forget(now)
        span = self._span(now)
        return {
            stream: sum([second.work for second in seconds]) / span
            for stream, seconds in sorted(self._seconds.items())
        }

    def _forecast(self, application: str, now: float, *, jobs: bool = False) -> float:
        rates = [self._mean(application, now, jobs=jobs), self._recent(application, now, jobs=jobs)]
        if self._is_burst(application, now, above=self._mean(application, now, jobs=True)):
            rates.append(self._last(application, now, jobs=jobs) / BURST_S)
        return max(rates)

    def _mean(self, application: str, now: float, *, jobs: bool = False) -> float:
        some = self._of(application)
        whole = sum([s.jobs for s in some] if jobs else [s.work for s in some])
        return whole / self._span(now)

    def _recent(self, application: str, now: float, *, jobs: bool = False) -> float:
        """Weigh each second by how long ago it was."""
        weighed = sum(
            [
                (second.jobs if jobs else second.work)
                * math.exp((second.at + 0.5 - now) / RECENT_S)
                for second in self._of(application)
            ]
        )
        return weighed / (RECENT_S * (1 - math.exp(-self._span(now) / RECENT_S)))

    def _last(self, application: str, now: float, *, jobs: bool = False) -> float:
        since = now - BURST_S
        last = [second for second in self._of(application) if second.at > since]
        return sum([s.jobs for s in last] if jobs else [s.work for s in last])

    def _is_burst(self, application: str, now: float, *, above: float) -> bool:
        """Tell whether more jobs came than is likely at a rate."""
        if self._started_at is None or now - self._started_at < self.min_span_s:
            return False
        expected = BURST_S * above
        limit = expected + BURST_SIGMAS * math.sqrt(max(1.0, expected))
        return self._last(application, now, jobs=True) > limit

    def _of(self, application: str) -> Sequence[_Second]:
        own = [seconds for s, seconds in self._seconds.items() if s.application == application]
        return own[0] if len(own) == 1 else [second for each in own for second in each]

    def _span(self, now: float) -> float:
        started_at = now if self._started_at is None else self._started_at
        return min(self.window_s, max(self.min_span_s, now - started_at))

    def _remember(self, application: str, affinity: str) -> None:
        classes, counts = self._classes[application], self._counts[application]
        classes.append(affinity)
        counts[affinity] += 1
        if len(classes) > self._lookback:
            counts[classes.popleft()] -= 1

    def _forget(self, now: float) -> None:
        oldest = int(now - self.window_s)
        for stream in list(self._seconds):
            seconds = self._seconds[stream]
            while seconds and seconds[0].at <= oldest:
                seconds.popleft()
            if not seconds:
                del self._seconds[stream]


def shares(counts: Mapping[str, int]) -> dict[str, float]:
    """Share one among classes by how many prompts were of each; empty if none was."""
    total = sum(counts.values())
    return {name: count / total for name, count in sorted(counts.items()) if count}


def joined(asked: Sequence[ReportedDemand]) -> ReportedDemand:
    """Add up what several schedulers were asked for."""
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
    )


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
