import asyncio
import time
from dataclasses import replace

import pytest

from core.application import Application
from core.cost import Cost
from core.errors import AllocationError
from core.placement import PlacementQuery
from core.plan import Plan, Strategy
from scheduler.allocate import allocate
from scheduler.classify import OneClass
from scheduler.hits import HitRates
from scheduler.instance import Allocation, Instance
from scheduler.loop import ABSENCE_S, RENEW_S, PlanLoop, Successor
from scheduler.measured import EVERY, Family, Measured
from scheduler.metrics import Metrics
from scheduler.placer import NO_PLAN, Placer
from scheduler.policies import Policy
from scheduler.strategy import Dependency, StrategySwitch
from storage.keys import PLANNERS
from storage.memory import MemoryBoard, MemoryDemand, MemoryLeadership, MemoryStore
from tests.unit.scheduler.twins import (
    Lease,
    TwinBoard,
    TwinFleet,
    TwinLeader,
    TwinRegistry,
    a_model,
    a_profile,
    a_query,
    a_worker,
)

PROFILE = a_profile(a_model("base"), a_model("tiny", quality=0.6))
CACHING = replace(
    a_profile(a_model("base", step_s=0.02), a_model("tiny", quality=0.6, step_s=0.005)),
    measured=Measured(
        families={
            EVERY: Family(
                levels=("tiny@0", "base@25", "base@0"),
                shares={"base@0": 1.0},
                quality={"any": {"tiny@0": 0.6, "base@25": 0.9, "base@0": 1.0}},
            )
        }
    ),
)
PERIOD_S = 10.0
AVATARS = Application(name="avatars", tenant="t", models=("base",))


class World:
    """One scheduler, its surroundings, and a clock that moves when told to."""

    def __init__(
        self,
        *workers: str,
        board: TwinBoard | MemoryBoard | None = None,
        lease: Lease | None = None,
        leader: MemoryLeadership | None = None,
        peers: MemoryDemand | None = None,
        policy: Policy = allocate,
        hits: HitRates | None = None,
    ) -> None:
        self.registry = TwinRegistry()
        self.now = 1000.0
        self.fleet = TwinFleet(*(a_worker(name) for name in workers))
        self.board = board or TwinBoard()
        self.lease = lease or Lease()
        self.leader = leader or TwinLeader(self.lease)
        self.metrics = Metrics()
        self.profile = PROFILE if hits is None else CACHING
        self.placer = Placer(self.profile.models, OneClass())
        self.switch = StrategySwitch()
        self.loop = PlanLoop(
            self.placer,
            self.profile,
            policy,
            policy_name="atelier",
            fleet=self.fleet,
            board=self.board,
            leader=self.leader,
            period_s=PERIOD_S,
            metrics=self.metrics,
            registry=self.registry,
            peers=peers,
            hits=hits,
            switch=self.switch,
            clock=lambda: self.now,
        )

    async def round(self, *, after_s: float = 0.5) -> Plan:
        self.now += after_s
        await self.loop.round()
        return self.placer.plan

    def arrive(self, *, rate: float) -> None:
        """Have had so many jobs a second for a minute that may start from latents."""
        query = a_query("a cat", *self.profile.models)
        for second in range(60):
            for _ in range(round(rate * (second + 1)) - round(rate * second)):
                self.placer.place([query], self.now - 60 + second)

    def ask(self, model: str, application: str | None = None) -> object:
        query = PlacementQuery(prompt="a cat", models=(model,), application=application)
        return self.placer.place([query], self.now)[0]


async def test_before_any_worker_reports_the_published_plan_is_empty() -> None:
    world = World()
    plan = await world.round()
    assert world.board.plan == plan
    assert (plan.version, plan.assignments, plan.pasm) == (1, {}, ())


async def test_a_new_worker_is_in_the_next_round_s_plan() -> None:
    world = World("w0")
    assert set((await world.round()).assignments) == {"w0"}
    world.fleet.reports = (*world.fleet.reports, a_worker("w1"))
    assert sorted((await world.round()).assignments.values()) == ["base", "tiny"]


