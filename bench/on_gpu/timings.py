"""Collect times of several rounds, and tell their medians as they come in."""

from collections.abc import Callable
from dataclasses import dataclass, field

from bench.on_gpu.part import Tell
from bench.parts.place import Place
from bench.parts.report import Figure, median, plain


@dataclass(slots=True)
class Timings:
    """Times of several rounds; each new one tells the median so far."""

    place: Place
    tell: Tell
    spent: dict[str, list[float]] = field(default_factory=dict)

    def take(self, name: str, call: Callable[[], object], images: int = 0) -> None:
        """Time a call: in seconds, or in so many images a second."""
        times = self.spent.setdefault(name, [])
        times.append(self.place.seconds_of(call))
        self.tell(name, _shown(median(times), images))


def _shown(seconds: float, images: int) -> Figure:
    return plain(images / seconds, "images/s") if images else plain(seconds, "s")
