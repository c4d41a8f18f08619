"""Overflow routing: send a job that would be late on its planned queue elsewhere. Pure.

A plan is made for what is expected of the next seconds. Where more comes than its workers end in
time, a job goes to the best other level that still is in time, of any model that workers serve; if
none is, to the one that is done first. So quality falls before anyone waits, between two plans too.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from core.application import Application
from core.boards.plan import Plan
from core.levels.level import Level, exact_level
from core.placement import Placement, PlacementQuery
from scheduler.placement.backlog import Backlog
from scheduler.profile.profile import Profile

#: Lists of levels that are remembered, by what may be asked for.
MOST_WAYS = 1000


@dataclass(frozen=True, slots=True)
class PlacedQuality:
    """What was placed so far."""

    jobs: int = 0
    quality: float = 0.0  #: of their classes at their levels, added up


class Overflow:
    """Finds a better place for a job that would be late, by what waits where."""

    def __init__(
        self, profile: Profile, *, on_overflow: Callable[[str, str], object] = lambda old, new: None
    ) -> None:
        """Know of no worker yet; `on_overflow` hears from which model to which a job went."""
        self.profile = profile  #: with the classes of the classifier in use
        self._on_overflow = on_overflow
        self.backlog = Backlog(profile.models)
        self._plan: Plan | None = None  #: the last one that was asked about, and of its levels
        self._placed = PlacedQuality()  #: but for what follows
        self._sent: Counter[tuple[str, str]] = Counter()  #: class, level -> jobs
        #: that plan, `profile` then, and what it says of prompts where that plan is in force
        self._known: tuple[Plan, Profile, Profile] | None = None
        self._ways: dict[tuple[tuple[str, ...], str, bool], Sequence[Level]] = {}

    def relieve(
        self,
        placement: Placement,
        late_s: float,
        query: PlacementQuery,
        plan: Plan,
        application: Application | None = None,
    ) -> Placement:
        """Find a better placement for a job that would be so late; it stays if there is none."""
        best = self._best(placement, late_s, query, plan, application)
        if best == placement.at:
            return placement
        self._on_overflow(placement.model, best.model)
        return placement.moved(best)

    def count(self, placement: Placement) -> None:
        """Count a job at the level where it was placed."""
        self._sent[placement.affinity, placement.level] += 1

    def tally(self, plan: Plan) -> PlacedQuality:
        """Add up what was placed so far, by the qualities that hold where a plan is in force."""
        profile, known = self._profile_of(plan), self._placed
        for (affinity, name), jobs in self._sent.items():
            level = Level.read(name)
            if level.model in profile.models:
                worth = jobs * profile.quality(affinity, level)
                known = PlacedQuality(known.jobs + jobs, known.quality + worth)
        self._placed = known
        self._sent.clear()
        return known

    def _best(
        self,
        placement: Placement,
        planned_late_s: float,
        query: PlacementQuery,
        plan: Plan,
        application: Application | None,
    ) -> Level:
        planned, affinity = placement.at, placement.affinity
        floor = application.quality_floor if application is not None else 0.0
        profile = self._profile_of(plan)
        best, best_rank = planned, (False, -planned_late_s)
        for level in self._others(planned, query, plan):
            late_s = self.backlog.late_s(level, query, plan)
            if late_s is None:
                continue
            is_late = late_s > 0
            quality = 0.0 if is_late and not floor else profile.quality(affinity, level)
            if quality < floor:
                continue
            rank = (False, -late_s) if is_late else (True, quality)
            if rank > best_rank:
                best, best_rank = level, rank
        return best

    def _profile_of(self, plan: Plan) -> Profile:
        """Take prompts for as good as the plan does, class by class, where it leaves out steps."""
        known = self._known
        if known is None or known[0] is not plan or known[1] is not self.profile:
            resumes = any(Level.read(name).approximation.needs_latents for name in plan.usable)
            taken = replace(self.profile, can_resume=True) if resumes else self.profile
            known = self._known = (plan, self.profile, taken)
        return known[2]

    def _others(self, planned: Level, query: PlacementQuery, plan: Plan) -> Sequence[Level]:
        """List the other levels of models that workers serve: fewer steps of its own as well."""
        if plan is not self._plan or len(self._ways) >= MOST_WAYS:
            self._plan, self._ways = plan, {}
        key = (query.models, planned.name, query.can_resume)
        found = self._ways.get(key)
        if found is None:
            kept = set(plan.resident).intersection(query.models)
            names = (*plan.usable, *plan.levels) if query.can_resume else ()
            usable = {x for x in map(Level.read, names) if x.model in kept}
            every = usable | {exact_level(model) for model in kept}
            found = self._ways[key] = sorted(every - {planned})
        return found
