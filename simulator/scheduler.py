"""The scheduler itself in virtual time: its placer and its plan loop, over fakes of its stores."""

import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

from core.boards.plan import Plan
from core.errors import AllocationError
from core.levels.level import resumed_levels
from core.placement import Answer, Placement, PlacementQuery
from loadgen.prompts import PromptSet
from scheduler.allocation.registry import find_policy
from scheduler.approximate_cache.hit_rates import HitRates
from scheduler.approximate_cache.strategy import PROBED, Dependency, StrategySwitch
from scheduler.metrics import Metrics
from scheduler.placement.admission import AdmissionControl
from scheduler.placement.dispatch import Dispatcher
from scheduler.placement.overflow import Overflow
from scheduler.placement.placer import Placer
from scheduler.placement.step_cost import PlannedCosts
from scheduler.placement.worker_batches import Batches
from scheduler.planning.decide import Decision
from scheduler.planning.level_estimates import Outlook
from scheduler.planning.loop import POLL_S, PlanLoop
from scheduler.profile.profile import Profile
from scheduler.routing.classify import ANY
from simulator.fleet.workers import SETTINGS, SimulatedFleet
from simulator.outcome import PlanNote
from simulator.timeline import START_S, Sleep, Timeline
from simulator.world import World

T = TypeVar("T")

#: Index and store are probed so often (scheduler/approximate_cache/probe).
PROBE_S = 1.0
#: Lookups that have found something before the first request: the index has been filled for long.
LOOKUPS = 1000


class KnownClasses:
    """Names the class of a prompt as the file of prompts has it."""

    def __init__(self, prompts: PromptSet) -> None:
        self._known = {
            text: name or ANY for text, name in zip(prompts.texts, prompts.classes, strict=True)
        }
        self.classes = tuple(sorted(set(self._known.values()))) or (ANY,)

    def classify(self, prompts: Sequence[str]) -> list[str]:
        """Name the class of each prompt, in order."""
        return [self._known.get(prompt, ANY) for prompt in prompts]


class Board:
    """Where the one scheduler there is leads and publishes."""

    def __init__(self, on_plan: Callable[[Plan], None]) -> None:
        self._on_plan = on_plan
        self._plan: Plan | None = None

    async def publish(self, plan: Plan) -> bool:
        """Put a plan in force."""
        self._plan = plan
        self._on_plan(plan)
        return True

    async def read(self) -> Plan | None:
        """Read the plan in force."""
        return self._plan

    async def acquire(self) -> int | None:
        """Lead."""
        return 1

    async def renew(self) -> bool:
        """Go on leading."""
        return True

    async def release(self) -> None:
        """Lead no more."""


