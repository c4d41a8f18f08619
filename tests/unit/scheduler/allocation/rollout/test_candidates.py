from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler.allocation.allocate import allocate
from scheduler.allocation.problem import Demand, Instance
from scheduler.allocation.rollout.candidates import MOST_SHIFTS, STAY, candidates
from tests.unit.scheduler.allocation.rollout.worlds import FAST, an_instance

HELD = ["slow"] * 6 + ["fast"] * 2


def found_of(instance: Instance) -> dict[tuple[int, ...], str]:
    assert instance.situation is not None
    return candidates(instance, instance.situation, allocate(instance))


def asked_of(*models: str, application: str = "default", **facts) -> Demand:
    return Demand(application=application, affinity="any", models=models, **({"rate": 1.0} | facts))


def parted(*held: str) -> Instance:
    """Two applications that have no model in common."""
    demands = (asked_of("slow", application="one"), asked_of("fast", application="other"))
    return replace(an_instance(*held, rate=2.0), demands=demands)


def test_staying_comes_first_and_then_a_handful() -> None:
    names = list(found_of(an_instance(*HELD, rate=2.0)).values())
    assert names[0] == STAY
    assert len(names) <= 10


def test_where_applications_part_the_fleet_a_worker_may_go_from_any_model_to_any() -> None:
    instance = parted(*HELD)
    assert instance.slots == (("gpu", "fast"), ("gpu", "slow"))
    assert {(1, 7), (3, 5)} <= found_of(instance).keys()


def test_where_one_model_is_enough_for_all_none_is_moved_by_itself() -> None:
    named, unknown = asked_of("fast", rate=0.1), asked_of("another")
    one = an_instance(*HELD, rate=2.0)
    for instance in (one, replace(one, demands=(*one.demands, named, unknown))):
        assert not [name for name in found_of(instance).values() if " to " in name]


def test_nobody_goes_to_a_model_that_keeps_no_promise_there() -> None:
    instance = parted(*HELD)
    demands = [replace(d, too_slow=frozenset([(FAST.name, "gpu")])) for d in instance.demands]
    assert (3, 5) not in found_of(replace(instance, demands=tuple(demands)))


def test_nobody_goes_who_is_still_loading() -> None:
    instance = replace(parted(*HELD), settling={("gpu", "fast"): 2})
    assert (1, 7) not in found_of(instance)


def test_no_model_has_more_workers_than_can_hold_it() -> None:
    for instance in (an_instance(*HELD, rate=2.0), parted(*HELD)):
        found = found_of(replace(instance, able={("gpu", "slow"): 3}))
        assert max(slow for _, slow in found) == 3
        assert {sum(key) for key in found} == {len(HELD)}


def test_in_a_large_fleet_as_many_go_as_a_rollout_sees() -> None:
    assert {(15, 65), (25, 55)} <= found_of(parted(*HELD * 10)).keys()


@given(st.lists(st.sampled_from(["slow", "fast"]), min_size=1, max_size=12))
def test_every_candidate_has_a_model_for_each_worker(held) -> None:
    instance = parted(*held)
    found = found_of(instance)
    assert {sum(key) for key in found} == {len(held)}
    assert all(count >= 0 for key in found for count in key)
    assert len(found) <= 10 + MOST_SHIFTS
    assert found == found_of(instance)
