"""The planning loop: gather, decide, apply. Only this file publishes plans.

A round reads the fleet about twice a second. The leader decides anew once a period, and at once
when a replan trigger fires (`scheduler/planning/replan_triggers`) or more arrives than it planned
for; the others follow the plan it publishes. All report their demand, for whoever leads. Whatever
fails, the last good plan stays.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

from core.boards.fleet import QueueDepth, Worker
from core.boards.plan import Plan
from core.errors import AllocationError, AtelierError, Unavailable
from core.log import get_logger
from core.schema import SCHEMA, Versioned
from scheduler.allocation.registry import Policy
from scheduler.demand.demand import shares
from scheduler.metrics import Metrics
from scheduler.placement.placer import Placer
from scheduler.planning.decide import Decision, decide
from scheduler.planning.deciding import Deciding, in_thread
from scheduler.planning.demand_aggregation import DemandAggregator, UrgentDemand
from scheduler.planning.level_estimates import Outlook
from scheduler.planning.promises import Promises
from scheduler.planning.protocols import Fleet, Leader, PlanPublisher, Registry, Successor
from scheduler.planning.replan_triggers import (
    FleetLooks,
    LastingFleet,
    ReplanTriggers,
)
from scheduler.planning.settling import SettlingTimes
from scheduler.planning.snapshot import Snapshot, of_models
from storage.boards.demand import Peers

POLL_S = 0.5  #: how often the fleet is read
ABSENCE_S = 60.0  #: the plan outlives its last worker by this: jobs wait while it starts again
BURST_GAP_S = 1.0  #: between two plans while more arrives than the last one was made for
MOST_NAMED = 8  #: workers that a line of the log names
READY_S = 5.0  #: a loop without a good round for so long is not ready

log = get_logger(__name__)


class PlanLoop:
    """Keeps the plan in step with the fleet and the demand."""

    def __init__(
        self,
        placer: Placer,
        outlook: Outlook,
        policy: Policy,
        *,
        policy_name: str,
        fleet: Fleet,
        board: PlanPublisher,
        leader: Leader,
        period_s: float,
        metrics: Metrics,
        registry: Registry | None = None,
        peers: Peers | None = None,
        clock: Callable[[], float] = time.time,
        deciding: Deciding = in_thread,
        tells_capacity: bool = False,
    ) -> None:
        self._placer = placer
        self._policy = policy
        self._policy_name = policy_name
        self._fleet = fleet
        self._board = board
        self._leader = leader
        self._period_s = period_s
        self._metrics = metrics
        self._outlook = outlook
        self._looks, self._lasting = FleetLooks(), LastingFleet()
        self._registry = registry
        self._demand = DemandAggregator(placer, metrics, peers)
        self._clock = clock
        self._deciding = deciding
        self._tells_capacity = tells_capacity
        self._fence: int | None = None
        self._decided_at = float("-inf")
        self._decided_for = ReplanTriggers()
        self._settling = SettlingTimes()
        self._promises = Promises()
        self._successor: Successor | None = None
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

    def adopt(self, successor: Successor) -> None:
        """Plan for another classifier from now on, at once; it takes force with the plan."""
        self._successor = successor
        self._outlook.profile = successor.profile
        self._decided_at = float("-inf")

    def change_models(self) -> None:
        """Plan for other models from now on, at once: some have come, or gone."""
        self._placer.forget_models()
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
            await self._follow_leader()
            return
        workers = await self._fleet.workers()
        depths = await self._fleet.depths()
        self._metrics.see_fleet(len(workers), depths)
        now = self._clock()
        self._seen_at = now if workers else self._seen_at
        urgent = await self._demand.read(now)
        await self._demand.tell(now)  # whoever leads next plans for it at once
        news = self._looks.look(workers)
        fleet, holding = self._lasting.look(workers, news, self._placer.plan.assignments)
        self._outlook.look(workers, now, news, is_settled=len(holding) == len(workers))
        snapshot = self._snapshot(workers, depths, urgent, now)
        triggers = ReplanTriggers.of(
            snapshot,
            self._outlook.measured,
            fleet=fleet,
            settled=holding,
            strategy=self._outlook.strategy,
        )
        is_due = self._is_due(triggers, urgent, now)
        if is_due and not self._is_absent_briefly(workers, now):
            self._decided_at, self._decided_for = now, triggers
            snapshot = self._with_demand(snapshot, now)
            await self._publish(await self._decide(snapshot, now), snapshot, now)

    async def _follow_leader(self) -> None:
        self._metrics.leave_lead()
        await self.follow_board()
        await self._demand.tell(self._clock())

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
            await self.follow_board()
            self._seen_at = max(self._seen_at, self._placer.plan.made_at)
            self._outlook.resume(self._placer.plan.switched)
            self._decided_at = float("-inf")
            log.info("leads", fence=self._fence)
        self._metrics.see_leadership(self.is_leader)
        return self.is_leader

    async def _read_applications(self) -> None:
        if self._registry is not None:
            found = await self._registry.all()
            self._placer.applications = {each.key: each for each in found}

    async def follow_board(self) -> None:
        """Route by the plan in force."""
        plan = await self._board.read()
        if plan is not None and plan != self._placer.plan:
            self._demand.note_plan(self._clock())
            self._follow(plan)

    def _follow(self, plan: Plan) -> None:
        self._placer.follow(plan)
        if self._successor is not None:
            self._successor.take_force()
            self._placer.expect(self._successor.profile)
            self._successor = None
        self._metrics.see_plan(plan)

    def _is_due(self, triggers: ReplanTriggers, urgent: UrgentDemand, now: float) -> bool:
        patience_s = BURST_GAP_S if urgent.is_burst else self._period_s
        waits = 0 <= now - self._decided_at < patience_s  # earlier: the clock was turned back
        return triggers.is_new_after(self._decided_for) or not waits

    def _is_absent_briefly(self, workers: Sequence[Worker], now: float) -> bool:
        has_plan = bool(self._placer.plan.assignments)
        return not workers and has_plan and now - self._seen_at < ABSENCE_S

    async def _decide(self, snapshot: Snapshot, now: float) -> Decision:
        self._demand.note_plan(now)
        expected = self._outlook.expect(snapshot.workers)
        # Models may come and go while a thread decides.
        expected = replace(expected, models=dict(expected.models))
        snapshot = of_models(snapshot, expected.models)
        started_at = time.perf_counter()
        self._promises.see(self._placer.placed)

        def decided() -> Decision:
            decision = decide(snapshot, expected, self._policy)
            return replace(decision, quality=self._promises.promise(decision.quality))

        decision = await self._deciding(decided, self._leader.renew)
        self._metrics.see_decision(time.perf_counter() - started_at, decision.quality)
        self._settling.note(snapshot.workers, decision.assignments, now)
        return decision

    def _snapshot(
        self,
        workers: Sequence[Worker],
        depths: Sequence[QueueDepth],
        urgent: UrgentDemand,
        now: float,
    ) -> Snapshot:
        """Note all that may call for a plan: the rest is added where there is to be one."""
        successor = self._successor or self._placer.classifier
        return Snapshot(
            workers=workers,
            depths=depths,
            previous=self._placer.plan.assignments,
            settling=self._settling.settling(workers, self._outlook.measured.load_s, now, depths),
            left=self._settling.left(now),
            applications=self._placer.applications,
            classes=successor.classes,
            wanted=urgent.wanted,
            margin=self._outlook.margin,
            tells_capacity=self._tells_capacity,
        )

    def _with_demand(self, snapshot: Snapshot, now: float) -> Snapshot:
        asked = self._demand.asked(now)
        return replace(
            snapshot,
            rates=dict(asked.rates),
            affinity={name: shares(counts) for name, counts in asked.classes.items()},
            history=asked.history,
            jobs=asked.jobs,
            usual={model: usual for model, (_, usual) in asked.usual.items()},
            given_s={name: now - at for name, at in self._settling.since.items()},
        )

    async def _publish(self, decision: Decision, snapshot: Snapshot, now: float) -> None:
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
            usable=decision.usable,
            reason=decision.reason,
            saturation=decision.saturation,
            costs=decision.costs,
            loads=decision.loads,
            usual=snapshot.usual,
            since=self._settling.since,
            resident=decision.resident,
            slowness=decision.slowness,
            takes_latents=self._outlook.takes_latents,
            strategy=self._outlook.strategy,
            switched=self._outlook.switched,
            capacity=decision.capacity,
            schema=SCHEMA.stamp(Versioned.PLAN),
        )
        if not await self._board.publish(plan):
            log.warning("lead_lost", fence=self._fence)
            self._fence = None
            return
        self._follow(plan)
        if plan.assignments != before.assignments:
            _tell(plan, before)

    async def _step_down(self) -> None:
        if self._fence is None:
            return
        try:
            await self._leader.release()
        except AtelierError as error:
            log.warning("lease_kept", error=str(error))
        self._fence = None


def _tell(plan: Plan, before: Plan) -> None:
    """Log what a plan changed: of a large fleet only some of the workers by name."""
    moved = {n: m for n, m in plan.assignments.items() if before.assignments.get(n) != m}
    log.info(
        "plan_changed",
        version=plan.version,
        reason=plan.reason,
        workers=dict(Counter(plan.assignments.values())),
        moved=len(moved),
        named=dict(islice(moved.items(), MOST_NAMED)),
    )
