"""A whole run in virtual time: every job ends once, and equal worlds have equal outcomes."""

import gc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import ConfigurationError
from scheduler.approximate_cache.strategy import Dependency
from simulator import requests
from simulator.run import Simulation, rare_collections, simulate
from simulator.world import Outage, Stall
from tests.unit.simulator.worlds import TYPE, a_world, of_one_model, with_columns


def poisson(rate: float, seconds: float, seed: int = 0):
    rng = np.random.default_rng(seed)
    return np.sort(rng.uniform(0, seconds, rng.poisson(rate * seconds)))


def test_a_job_alone_takes_what_its_level_takes():
    outcome = simulate(of_one_model([5.0], workers=1), "clipper-ha")
    assert outcome.figures()["levels"] == {"large@0": 1.0}
    assert outcome.ended_s[0] - 5.0 == pytest.approx(50 * 0.1 + 0.4)
    assert outcome.quality[0] == 1.0
    assert outcome.goodput == 1.0


@settings(max_examples=8)
@given(
    rate=st.floats(0.1, 2.0),
    seed=st.integers(0, 99),
    policy=st.sampled_from(["clipper-ht", "clipper-ha", "argus"]),
    slots=st.integers(1, 4),
    images=st.integers(1, 3),
)
def test_every_job_ends_once_and_no_earlier_than_it_can(rate, seed, policy, slots, images):
    at_s = poisson(rate, 30.0, seed)
    world = with_columns(
        a_world(at_s, slots=slots, patience_s=2000.0), images=np.full(len(at_s), images)
    )
    outcome = simulate(world, policy)
    made = ~np.isnan(outcome.ended_s)
    assert (made ^ outcome.was_refused).all()
    taken = (outcome.ended_s - at_s)[made]
    assert (taken >= 20 * 0.04 + 0.4 - 1e-6).all()
    assert outcome.figures()["utilisation"] <= 1 + 1e-9
    assert outcome.series.demand.sum() == len(at_s)


def test_who_asks_for_exact_quality_gets_nothing_else_in_a_crowd():
    at_s = poisson(2.0, 60.0)
    exact = np.array(["exact" if at % 3 == 0 else None for at in range(len(at_s))], object)
    outcome = simulate(with_columns(a_world(at_s), others={"quality": exact}), "clipper-ht")
    made = outcome.level >= 0
    given_to = {outcome.levels[each] for each in outcome.level[made & (exact == "exact")]}
    assert given_to == {"large@0"}
    assert "small@0" in {outcome.levels[each] for each in outcome.level[made]}


def test_what_nobody_says_of_a_world_or_simulates_is_told():
    others = {"deadline_s": np.full(2, None, object), "seed": np.full(2, None, object)}
    world = with_columns(a_world([0.0, 1.0]), others=others)
    memory, deadline = world.assumptions
    assert memory == "gpu has 80 GiB: the profile names no memory_gib"
    assert "deadline_s" in deadline
    assert not replace(a_world([0.0]), memory_gib={TYPE: 24.0}).assumptions


def test_equal_seeds_have_equal_outcomes():
    world = a_world(poisson(0.8, 60.0), workers=3)
    first, second = (simulate(world, "argus") for _ in range(2))
    assert np.array_equal(first.ended_s, second.ended_s, equal_nan=True)
    assert first.figures() == second.figures()


def test_few_kinds_of_requests_are_remembered_and_outcomes_do_not_tell(monkeypatch):
    at_s = poisson(0.8, 60.0)
    steps = 10 + np.arange(len(at_s)) % 5
    world = with_columns(a_world(at_s, workers=3), steps=steps)
    wanted = simulate(world, "argus")
    monkeypatch.setattr(requests, "MOST_KINDS", 2)
    kinds = [arrival.kind for arrival in requests.Requests(world).arrivals()]
    assert kinds[0] == kinds[5] and kinds[0] is not kinds[5]
    found = simulate(world, "argus")
    assert np.array_equal(found.ended_s, wanted.ended_s, equal_nan=True)
    assert np.array_equal(found.level, wanted.level)
    assert found.figures() == wanted.figures()


def test_no_worker_idles_while_a_job_waits():
    """Four jobs at once on two workers of one slot take two rounds, and nobody waits between."""
    outcome = simulate(of_one_model([1.0] * 4, workers=2), "clipper-ha")
    alone_s = 50 * 0.1 + 0.4
    assert sorted(outcome.ended_s - 1.0) == pytest.approx(
        [alone_s, alone_s, 2 * alone_s, 2 * alone_s]
    )


@settings(max_examples=6)
@given(seed=st.integers(0, 99), slots=st.integers(1, 4), rate=st.floats(0.2, 1.5))
def test_nobody_has_room_for_a_job_that_waits_on_its_queue(seed, slots, rate):
    outage = Outage(begin_s=5.0, end_s=20.0, workers=1)
    world = a_world(poisson(rate, 30.0, seed), workers=3, slots=slots, outages=(outage,))
    simulation = Simulation(world, "argus")
    fleet, idle = simulation.fleet, []

    def look(now: float) -> None:
        waiting = [queue.name for queue in fleet.queues if len(queue)]
        idle.extend((now, w.name) for w in fleet.all for name in waiting if w.wants(name))

    simulation.timeline.every(0.37, look, first=simulation.timeline.now)
    simulation.run()
    assert not idle


