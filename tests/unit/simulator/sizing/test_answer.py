"""The answer to how many GPUs: over trials that a formula answers, and over the simulator."""

import json
from dataclasses import replace
from functools import partial

import msgspec
import numpy as np
import pytest
import structlog

from core.log import configure
from loadgen.arrivals.gaps import constant, poisson
from loadgen.workload import Workload
from reporting.html import render
from scheduler.profile.profile_file import Measured
from simulator.run import simulate
from simulator.sizing.answer import answer, image_costs
from simulator.sizing.days import busiest
from simulator.sizing.goal import Goal, price_of
from simulator.sizing.load import day_of_load
from simulator.sizing.page import lay_out, sentence
from simulator.sizing.rows import machine, rows_of
from simulator.sizing.trials import FleetTrials, day_of
from tests.unit.simulator.report.outcomes import an_outcome
from tests.unit.simulator.worlds import TYPE, a_profile, a_world, some_prompts, with_columns

PRICES = {TYPE: 2.0, "slow": 0.7}
GOAL = Goal(max_late=0.1, min_quality=0.5)  # clipper-ht gives .62


def slower(row, factor):
    return {
        name: tuple(replace(each, seconds=factor * each.seconds) for each in value)
        if isinstance(value, tuple)
        else factor * value
        for name, value in row.items()
    }


def two_types(factor=2.2):
    """A profile that knows a second type, so much slower."""
    profile = a_profile()
    known: Measured = profile.measured
    measured = replace(
        known,
        load={**known.load, "slow": known.load[TYPE]},
        steps={**known.steps, "slow": slower(known.steps[TYPE], factor)},
        fixed={**known.fixed, "slow": slower(known.fixed[TYPE], factor)},
    )
    return replace(profile, measured=measured)


def a_load(rate=1.0, duration_s=90.0, **changes):
    return a_world(poisson(rate, duration_s, seed=1), **{"profile": two_types(), **changes})


@pytest.fixture(autouse=True, scope="module")
def quiet():
    configure("error", is_json=False)
    yield
    structlog.reset_defaults()


def simulated(world):
    return simulate(world, "clipper-ht")


def late_unless(needed, world):
    """Make all jobs in a second if enough workers are there, else all of them late."""
    workers = sum(world.fleet.values())
    jobs = len(world.workload)
    outcome = an_outcome(stretches=1)
    return replace(
        outcome,
        at_s=world.workload.at_s,
        slo_s=np.full(jobs, world.slo_s),
        ended_s=world.workload.at_s + (1.0 if workers >= needed else 100.0),
        level=np.zeros(jobs, np.int16),
        quality=np.ones(jobs),
        was_refused=np.zeros(jobs, bool),
        was_canceled=np.zeros(jobs, bool),
    )


def answered(world, run=simulated, goal=GOAL, slo_s=15.0, days=1, prices=PRICES, most=40):
    return answer(FleetTrials.of(world, slo_s, goal, run, days=days), slo_s, prices, most=most)


def test_the_cheapest_fleet_of_the_simulator_keeps_the_goal_and_a_worker_less_does_not():
    world = a_load()
    found = answered(world)
    assert found.best is not None
    attempt = FleetTrials.of(world, 15.0, GOAL, simulated, days=1)
    for kind, count in found.best.fleet.items():
        less = {**found.best.fleet, kind: count - 1}
        if count and any(less.values()):
            assert not attempt(less).keeps
    assert 0.2 * found.price <= found.least <= found.price  # on paper everything is easier


def test_a_fleet_is_priced_by_the_hour_and_an_image_with_its_idle_time():
    world = a_load()
    found = answered(world, partial(late_unless, 4))
    assert sum(found.best.fleet.values()) == 4
    made = np.mean([day.images for day in found.best.days])
    hours = world.workload.duration_s / 3600
    price = price_of(found.best.fleet, PRICES)
    assert found.image_cost == pytest.approx(price * hours / made)


def test_an_image_costs_by_level_what_its_seconds_cost():
    costs = image_costs(two_types(), PRICES, slo_s=15.0)
    assert costs["large@0"][TYPE] == pytest.approx((0.4 + 50 * 0.1) * 2.0 / 3600)
    assert costs["small@0"]["slow"] == pytest.approx(2.2 * (0.4 + 20 * 0.04) * 0.7 / 3600)
    assert "slow" not in image_costs(two_types(), PRICES, slo_s=10.0)["large@0"]  # 11.9 s


def test_an_slo_below_the_fastest_image_is_impossible_and_what_would_help_is_said():
    found = answered(a_load(), slo_s=1.0)
    assert (found.best, found.trials) == (None, ())
    assert "the fastest image takes 1.20 s (small@0 on gpu)" in found.reason
    assert found.would_help == ("--slo 1.2, or more",)


