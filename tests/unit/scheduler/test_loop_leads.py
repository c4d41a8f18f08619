import asyncio
import time
from dataclasses import replace

import pytest

from core.boards.demand import ReportedDemand
from core.boards.plan import Strategy, Usual
from scheduler.allocation.allocate import allocate
from scheduler.allocation.problem import Allocation, Instance
from scheduler.approximate_cache.strategy import Dependency
from scheduler.placement.placer import NO_PLAN
from storage.fakes import MemoryBoard, MemoryDemand, MemoryLeadership, MemoryStore
from storage.redis.keys import PLANNERS
from tests.unit.scheduler.fakes import (
    FakeBoard,
    Lease,
    a_worker,
)
from tests.unit.scheduler.world import (
    PERIOD_S,
    World,
    a_caching_world,
)


async def test_the_leader_plans_for_what_others_are_asked_for() -> None:
    store = MemoryStore(clock=lambda: leader.now)
    lease, board = Lease(), FakeBoard()
    leader = World("w0", board=board, lease=lease, peers=MemoryDemand(store, "a", stale_s=3.0))
    other = World("w0", board=board, lease=lease, peers=MemoryDemand(store, "b", stale_s=3.0))
    await leader.round()
    other.ask("tiny")
    await other.round()
    plan = await leader.round(after_s=1.0)
    assert (plan.version, plan.demand["default"] > 0) == (2, True)
    leader.now += 5.0
    assert (await leader.round(after_s=PERIOD_S)).demand["default"] == 0.0


async def test_the_next_leader_plans_at_once_for_what_the_lost_one_was_asked_for() -> None:
    store = MemoryStore(clock=lambda: first.now)
    lease, board = Lease(), FakeBoard()
    first = World("w0", board=board, lease=lease, peers=MemoryDemand(store, "a", stale_s=6.0))
    second = World("w0", board=board, lease=lease, peers=MemoryDemand(store, "b", stale_s=6.0))
    first.arrive(rate=2.0)
    told = await first.round()
    own = await first.round(after_s=PERIOD_S)
    assert own.demand["default"] == pytest.approx(told.demand["default"], rel=0.3), "counted once"
    first.now += 3.5
    second.now = first.now
    await first.leader.release()
    plan = await second.round(after_s=0.0)
    assert plan.version == own.version + 1
    assert plan.demand == own.demand
    assert second.loop._demand.asked(second.now).history


async def test_a_plan_says_what_jobs_are_like_that_were_sent_to_other_schedulers() -> None:
    store, usual = MemoryStore(), Usual(steps=12.0, images=2.0)
    world = World("w0", peers=MemoryDemand(store, "a", stale_s=60.0))
    other = MemoryDemand(store, "b", stale_s=60.0)
    await other.tell(ReportedDemand(usual={"tiny": (3.0, usual)}))
    assert (await world.round()).usual == {"tiny": usual}


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


async def test_the_lead_is_renewed_while_the_solver_works() -> None:
    def policy(instance: Instance) -> Allocation:
        until = time.monotonic() + 60.0
        while not world.leader.renewals and time.monotonic() < until:
            time.sleep(0.01)
        return allocate(instance)

    world = World("w0", policy=policy)
    await world.round()
    assert world.leader.renewals
    assert world.board.published == 1


async def test_who_leads_no_more_tells_of_no_workers() -> None:
    """An alert goes by the most that any scheduler tells."""
    store = MemoryStore()
    other = MemoryLeadership(store, PLANNERS, "other", 60.0)
    world = World("w0", leader=MemoryLeadership(store, PLANNERS, "first", 3.0))
    await world.round()
    assert "atelier_workers 1.0" in world.metrics.render().decode()
    store.leaders.clear()
    assert await other.acquire()
    await world.round()
    assert "atelier_workers 0.0" in world.metrics.render().decode()


async def test_only_the_leader_publishes_and_the_others_follow() -> None:
    lease, board = Lease(), FakeBoard()
    first, second = World("w0", board=board, lease=lease), World("w0", board=board, lease=lease)
    await first.round()
    assert await second.round() == board.plan
    assert (board.published, first.loop.is_leader, second.loop.is_leader) == (1, True, False)


async def test_the_next_leader_goes_on_from_the_last_plan() -> None:
    lease, board = Lease(), FakeBoard()
    first, second = World("w0", board=board, lease=lease), World("w0", board=board, lease=lease)
    before = await first.round()
    await second.round()
    await first.leader.release()
    after = await second.round()
    assert (after.version, after.fence) == (before.version + 1, before.fence + 1)


async def test_a_leader_of_the_past_cannot_publish() -> None:
    board = FakeBoard(replace(NO_PLAN, version=7, fence=9))
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


async def test_the_next_leader_keeps_the_strategy() -> None:
    lease, board = Lease(), FakeBoard()
    first = a_caching_world(board=board, lease=lease)
    await first.round()
    first.switch.see(Dependency.STORE, bad=4, now=first.now)
    before = await first.round()
    await first.leader.release()
    second = a_caching_world(board=board, lease=lease)
    second.now = first.now
    after = await second.round()
    assert (after.strategy, after.switched) == (Strategy.SM, before.switched)
