import pytest

from core.boards.cost import Cost
from scheduler.routing.slo import default_slo_s
from scheduler.routing.stations import Work
from tests.unit.scheduler.fakes import a_model

MODEL = a_model("base", step_s=0.1)


def test_the_promise_without_an_slo_is_three_times_the_fastest_device() -> None:
    slow = Cost(fixed_s=0.2, steps=((1, 0.1), (8, 0.4)), is_measured=True)
    costs = {"cpu": {"base": slow}, "gpu": {"base": Cost(steps=((1, 0.01),))}}
    assert default_slo_s(MODEL, costs, Work(steps=30)) == pytest.approx(0.9)
    assert default_slo_s(MODEL, {}, Work(steps=30)) == pytest.approx(9.0)
    assert default_slo_s(MODEL, {}, Work(steps=30, images=2)) == pytest.approx(18.0)
