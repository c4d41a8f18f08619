from dataclasses import replace

import pytest

from core.boards.cost import Cost
from core.request.second_pass import SecondPass
from scheduler.routing.slo import default_slo_s
from tests.unit.scheduler.fakes import a_model

MODELS = {"base": a_model("base", step_s=0.1)}


def test_the_promise_without_an_slo_is_three_times_the_fastest_device() -> None:
    slow = Cost(fixed_s=0.2, steps=((1, 0.1), (8, 0.4)), is_measured=True)
    costs = {"cpu": {"base": slow}, "gpu": {"base": Cost(steps=((1, 0.01),))}}
    assert default_slo_s(MODELS, costs, steps=30) == pytest.approx(0.9)
    assert default_slo_s(MODELS, {}, steps=30) == pytest.approx(9.0)
    assert default_slo_s(MODELS, {}, steps=30, images=2) == pytest.approx(18.0)


def test_the_best_of_the_models_makes_the_promise_with_its_own_steps_and_both_passes() -> None:
    best = a_model("best", quality=2.0, step_s=0.2)
    models = MODELS | {"best": replace(best, default_steps=10)}
    assert default_slo_s(models, {}) == pytest.approx(6.0)
    again = SecondPass(scale=2.0, strength=0.5)
    assert default_slo_s(models, {}, second=again) == pytest.approx(18.0)