class SimulatedScheduler:
    """One scheduler, as `run/scheduler` puts it together."""

    def __init__(
        self,
        world: World,
        policy: str,
        timeline: Timeline,
        fleet: SimulatedFleet,
        *,
        has_edits: bool,
        on_plan: Callable[[Plan], None],
    ) -> None:
        """Prepare; `on_plan` hears of each plan that is published.

        Raises:
            ConfigurationError: there is no such policy.
        """
        profile = world.profile
        self._world, self._timeline, self._fleet = world, timeline, fleet
        self._decided: tuple[Decision, float] | None = None
        self._on_plan, self._has_edits = on_plan, has_edits
        self._resumed: dict[str, bool] = {}  #: level -> whether it goes on from latents
        self.failures = 0  #: rounds in which the solver found no plan
        self.notes: list[PlanNote] = []
        metrics = Metrics()
        costs = PlannedCosts(profile, lambda: self.placer.plan)
        self._batches = Batches(costs, stale_s=SETTINGS.worker_stale_s)
        self._overflow = Overflow(profile)
        admission = AdmissionControl(max_queue=SETTINGS.max_queue)
        self.placer = Placer(
            profile.models,
            KnownClasses(world.prompts),
            Dispatcher(self._batches),
            self._overflow,
            admission,
        )
        self.placer.applications = dict(world.applications)
        self.switch = StrategySwitch()
        board = Board(self._publish)
        self._loop = PlanLoop(
            self.placer,
            Outlook(profile, metrics, hits=_hits(profile), switch=self.switch),
            find_policy(policy),
            policy_name=policy,
            fleet=fleet,
            board=board,
            leader=board,
            period_s=world.period_s,
            metrics=metrics,
            clock=timeline.clock,
            deciding=self._decide,
        )

    def start(self, now: float) -> None:
        """Begin to read reports, and to plan."""
        self._timeline.every(POLL_S, self._look, first=now + POLL_S / 2)
        self._timeline.every(PROBE_S, self._probe, first=now + PROBE_S)
        self._round(now)

    def start_latents(self, answer: Answer, now: float) -> Answer:
        """Find the latents that a job is to start from, unless the index stalls."""
        if not isinstance(answer, Placement) or not self._needs_latents(answer):
            return answer
        if not self.switch.allows_latents:
            return answer.from_noise()
        is_good = not (self._world.stalls and self.is_stalled(Dependency.INDEX, now))
        self.switch.see(Dependency.INDEX, good=is_good, bad=not is_good, now=now)
        return answer if is_good else answer.from_noise()

    def is_in_time(
        self, placement: Placement, query: PlacementQuery, deadline_s: float, ahead: int
    ) -> bool:
        """Tell whether a job that has so many on its queue before it is made by its deadline.

        As `api/services/deadlines` does: nobody is refused on a guess.
        """
        backlog = self._overflow.backlog
        station = backlog.foreseen(placement.queue, self.placer.plan, self._timeline.now)
        if station is None or not station.is_known:
            return True
        work = backlog.work_of(placement.at, query)
        return station.can_meet(work, ahead * station.job_images, deadline_s)

    def _needs_latents(self, placement: Placement) -> bool:
        needs = self._resumed.get(placement.level)
        if needs is None:
            needs = self._resumed[placement.level] = placement.approximation.needs_latents
        return needs

    def is_stalled(self, whom: Dependency, now: float) -> bool:
        """Tell whether somebody answers nobody now."""
        at, stalls = now - START_S, self._world.stalls
        return bool(stalls) and any(s.whom is whom and s.begin_s <= at < s.end_s for s in stalls)

    def _round(self, now: float) -> None:
        del now
        again = partial(self._timeline.at, act=self._round)
        self._timeline.drive(self._try_round(), lambda: again(self._timeline.now + POLL_S))

    async def _try_round(self) -> None:
        try:
            await self._loop.round()
        except AllocationError:
            self.failures += 1

    async def _decide(
        self, decide: Callable[[], Decision], renew: Callable[[], Awaitable[bool]]
    ) -> Decision:
        """Let as much virtual time pass as a decision takes."""
        del renew
        began = time.process_time()
        decision = decide()
        taken_s = time.process_time() - began
        self._decided = (decision, taken_s)
        wait_s = taken_s if self._world.deciding_s is None else self._world.deciding_s
        await Sleep(wait_s)
        return decision

    def _publish(self, plan: Plan) -> None:
        assert self._decided is not None
        decision, taken_s = self._decided
        self.notes.append(
            PlanNote(
                at_s=self._timeline.now - START_S,
                demand=sum(decision.demand.values()),
                quality=decision.quality,
                saturation=decision.saturation,
                deciding_s=taken_s,
            )
        )
        self._on_plan(plan)

    def _look(self, now: float) -> None:
        """Read reports and depths, as `scheduler/service/reports` does."""
        change = self._fleet.change()
        if self._has_edits:
            self._batches.hear(change, now)
        self._overflow.backlog.hear(change, now)
        self._overflow.backlog.measure(_now(self._fleet.depths()), now)

    def _probe(self, now: float) -> None:
        for whom in PROBED:
            is_good = not self.is_stalled(whom, now)
            self.switch.see(whom, good=is_good, bad=not is_good, now=now)


def _hits(profile: Profile) -> HitRates | None:
    """Know that prompts find latents, where there are levels that need some."""
    levels = [level.name for model in profile.models.values() for level in resumed_levels(model)]
    if not levels:
        return None
    hits = HitRates(levels)
    for level in levels:
        for _ in range(LOOKUPS):
            hits.observe(level, is_hit=True)
    return hits


def _now(found: Coroutine[Any, Any, T]) -> T:
    """Run what awaits nothing."""
    try:
        found.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    raise RuntimeError("it waits for something")