async def test_what_a_worker_has_tried_is_known_when_it_is_gone() -> None:
    world = World("w0")
    tried = Cost(steps=((1, 0.01),), is_measured=True)
    worker = replace(a_worker("w0"), untried=("base",), costs={"tiny": tried})
    world.fleet.reports = (replace(worker, untried=("base", "tiny"), costs={}),)
    assert (await world.round()).assignments == {}
    world.fleet.reports = (worker,)
    assert (await world.round(after_s=PERIOD_S)).assignments == {"w0": "tiny"}
    world.fleet.reports = (replace(worker, name="w1", untried=("base", "tiny"), costs={}),)
    plan = await world.round()
    assert (plan.assignments, plan.costs["cpu"]["tiny"]) == ({"w1": "tiny"}, tried)


async def test_a_worker_that_went_silent_is_out_of_the_next_plan() -> None:
    world = World("w0", "w1")
    await world.round()
    world.fleet.reports = world.fleet.reports[1:]
    assert set((await world.round()).assignments) == {"w1"}


async def test_nothing_is_published_until_the_period_is_over() -> None:
    world = World("w0")
    for _ in range(10):
        await world.round(after_s=0.9)
    assert world.board.published == 1
    await world.round(after_s=2.0)
    assert world.board.published == 2


async def test_a_model_asked_for_by_name_that_nobody_holds_is_planned_at_once() -> None:
    world = World("w0")
    assert (await world.round()).assignments == {"w0": "base"}
    world.fleet.reports = (a_worker("w0", "base"),)
    await world.round(after_s=3.0)  # it has loaded, and had it for a while
    world.ask("tiny")
    assert (await world.round()).assignments == {"w0": "tiny"}
    assert world.board.published == 3


async def test_a_new_application_is_planned_at_once_and_its_jobs_are_its_own() -> None:
    world = World("w0")
    await world.round()
    world.ask("base", AVATARS.key)
    world.registry.registered.append(AVATARS)
    plan = await world.round()
    assert world.board.published == 2
    assert {row.application for row in plan.pasm} == {"default", AVATARS.key}
    assert (plan.demand["default"] > 0, plan.demand[AVATARS.key]) == (True, 0.0)
    world.ask("base", AVATARS.key)
    assert (await world.round(after_s=PERIOD_S)).demand[AVATARS.key] > 0


async def test_a_burst_is_planned_for_at_once_and_once() -> None:
    world = World("w0")
    await world.round()
    for _ in range(60):
        world.now += 0.25
        world.ask("base")
    await world.round()
    published = world.board.published
    for _ in range(60):
        world.now += 0.05
        world.ask("base")
    plan = await world.round(after_s=0.1)
    assert world.board.published == published + 1
    assert plan.demand["default"] > 5.0
    await world.round(after_s=1.1)
    assert world.board.published == published + 1


async def test_the_leader_plans_for_what_others_are_asked_for() -> None:
    store = MemoryStore(clock=lambda: leader.now)
    lease, board = Lease(), TwinBoard()
    leader = World("w0", board=board, lease=lease, peers=MemoryDemand(store, "a", stale_s=3.0))
    other = World("w0", board=board, lease=lease, peers=MemoryDemand(store, "b", stale_s=3.0))
    await leader.round()
    other.ask("tiny")
    await other.round()
    plan = await leader.round(after_s=1.0)
    assert (plan.version, plan.demand["default"] > 0) == (2, True)
    leader.now += 5.0
    assert (await leader.round(after_s=PERIOD_S)).demand["default"] == 0.0


async def test_a_leader_that_slept_while_another_was_elected_publishes_nothing() -> None:
    store = MemoryStore(clock=lambda: world.now)
    other = MemoryLeadership(store, PLANNERS, "other", 3.0)
    elected: list[int | None] = []

    def policy(instance: Instance) -> Allocation:
        if store.plan is not None:  # the solver of the second plan takes longer than the lease
            world.now += 5.0
            elected.append(asyncio.run(other.acquire()))
        return allocate(instance)

    world = World(
        "w0",
        board=MemoryBoard(store),
        leader=MemoryLeadership(store, PLANNERS, "first", 3.0),
        policy=policy,
    )
    first = await world.round()
    await world.round(after_s=PERIOD_S / 10)
    assert store.plan == first
    world.fleet.reports = (a_worker("w1"),)
    await world.round()
    assert store.plan == first  # though the other has published nothing yet
    assert elected[0] is not None and elected[0] > first.fence
    assert not world.loop.is_leader
    assert await MemoryBoard(store).publish(replace(first, fence=elected[0], version=9))


