"""Gather, decide, apply: the only file that reads the fleet and publishes plans.

A round reads the fleet about twice a second. The leader decides anew once a period, and at once
when a worker comes or goes, when somebody names a model that nobody holds, and when more arrives
than it planned for; the others tell it what they are asked for and follow what it publishes.
Whatever fails, the last good plan stays.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from core.application import Application
from core.cost import Cost
from core.demand import Asked
from core.errors import AllocationError, AtelierError, Unavailable
from core.fleet import QueueDepth, Worker
from core.log import get_logger
from core.plan import Plan
from scheduler.assign import settle
from scheduler.census import Census, Peers
from scheduler.decide import Decision, Snapshot, decide
from scheduler.demand import shares
from scheduler.hits import HitRates
from scheduler.metrics import Metrics
from scheduler.placer import Placer
from scheduler.policies import Policy
from scheduler.profile import Profile

POLL_S = 0.5  #: how often the fleet is read
ABSENCE_S = 60.0  #: the plan outlives its last worker by this: jobs wait while it starts again
BURST_GAP_S = 1.0  #: between two plans while more arrives than the last one was made for
RENEW_S = 0.5  #: how often the lead is renewed while the solver works
READY_S = 5.0  #: a loop without a good round for so long is not ready

Surroundings = tuple[Sequence[tuple[str, str, float]], Mapping[str, Application]]
Reason = tuple[Surroundings, frozenset[str]]  #: fleet and applications, models wanted

log = get_logger(__name__)


class Fleet(Protocol):
    """What the workers and the queues say."""

    async def workers(self) -> Sequence[Worker]: ...
    async def depths(self) -> Sequence[QueueDepth]: ...


class Registry(Protocol):
    """Where applications are registered."""

    async def all(self) -> Sequence[Application]: ...


class Board(Protocol):
    """Where the plan is published."""

    async def publish(self, plan: Plan) -> bool: ...
    async def read(self) -> Plan | None: ...


class Leader(Protocol):
    """The right to publish, held by one scheduler at a time."""

    async def acquire(self) -> int | None: ...
    async def renew(self) -> bool: ...
    async def release(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Another way to tell prompts apart, and what levels are worth to its classes."""

    classes: tuple[str, ...]
    profile: Profile
    take_force: Callable[[], None]  #: called with the first plan that counts on it


