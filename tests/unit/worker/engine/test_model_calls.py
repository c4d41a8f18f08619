"""What the engine is seen to do, how long its calls take, and what becomes of their errors."""

import time
from dataclasses import replace

import numpy as np
import pytest
from structlog.testing import capture_logs

from core.errors import EngineError, OutOfMemory
from core.job import Control
from core.model import Model
from core.request.second_pass import SecondPass
from tests.jobs import a_job
from tests.unit.worker.engine.test_engine import an_engine, run_out
from tests.unit.worker.fake import FakeRunner
from worker.diffusion.runner import WordInputs
from worker.engine.model_calls import (
    Activities,
    Activity,
    Fault,
    attempt,
    decoding,
    denoising,
    preparing,
)
from worker.engine.second_pass import second_opening
from worker.engine.slot import Pending

MODEL = Model(name="m", family="fake")
WORK_S = 0.02


class Heard(list):
    """Hears of activities that have ended."""

    def __call__(self, activity, seconds):
        self.append((activity, seconds))


def an_activity(**changes):
    fields = {"doing": "decoding", "model": MODEL, "shape": 1, "rows": 1, "pixels": 64 * 64}
    return Activity(**{**fields, "jobs": ("j",), "is_steered": False, **changes})


def work():
    time.sleep(WORK_S)


def slots_of(*jobs):
    engine = an_engine(FakeRunner())
    for job in jobs:
        engine.add(job, None)
    engine.step()
    return engine.running


def test_an_activity_is_seen_while_it_lasts_and_its_time_heard_once():
    heard, activity = Heard(), an_activity()
    activities, began = Activities(heard), time.perf_counter()
    with activities.during(activity):
        assert activities.now is activity and not heard
        work()
    assert activities.now is None
    [(ended, seconds)] = heard
    assert ended is activity and WORK_S <= seconds <= time.perf_counter() - began


def test_what_decoding_usually_takes_is_smoothed_by_a_fifth():
    activities = Activities(Heard())
    for taken_s in (0.5, 1.0):
        activities.end(an_activity(), taken_s)
        activities.end(an_activity(doing="preparing"), 9.0)
    activities.end(an_activity(model=replace(MODEL, name="n")), 2.0)
    assert activities.decoding_s == {"m": pytest.approx(0.6), "n": 2.0}


def test_times_are_compared_by_what_is_done_to_what_shape_of_which_model_in_how_many_rows():
    changes = {"doing": "preparing", "model": replace(MODEL, name="n"), "shape": 2, "rows": 2}
    keys = [an_activity(**{name: value}).key for name, value in changes.items()]
    assert len({an_activity().key, *keys}) == 5
    assert an_activity(jobs=("other",)).key == an_activity().key


def test_an_image_is_opened_and_decoded_in_one_row_of_its_size():
    [slot] = slots_of(a_job("a", width=64, height=32, steps=3))
    pending = Pending(ticket=slot.ticket, index=0)
    for activity, doing in ((preparing(pending), "preparing"), (decoding(slot), "decoding")):
        assert (activity.doing, activity.rows, activity.pixels) == (doing, 1, 64 * 32)
        assert (activity.jobs, activity.is_steered) == (("a",), False)


def test_a_second_pass_is_of_the_size_that_it_makes():
    job = a_job("a", steps=3, second_pass=SecondPass(scale=2.0, strength=0.5))
    [slot] = slots_of(job)
    again = second_opening(job.request, np.zeros((32, 32, 3), np.uint8))
    assert again.brought.image.shape == (64, 64, 3)
    assert second_opening(again.request, again.brought.image) is None
    words = WordInputs(vectors={"e": {}})
    told = second_opening(job.request, np.zeros((32, 32, 3), np.uint8), words).brought
    assert told.vectors is words.vectors and told.rest.image.shape == (64, 64, 3)
    pending = Pending(ticket=slot.ticket, index=0, again=again)
    assert preparing(pending).pixels == 64 * 64
    later = replace(slot, again=again)
    assert (denoising([slot]).pixels, denoising([later]).pixels) == (32 * 32, 64 * 64)
    assert slot.pass_share + later.pass_share == pytest.approx(1)
    assert slot.pass_share == pytest.approx(1 / 3)


def test_a_step_is_of_all_its_rows_and_waits_for_controlnets_if_any_of_them_does():
    plain = slots_of(a_job("a", steps=3, guidance=5.0, n=2), a_job("b", steps=3, guidance=5.0))
    activity = denoising(plain)
    assert (activity.doing, activity.rows, activity.is_steered) == ("denoising", 6, False)
    assert activity.jobs == ("a", "b") and activity.pixels == 32 * 32
    control = Control(controlnet="c", image="key")
    plain[0].ticket.job = replace(
        plain[0].ticket.job, request=replace(plain[0].ticket.job.request, controls=(control,))
    )
    assert denoising(plain).is_steered


def raising(error):
    def call():
        raise error

    return call


@pytest.mark.parametrize(
    ("error", "is_memory", "is_logged"),
    [
        (ValueError("a poisoned call"), False, True),
        (EngineError("its own"), False, False),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), True, False),
    ],
)
def test_an_error_of_a_call_is_a_value_and_logged_if_nobody_expects_it(error, is_memory, is_logged):
    with capture_logs() as logs:
        fault = attempt(raising(error), "decoding")
    assert isinstance(fault, Fault) and fault.is_memory is is_memory
    assert fault.error is error and error.__traceback__ is None
    assert [line["event"] for line in logs] == ["engine_call_failed"] * is_logged
    told = fault.engine_error("decoding")
    assert (isinstance(told, OutOfMemory) is is_memory and "decoding" in str(told)) or told is error


def test_rows_that_fit_again_raise_the_cap_again():
    runner = FakeRunner(fits_rows=1)
    engine = an_engine(runner, max_rows=4)
    for name in "abcd":
        engine.add(a_job(name, steps=200, guidance=1.0), None)
    engine.step()
    runner.batches.clear()
    engine.step()
    assert [len(batch) for batch in runner.batches] == [1]
    runner.fits_rows = None
    run_out(engine)
    assert max(map(len, runner.batches)) > 1
