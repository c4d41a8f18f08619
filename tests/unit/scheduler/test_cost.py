from dataclasses import replace

import pytest

from core.job import JobRequest
from scheduler.cost import eta
from tests.unit.scheduler.twins import a_model, a_worker

MODEL = a_model("base", step_s=0.1)
REQUEST = JobRequest(
    prompt="a cat", model="base", width=64, height=64, steps=20, guidance=5.0, seed=0
)


def test_a_job_that_finds_a_free_slot_takes_its_own_steps() -> None:
    assert eta(REQUEST, MODEL, [a_worker("w0", "base")]) == pytest.approx(2.0)


def test_the_measured_step_goes_before_the_guess() -> None:
    worker = replace(a_worker("w0", "base"), step_s=0.3)
    assert eta(REQUEST, MODEL, [worker]) == pytest.approx(6.0)


def test_a_job_that_runs_has_its_other_steps_to_go() -> None:
    assert eta(REQUEST, MODEL, [a_worker("w0", "base")], done=15) == pytest.approx(0.5)


def test_a_job_behind_others_waits_until_as_many_slots_have_come_free() -> None:
    full = a_worker("w0", "base", running=8)
    pace = 8 / (30 * 0.1)
    assert eta(REQUEST, MODEL, [full], ahead=3) == pytest.approx(4 / pace + 2.0)
    assert eta(REQUEST, MODEL, [full, a_worker("w1", "base")], ahead=3) == pytest.approx(2.0)


def test_nobody_knows_when_a_model_that_no_worker_holds_is_done() -> None:
    assert eta(REQUEST, MODEL, [a_worker("w0", "tiny")]) is None
