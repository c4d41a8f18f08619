"""What the engine is seen to do, and how long it takes."""

import time
from dataclasses import replace

import pytest

from core.job import Control
from core.model import Model
from tests.jobs import a_job
from tests.unit.worker.engine.test_engine import an_engine
from tests.unit.worker.fake import FakeRunner
from worker.engine.batch import denoising
from worker.engine.slot import Pending, alone
from worker.engine.stats import DECODING, PREPARING, Activities, Activity

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


def test_what_decoding_usually_takes_is_smoothed_by_a_fifth():
    activities = Activities(Heard())
    for taken_s in (0.5, 1.0):
        activities.note_decoding("m", taken_s)
    activities.note_decoding("n", 2.0)
    assert activities.decoding_s == {"m": pytest.approx(0.6), "n": 2.0}


def test_times_are_compared_by_what_is_done_to_what_shape_of_which_model_in_how_many_rows():
    changes = {"doing": "preparing", "model": replace(MODEL, name="n"), "shape": 2, "rows": 2}
    keys = [an_activity(**{name: value}).key for name, value in changes.items()]
    assert len({an_activity().key, *keys}) == 5
    assert an_activity(jobs=("other",)).key == an_activity().key


def test_an_image_is_opened_and_decoded_in_one_row_of_its_size():
    [slot] = slots_of(a_job("a", width=64, height=32, steps=3))
    pending = Pending(ticket=slot.ticket, index=0)
    for activity, doing in (
        (alone(PREPARING, pending), "preparing"),
        (alone(DECODING, slot), "decoding"),
    ):
        assert (activity.doing, activity.rows, activity.pixels) == (doing, 1, 64 * 32)
        assert (activity.jobs, activity.is_steered) == (("a",), False)


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
