"""How much of what is asked for, per second? Pure: the caller brings the clock."""

from collections import Counter, deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Stream:
    """Arrivals that may be served in the same ways."""

    application: str
    models: tuple[str, ...]  #: that may make them, sorted; one if the client chose
    is_exact: bool = False  #: K = 0 only, on the one model in `models`


class ArrivalWindow:
    """Arrivals of the last `window_s` seconds, and the classes of the last `lookback` prompts.

    Work is counted in jobs of one image and default steps, so that a job of eight images
    counts as eight. Source: Argus §4.2 (affinity histogram over the last 1,000 prompts).
    """

    def __init__(
        self, *, window_s: float = 60.0, min_span_s: float = 10.0, lookback: int = 1000
    ) -> None:
        self.window_s = window_s
        self.min_span_s = min_span_s  #: the first arrival after a start is no burst
        self._lookback = lookback
        self._started_at: float | None = None
        self._buckets: dict[Stream, deque[tuple[int, float]]] = {}
        self._classes: dict[str, deque[str]] = {}
        self._counts: dict[str, Counter[str]] = {}

    def observe(self, stream: Stream, affinity: str, work: float, now: float) -> None:
        """Count one arrival."""
        if self._started_at is None:
            self._started_at = now
        buckets = self._buckets.setdefault(stream, deque())
        second = int(now)
        if buckets and buckets[-1][0] == second:
            work += buckets.pop()[1]
        buckets.append((second, work))
        self._remember(stream.application, affinity)

    def rates(self, now: float) -> dict[Stream, float]:
        """Estimate each stream's arrivals.

        Units: jobs of default size per second
        """
        self._forget(now)
        if self._started_at is None:
            return {}
        span = min(self.window_s, max(self.min_span_s, now - self._started_at))
        return {
            stream: sum(work for _, work in buckets) / span
            for stream, buckets in sorted(self._buckets.items())
        }

    def affinity(self, application: str) -> dict[str, float]:
        """Share the application's last prompts among their classes; sums to one, or is empty."""
        counts = self._counts.get(application, Counter())
        total = counts.total()
        return {name: counts[name] / total for name in sorted(counts) if counts[name]}

    def _remember(self, application: str, affinity: str) -> None:
        classes = self._classes.setdefault(application, deque())
        counts = self._counts.setdefault(application, Counter())
        classes.append(affinity)
        counts[affinity] += 1
        if len(classes) > self._lookback:
            counts[classes.popleft()] -= 1

    def _forget(self, now: float) -> None:
        oldest = int(now - self.window_s)
        for stream in list(self._buckets):
            buckets = self._buckets[stream]
            while buckets and buckets[0][0] <= oldest:
                buckets.popleft()
            if not buckets:
                del self._buckets[stream]