async def test_asking_again_for_what_cannot_be_held_waits_for_the_period() -> None:
    world = World("w0")
    await world.round()
    for _ in range(9):
        world.ask("base")
    for _ in range(4):
        world.ask("tiny")
        await world.round()
    assert world.board.published == 2


async def test_a_load_is_not_undone_at_once() -> None:
    world = World("w0")
    await world.round()
    world.ask("tiny")
    assert (await world.round()).assignments == {"w0": "base"}


async def test_the_plan_outlives_its_last_worker_for_a_while() -> None:
    world = World("w0")
    await world.round()
    world.fleet.reports = ()
    await world.round(after_s=ABSENCE_S - 1)
    assert world.ask("base").model == "base"
    assert (await world.round(after_s=2.0)).assignments == {}


async def test_a_store_that_is_down_leaves_the_plan_and_is_planned_for_when_it_is_back() -> None:
    world = World("w0")
    plan = await world.round()
    world.fleet.is_down = True
    await world.loop._try_round()
    assert world.placer.plan == plan
    world.fleet.is_down = False
    assert (await world.round()).version == 2


async def test_a_solver_that_finds_nothing_leaves_the_last_good_plan() -> None:
    answers = iter([allocate])

    def policy(instance: Instance) -> Allocation:
        for answer in answers:
            return answer(instance)
        raise AllocationError("no allocation")

    world = World("w0", policy=policy)
    plan = await world.round()
    world.now += PERIOD_S
    await world.loop._try_round()
    assert world.placer.plan == plan
    assert world.board.published == 1
    assert b'atelier_plan_failures_total{reason="AllocationError"} 1.0' in world.metrics.render()


async def test_the_lead_is_renewed_while_the_solver_works() -> None:
    def policy(instance: Instance) -> Allocation:
        time.sleep(1.5 * RENEW_S)
        return allocate(instance)

    world = World("w0", policy=policy)
    await world.round()
    assert world.leader.renewals == 1
    assert world.board.published == 1


async def test_only_the_leader_publishes_and_the_others_follow() -> None:
    lease, board = Lease(), TwinBoard()
    first, second = World("w0", board=board, lease=lease), World("w0", board=board, lease=lease)
    await first.round()
    assert await second.round() == board.plan
    assert (board.published, first.loop.is_leader, second.loop.is_leader) == (1, True, False)


async def test_the_next_leader_goes_on_from_the_last_plan() -> None:
    lease, board = Lease(), TwinBoard()
    first, second = World("w0", board=board, lease=lease), World("w0", board=board, lease=lease)
    before = await first.round()
    await second.round()
    await first.leader.release()
    after = await second.round()
    assert (after.version, after.fence) == (before.version + 1, before.fence + 1)


async def test_a_leader_of_the_past_cannot_publish() -> None:
    board = TwinBoard(replace(NO_PLAN, version=7, fence=9))
    world = World("w0", board=board)
    await world.round()
    assert board.plan is not None
    assert board.plan.version == 7
    assert not world.loop.is_leader


async def test_a_scheduler_that_ends_gives_up_the_lead_at_once() -> None:
    world = World("w0")
    rounds = asyncio.create_task(world.loop.run())
    while world.board.plan is None:
        await asyncio.sleep(0)
    assert world.loop.is_leader
    rounds.cancel()
    with pytest.raises(asyncio.CancelledError):
        await rounds
    assert world.lease.holder is None


async def test_it_is_ready_while_rounds_go_well() -> None:
    world = World("w0")
    assert not world.loop.is_ready
    await world.loop._try_round()
    assert world.loop.is_ready
    world.fleet.is_down = True
    world.now += 6.0
    await world.loop._try_round()
    assert not world.loop.is_ready


async def test_another_classifier_takes_force_with_the_first_plan_that_counts_on_it() -> None:
    world, taken = World("w1"), []
    before = await world.round()
    known = replace(PROFILE, measured=Measured(quality={"tiny@0": {"tiny@0": 1.0, "base@0": 1.0}}))
    world.loop.adopt(
        Successor(classes=("tiny@0",), profile=known, take_force=lambda: taken.append(world.now))
    )
    assert taken == []
    after = await world.round()
    assert (after.version, taken) == (before.version + 1, [world.now])
    assert {row.affinity for row in after.pasm if not row.models} == {"tiny@0"}
    await world.round(after_s=PERIOD_S)
    assert len(taken) == 1


