from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from core.errors import AllocationError
from scheduler.allocation.allocate import allocate
from scheduler.allocation.problem import Allocation, Instance
from scheduler.planning.loop import ABSENCE_S, MOST_NAMED
from tests.unit.scheduler.fakes import (
    a_worker,
)
from tests.unit.scheduler.world import AVATARS, PERIOD_S, World, a_caching_world


async def test_before_any_worker_reports_the_published_plan_is_empty() -> None:
    world = World()
    plan = await world.round()
    assert world.board.plan == plan
    assert (plan.version, plan.assignments, plan.pasm) == (1, {}, ())


async def test_a_new_worker_is_in_the_next_round_s_plan() -> None:
    world = World("w0")
    assert set((await world.round()).assignments) == {"w0"}
    world.fleet.reports = (*world.fleet.reports, a_worker("w1"))
    assert (await world.round()).assignments == {"w0": "base", "w1": "base"}


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


async def test_a_plan_is_due_though_the_clock_was_turned_back() -> None:
    world = World("w0")
    await world.round()
    await world.round(after_s=-600.0)
    assert world.board.published == 2


async def test_the_plan_says_whether_anybody_takes_what_jobs_leave() -> None:
    assert not (await World("w0").round()).takes_latents
    assert (await a_caching_world().round()).takes_latents


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


async def test_a_crowd_right_after_a_start_is_planned_for_at_once() -> None:
    world = World("w0")
    await world.round()
    for _ in range(30):
        world.now += 0.1
        world.ask("base")
    plan = await world.round(after_s=0.1)
    assert world.board.published == 2
    assert plan.demand["default"] == pytest.approx(10.0, rel=0.1)


async def test_the_log_says_what_a_plan_of_many_workers_changed_in_a_line() -> None:
    names = [f"w{i}" for i in range(MOST_NAMED + 2)]
    world = World(*names)
    with capture_logs() as logs:
        await world.round()
    [told] = [entry for entry in logs if entry["event"] == "plan_changed"]
    assert (told["workers"], told["moved"]) == ({"base": len(names)}, len(names))
    assert len(told["named"]) == MOST_NAMED


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


async def test_it_is_ready_while_rounds_go_well() -> None:
    world = World("w0")
    assert not world.loop.is_ready
    await world.loop._try_round()
    assert world.loop.is_ready
    world.fleet.is_down = True
    world.now += 6.0
    await world.loop._try_round()
    assert not world.loop.is_ready


async def test_a_model_that_has_loaded_is_in_the_next_round_s_plan() -> None:
    world = World("w0")
    assert (await world.round()).resident == ()
    world.fleet.reports = (a_worker("w0", "base"),)
    assert (await world.round()).resident == ("base",)
    assert (await world.round()).version == 2


async def test_a_model_that_one_worker_cannot_load_is_given_to_it_no_more() -> None:
    world = World("w0", "w1")
    assert (await world.round()).assignments == {"w0": "base", "w1": "base"}
    world.fleet.reports = (a_worker("w0", "base"), replace(a_worker("w1"), refused=("base",)))
    for after_s in (0.5, PERIOD_S):
        plan = await world.round(after_s=after_s)
        assert plan.assignments == {"w0": "base", "w1": "tiny"}


async def test_a_model_that_clients_ask_for_in_vain_comes_before_long() -> None:
    world = World("w0")
    await world.round()
    world.fleet.reports = (a_worker("w0", "base", running=8),)
    for _ in range(200):
        world.ask("base")
    began = world.now
    while "tiny" not in (await world.round()).assignments.values():
        world.ask("tiny")  # the client tries again
    assert 9.0 < world.now - began < 13.0  # ten times as long as it loads