def test_no_model_that_fits_is_another_reason_than_an_slo():
    found = answered(a_load(memory_gib={TYPE: 2.0, "slow": 1.0}))
    assert (found.best, found.trials) == (None, ())
    assert "no model fits in the memory of gpu or slow: the least takes 3 GiB" in found.reason
    assert found.would_help == ("devices with 3 GiB, or more",)


def test_the_fastest_image_is_one_of_a_model_that_fits():
    found = answered(a_load(memory_gib={TYPE: 2.0, "slow": 4.0}), slo_s=1.0)
    assert "the fastest image takes 2.64 s (small@0 on slow)" in found.reason


def test_a_longer_slo_does_not_help_a_model_that_does_not_fit():
    goal = Goal(max_late=0.1, min_quality=0.9)
    found = answered(a_load(memory_gib={TYPE: 5.0, "slow": 5.0}), goal=goal)
    quality, memory = found.would_help
    assert quality.startswith("--min-quality 0.62")
    assert memory.startswith("devices with more memory")


def test_a_quality_that_no_level_in_time_gives_is_impossible():
    found = answered(a_load(), slo_s=2.0, goal=Goal(max_late=0.1, min_quality=0.9))
    assert found.best is None
    assert "give a quality of 0.62" in found.reason
    assert found.would_help[0].startswith("--min-quality 0.62")


def test_too_few_jobs_prove_nothing_and_more_days_would():
    found = answered(a_load(duration_s=30.0), goal=Goal(max_late=0.01, min_quality=0.5))
    assert "cannot make it 95.0% sure" in found.reason
    assert found.would_help[0].startswith("--days ")


def test_where_every_fleet_misses_the_nearest_says_what_it_would_keep():
    found = answered(a_load(), partial(late_unless, 10**6))
    assert found.best is None
    assert any(each.startswith("--slo 100") for each in found.would_help)
    said = sentence(found)
    assert said.startswith("No fleet keeps 90\u202f% of the jobs within 15\u202fs")
    assert "What would help" in said


def test_page_json_and_rows_say_the_same(tmp_path):
    world = a_load()
    found = answered(world)
    read = json.loads(msgspec.json.encode(machine(found)))
    assert read["fleet"] == {kind: n for kind, n in found.best.fleet.items() if n}
    assert read["price_per_hour"] == found.price
    assert read["late"]["high"] <= GOAL.max_late
    assert sum(each["share"] for each in read["levels"].values()) == pytest.approx(1.0)
    assert len(rows_of(found)) == len(read["tried"]) == len(found.trials)
    page = render(lay_out(found, world.workload, {"seed": 0}))
    assert sentence(found) in page
    assert page.count('<tr class="good">') == 1


def test_an_impossible_goal_has_a_page_too():
    found = answered(a_load(), slo_s=1.0)
    page = render(lay_out(found, a_load().workload, {}))
    assert "What would help" in page
    assert json.loads(msgspec.json.encode(machine(found)))["fleet"] is None


def test_a_day_says_what_slo_it_would_have_kept():
    outcome = an_outcome(slow=2.0)
    workload = Workload.of(outcome.at_s)
    day = day_of(outcome, workload, Goal(max_late=0.1))
    taken = outcome.ended_s - outcome.at_s
    assert np.mean(np.nan_to_num(taken, nan=np.inf) <= day.reach_s) == pytest.approx(0.9, abs=0.01)
    assert day.late == pytest.approx(float(outcome.was_late.mean()))


def test_a_load_is_counted_by_stretches_and_classes():
    world = a_world(constant(2.0, 600.0), profile=two_types())
    day = day_of_load(world, PRICES, 15.0)
    assert day.classes == ("easy", "hard")
    assert day.demand.sum(axis=1) == pytest.approx(np.full(len(day.demand), 2.0), rel=0.02)
    assert float(day.weight.sum()) == pytest.approx(600.0, rel=0.01)
    column = day.levels.index("large@25")
    assert day.quality[:, column] == pytest.approx(some_prompts().quality[:, 2])


@pytest.mark.parametrize(
    ("width", "height", "share"), [(32, 32, 0.25), (32, 0, 0.5), (0, 16, 0.25), (256, 256, 1.0)]
)
def test_small_images_make_the_load_lighter(width, height, share):
    """The models' own size is 64 pixels; what larger ones take more is left out."""
    world = a_world(constant(2.0, 600.0), profile=two_types())
    sized = day_of_load(with_columns(world, width=width, height=height), PRICES, 15.0)
    assert sized.demand == pytest.approx(share * day_of_load(world, PRICES, 15.0).demand)


def test_slots_that_share_steps_make_the_load_lighter():
    one, four = (day_of_load(a_load(slots=slots), PRICES, 15.0).tau for slots in (1, 4))
    assert np.all(four < one)


def test_the_busiest_stretch_is_cut_out():
    at_s = np.concatenate([constant(0.1, 1000.0), 400.0 + constant(5.0, 100.0)])
    workload = busiest(Workload.of(np.sort(at_s)), 100.0)
    assert workload.duration_s <= 100.0
    assert len(workload) >= 500
