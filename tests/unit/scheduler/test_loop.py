import asyncio
import time
from dataclasses import replace

import pytest

from core.errors import AllocationError
from core.placement import PlacementQuery
from core.plan import Plan
from scheduler.allocate import allocate
from scheduler.classify import OneClass
from scheduler.instance import Allocation, Instance
from scheduler.loop import ABSENCE_S, RENEW_S, Outlook, PlanLoop
from scheduler.measured import Measured
from scheduler.metrics import Metrics
from scheduler.placer import NO_PLAN, Placer
from scheduler.policies import Policy
from tests.unit.scheduler.twins import (
    Lease,
    TwinBoard,
    TwinFleet,
    TwinLeader,
    a_model,
    a_profile,
    a_worker,
)

PROFILE = a_profile(a_model("base"), a_model("tiny", quality=0.6))
PERIOD_S = 10.0


class World:
    """One scheduler, its surroundings, and a clock that moves when told to."""

    def __init__(
        self,
        *workers: str,
        board: TwinBoard | None = None,
        lease: Lease | None = None,
        policy: Policy = allocate,
    ) -> None:
        self.now = 1000.0
        self.fleet = TwinFleet(*(a_worker(name) for name in workers))
        self.board = board or TwinBoard()
        self.lease = lease or Lease()
        self.leader = TwinLeader(self.lease)
        self.metrics = Metrics()
        self.placer = Placer(PROFILE.models, OneClass())
        self.loop = PlanLoop(
            self.placer,
            PROFILE,
            policy,
            policy_name="atelier",
            fleet=self.fleet,
            board=self.board,
            leader=self.leader,
            period_s=PERIOD_S,
            metrics=self.metrics,
            clock=lambda: self.now,
        )

    async def round(self, *, after_s: float = 0.5) -> Plan:
        self.now += after_s
        await self.loop.round()
        return self.placer.plan

    def ask(self, model: str) -> object:
        query = PlacementQuery(prompt="a cat", models=(model,))
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
    assert world.board.published == 2


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
        Outlook(classes=("tiny@0",), profile=known, take_force=lambda: taken.append(world.now))
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
        Outlook(classes=("tiny@0",), profile=PROFILE, take_force=lambda: taken.append(1))
    )
    with pytest.raises(AllocationError):
        await world.round()
    assert taken == []
