from dataclasses import replace

import pytest

from core.boards.cost import Cost
from core.boards.plan import Strategy
from core.errors import AllocationError
from scheduler.allocation.problem import Allocation, Instance
from scheduler.approximate_cache.strategy import Dependency
from scheduler.planning.protocols import Successor
from scheduler.profile.profile_file import Measured
from tests.unit.scheduler.fakes import (
    a_worker,
)
from tests.unit.scheduler.world import PERIOD_S, PROFILE, World, a_caching_world, levels_of


async def test_what_a_worker_has_measured_is_known_when_it_is_gone() -> None:
    world = World("w0")
    tried = Cost(steps=((1, 0.01),), is_measured=True)
    worker = replace(a_worker("w0"), untried=("base",))
    seen = {"costs": {"tiny": tried}, "load_s": {"tiny": 7.0}, "needs_gib": {"base": 9.0}}
    world.fleet.reports = (replace(worker, **seen),)
    assert (await world.round()).assignments == {"w0": "tiny"}
    world.fleet.reports = (replace(worker, name="w1", untried=("base", "tiny")),)
    plan = await world.round()
    assert (plan.assignments, plan.costs["cpu"]["tiny"]) == ({"w1": "tiny"}, tried)
    assert plan.loads == {"cpu": {"tiny": 7.0}}  # the other is too large


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


async def test_devices_slower_than_profiled_are_planned_for_as_they_are() -> None:
    world = World("w0", "w1")
    world.fleet.reports = [replace(a_worker(n, "base"), slowness=2.0) for n in ("w0", "w1")]
    world.arrive(rate=1.0)  # two thirds of what two such workers would do as profiled
    plan = await world.round()
    assert plan.slowness == {"cpu": 2.0}
    assert plan.saturation > 0


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
    each = plan.levels["base@0"] / 2  # both serve `base` until one has loaded `tiny`
    assert settled.levels["base@0"] == pytest.approx(1.5 * each)
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
