"""Replan triggers: changes that call for a new plan before the period ends. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from core.application import Application
from core.boards.fleet import Worker
from core.boards.plan import Strategy

Settled = frozenset[tuple[str, str]]  #: worker, model


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplanTriggers:
    """What a plan is made for, of all that may change at any time."""

    #: worker, device type, memory in GiB, models that it has in its folder
    fleet: frozenset[tuple[str, str, float, tuple[str, ...]]] = frozenset()
    settled: Settled = frozenset()  #: workers that hold what the plan before gave them
    applications: Mapping[str, Application] = field(default_factory=dict)  #: by key
    strategy: tuple[Strategy, float] = (Strategy.AC, 1.0)  #: and the margin
    wanted: frozenset[str] = frozenset()  #: models asked for by name that nobody holds
    stranded: frozenset[str] = frozenset()  #: models that have been waited for too long

    def is_new_after(self, before: "ReplanTriggers") -> bool:
        """Tell whether a plan made for `before` lacks something."""
        mine = (self.fleet, self.applications, self.strategy)
        if mine != (before.fleet, before.applications, before.strategy):
            return True
        has_loaded = not self.settled <= before.settled
        return has_loaded or not (self.wanted <= before.wanted and self.stranded <= before.stranded)


def fleet_of(workers: Sequence[Worker]) -> frozenset[tuple[str, str, float, tuple[str, ...]]]:
    """Say what a plan depends on of each worker, whatever it does."""
    return frozenset([(w.name, w.device_type, w.memory_gib, w.catalogue) for w in workers])


def settled(workers: Sequence[Worker], given: Mapping[str, str]) -> Settled:
    """List the workers that hold the model given to them, and which one that is."""
    return frozenset([(w.name, m) for w in workers for m in w.models if given.get(w.name) == m])