class PlanLoop:
    """Keeps the plan in step with the fleet and the demand."""

    def __init__(
        self,
        placer: Placer,
        profile: Profile,
        policy: Policy,
        *,
        policy_name: str,
        fleet: Fleet,
        board: Board,
        leader: Leader,
        period_s: float,
        metrics: Metrics,
        hits: HitRates | None = None,
        registry: Registry | None = None,
        peers: Peers | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._placer = placer
        self._profile = profile
        self._policy = policy
        self._policy_name = policy_name
        self._fleet = fleet
        self._board = board
        self._leader = leader
        self._period_s = period_s
        self._metrics = metrics
        self._hits = hits  #: where jobs may start from the latents of others
        self._registry = registry
        self._census = Census(placer, metrics, peers)
        self._clock = clock
        self._fence: int | None = None
        self._decided_at = float("-inf")
        self._decided_for: Reason = (((), {}), frozenset())
        self._seen: dict[tuple[str, str], Cost] = {}  # what workers have tried, gone or not
        self._assigned: dict[str, tuple[str, float]] = {}  # worker -> model, since when
        self._next: Outlook | None = None  # from the next plan on
        self._seen_at = float("-inf")  # some worker
        self._good_at = float("-inf")
        self._complaint = ""

    @property
    def is_leader(self) -> bool:
        return self._fence is not None

    @property
    def is_ready(self) -> bool:
        """Say whether a round has gone well lately."""
        return self._clock() - self._good_at < READY_S

    def adopt(self, outlook: Outlook) -> None:
        """Tell prompts apart in another way from the next plan on, which is decided at once."""
        self._next = outlook
        self._decided_at = float("-inf")

    async def run(self) -> None:
        """Do rounds until cancelled, then let another scheduler lead at once."""
        try:
            while True:
                await self._try_round()
                await asyncio.sleep(POLL_S)
        finally:
            await self._step_down()

    async def round(self) -> None:
        """Read the fleet; publish a new plan if there is reason to.

        Raises:
            Unavailable: the store does not answer.
            AllocationError: the solver found no plan.
        """
        await self._read_applications()
        if not await self._lead():
            await self._follow_board()
            await self._census.tell(self._clock())
            return
        workers = await self._fleet.workers()
        depths = await self._fleet.depths()
        self._metrics.see_fleet(len(workers), depths)
        now = self._clock()
        self._seen_at = now if workers else self._seen_at
        asked = await self._census.asked(now)
        if self._is_due(workers, asked, now) and not self._is_absent_briefly(workers, now):
            self._decided_at, self._decided_for = now, self._reason(workers, asked)
            await self._publish(await self._decide(workers, depths, asked, now), now)

    async def _try_round(self) -> None:
        try:
            await self.round()
        except (Unavailable, AllocationError) as error:
            self._complain(type(error).__name__, str(error))
            if isinstance(error, Unavailable):  # decide again as soon as the store is back
                self._decided_at = float("-inf")
        except Exception as error:  # a bug must not end planning: the last plan stays
            self._complain(type(error).__name__, str(error))
            log.exception("round_failed")
        else:
            self._good_at = self._clock()
            self._complaint = ""

    def _complain(self, reason: str, detail: str) -> None:
        self._metrics.see_failure(reason)
        if reason != self._complaint:
            log.warning("no_new_plan", reason=reason, detail=detail)
        self._complaint = reason

    async def _lead(self) -> bool:
        if self._fence is not None and await self._leader.renew():
            return True
        self._fence = await self._leader.acquire()
        if self._fence is not None:
            await self._follow_board()
            self._seen_at = max(self._seen_at, self._placer.plan.made_at)
            self._decided_at = float("-inf")
            log.info("leads", fence=self._fence)
        self._metrics.see_leadership(self.is_leader)
        return self.is_leader

    async def _read_applications(self) -> None:
        if self._registry is not None:
            found = await self._registry.all()
            self._placer.applications = {each.key: each for each in found}

    async def _follow_board(self) -> None:
        plan = await self._board.read()
        if plan is not None and plan != self._placer.plan:
            self._census.note_plan(self._clock())
            self._follow(plan)

    def _follow(self, plan: Plan) -> None:
        self._placer.follow(plan)
        if self._next is not None:  # classes and what they are worth change together
            self._profile = self._next.profile
            self._next.take_force()
            self._next = None
        self._metrics.see_plan(plan)

    def _is_due(self, workers: Sequence[Worker], asked: Asked, now: float) -> bool:
        around, wanted = self._reason(workers, asked)
        is_news = around != self._decided_for[0] or not wanted <= self._decided_for[1]
        patience_s = BURST_GAP_S if asked.is_burst else self._period_s
        return is_news or now - self._decided_at >= patience_s

    def _reason(self, workers: Sequence[Worker], asked: Asked) -> Reason:
        """Whatever calls for another plan before the period is over, if it is new."""
        fleet = tuple(sorted((w.name, w.device_type, w.memory_gib) for w in workers))
        return (fleet, self._placer.applications), frozenset(asked.wanted)

    def _is_absent_briefly(self, workers: Sequence[Worker], now: float) -> bool:
        has_plan = bool(self._placer.plan.assignments)
        return not workers and has_plan and now - self._seen_at < ABSENCE_S

    async def _decide(
        self, workers: Sequence[Worker], depths: Sequence[QueueDepth], asked: Asked, now: float
    ) -> Decision:
        snapshot = self._snapshot(workers, depths, asked, now)
        self._census.note_plan(now)
        started_at = time.perf_counter()
        deciding = asyncio.create_task(
            asyncio.to_thread(decide, snapshot, self._expected(workers), self._policy)
        )
        while not (await asyncio.wait({deciding}, timeout=RENEW_S))[0]:
            await self._leader.renew()  # if it is lost all the same, publishing finds out
        decision = await deciding
        self._metrics.see_decision(time.perf_counter() - started_at, decision.quality)
        self._note_assignments(workers, decision, now)
        return decision

    def _expected(self, workers: Sequence[Worker]) -> Profile:
        """Say what levels cost and give now, with the share of prompts that find a start."""
        for worker in workers:
            self._seen |= {(worker.device_type, m): cost for m, cost in worker.costs.items()}
        known = self._next.profile if self._next is not None else self._profile
        profile = replace(known, seen=dict(self._seen))
        if self._hits is None:
            return profile
        rates = self._hits.rates()
        self._metrics.see_hit_rates(rates)
        return replace(profile, can_resume=True, hit_rates=rates)

    def _snapshot(
        self, workers: Sequence[Worker], depths: Sequence[QueueDepth], asked: Asked, now: float
    ) -> Snapshot:
        return Snapshot(
            workers=workers,
            depths=depths,
            rates=dict(asked.rates),
            affinity={name: shares(counts) for name, counts in asked.classes.items()},
            previous=self._placer.plan.assignments,
            settling=settle(workers, self._assigned, self._profile.load_s, now),
            applications=self._placer.applications,
            classes=self._next.classes if self._next else self._placer.classifier.classes,
        )

    def _note_assignments(self, workers: Sequence[Worker], decision: Decision, now: float) -> None:
        """Remember since when each worker has its model, so that loads are not undone at once."""
        assigned: dict[str, tuple[str, float]] = {}
        for worker in workers:
            model = decision.assignments.get(worker.name)
            if model is None:
                continue
            since = float("-inf") if model in worker.models else now
            before = self._assigned.get(worker.name)
            assigned[worker.name] = before if before and before[0] == model else (model, since)
        self._assigned = assigned

    async def _publish(self, decision: Decision, now: float) -> None:
        before = self._placer.plan
        plan = Plan(
            version=before.version + 1,
            fence=self._fence or 0,
            made_at=now,
            policy=self._policy_name,
            assignments=decision.assignments,
            pasm=decision.pasm,
            demand=decision.demand,
            affinity=decision.affinity,
            levels=decision.levels,
            saturation=decision.saturation,
            costs=decision.costs,
        )
        if not await self._board.publish(plan):
            log.warning("lead_lost", fence=self._fence)
            self._fence = None
            return
        self._follow(plan)
        if plan.assignments != before.assignments:
            log.info("plan_changed", version=plan.version, assignments=dict(plan.assignments))

    async def _step_down(self) -> None:
        if self._fence is None:
            return
        try:
            await self._leader.release()
        except AtelierError as error:
            log.warning("lease_kept", error=str(error))
        self._fence = None
