from dataclasses import replace

import pytest

from core.levels.level import Level
from scheduler.metrics import Metrics
from scheduler.planning.level_estimates import Outlook
from scheduler.planning.replan_triggers import FleetNews
from tests.unit.scheduler.fakes import a_model, a_profile, a_worker

BASE, SMALL = a_model("base", step_s=0.1), a_model("small", step_s=0.05)


def test_how_slow_a_model_was_is_known_after_its_last_worker_has_left_it() -> None:
    outlook = Outlook(a_profile(BASE, SMALL), Metrics())
    slow, quick = (
        [replace(a_worker("w0", model), slowness=times)]
        for model, times in (("base", 1.1), ("small", 0.9))
    )
    for moment, workers in enumerate((slow, quick)):
        outlook.look(workers, float(moment), FleetNews(workers, is_lasting=True), is_settled=True)
    expected = outlook.expect(quick)
    base, small = (expected.tau_s(Level(model=name), "cpu") for name in ("base", "small"))
    plain = a_profile(BASE, SMALL)
    assert base == pytest.approx(1.1 * plain.tau_s(Level(model="base"), "cpu"))
    assert small == pytest.approx(0.9 * plain.tau_s(Level(model="small"), "cpu"))


def test_a_model_is_taken_to_need_the_least_that_workers_of_a_type_say() -> None:
    outlook = Outlook(a_profile(BASE), Metrics())
    small, large = (
        replace(a_worker("w", memory_gib=memory), needs_gib={"base": gib})
        for memory, gib in ((16.0, 12.0), (80.0, 20.0))
    )
    for workers in ([small, large], [large, small]):
        outlook.look(workers, 0.0, FleetNews(workers, is_lasting=True), is_settled=True)
        assert outlook.measured.size_gib("base", "cpu") == 12.0
