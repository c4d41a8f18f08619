from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.allocation.allocate import allocate
from scheduler.allocation.problem import Demand
from scheduler.allocation.rollout.planner import EARLY_S, HORIZON_S, Rollouts, rollout
from scheduler.allocation.rollout.tables import tables
from scheduler.allocation.situation import WaitingImages
from tests.unit.scheduler.allocation.rollout.worlds import a_seat, an_instance

EIGHT_SLOW = ["slow"] * 8


def test_without_a_situation_it_is_the_program() -> None:
    instance = replace(an_instance(*EIGHT_SLOW, rate=2.0), situation=None)
    assert rollout(instance) == allocate(instance)


def test_without_demand_it_is_the_program() -> None:
    instance = an_instance("slow", "fast", rate=0.0)
    assert (
        rollout(instance).counts
        == allocate(instance).counts
        == {
            ("gpu", "fast"): 0,
            ("gpu", "slow"): 2,
        }
    )


@pytest.mark.parametrize("seed", range(6))
def test_noise_moves_no_model(seed: int) -> None:
    found = rollout(an_instance(*EIGHT_SLOW, rate=1.2, seed=seed))
    assert found.counts["gpu", "slow"] == 8
    assert found.reason.startswith("stay: ")


def test_more_than_the_models_there_can_do_brings_faster_ones_at_once() -> None:
    found = rollout(an_instance(*EIGHT_SLOW, rate=5.0))
    assert found.counts["gpu", "fast"] > 0
    assert "over staying" in found.reason


def test_what_waits_is_seen() -> None:
    """As much comes as eight slow workers end at K = 25, and two minutes of it wait."""
    waiting = {"slow": WaitingImages(images=240, oldest_s=60.0)}
    calm = rollout(an_instance(*EIGHT_SLOW, rate=2.0))
    pressed = rollout(an_instance(*EIGHT_SLOW, rate=2.0, waiting=waiting))
    assert calm.counts["gpu", "fast"] < pressed.counts["gpu", "fast"]


def test_what_clears_the_deepest_queue_soonest_wins() -> None:
    """All that comes in the horizon is late, whatever is done."""
    waiting = {"slow": WaitingImages(images=600, oldest_s=120.0)}
    found = rollout(an_instance(*EIGHT_SLOW, rate=2.5, waiting=waiting))
    assert found.counts["gpu", "fast"] >= 4


def test_nobody_goes_back_to_a_queue_that_was_left_to_one_worker() -> None:
    """Whoever comes with another worker waits for those who came before."""
    waiting = {"fast": WaitingImages(images=90, oldest_s=30.0)}
    held = ["slow"] * 7 + ["fast"]
    found = rollout(an_instance(*held, rate=3.0, waiting=waiting))
    assert found.counts["gpu", "fast"] == 1


def test_in_the_first_seconds_a_fleet_stays_as_it_is() -> None:
    instance = an_instance(*EIGHT_SLOW, rate=6.0)
    assert instance.situation is not None
    early = replace(instance.situation, history=(6.0, 6.0, 6.0), is_telling=False)
    assert rollout(replace(instance, situation=early)).counts["gpu", "slow"] == 8
    crowd = replace(early, is_telling=True)
    assert rollout(replace(instance, situation=crowd)).counts["gpu", "fast"] > 0
    assert rollout(replace(instance, situation=replace(early, history=()))) == allocate(instance)


def test_of_few_seconds_a_little_is_no_reason_to_load() -> None:
    instance = an_instance(*EIGHT_SLOW, rate=4.0)
    assert instance.situation is not None
    seen = [
        replace(instance.situation, history=(4.0,) * seconds) for seconds in (EARLY_S - 1, EARLY_S)
    ]
    early, later = (rollout(replace(instance, situation=each)) for each in seen)
    assert early.counts["gpu", "fast"] == 0 < later.counts["gpu", "fast"]


def test_jobs_that_may_move_bring_no_model_back() -> None:
    instance = an_instance(*EIGHT_SLOW, rate=1.2)
    left = Demand(application="default", affinity="any", models=("fast",), is_placed=True, rate=0.1)
    found = rollout(replace(instance, demands=(*instance.demands, left)))
    assert found.counts["gpu", "slow"] == 8


def test_a_plan_promises_what_its_rollout_expects() -> None:
    calm = rollout(an_instance(*EIGHT_SLOW, rate=1.2))
    assert calm.expected == pytest.approx(1.0, abs=0.02)
    pressed = rollout(an_instance(*EIGHT_SLOW, rate=2.6))
    assert pressed.expected is not None
    assert pressed.expected < 0.97


def test_rows_are_those_of_the_program_for_these_workers() -> None:
    found = rollout(an_instance(*EIGHT_SLOW, rate=2.0))
    assert found.is_joint
    assert sum(flow.rate for flow in found.flows) == pytest.approx(2.0)


def test_a_model_that_alone_may_serve_some_prompts_keeps_a_worker() -> None:
    one = an_instance(*EIGHT_SLOW, rate=1.6)
    named = Demand(application="default", affinity="any", models=("fast",), rate=0.01)
    found = rollout(replace(one, demands=(*one.demands, named)))
    assert found.counts == {("gpu", "slow"): 7, ("gpu", "fast"): 1}


def test_a_model_that_jobs_have_waited_for_too_long_gets_a_worker() -> None:
    found = rollout(replace(an_instance(*EIGHT_SLOW, rate=1.6), stranded=frozenset(["fast"])))
    assert found.counts == {("gpu", "slow"): 7, ("gpu", "fast"): 1}


models = st.sampled_from(["slow", "fast"])


@settings(max_examples=25, deadline=None)
@given(
    held=st.lists(st.tuples(models, models, st.booleans()), min_size=1, max_size=12),
    rate=st.floats(0.01, 30.0),
    settling=st.integers(0, 3),
    slots=st.integers(1, 4),
)
def test_whatever_the_fleet_does_its_plan_is_lawful_and_the_same_twice(
    held: list[tuple[str, str, bool]], rate: float, settling: int, slots: int
) -> None:
    one = an_instance(*(model for model, _, _ in held), rate=rate)
    assert one.situation is not None
    seats = tuple(
        a_seat(serves if has_room else None, given, sharing=slots, running=1, ready_s=5.0)
        if given != serves
        else a_seat(serves, sharing=slots, running=slots)
        for serves, given, has_room in held
    )
    kept = min(settling, len(held))
    instance = replace(
        one,
        settling={("gpu", "fast"): kept},
        situation=replace(one.situation, seats=seats),
    )
    found = rollout(instance)
    assert sum(found.counts.values()) == len(held)
    assert found.counts["gpu", "fast"] >= kept
    assert rollout(instance) == found


@pytest.mark.parametrize("rate", [1.2, 2.5, 5.0])
def test_who_is_left_alone_would_not_have_won(rate: float) -> None:
    instance = an_instance(*EIGHT_SLOW, rate=rate)
    assert instance.situation is not None
    board = tables(instance, instance.situation, HORIZON_S)
    assert board is not None
    whole, bounded = (Rollouts(board, int(HORIZON_S)) for _ in range(2))
    keys = [(fast, 8 - fast) for fast in range(9)]
    scores = {key: whole.score(key) for key in keys}
    above = 0.9 * max(score for score in scores.values() if score is not None)
    for key, score in scores.items():
        assert score is not None
        found = bounded.score(key, above=above)
        assert found == score or (found is None and score < above)
    assert any(bounded.score(key, above=2.0) is None for key in keys)
