"""Replan triggers: changes that call for a new plan before the period ends. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from core.application import Application
from core.boards.fleet import Worker
from core.boards.plan import Strategy
from scheduler.planning.snapshot import Snapshot
from scheduler.planning.stranded import stranded
from scheduler.profile.profile import Profile

Settled = frozenset[tuple[str, str]]  #: worker, model
#: worker, device type, memory in GiB, models that it has in its folder
FleetParts = frozenset[tuple[str, str, float, tuple[str, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplanTriggers:
    """What a plan is made for, of all that may change at any time."""

    fleet: FleetParts = frozenset()
    settled: Settled = frozenset()  #: workers that hold what the plan before gave them
    applications: Mapping[str, Application] = field(default_factory=dict)  #: by key
    strategy: tuple[Strategy, float] = (Strategy.AC, 1.0)  #: and the margin
    wanted: frozenset[str] = frozenset()  #: models asked for by name that nobody holds
    stranded: frozenset[str] = frozenset()  #: models that have been waited for too long

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        profile: Profile,
        *,
        fleet: FleetParts,
        settled: Settled,
        strategy: Strategy,
    ) -> "ReplanTriggers":
        """Say what a plan of this snapshot is made for."""
        return cls(
            fleet=fleet,
            settled=settled,
            applications=snapshot.applications,
            strategy=(strategy, snapshot.margin),
            wanted=frozenset(snapshot.wanted),
            stranded=stranded(snapshot, profile),
        )

    def is_new_after(self, before: "ReplanTriggers") -> bool:
        """Tell whether a plan made for `before` lacks something."""
        if self.fleet is not before.fleet and self.fleet != before.fleet:
            return True
        if (self.applications, self.strategy) != (before.applications, before.strategy):
            return True
        has_loaded = self.settled is not before.settled and not self.settled <= before.settled
        return has_loaded or not (self.wanted <= before.wanted and self.stranded <= before.stranded)


def fleet_of(workers: Sequence[Worker]) -> FleetParts:
    """Say what a plan depends on of each worker, whatever it does."""
    return frozenset([(w.name, w.device_type, w.memory_gib, w.catalogue) for w in workers])


def settled(workers: Sequence[Worker], given: Mapping[str, str]) -> Settled:
    """List the workers that hold the model given to them, and which one that is."""
    return frozenset([(w.name, m) for w in workers for m in w.models if given.get(w.name) == m])


@dataclass(frozen=True, slots=True)
class FleetNews:
    """What differs from the look before."""

    changed: Sequence[Worker]  #: who said something new, in order
    is_lasting: bool  #: somebody came or left, or said more than how busy it is


class FleetLooks:
    """Compares each look at the fleet with the one before."""

    def __init__(self) -> None:
        """Have seen nobody."""
        self._before: Sequence[Worker] = ()

    def look(self, workers: Sequence[Worker]) -> FleetNews:
        """Say what is new."""
        before, self._before = self._before, workers
        if len(before) != len(workers):
            return FleetNews(workers, is_lasting=True)
        pairs = [(was, now) for was, now in zip(before, workers, strict=True) if was is not now]
        is_lasting = not all(_is_alike(was, now) for was, now in pairs)
        return FleetNews([now for _, now in pairs], is_lasting)


class LastingFleet:
    """What a plan depends on of the workers, found again only where something of it changed."""

    def __init__(self) -> None:
        """Have seen nobody."""
        self._fleet: FleetParts = frozenset()
        self._settled: Settled | None = None
        self._given: Mapping[str, str] = {}

    def look(
        self, workers: Sequence[Worker], news: FleetNews, given: Mapping[str, str]
    ) -> tuple[FleetParts, Settled]:
        """Say what each worker is, and which of them hold the model given to them."""
        if news.is_lasting:
            self._fleet, self._settled = fleet_of(workers), None
        if self._settled is None or given is not self._given:
            self._settled, self._given = settled(workers, given), given
        return self._fleet, self._settled


def _is_alike(was: Worker, now: Worker) -> bool:
    """Tell whether a worker is what it was, however busy."""
    return (
        was.name == now.name
        and was.models == now.models
        and was.slowness == now.slowness
        and was.loading == now.loading
        and was.device_type == now.device_type
        and was.memory_gib == now.memory_gib
        and was.catalogue == now.catalogue
        and _has_measured_alike(was, now)
    )


def _has_measured_alike(was: Worker, now: Worker) -> bool:
    return was.costs == now.costs and was.load_s == now.load_s and was.needs_gib == now.needs_gib
