from dataclasses import replace

import pytest

from core.boards.fleet import Stage, Warming
from scheduler.planning.settling import SettlingTimes
from tests.unit.scheduler.fakes import a_worker


@pytest.mark.parametrize(
    ("models", "age_s", "is_left"),
    [(("a",), 1.9, True), (("a",), 2.1, False), ((), 9.0, True), ((), 10.1, False)],
)
def test_a_worker_is_left_alone_for_twice_the_load_or_ten_times_while_it_loads(
    models: tuple[str, ...], age_s: float, is_left: bool
) -> None:
    tenure = SettlingTimes()
    tenure.note([a_worker("w0")], {"w0": "a"}, 0.0)
    kept = tenure.settling([a_worker("w0", *models)], lambda m, t: 1.0, age_s)
    assert kept == ({"w0": "a"} if is_left else {})


def test_a_worker_that_cannot_load_what_it_was_given_is_not_left_with_it() -> None:
    tenure, idle = SettlingTimes(), a_worker("w0")
    tenure.note([idle], {"w0": "a"}, 0.0)
    for unable in (replace(idle, refused=("a",)), replace(idle, catalogue=("b",))):
        assert tenure.settling([unable], lambda m, t: 1.0, 0.1) == {}
    held = replace(a_worker("w0", "a"), refused=("a",))
    assert tenure.settling([held], lambda m, t: 1.0, 0.1) == {"w0": "a"}


def test_a_worker_that_holds_its_model_already_may_be_given_another_at_once() -> None:
    tenure, workers = SettlingTimes(), [a_worker("w0", "a")]
    tenure.note(workers, {"w0": "a"}, 0.0)
    assert tenure.settling(workers, lambda m, t: 1.0, 0.1) == {}


def test_time_counts_from_the_first_plan_that_gave_the_model() -> None:
    tenure = SettlingTimes()
    for now in (0.0, 5.0):
        tenure.note([a_worker("w0")], {"w0": "a"}, now)
    assert tenure.settling([a_worker("w0")], lambda m, t: 1.0, 10.1) == {}


def test_a_worker_of_old_is_left_alone_while_it_loads_and_anew_once_it_is_given_another() -> None:
    tenure, idle = SettlingTimes(), a_worker("w0")
    loading = replace(idle, loading=Warming(model="a", stage=Stage.READING, seconds=1.0))
    tenure.note([idle], {"w0": "a"}, 0.0)
    seen = [tenure.settling([worker], lambda m, t: 1.0, 11.0) for worker in (idle, idle, loading)]
    assert seen == [{}, {}, {"w0": "a"}]
    tenure.note([idle], {"w0": "b"}, 12.0)
    assert tenure.settling([idle], lambda m, t: 1.0, 12.1) == {"w0": "b"}
