"""INFaaS-Accuracy baseline: greedy, one change of model at a time. Pure.

Taken from Proteus §6.1.1: INFaaS' heuristic with accuracy as its objective and the fixed fleet as
its constraint. Each application starts with its fastest models and changes workers to better ones
while all of its prompts can still be served, the change that gains most accuracy for the
throughput it costs first. Simplified: the demand is known, where INFaaS reacts to each query;
workers are divided among applications each period (`division`).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import floor, inf

from core.levels.level import Level
from scheduler.allocation.policies.worker_partition import Share, serve_divided
from scheduler.allocation.problem import Allocation, Instance, Slot

EPSILON = 1e-9  #: of a worker, that rounding may cost

Held = tuple[str, Level]  #: device type, level that its workers serve


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Workers of one type go over from one model to a better one."""

    device_type: str
    old: Level
    new: Level
    accuracy: float  #: gained, above 0
    throughput: float  #: lost by each worker, jobs/s; negative if it gains

    @property
    def ratio(self) -> float:
        """Accuracy gained for throughput lost."""
        return self.accuracy / self.throughput if self.throughput > 0 else inf

    def affordable(self, workers: int, spare: float) -> int:
        """Count the workers that can change, of so many, for so many jobs/s to spare."""
        if self.throughput <= 0:
            return workers
        return max(0, min(workers, floor(spare / self.throughput + EPSILON)))


def infaas(instance: Instance) -> Allocation:
    """Change models greedily from the fastest to the most accurate that the load allows.

    Raises: AllocationError if there is no allocation.
    """
    return serve_divided(instance, _fill)


def _fill(share: Share) -> dict[Slot, int]:
    counts: Counter[Held] = Counter()
    for t, workers in share.workers.items():
        counts[t, max(share.options(t), key=lambda x: (share.rate(x, t), x))] = workers
    spare = sum(n * share.rate(x, t) for (t, x), n in counts.items()) - share.demand.rate
    while changes := dict(_affordable(share, counts, spare)):
        best = max(changes, key=lambda each: (each.ratio, each.device_type, each.new))
        counts[best.device_type, best.old] -= changes[best]
        counts[best.device_type, best.new] += changes[best]
        spare -= changes[best] * best.throughput
    return {(t, level.model): n for (t, level), n in counts.items()}


def _affordable(
    share: Share, counts: Mapping[Held, int], spare: float
) -> Iterator[tuple[Change, int]]:
    """List the changes that leave nobody unserved, each with the workers it is affordable for."""
    for (t, old), workers in counts.items():
        for new in share.options(t):
            accuracy = share.accuracy(new) - share.accuracy(old)
            throughput = share.rate(old, t) - share.rate(new, t)
            change = Change(
                device_type=t, old=old, new=new, accuracy=accuracy, throughput=throughput
            )
            if accuracy > 0 and (count := change.affordable(workers, spare)):
                yield change, count
