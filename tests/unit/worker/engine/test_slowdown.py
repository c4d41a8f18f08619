from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.boards.cost import Cost
from core.errors import ConfigurationError
from core.job import Edit
from core.model import Model
from tests.jobs import a_job
from worker.diffusion.runner import Sample
from worker.engine.slot import Slot, Ticket
from worker.engine.slowdown import MIN_SEEN_S, Expected, StepPace, StepTime, read_step_times
from worker.engine.stats import Activity
from worker.engine.watchdog import expected_s
from worker.families.noop import NoopRunner

MODEL = Model(name="m", family="noop", default_size=64)
TIMES = (
    StepTime(images=1, is_guided=True, seconds=0.02),
    StepTime(images=2, is_guided=True, seconds=0.03),
    StepTime(images=4, is_guided=True, seconds=0.05),
    StepTime(images=1, is_guided=False, seconds=0.015),
)
EDIT = Edit(template="t", template_sha256="ab", mask="m")


def a_slot(model=MODEL, rows=2, **request):
    job = a_job("j", model=model.name)
    job = replace(job, request=replace(job.request, **{"width": 64, "height": 64, **request}))
    ticket = Ticket(job=job, runner=NoopRunner(model), due_at=0.0, deadline=None)
    return Slot(ticket=ticket, index=0, sample=Sample(group=(), rows=rows, num_steps=9))


def test_steps_are_expected_by_the_rows_of_their_batch():
    expected = Expected(TIMES)
    assert [expected.seconds(rows) for rows in (1, 2, 4, 8)] == [0.015, 0.02, 0.03, 0.05]
    assert expected.seconds(6) == pytest.approx(0.04)
    assert expected.seconds(16) == pytest.approx(0.1)


@given(st.floats(0.2, 5.0), st.lists(st.integers(1, 4), min_size=40, max_size=80))
def test_a_device_that_is_slower_throughout_is_found_so_whatever_its_batches(times, sizes):
    pace, expected = StepPace({"m": TIMES}), Expected(TIMES)
    for images in sizes:
        pace.observe([a_slot()] * images, times * expected.seconds(2 * images))
    assert pace.slowness in (0.0, pytest.approx(times))


def test_a_change_is_noticed_within_some_busy_seconds():
    pace = StepPace({"m": TIMES})
    for _ in range(1000):
        pace.observe([a_slot()], 0.02)
    assert pace.slowness == pytest.approx(1.0)
    for _ in range(1000):
        pace.observe([a_slot()], 0.04)
    assert pace.slowness == pytest.approx(2.0, rel=0.05)


def test_nothing_is_said_before_enough_was_seen():
    pace = StepPace({"m": TIMES})
    pace.observe([a_slot()], MIN_SEEN_S / 2)
    assert pace.slowness == 0.0
    assert StepPace({}).slowness == 0.0


def test_a_model_that_was_tried_here_is_compared_with_its_trial():
    pace = StepPace({})
    pace.expect(MODEL, Cost(steps=((1, 0.5), (4, 1.5))))
    for _ in range(9):
        pace.observe([a_slot()], 0.75)
    assert pace.slowness == pytest.approx(1.5)


def test_a_step_of_fewer_images_than_were_ever_timed_says_nothing():
    pace = StepPace({})
    pace.expect(MODEL, Cost(steps=((4, 2.0),)))
    for _ in range(9):
        pace.observe([a_slot()], 0.5)
    assert pace.slowness == 0.0
    for _ in range(9):
        pace.observe([a_slot()] * 4, 2.0)
    assert pace.slowness == pytest.approx(1.0)


@pytest.mark.parametrize(
    "slot",
    [a_slot(width=128), a_slot(edit=EDIT), a_slot(replace(MODEL, name="unprofiled"))],
    ids=["another size", "an edit", "another model"],
)
def test_steps_unlike_the_profiled_ones_do_not_count(slot):
    pace = StepPace({"m": TIMES})
    for _ in range(9):
        pace.observe([slot], 1.0)
    assert pace.slowness == 0.0


def test_the_profile_is_read_for_one_type_of_device(tmp_path):
    path = tmp_path / "profile.json"
    assert read_step_times(path, "cpu") == {}
    path.write_text(
        '{"steps": {"cpu": {"m": [{"images": 1, "is_guided": true, "seconds": 0.5}]}}, "tau": {}}'
    )
    times = (StepTime(images=1, is_guided=True, seconds=0.5),)
    assert read_step_times(path, "cpu") == {"m": times}
    assert read_step_times(path, "gpu") == {}
    path.write_text("[")
    with pytest.raises(ConfigurationError, match=r"profile\.json"):
        read_step_times(path, "cpu")


def test_a_larger_image_is_expected_to_take_longer_by_the_square_of_its_pixels():
    model = Model(name="m", family="noop", default_size=64)
    pace = StepPace({"m": [StepTime(images=1, is_guided=False, seconds=0.5)]})
    assert pace.step_s(model, 1, 64 * 64) == 0.5
    assert pace.step_s(model, 1, 32 * 32) == 0.5
    assert pace.step_s(model, 1, 128 * 128) == 8.0
    assert pace.step_s(Model(name="other", family="noop"), 1, 64 * 64) is None


def test_what_comes_beside_steps_is_expected_by_what_was_measured_of_it():
    model = Model(name="m", family="noop", default_size=64, default_guidance=1.0)
    pace = StepPace({}, {})
    calls = {
        doing: Activity(
            doing=doing,
            model=model,
            shape=(),
            rows=1,
            pixels=2 * 64**2,
            jobs=(),
            is_steered=False,
        )
        for doing in ("preparing", "denoising", "timing")
    }
    assert {expected_s(pace, call) for call in calls.values()} == {None}
    pace.expect(model, Cost(steps=((1, 0.5),), fixed_s=30.0, is_measured=True))
    found = {doing: expected_s(pace, call) for doing, call in calls.items()}
    assert found == {"preparing": 120.0, "denoising": 2.0, "timing": 120.0}
