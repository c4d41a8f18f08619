"""Metrics of several processes as those of one: counters and histograms are summed. Pure.

Production has each process scraped by itself; `atelier up` shows all of them at one address.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from itertools import chain

from prometheus_client.metrics_core import Metric

#: Types that may be summed: of the others each process has its own.
SUMMED = frozenset({"counter", "histogram"})

Series = tuple[str, tuple[tuple[str, str], ...]]  #: name, labels and their values


@dataclass(slots=True)
class _Merged:
    """One family of all processes."""

    first: Metric  #: as whoever comes first has it: its help, its type
    values: dict[Series, float] = field(default_factory=dict)

    def add(self, family: Metric) -> None:
        """Add the samples of one process; a gauge stays what the first process says it is."""
        is_summed = self.first.type in SUMMED
        for sample in family.samples:
            series = sample.name, tuple(sample.labels.items())
            if is_summed:
                self.values[series] = self.values.get(series, 0.0) + sample.value
            else:
                self.values.setdefault(series, sample.value)

    def family(self) -> Metric:
        """Give what was added."""
        merged = Metric(self.first.name, self.first.documentation, self.first.type)
        for (name, labels), value in self.values.items():
            merged.add_sample(name, dict(labels), value)
        return merged


def merge(processes: Iterable[Iterable[Metric]], taken: Container[str]) -> list[Metric]:
    """Make one family of all that bear one name; what is `taken` is left out, as is what is of a
    process alone: its memory, and when its series began.
    """
    merged: dict[str, _Merged] = {}
    for family in chain.from_iterable(processes):
        if family.name not in taken and not _is_of_one(family.name):
            merged.setdefault(family.name, _Merged(family)).add(family)
    return [each.family() for each in merged.values()]


def _is_of_one(name: str) -> bool:
    return name.startswith("process_") or name.endswith("_created")