async def test_a_plan_that_fails_leaves_the_old_classifier_in_force() -> None:
    def fail(instance: Instance) -> Allocation:
        raise AllocationError("no plan")

    world, taken = World("w1", policy=fail), []
    world.loop.adopt(
        Successor(classes=("tiny@0",), profile=PROFILE, take_force=lambda: taken.append(1))
    )
    with pytest.raises(AllocationError):
        await world.round()
    assert taken == []


async def test_a_model_that_has_loaded_is_in_the_next_round_s_plan() -> None:
    world = World("w0")
    assert (await world.round()).resident == ()
    world.fleet.reports = (a_worker("w0", "base"),)
    assert (await world.round()).resident == ("base",)
    assert (await world.round()).version == 2


async def test_devices_slower_than_profiled_are_planned_for_as_they_are() -> None:
    world = World("w0", "w1")
    world.fleet.reports = [replace(a_worker(n, "base"), slowness=2.0) for n in ("w0", "w1")]
    world.arrive(rate=1.0)  # two thirds of what two such workers would do as profiled
    plan = await world.round()
    assert plan.slowness == {"cpu": 2.0}
    assert plan.saturation > 0


async def test_a_model_that_clients_ask_for_in_vain_comes_before_long() -> None:
    world = World("w0")
    await world.round()
    world.fleet.reports = (a_worker("w0", "base"),)
    for _ in range(200):
        world.ask("base")
    began = world.now
    while "tiny" not in (await world.round()).assignments.values():
        world.ask("tiny")  # the client tries again
    assert 9.0 < world.now - began < 13.0  # ten times as long as it loads


def a_caching_world(**parts: object) -> World:
    """Two workers, twice as much asked of them as they can do at K = 0, and latents for all."""
    hits = HitRates(["base@25"])
    for _ in range(500):
        hits.observe("base@25", True)
    world = World(hits=hits, **parts)  # type: ignore[arg-type]
    world.fleet.reports = [a_worker(name, "base") for name in ("w0", "w1")]
    world.arrive(rate=4.2)
    return world


def levels_of(plan: Plan) -> set[str]:
    return {level for row in plan.pasm for level in row.shares}


async def test_latents_out_of_reach_are_planned_without_at_once_and_with_a_margin() -> None:
    world = a_caching_world()
    plan = await world.round()
    assert (plan.strategy, plan.switched) == (Strategy.AC, None)
    assert "base@25" in levels_of(plan)
    world.switch.see(Dependency.INDEX, bad=4, now=world.now)
    plan = await world.round()
    assert plan.strategy is Strategy.SM
    assert plan.switched is not None
    assert plan.switched.cause.startswith("index: ")
    assert "tiny" in plan.assignments.values()
    assert not any(level.endswith("@25") for level in levels_of(plan))
    text = world.metrics.render().decode()
    assert 'atelier_strategy{strategy="sm"} 1.0' in text
    assert 'atelier_strategy_switches_total{to="sm"} 1.0' in text
    world.fleet.reports = [a_worker(w, m) for w, m in plan.assignments.items()]
    settled = await world.round()
    assert settled.version == plan.version + 1
    assert settled.levels["base@0"] == pytest.approx(1.5 * plan.levels["base@0"])
    assert (await world.round()).version == settled.version


async def test_what_workers_could_not_read_counts_and_latents_come_back() -> None:
    world = a_caching_world()
    await world.round()
    world.fleet.reports = [replace(w, starts_read=9, starts_late=8) for w in world.fleet.reports]
    assert (await world.round()).strategy is Strategy.SM
    for _ in range(30):
        for whom in Dependency:
            world.switch.see(whom, good=1, now=world.now)
        plan = await world.round()
    assert plan.strategy is Strategy.AC
    assert plan.switched is not None
    assert "base@25" in levels_of(plan)


async def test_the_next_leader_keeps_the_strategy() -> None:
    lease, board = Lease(), TwinBoard()
    first = a_caching_world(board=board, lease=lease)
    await first.round()
    first.switch.see(Dependency.STORE, bad=4, now=first.now)
    before = await first.round()
    await first.leader.release()
    second = a_caching_world(board=board, lease=lease)
    second.now = first.now
    after = await second.round()
    assert (after.strategy, after.switched) == (Strategy.SM, before.switched)
