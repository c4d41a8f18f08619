"""What a search for the capacity found. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from loadgen.ask import Option
from loadgen.capacity.search import CapacitySearch, Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The highest rate at which a service keeps its promise."""

    run: Mapping[str, Option]  #: what was asked for, to repeat it
    slo_s: float
    max_late: float
    capacity_per_s: float | None  #: requests/s; None: no trial kept the promise, or all did
    low_per_s: float | None  #: four times of five it lies between this
    high_per_s: float | None  #: and this
    trials: tuple[Trial, ...]


def capacity_of(
    search: CapacitySearch, run: Mapping[str, Option], slo_s: float, max_late: float
) -> Capacity:
    """Sum up a search."""
    found = search.estimate() if search.is_bounded else None
    return Capacity(
        run=run,
        slo_s=slo_s,
        max_late=max_late,
        capacity_per_s=found.per_s if found else None,
        low_per_s=found.low if found else None,
        high_per_s=found.high if found else None,
        trials=tuple(search.trials),
    )
