"""Samples of the whole service, taken twice a minute, and what happened between them. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSample:
    """What the service was at one moment, and what it has counted until then."""

    at: float = 0.0  #: epoch s, the store's clock: set when it is kept
    counters: Mapping[str, int] = field(default_factory=dict)  #: those of the store
    devices: Mapping[str, int] = field(default_factory=dict)  #: device type -> workers
    busy: int = 0  #: workers with an image in their batch
    running: int = 0  #: images in all batches
    slots: int = 0  #: images that all batches take at most
    waiting: int = 0  #: jobs on all queues
    oldest_s: float = 0.0  #: seconds that the first of them has waited
    forecast: float | None = None  #: jobs/s that the plan was made for; None: there was no plan
    saturation: float | None = None  #: unserved share of that
    p50_s: float | None = None  #: from acceptance to the images, of jobs that succeeded lately
    p95_s: float | None = None  #: likewise; None: none did
    quality: float | None = None  #: mean of the images that were scored lately
    scored: int = 0  #: how many these were


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The time between two samples: the later one, and what was counted since the one before."""

    sample: ServiceSample  #: at its end
    seconds: float  #: that it took
    counted: Mapping[str, int]  #: counter -> by how much it grew; others did not

    def sum(self, *names: str) -> int:
        """Add up how much some counters grew."""
        return sum(self.counted.get(name, 0) for name in names)

    def ended(self, status: str) -> int:
        """Count the jobs that came to this end, of whatever task."""
        return sum(
            grew
            for name, grew in self.counted.items()
            if name.startswith("jobs:") and name.endswith(f":{status}")
        )

    def under(self, prefix: str) -> dict[str, int]:
        """Read the counters named `<prefix>:<label>`, by label."""
        names = [name for name in self.counted if name.startswith(f"{prefix}:")]
        return {name.partition(":")[2]: self.counted[name] for name in sorted(names)}


def periods(samples: Sequence[ServiceSample]) -> Iterator[Period]:
    """Compare each sample, oldest first, with the one before."""
    for before, after in pairwise(samples):
        yield Period(
            sample=after,
            seconds=max(0.0, after.at - before.at),
            counted={
                name: count - before.counters.get(name, 0)
                for name, count in after.counters.items()
                if count > before.counters.get(name, 0)  # a store that began anew has less
            },
        )
