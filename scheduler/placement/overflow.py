"""Overflow routing: send a job that would be late on its planned queue elsewhere. Pure.

A plan is made for what is expected of the next seconds. Where more comes than its workers end in
time, a job goes to the best other level that still is in time, of any model that workers serve; if
none is, to the one that is done first. So quality falls before anyone waits, between two plans too.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from core.application import Application
from core.boards.fleet import QueueDepth, Worker
from core.boards.plan import Plan
from core.levels.level import Level, exact_level
from core.placement import Placement, PlacementQuery, queue_of
from scheduler.placement.backlog import Backlog
from scheduler.profile.profile import Profile
from scheduler.routing.eta import Work

#: Lists of levels that are remembered, by what may be asked for.
MOST_WAYS = 1000


@dataclass(frozen=True, slots=True)
class PlacedQuality:
    """What was placed so far."""

    jobs: int = 0
    quality: float = 0.0  #: of their classes at their levels, added up


class Overflow:
    """Knows what waits where: what workers and queues report, and what was sent there since."""

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
        self._works: dict[tuple[str, int, float, int], Work] = {}
        self._ways: dict[tuple[tuple[str, ...], str, bool], Sequence[Level]] = {}

    def see(self, workers: Sequence[Worker], depths: Sequence[QueueDepth], now: float) -> None:
        """Take in the reports of all workers, and of the queues."""
        self.backlog.see(workers, depths, now)

    def relieve(
        self,
        placement: Placement,
        query: PlacementQuery,
        plan: Plan,
        application: Application | None = None,
    ) -> Placement:
        """Keep a placement that is in time or cannot be foreseen; else find a better one."""
        found = placement
        if query.slo_s is not None and not query.exact and not query.works:
            found = self._relieved(placement, query, plan, application)
        if found is not placement:
            self._on_overflow(placement.model, found.model)
        if not query.is_again:
            self._sent[found.affinity, found.level] += 1
        return found

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

    def work_of(self, level: Level, query: PlacementQuery) -> Work:
        """Count the steps that a job has before it at a level."""
        steps = query.steps or self.profile.models[level.model].default_steps
        key = (level.name, steps, query.share, query.rows)
        found = self._works.get(key)
        if found is None:
            if len(self._works) >= MOST_WAYS:
                self._works = {}
            left = level.approximation.steps_left(int(steps * query.share))
            found = self._works[key] = Work(steps=left, images=query.rows)
        return found

    def _relieved(
        self,
        placement: Placement,
        query: PlacementQuery,
        plan: Plan,
        application: Application | None,
    ) -> Placement:
        planned, affinity = placement.at, placement.affinity
        late_s = self._late_s(planned, query, plan)
        if late_s is None or late_s <= 0:
            return placement
        floor = application.quality_floor if application is not None else 0.0
        profile = self._profile_of(plan)
        best, best_rank = planned, (False, -late_s)
        for level in self._others(planned, query, plan):
            late_s = self._late_s(level, query, plan)
            if late_s is None:
                continue
            is_late = late_s > 0
            quality = 0.0 if is_late and not floor else profile.quality(affinity, level)
            if quality < floor:
                continue
            rank = (False, -late_s) if is_late else (True, quality)
            if rank > best_rank:
                best, best_rank = level, rank
        return placement if best is planned else placement.moved(best)

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

    def _late_s(self, level: Level, query: PlacementQuery, plan: Plan) -> float | None:
        """Expect how much later than promised a job is done; None if that is a guess."""
        queue = queue_of(level.model)
        station = self.backlog.station(queue, plan)
        if station is None or not station.is_known or query.slo_s is None:
            return None
        ahead = self.backlog.ahead(queue, is_batch=query.is_batch, tenant=query.tenant or "")
        return station.late_s(self.work_of(level, query), ahead, query.slo_s)