@settings(max_examples=6)
@given(seed=st.integers(0, 99), slots=st.integers(1, 4), rate=st.floats(0.2, 1.5))
def test_a_worker_without_news_says_what_it_said_last(seed, slots, rate):
    outage = Outage(begin_s=5.0, end_s=20.0, workers=1)
    world = a_world(poisson(rate, 30.0, seed), workers=3, slots=slots, outages=(outage,))
    simulation = Simulation(world, "argus")
    stale = []

    def look(now: float) -> None:
        for worker in simulation.fleet.all:
            if worker.is_up and not worker.has_news:
                before = worker.reported
                stale.extend([(now, worker.name)] if worker.report(now) is not before else [])

    simulation.timeline.every(0.37, look, first=simulation.timeline.now)
    simulation.run()
    assert not stale


def test_images_share_steps_in_slots():
    """Two that share take longer than one alone, and less than one after the other."""
    outcome = simulate(of_one_model([1.0, 1.0], "small", workers=1, slots=2), "clipper-ht")
    both_s = max(outcome.ended_s) - 1.0
    assert 20 * 0.04 + 0.4 < both_s < 2 * (20 * 0.04 + 0.4)


def test_jobs_of_a_worker_that_dies_are_made_by_another():
    outage = Outage(begin_s=2.0, end_s=60.0, workers=1)
    world = of_one_model([0.5, 0.5], workers=2, outages=(outage,))
    outcome = simulate(world, "clipper-ha")
    assert not np.isnan(outcome.ended_s).any()
    assert max(outcome.ended_s) > 15.0  # when its lease had run out
    assert outcome.up_s[TYPE] < 2 * outcome.series.stretch_s * len(outcome.series.demand) + 1e-9


def test_a_client_that_cancels_frees_the_slot():
    world = with_columns(of_one_model([1.0, 1.0], workers=1), cancel_s=np.array([2.0, np.nan]))
    outcome = simulate(world, "clipper-ha")
    assert outcome.was_canceled.tolist() == [True, False]
    assert outcome.ended_s[1] == pytest.approx(3.0 + 5.4, abs=0.5)
    assert outcome.figures()["jobs"] == 1


def test_a_job_that_would_miss_its_deadline_is_refused_when_it_comes():
    outcome = simulate(of_one_model([1.0, 3.0], workers=1, deadline_s=6.0), "clipper-ha")
    assert outcome.was_refused.tolist() == [False, True]
    assert outcome.was_late.sum() == 1


def test_a_job_past_its_deadline_is_given_up():
    world = of_one_model([1.0], workers=1, deadline_s=6.0, misjudged={"large": 1.5})
    outcome = simulate(world, "clipper-ha")
    assert not outcome.was_refused.any()
    assert np.isnan(outcome.ended_s).all()


def test_those_who_come_in_vain_take_no_time_from_others():
    """Three times as many come as a worker makes, by half of the steps: it makes what it can."""
    world = of_one_model(poisson(1.0, 200.0), workers=1, slots=4, deadline_s=25.0)
    outcome = simulate(world, "clipper-ha")
    made = ~np.isnan(outcome.ended_s)
    assert made.sum() > 0.85 * 200.0 / (25 * 0.1 + 0.4)  # 6 are, if all are taken in
    assert (outcome.ended_s - outcome.at_s)[made].max() <= 25.0


def test_an_index_that_stalls_has_jobs_made_from_noise():
    at_s = poisson(0.9, 120.0)
    calm = a_world(at_s, workers=4)
    stalled = replace(calm, stalls=(Stall(begin_s=0.0, end_s=120.0, whom=Dependency.INDEX),))
    levels = [simulate(each, "argus").figures()["levels"] for each in (calm, stalled)]
    from_latents = [sum(s for n, s in row.items() if n[-2:] != "@0") for row in levels]
    assert from_latents[0] > 0.2 > 0.05 > from_latents[1]


def test_a_store_that_stalls_is_told_by_workers():
    at_s = poisson(0.9, 120.0)
    world = a_world(at_s, workers=4, stalls=(Stall(begin_s=0, end_s=120, whom=Dependency.STORE),))
    outcome = simulate(world, "argus")
    assert sum(s for n, s in outcome.figures()["levels"].items() if n[-2:] != "@0") < 0.05


def test_costs_that_are_misjudged_make_jobs_slower():
    world = of_one_model([1.0], workers=1, misjudged={"large": 1.1})
    outcome = simulate(world, "clipper-ha")
    assert outcome.ended_s[0] - 1.0 == pytest.approx(1.1 * 5.4)


def test_an_unknown_model_is_refused():
    world = with_columns(a_world([1.0]), model=np.array([0]), models=("other",))
    with pytest.raises(ConfigurationError, match="'other'"):
        simulate(world, "atelier")


def test_garbage_is_collected_as_before_once_a_run_has_ended() -> None:
    before = gc.get_threshold()
    with pytest.raises(KeyError), rare_collections():
        assert gc.get_threshold() != before
        raise KeyError
    assert gc.get_threshold() == before


def test_a_worker_is_never_busier_than_a_stretch_is_long():
    outcome = simulate(of_one_model([0.0, 1.0, 100.0], workers=1), "clipper-ha")
    assert outcome.series.stretch_s < 5.0, "shorter than a job"
    assert 0 < outcome.series.busy.max() <= 1 + 1e-9
